"""Every row of the table of recognisers reads its own example."""

from __future__ import annotations

from typing import Any

import pytest

from reprokit.intake.environments import find_blocks
from reprokit.intake.pieces import table

ROWS = {
    ("commands", ""): "programs",
    ("environments", ""): "programs blocks roles called packages",
    ("environments", "programs"): "kind starts goes_on blanks facts values examples",
    ("environments", "blocks"): "kind keys example",
    ("failures", ""): "lines",
    ("failures", "lines"): "pattern building signal examples",
    ("languages", "*"): "infos start sign needs",
    ("packages", "*"): "pip apt",
}
"""Table and place -> the keys there: of the table itself (''), of each of its rows (*), or of the rows of one key."""

EXAMPLES = [(row["kind"], example) for row in table()["programs"] for example in row["examples"]]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
@pytest.mark.parametrize("around", ["{}\n", "```\n$ command\n{}\n```\n"])
def test_the_output_of_a_program(kind: str, example: dict[str, Any], around: str) -> None:
    found = [one for one in find_blocks(around.format(example["text"].strip())) if one.kind == kind]
    assert len(found) == 1
    (block,) = found
    named = {"gpu": list(block.gpus), "package": dict(block.packages), **dict(block.axes)}
    named |= {name: getattr(block, name) for name in ("driver", "driver_cuda", "system")}
    assert {name: named.get(name) for name in example if name != "text"} == {
        name: value for name, value in example.items() if name != "text"
    }
    assert block.values


@pytest.mark.parametrize("row", table()["blocks"], ids=lambda row: "+".join(row["keys"]))
def test_the_keys_of_a_program(row: dict[str, Any]) -> None:
    (block,) = find_blocks(f"```\n{row['example']}\n```\n")
    assert block.kind == row["kind"]
    assert block.axes["python"].startswith("3.")
    assert ("wobble" in row["example"]) == ("wobble" in block.packages)


def test_a_program_without_examples_is_not_in_the_table() -> None:
    assert all(row["examples"] for row in table()["programs"])


@pytest.mark.parametrize(("name", "place"), ROWS)
def test_no_row_has_a_key_that_nothing_reads(name: str, place: str) -> None:
    found = table(name)
    rows = {"": [found], "*": found.values()}.get(place) or found[place]
    assert not {key for row in rows for key in row} - set(ROWS[name, place].split())

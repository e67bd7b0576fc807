"""Every row of the table of recognisers reads its own example."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from reprokit.intake.environments import find
from reprokit.intake.table import ROWS, check, table

EXAMPLES = [(row["kind"], example) for row in table()["programs"] for example in row["examples"]]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
@pytest.mark.parametrize("around", ["{}\n", "```\n$ command\n{}\n```\n"])
def test_the_output_of_a_program(kind: str, example: dict[str, Any], around: str) -> None:
    found = [one for one in find(around.format(example["text"].strip())) if one.kind == kind]
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
    (block,) = find(f"```\n{row['example']}\n```\n")
    assert block.kind == row["kind"]
    assert block.axes["python"].startswith("3.")
    assert ("wobble" in row["example"]) == ("wobble" in block.packages)


def test_a_program_without_examples_is_not_in_the_table() -> None:
    assert all(row["examples"] for row in table()["programs"])


@pytest.mark.parametrize(("name", "place"), ROWS)
def test_a_key_that_nothing_reads_is_an_error_with_its_row(name: str, place: str) -> None:
    found = copy.deepcopy(dict(table(name)))
    rows = {"": [found], "*": list(found.values())}.get(place) or list(found[place])
    check(name, found)
    rows[-1]["exmples"] = {}
    with pytest.raises(ValueError, match=rf"^data/{name}\.yaml.*: no key 'exmples'; the keys are ") as caught:
        check(name, found)
    row = list(found)[-1] if place == "*" else len(rows)
    assert not place or f"row {row}: " in str(caught.value)

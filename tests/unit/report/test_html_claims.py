"""What the pages may say of a case, and what its runs do not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprokit.report.html.case import case_data
from reprokit.report.html.gathering import RecordedCase, known_cases
from reprokit.report.html.overview import row
from reprokit.report.html.writing import Folder, Packer, cleaned, script
from tests.unit.nights import CASE, Nights

FIXED = CASE + "fix: {summary: Another call, command: python fixed.py}\n"


@pytest.fixture
def nights(tmp_path: Path) -> Nights:
    return Nights(tmp_path / "store")


def known(nights: Nights) -> RecordedCase:
    """The one case of the store."""
    [one] = known_cases(nights.store)
    return one


def page(nights: Nights) -> dict[str, Any]:
    """The case's page."""
    return case_data(known(nights), lambda run, number: True)


def test_a_case_of_which_the_newest_night_decided_nothing_is_inconclusive(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    assert row(known(nights))["status"] == "as-expected"
    nights.run({"1": "?", "2": "?"})
    one = row(known(nights))
    assert (one["status"], one["blind"]) == ("inconclusive", 2)
    assert one["tally"] == {"not-reproduced": 1, "reproduced": 1}  # what is known still is
    assert page(nights)["blind"] == 2
    nights.run({"1": "N", "2": "N"})
    nights.run({"1": "?", "2": "?"})
    assert row(known(nights))["status"] == "departs"


def test_a_night_of_a_part_of_the_matrix_says_so(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R"})
    nights.run({"2": "R"})
    nights.run({"3": "R"}, case=CASE.replace('"2"]', '"2", "3"]'))
    nights.run({"1": "N", "2": "R"})
    strip = row(known(nights))["strip"]
    assert [(one["words"], one["whole"]) for one in strip] == [
        ("1 not-reproduced, 1 reproduced", True),
        ("1 of 2 cells: 1 reproduced", False),
        ("other cells: 1 reproduced; 1 departs", False),
        ("1 not-reproduced, 1 reproduced", True),
    ]


@pytest.mark.parametrize(
    ("with_it", "expected"),
    [
        ("NN", (2, 2, 0)),
        ("N?", (2, 1, 0)),
        ("NO", (2, 1, 0)),  # what fails otherwise is not fixed
        ("??", (2, 0, 0)),
        ("NR", (2, 1, 1)),
        ("N", (1, 1, 0)),  # the other was run without it alone
    ],
)
def test_in_how_many_cells_a_fix_was_decided(nights: Nights, with_it: str, expected: tuple[int, int, int]) -> None:
    nights.run({"1": "R", "2": "R"}, case=FIXED)
    assert row(known(nights))["fix"] is None
    nights.run(dict(zip("12", with_it, strict=False)), case=FIXED, variant="fix")
    found = row(known(nights))["fix"]
    assert (found["cells"], found["gone"], found["left"]) == expected
    assert page(nights)["explanation"]["fix"] == found


def test_cells_that_were_not_run_since_the_case_was_edited_have_their_past(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R", "4": "R"})
    nights.run({"1": "N"}, case=CASE.replace("Run every night", "Another title"))
    data = page(nights)
    cells = data["cells"]
    assert cells["number"] == [1, -1]
    assert cells["strip"] == ["NN", "R"]
    assert data["states"][cells["state"][1]] == "reproducing since 2026-01-01; not run since the case was edited"
    assert data["former"] == 1  # numpy 4


def test_what_a_claim_does_not_rest_on_is_said_beside_it(nights: Nights) -> None:
    nights.run({"1": "N", "2": "R", "3": "?"}, case=CASE.replace('"2"]', '"2", "3", "4"]'))
    explanation = page(nights)["explanation"]
    assert (explanation["decided"], explanation["open"]) == (2, ["1 build-failed", "1 more in the matrix"])


def test_variables_named_as_our_own_keys_are_cleaned() -> None:
    def clean(text: str) -> str:
        return text.replace("secret", "-")

    value = {
        "id": "secret",
        "cell": {"run": "secret", "name": "secret"},
        "facts": {"environment variables": {"status": "secret"}},
        "asked": [{"name": "secret", "asked": "secret"}],
    }
    assert cleaned(value, clean) == {
        "id": "secret",
        "cell": {"run": "-", "name": "-"},
        "facts": {"environment variables": {"status": "-"}},
        "asked": [{"name": "secret", "asked": "-"}],
    }


def test_what_cells_share_is_cleaned_by_where_it_stands(tmp_path: Path) -> None:
    packer = Packer(Folder(tmp_path, str), lambda text: text.replace("secret", "-"))
    packer.write("k", {1: {"build": {"name": "secret"}, "facts": {"name": "secret"}}})
    assert '"values":[{"name":"secret"},{"name":"-"}]' in (tmp_path / "data" / "k.js").read_text()


def test_no_key_of_data_is_what_an_object_inherits_from() -> None:
    assert (
        script("k", {"__proto__": ['"__proto__":']})
        == r"""reprokit.data("k",{["__proto__"]:["\"__proto__\":"]});""" + "\n"
    )
    key = 'a,"__proto__'  # its end is part of another key
    assert script("k", {"a": 1, "__proto__": {key: 2}}) == (
        r"""reprokit.data("k",{"a":1,["__proto__"]:{"a,\"__proto__":2}});""" + "\n"
    )

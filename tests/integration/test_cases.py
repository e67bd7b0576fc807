"""The library on the real engine, with its fixes: two small cases, and each night the quick set."""

from __future__ import annotations

import pytest

from tests.integration.test_run import REPOSITORY, User

pytestmark = pytest.mark.integration


SMALL = ("oom_box_assigner", "uint8_scalar_wraps")
"""A limit that kills, and numbers that are compared; neither installs more than NumPy."""


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param([str(REPOSITORY / "cases" / f"{name}.yaml") for name in SMALL], id="small"),
        pytest.param([str(REPOSITORY / "cases"), "--tag", "quick"], id="quick", marks=pytest.mark.nightly),
    ],
)
def test_cases_fail_where_they_should_and_their_fixes_hold(user: User, chosen: list[str]) -> None:
    user.types("run", *chosen, "--fix", "--confirm", "never")
    cells = user.cells()
    assert [cell for cell in cells if not cell["as_expected"]] == []
    seen = {variant: {cell["verdict"] for cell in cells if cell["variant"] == variant} for variant in ("case", "fix")}
    assert seen == {"case": {"reproduced", "not-reproduced"}, "fix": {"not-reproduced"}}


@pytest.mark.nightly
def test_the_neighbour_of_the_flagship_and_its_fix_are_as_expected_through_the_frames_of_the_report(user: User) -> None:
    said = user.types("run", str(REPOSITORY / "cases" / "rmi_singular_cpu.yaml"), "--fix", "--confirm", "never")
    assert "all as expected" in said
    cells = user.cells()
    assert {cell["verdict"] for cell in cells if cell["variant"] == "fix"} == {"not-reproduced"}
    reported = {"lr": "1e38", "paddle": "2.6.2"}
    found = [one["variant"] == "case" and reported.items() <= one["cell"].items() for one in cells]
    shown = user.types("show", "last", str(found.index(True) + 1))
    for text in ("in rmi_lower_bound", "return paddle.inverse(x)", "Input is not invertible", "min_abs_pivot:nan"):
        assert text in shown
    assert [line for line in shown.splitlines() if line.startswith(">") and "Input is not invertible" in line]

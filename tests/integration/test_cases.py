"""The library's cases that need no GPU, with their fixes: every verdict as the case expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_run import REPOSITORY, User

pytestmark = pytest.mark.integration


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


@pytest.mark.parametrize("name", ["uint8_psnr", "dataloader_shm", "rmi_singular_cpu"])
def test_a_case_and_its_fix_are_as_expected(user: User, name: str) -> None:
    said = user.types("run", str(REPOSITORY / "cases" / f"{name}.yaml"), "--fix")
    assert "all as expected" in said
    assert {cell["verdict"] for cell in user.cells() if cell["variant"] == "fix"} == {"not-reproduced"}
    assert "reproduced" in {cell["verdict"] for cell in user.cells() if cell["variant"] == "case"}


def test_the_neighbour_fails_through_the_frames_of_the_report(user: User) -> None:
    case = str(REPOSITORY / "cases" / "rmi_singular_cpu.yaml")
    user.types("run", case, "--only", "lr=1e38,paddle=2.6.2")
    shown = user.types("show", "last", "1")
    for text in ("in rmi_lower_bound", "return paddle.inverse(x)", "Input is not invertible", "min_abs_pivot:nan"):
        assert text in shown
    assert [line for line in shown.splitlines() if line.startswith(">") and "Input is not invertible" in line]

"""Every input of the fuzzers' corpus, and every one that was ever found, without the fuzzer: see tests/fuzz."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reprokit.core.errors import ReprokitError
from tests.fuzz import targets
from tests.fuzz.oracle import Violation, confined, located

CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus"


@pytest.mark.parametrize("target", targets.TARGETS)
def test_no_input_breaks_a_property(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = sorted((CORPUS / target).iterdir())
    assert inputs
    targets.warm()
    for path in inputs:
        folder = tmp_path / path.name
        folder.mkdir()
        monkeypatch.chdir(folder)
        with confined(folder):
            targets.TARGETS[target](path.read_bytes(), folder)


def test_the_oracle_sees_what_no_text_may_do(tmp_path: Path) -> None:
    """The oracle itself: without it, a fuzzer that finds nothing says nothing."""
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(tmp_path)
    for write in (
        lambda: (tmp_path / "pwned").write_text("x"),
        lambda: (inside / ".." / "pwned").write_text("x"),
        lambda: (inside / "link" / "pwned").write_text("x"),
        lambda: (inside / "link" / "pwned").mkdir(),
        lambda: (inside / "link").rename(tmp_path / "pwned"),
        lambda: (tmp_path / "pwned").symlink_to("x"),
        lambda: os.system("true"),
    ):
        with pytest.raises(Violation), confined(inside):
            write()
    assert not (tmp_path / "pwned").exists()
    with confined(inside):
        (inside / "allowed").write_text("x")
        raise ReprokitError("meant for the user")
    with pytest.raises(Violation, match="says nothing"), confined(inside):
        raise ReprokitError("")
    with pytest.raises(ZeroDivisionError), confined(inside):
        _ = 1 / 0


def test_the_oracle_knows_the_positions_of_a_text() -> None:
    from reprokit.core.errors import CaseError, Problem

    for line, column in ((0, 1), (9, 1), (1, 0), (1, 9)):
        with pytest.raises(Violation), located("abc\n"):
            raise CaseError([Problem(path="x", line=line, column=column, message="m")])
    with pytest.raises(CaseError), located("abc\n"):
        raise CaseError([Problem(path="x", line=1, column=2, message="m")])

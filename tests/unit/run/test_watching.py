"""Runs that choose their cells by what happened before: what failed last time, and what an edit touches."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from reprokit.core.errors import UsageError
from reprokit.evidence.model import Ending
from reprokit.run.request import Request
from reprokit.run.watching import Stamps, stamps, watch
from tests.unit.run.test_runner import CASE, Project


def again(project: Project, **values: object) -> list[str]:
    """The cells of the next run, with what failed last time."""
    project.session = project.new_session()
    asked = Request(cases=(str(project.case),), base_images="registry")
    project.session.start(dataclasses.replace(asked, **values), failed=True)  # type: ignore[arg-type]
    return ["".join(cell.cell.values()) for cell in project.cells]


def test_failed_runs_what_departed_or_was_inconclusive_in_the_last_run(project: Project) -> None:
    usual = project.engine.behave

    def odd(trial: object, sink: Callable[[bytes], None]) -> Ending:
        env = trial.env  # type: ignore[attr-defined]
        if env["B"] == "y" and env["A"] == "2":
            return Ending(exit_code=0)  # departs
        if env["B"] == "y":
            return Ending(exit_code=None, timed_out=True)
        return usual(trial, sink)  # type: ignore[arg-type]

    project.engine.behave = odd
    project.run()
    assert again(project) == ["1y", "2y"]
    project.engine.behave = usual
    assert again(project) == ["1y", "2y"]
    with pytest.raises(UsageError, match="all of these cells were conclusive and as expected"):
        again(project)


def test_failed_without_a_run_says_so(project: Project) -> None:
    with pytest.raises(UsageError, match="nothing was run here yet"):
        again(project)
    project.run()
    project.case.write_text(CASE.replace("id: toy", "id: other"))
    with pytest.raises(UsageError, match="no run of other is recorded here"):
        again(project)


def watched(project: Project, *edits: Callable[[], object], **values: object) -> tuple[list[list[str]], list[str], int]:
    """The cells of each run while these edits are made one after the other, what was said, and the exit status."""
    runs: list[list[str]] = []
    said: list[str] = []
    waiting = iter(edits)

    def run(request: Request) -> int:
        project.session = project.new_session()
        try:
            return project.session.start(request)
        finally:
            runs.append(["".join(cell.cell.values()) for cell in project.cells])

    def wait(paths: Iterable[Path], before: Stamps) -> None:
        edit = next(waiting, None)
        if edit is None:
            raise KeyboardInterrupt
        edit()

    asked = Request(cases=(str(project.case),), base_images="registry")
    status = watch(dataclasses.replace(asked, **values), run, said.append, wait)  # type: ignore[arg-type]
    return runs, said, status


def test_an_edit_runs_again_the_cells_that_it_touches_and_no_others(project: Project) -> None:
    def write(text: str) -> Callable[[], object]:
        return lambda: project.case.write_text(text)

    runs, said, status = watched(
        project,
        write(CASE.replace("A toy", "Another title")),
        write(CASE.replace('B: "{{ b }}"', "B: \"{{ 'z' if b == 'y' else b }}\"")),
        write("not: [a case"),
        write(CASE),
        write(CASE.replace("reproduces: [", "reproduces: all  # [")),
    )
    assert runs == [["1x", "1y", "2x", "2y"], ["1y", "2y"], ["1y", "2y"], ["1x", "1y", "2x", "2y"]]
    assert any("toy.yaml:" in text for text in said)
    assert said[-1] == "watching 1 file; Ctrl-C ends"
    assert status == 1


def test_an_edit_of_a_folder_that_stands_in_for_a_source_touches_its_cells(project: Project, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "a.py").write_text("one")
    project.case.write_text(CASE + "sources: {S: {git: https://example.org/s, ref: v1, path: src/s}}\n")
    runs, _, _ = watched(
        project,
        lambda: (tree / "a.py").write_text("another"),
        lambda: (tree / ".hidden").write_text(""),
        sources={"S": tree},
    )
    assert [len(run) for run in runs] == [4, 4]
    assert len(set(project.engine.built)) == 2


def test_what_is_not_a_file_cannot_be_watched(project: Project) -> None:
    for case in ("-", "https://example.org/case.yaml"):
        with pytest.raises(UsageError, match="is not a file or folder of this host"):
            watched(project, cases=(case,))


def test_a_file_that_is_edited_made_or_removed_is_seen(tmp_path: Path) -> None:
    before = stamps([tmp_path])
    (tmp_path / "new").write_text("")
    made = stamps([tmp_path])
    assert made != before
    (tmp_path / "new").write_text("longer")
    assert stamps([tmp_path]) != made
    (tmp_path / "new").unlink()
    assert stamps([tmp_path]) == before
    assert stamps([tmp_path / "gone"]) == {str(tmp_path / "gone"): (0, 0)}

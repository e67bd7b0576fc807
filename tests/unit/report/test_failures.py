"""Failures of a run, grouped: in the record, the summary, the result file and JUnit; and those that a case knows."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.case.files import CaseFile
from reprokit.cli.display.screen import Screen
from reprokit.engine.protocol import Trial
from reprokit.environment.cases import load
from reprokit.evidence.model import Ending, Verdict
from reprokit.evidence.records import RunRecord
from reprokit.report import detail
from reprokit.report.formats import junit
from reprokit.report.formats.json import result
from reprokit.report.labels import ranges
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.store.database import Store
from tests.unit.fakes import FakeEngine

CASE = """\
schema: reprokit/v1
id: toy
title: A toy
matrix: {a: ["1", "2", "3", "4", "5", "6"]}
env: {A: "{{ a }}"}
command: toy
expect:
  failure: {exception: RuntimeError, message: singular}
  reproduces: all
"""
KNOWN = """\
  known:
    - id: promotion
      summary: Types are promoted differently
      url: https://example.org/1
      failure: {exception: TypeError, message: promotion}
      reproduces: [{a: "3"}]
    - {id: anything-else, failure: {exit_code: 7}}
"""


def traceback(a: str, last: str) -> bytes:
    return (
        "Traceback (most recent call last):\n"
        f'  File "/workspace/v{a}/net.py", line {a}, in forward\n    f()\n'
        f'  File "/usr/lib/python3.{a}/site-packages/lib/loss.py", line 1{a}, in f\n    g()\n{last}\n'
    ).encode()


def toy(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
    """Each odd ``a`` fails by a TypeError, 2 and 4 with the signature, in two ways, and 6 without a word."""
    a = trial.env["A"]
    if int(a) % 2:
        sink(traceback(a, f"TypeError: promotion of {a} at 0x7ffd{int(a):08x}"))
    elif a != "6":
        sink(traceback(a, f"RuntimeError: singular matrix {'U' if a == '2' else 'V'}"))
    return Ending(exit_code=7 if a == "6" else 1, seconds=0.1)


class Project:
    """A case with a store and an engine of its own."""

    def __init__(self, folder: Path, text: str = CASE, behave: Callable[..., Ending] = toy) -> None:
        self.folder = folder
        self.output = io.StringIO()
        (folder / "toy.yaml").write_text(text)
        session = Session(folder / "store", display=Screen(self.output), engine=lambda: FakeEngine(behave))
        self.status = session.start(Request(cases=(str(folder / "toy.yaml"),), base_images="registry"))
        assert session.record is not None
        self.record: RunRecord = session.record

    @property
    def said(self) -> list[str]:
        return self.output.getvalue().splitlines()


def test_the_same_failure_in_many_cells_is_one_line(tmp_path: Path) -> None:
    project = Project(tmp_path)
    first = project.record.cells[0].details.failure
    assert first is not None
    at = project.said.index("different failures:")
    title = "TypeError: promotion of 1 at 0x7ffd00000001 at net.py:forward"
    assert project.said[at + 1] == f"  3 cells (1, 3, 5): {title} [{first.id}]"
    assert project.said[at + 2].startswith("  1 cell (6): exit status 7, no output [")
    assert project.said[at + 3] == "toy: the signature fits 2 ways of failing:"
    assert [line.split(" at ")[0] for line in project.said[at + 4 : at + 6]] == [
        "  1 cell (2): RuntimeError: singular matrix U",
        "  1 cell (4): RuntimeError: singular matrix V",
    ]
    assert project.said[at + 6].startswith("details: ")


def test_a_failure_that_is_alone_is_identified_by_its_own_cell(tmp_path: Path) -> None:
    project = Project(tmp_path, CASE.replace('"1", "2", "3", "4", "5", "6"', '"1", "2"'))
    assert "different failures:" not in project.said


def test_a_summary_lists_no_more_than_people_read(tmp_path: Path) -> None:
    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        sink(f"it is {'abcdefghijklmnopqrstuvwxyz'[int(trial.env['A'])]}".encode())
        return Ending(exit_code=1, seconds=0.1)

    project = Project(tmp_path, CASE.replace('"5", "6"', ", ".join(f'"{n}"' for n in range(5, 26))), behave)
    at = project.said.index("different failures:")
    assert project.said[at + 20].startswith("  1 cell (20): exit status 1: it is u [")
    assert project.said[at + 21] == "  ... and 5 others; --json has them all"


def test_the_record_keeps_them_and_reports_say_them(tmp_path: Path) -> None:
    record = Store(tmp_path / "store").run(Project(tmp_path).record.id)
    written = result(record, tmp_path).to_json()["failures"]
    assert [(one["verdict"], one["kind"], one["cells"]) for one in written] == [
        ("different-failure", "TypeError", [1, 3, 5]),
        ("different-failure", "exit-status", [6]),
        ("reproduced", "RuntimeError", [2]),
        ("reproduced", "RuntimeError", [4]),
    ]
    assert " ".join(written[0]) == "verdict known version id kind frames message cause title cells"
    [line] = {
        (element.get("message") or "").rpartition(" ")[2]
        for element in ET.fromstring(junit.junit(record).partition("\n")[2]).iter("failure")
        if "TypeError" in (element.get("message") or "")
    }
    identity = written[0]["id"]
    assert line == f"{identity}]"
    shown = "\n".join(detail.cell(record, record.cells[0], tmp_path / "store", 1))
    assert f"\nfailure {identity}: TypeError: promotion of 1 at 0x7ffd00000001 at net.py:forward\n" in shown


def test_trials_that_fail_in_several_ways_are_all_kept(tmp_path: Path) -> None:
    turns = iter("123")

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        turn = next(turns)
        sink(traceback("1", "TypeError: wrong" if turn == "2" else "ValueError: wrong"))
        return Ending(exit_code=1, seconds=0.1)

    text = CASE.replace('"1", "2", "3", "4", "5", "6"', '"1"') + "trials: 3\n"
    [cell] = Project(tmp_path, text, behave).record.cells
    assert cell.details.failure is not None
    assert cell.details.failure.kind == "ValueError"
    assert [(one.kind, one.trials) for one in cell.details.failures] == [("ValueError", (1, 3)), ("TypeError", (2,))]


def test_a_cell_that_passes_has_no_failure(tmp_path: Path) -> None:
    project = Project(tmp_path, behave=lambda trial, sink: Ending(exit_code=0, seconds=0.1))
    assert not any(cell.details.failure for cell in project.record.cells)
    assert result(project.record, tmp_path).failures == ()


def test_a_known_failure_is_recognised_and_expected_only_where_the_case_says_so(tmp_path: Path) -> None:
    project = Project(tmp_path, CASE + KNOWN)
    cells = {cell.cell["a"]: cell for cell in project.record.cells}
    assert [str(cells[a].verdict) for a in "136"] == ["different-failure"] * 3
    assert [cells[a].details.known for a in "12346"] == ["promotion", "", "promotion", "", "anything-else"]
    assert cells["1"].reason.startswith("known as promotion: exit status 1 with TypeError: promotion of 1")
    assert [(cells[a].expected, cells[a].as_expected) for a in "123"] == [
        (Verdict.REPRODUCED, False),
        (Verdict.REPRODUCED, True),
        (Verdict.DIFFERENT_FAILURE, True),
    ]
    assert project.status == 1
    assert any(line.startswith("  3 cells (1, 3, 5): known as promotion: TypeError: ") for line in project.said)
    [first, *_] = result(project.record, tmp_path).failures
    assert (first.known, first.cells) == ("promotion", (1, 3, 5))


@pytest.mark.parametrize("answer", ["passes", "fails otherwise", "shows the bug"])
def test_where_a_known_failure_is_expected_anything_else_departs(tmp_path: Path, answer: str) -> None:
    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if answer != "passes":
            sink(traceback("1", "ValueError: new" if answer == "fails otherwise" else "RuntimeError: singular"))
        return Ending(exit_code=0 if answer == "passes" else 1, seconds=0.1)

    project = Project(tmp_path, CASE + KNOWN, behave)
    assert project.record.cells[2].expected is Verdict.DIFFERENT_FAILURE
    assert project.record.cells[2].as_expected is False


def test_a_fix_need_not_cure_the_other_failure(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(CASE + KNOWN + "fix: {env: {FIXED: '1'}}\n")
    session = Session(tmp_path / "store", display=Screen(io.StringIO()), engine=lambda: FakeEngine(toy))
    session.start(Request(cases=(str(tmp_path / "toy.yaml"),), base_images="registry", fix=True))
    assert session.record is not None
    fixed = {cell.cell["a"]: cell for cell in session.record.cells if cell.variant == "fix"}
    assert (fixed["3"].expected, fixed["3"].as_expected) == (Verdict.DIFFERENT_FAILURE, True)
    assert (fixed["1"].expected, fixed["1"].as_expected) == (Verdict.NOT_REPRODUCED, False)
    assert fixed["1"].details.known == "promotion"


def test_a_case_says_what_it_knows(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(CASE + KNOWN)
    [file] = load(str(tmp_path / "toy.yaml"))
    assert isinstance(file, CaseFile)
    first, second = file.case.expect.known
    assert (first.id, first.failure.exception, first.reproduces) == ("promotion", "TypeError", ({"a": "3"},))
    assert (first.url, second.failure.exit_code) == ("https://example.org/1", 7)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [((3,), "3"), ((3, 4), "3, 4"), ((1, 3, 4, 5, 9), "1, 3-5, 9"), ((1, 2, 3, 4), "1-4")],
)
def test_ranges(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text

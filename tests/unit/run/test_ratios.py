"""Cells that are measured against another, on a fake engine. The real one is in tests/integration."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.case.matrix import Selection
from reprokit.core.errors import CaseError
from reprokit.engine.protocol import Trial
from reprokit.evidence.model import Ending
from reprokit.evidence.records import CellRecord
from reprokit.evidence.usage import GpuRecord, Usage
from reprokit.report import explanation
from reprokit.report.history.rejudging import CannotJudge, rejudge
from reprokit.report.labels import describe_passes, short_reason
from reprokit.run.loading import load_all
from reprokit.run.request import Request
from reprokit.store.database import Store
from tests.unit.run.test_runner import Project

CASE = """\
schema: reprokit/v1
id: toy
title: Slow
matrix: {a: ["1", "2", "3"]}
env: {A: "{{ a }}"}
command: toy
expect:
  %s: {ratio: 1.3, of: {a: "1"}}
fix: {env: {FIXED: "1"}}
"""


class Needs:
    """Needs as much as it is given for each value of ``a``; what is not a number is done instead."""

    def __init__(self, **values: object) -> None:
        self.values, self.order, self.running = values, "", 0
        self.beside = 0

    def __call__(self, trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        a, fixed = trial.env["A"], "FIXED" in trial.env
        self.order += "f" if fixed else a
        self.running += 1
        self.beside = max(self.beside, self.running)
        value = 1.0 if fixed else self.values.get(f"a{a}", 1.0)
        noise = 1 + 0.001 * (len(self.order) % 7)
        self.running -= 1
        if isinstance(value, Ending):
            return value
        if isinstance(value, str):
            sink(value.encode())
            return Ending(exit_code=0, seconds=0.1, usage=Usage(cpu_seconds=1.0))
        if value is None:
            return Ending(exit_code=0, seconds=0.1)
        assert isinstance(value, float)
        return Ending(
            exit_code=0, seconds=0.1, usage=Usage(cpu_seconds=value * noise, peak_memory=int(1e8 * value * noise))
        )


def made(tmp_path: Path, key: str = "slower_than", **values: object) -> tuple[Project, Needs]:
    project, needs = Project(tmp_path), Needs(**values)
    project.case.write_text(CASE % key)
    project.engine.behave = needs
    return project, needs


def verdicts(project: Project, variant: str = "case") -> dict[str, str]:
    return {cell.cell["a"]: str(cell.verdict) for cell in project.cells if cell.variant == variant}


def cell(project: Project, a: str) -> CellRecord:
    return next(one for one in project.cells if one.cell["a"] == a and one.variant == "case")


@pytest.mark.parametrize("key", ["slower_than", "more_memory_than"])
def test_a_cell_reproduces_where_it_needs_more_than_so_many_times_as_much(tmp_path: Path, key: str) -> None:
    project, needs = made(tmp_path, key, a2=2.0)
    project.run(fix=True, jobs=4)
    assert verdicts(project) == {"1": "not-reproduced", "2": "reproduced", "3": "not-reproduced"}
    assert set(verdicts(project, "fix").values()) == {"not-reproduced"}
    words = {"slower_than": "CPU time", "more_memory_than": "peak memory"}[key]
    assert f"{words} is 2 times that of the reference a=1 (99.2 % interval " in cell(project, "2").reason
    assert "8 pairs of trials), more than 1.3 times" in cell(project, "2").reason
    assert "this cell is the reference" in cell(project, "1").reason
    assert "reference a=1 without the fix" in project.cells[-1].reason
    found = cell(project, "2").details
    assert found.trials is not None
    assert (found.trials.reproduced, found.trials.of) == (9, 9)
    assert needs.beside == 1
    assert "21" + "21121221" * 2 in needs.order  # a trial of each to warm up, then turns; nothing in between
    kept = Store(tmp_path / "store").run(project.session.record.id)
    assert kept.cells == project.cells


def test_what_is_said_of_them_is_the_ratio_and_not_a_rate_of_failures(tmp_path: Path) -> None:
    project, _ = made(tmp_path, a2=2.0)
    project.run()
    reference, slow, other = sorted(project.cells, key=lambda one: one.cell["a"])
    assert short_reason(reference) == "this cell is the reference that others are measured against"
    assert short_reason(slow).startswith("CPU time is 2 times that of the reference a=1 (99.2 % interval ")
    assert short_reason(other).endswith("8 pairs of trials), less than 1.3 times")
    assert describe_passes(project.cells) == ""
    said = [*explanation.full(explanation.explain_records(sorted(project.cells, key=lambda one: one.number)))]
    assert said[1:3] == ["it reproduces (as measured) when", "  a = 2"]
    assert "chance" not in "\n".join(said)
    assert "runs" not in "\n".join(said)


@pytest.mark.parametrize("usage", [None, Usage(gpus=(GpuRecord(name="GPU", uuid="GPU-1"),))])
def test_a_trial_that_was_over_before_it_was_looked_at_is_run_again(tmp_path: Path, usage: Usage | None) -> None:
    project, needs = made(tmp_path, a2=2.0)

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        ending = needs(trial, sink)
        return dataclasses.replace(ending, usage=usage) if len(needs.order) in (1, 4, 9) else ending

    project.engine.behave = behave
    project.run(selection=Selection(only=({"a": ("2",)},)))
    assert verdicts(project) == {"2": "reproduced"}
    assert 18 < len(needs.order) <= 22


def test_the_reference_need_not_be_selected_nor_be_in_the_matrix(tmp_path: Path) -> None:
    project, needs = made(tmp_path, a2=2.0)
    project.case.write_text(project.case.read_text().replace('of: {a: "1"}', 'of: {a: "0"}'))
    project.run(selection=Selection(only=({"a": ("2",)},)))
    assert verdicts(project) == {"2": "reproduced"}
    assert Counter(needs.order) == {"2": 9, "0": 9}
    logs = sorted(path.parent.name for path in (tmp_path / "store").rglob("trial-9.log*"))
    assert logs == ["001-toy-case", "001-toy-case-reference"]


def test_seconds_that_the_program_prints_are_its_time(tmp_path: Path) -> None:
    project, _ = made(tmp_path, a1="reprokit: seconds=1.5\n", a2="reprokit: seconds=1\nreprokit: seconds=3.0\n")
    project.run(selection=Selection(only=({"a": ("2",)},)))
    assert verdicts(project) == {"2": "reproduced"}
    assert "printed time is 2 times" in cell(project, "2").reason


FAILED, HUNG = Ending(exit_code=1, seconds=0.1), Ending(exit_code=137, timed_out=True, seconds=9.0)


@pytest.mark.parametrize(
    ("values", "verdict", "why"),
    [
        ({"a1": FAILED}, "inconclusive", "the reference a=1 is different-failure"),
        ({"a1": None}, "inconclusive", "trial 5 of the reference a=1: no CPU time was measured"),
        ({"a2": None}, "inconclusive", "trial 5: no CPU time was measured: the command has to take 1 s of CPU"),
        (
            {"a2": 0.9, "a1": 0.3},
            "inconclusive",
            "trial 1: no CPU time was measured: the command has to take 1 s of CPU",
        ),
        ({"a2": "reprokit: seconds=1.0\n"}, "inconclusive", "the reference a=1: no printed time was measured"),
        ({"a2": "reprokit: seconds=0\n", "a1": "reprokit: seconds=0\n"}, "inconclusive", "no printed time"),
        ({"a2": FAILED}, "different-failure", "exit"),
        ({"a2": HUNG}, "timed-out", "time limit"),
        ({"a2": 1.3}, "inconclusive", "which leaves open whether it is 1.3 times"),
    ],
)
def test_what_cannot_be_measured_is_not_a_finding(
    tmp_path: Path, values: dict[str, object], verdict: str, why: str
) -> None:
    project, needs = made(tmp_path, **values)
    project.run(selection=Selection(only=({"a": ("2",)},)))
    found = cell(project, "2")
    assert str(found.verdict) == verdict
    assert why in found.reason
    assert needs.order.count("2") <= 33


def test_a_reference_that_this_host_does_not_have(tmp_path: Path) -> None:
    project, _ = made(tmp_path)
    text = project.case.read_text().replace('matrix: {a: ["1", "2", "3"]}', 'matrix: {a: ["2"], python: ["3.11"]}')
    project.case.write_text(text.replace('of: {a: "1"}', 'of: {a: "1", python: "3.99"}'))
    project.run()
    assert verdicts(project) == {"2": "inconclusive"}
    assert "the reference a=1 python=3.99 is not available: " in cell(project, "2").reason


def test_it_is_judged_again_from_what_was_measured(tmp_path: Path) -> None:
    project, _ = made(tmp_path, a2=2.0)
    project.run(selection=Selection(only=({"a": ("2",)},)))
    run, was = project.session.record, cell(project, "2")
    [file] = load_all((str(project.case),))
    again = rejudge(run, was, lambda _: file, tmp_path / "store", "now")
    assert again is not None
    assert (again.after.verdict, again.after.reason) == (was.verdict, was.reason)
    bare = dataclasses.replace(was, details=dataclasses.replace(was.details, ratio=None))
    with pytest.raises(CannotJudge, match="run it again"):
        rejudge(run, bare, lambda _: file, tmp_path / "store", "now")


def test_cells_that_are_measured_are_not_repeated_to_confirm(tmp_path: Path) -> None:
    project, needs = made(tmp_path, a2=2.0)
    project.run(confirm=True)
    assert Counter(needs.order) == {"1": 19, "2": 9, "3": 9}


def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    project, needs = made(tmp_path, a2=2.0)

    def broken(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if len(needs.order) == 9:
            raise KeyboardInterrupt
        return needs(trial, sink)

    project.engine.behave = broken
    project.run(jobs=1)
    assert "reproduced" not in verdicts(project).values()
    project.engine.behave = needs
    project.session = project.new_session()
    project.session.resume(Request(cases=(str(project.case),), base_images="registry", jobs=1))
    assert verdicts(project) == {"1": "not-reproduced", "2": "reproduced", "3": "not-reproduced"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('{ratio: 1, of: {a: "1"}}', "expected a number above 1"),
        ('{ratio: nan, of: {a: "1"}}', "expected a number above 1"),
        ("{ratio: 1.3, of: {}}", "expected the values of one axis or more"),
        ('{ratio: 1.3, of: {b: "1"}}', "the matrix has no axis 'b'"),
        ("{ratio: 1.3}", "of"),
        ('{ratio: 1.3, of: {a: "1"}}\n  leaks: {per_iteration: 1MiB}', "states either leaks or slower_than"),
        ('{ratio: 1.3, of: {a: "1"}, off: 1}', "unknown key 'off'"),
    ],
)
def test_what_a_case_cannot_ask_for(tmp_path: Path, change: str, message: str) -> None:
    path = tmp_path / "toy.yaml"
    path.write_text((CASE % "slower_than").replace('{ratio: 1.3, of: {a: "1"}}', change))
    with pytest.raises(CaseError) as caught:
        load_all((str(path),))
    assert message in str(caught.value)

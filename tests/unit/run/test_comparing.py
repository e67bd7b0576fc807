"""Cells by the numbers that their trials wrote, on a fake engine. The real one is in tests/integration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.case.matrix import Selection
from reprokit.core.errors import UsageError
from reprokit.engine.protocol import Trial
from reprokit.evidence.model import Ending
from reprokit.evidence.records import CellRecord
from reprokit.run.comparing import check_search
from reprokit.run.loading import load_all
from reprokit.run.request import Request
from reprokit.store.database import Store
from tests.unit.run.test_runner import Project

CASE = """\
schema: reprokit/v1
id: toy
title: Numbers
matrix: {a: ["1", "2", "3"]}
env: {A: "{{ a }}"}
command: toy
expect:
  compare: {outputs: [out.json], reference: %s}
fix: {env: {FIXED: "1"}}
"""
BY_CELL = '{cell: {a: "1"}}'


class Numbers:
    """Writes a number for each value of ``a``; a list gives one for each trial. None: nothing; an exception: fails."""

    def __init__(self, folder: Path, **values: object) -> None:
        self.folder, self.values = folder, values
        self.count: dict[str, int] = {}

    def __call__(self, trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        a = trial.env["A"]
        number = self.count[a] = self.count.get(a, 0) + 1
        value = self.values.get(f"a{a}", 1.0) if "FIXED" not in trial.env else 1.0
        if isinstance(value, list):
            value = value[(number - 1) % len(value)]
        if value == "fails":
            return Ending(exit_code=1, seconds=0.1)
        place = self.folder / f"{a}-{number}-{'FIXED' in trial.env}"
        place.mkdir()
        if value is not None:
            (place / "out.json").write_text(json.dumps({"x": [1, value]}))
        assert trial.outputs is not None
        trial.outputs.from_folder(place)
        return Ending(exit_code=0, seconds=0.1)


def made(tmp_path: Path, reference: str = BY_CELL, **values: object) -> Project:
    project = Project(tmp_path)
    project.case.write_text(CASE % reference)
    (tmp_path / "work").mkdir()
    project.engine.behave = Numbers(tmp_path / "work", **values)
    return project


def verdicts(project: Project, variant: str = "case") -> dict[str, str]:
    return {cell.cell["a"]: str(cell.verdict) for cell in project.cells if cell.variant == variant}


def cell(project: Project, a: str) -> CellRecord:
    return next(one for one in project.cells if one.cell["a"] == a)


def test_a_cell_reproduces_where_its_numbers_differ_from_those_of_the_reference(tmp_path: Path) -> None:
    project = made(tmp_path, a2=1.5)
    project.run(fix=True)
    assert verdicts(project) == {"1": "not-reproduced", "2": "reproduced", "3": "not-reproduced"}
    assert set(verdicts(project, "fix").values()) == {"not-reproduced"}
    assert "out.json: 1 of 2 numbers differ, most at $.x[1]: 1.5 against 1 (" in cell(project, "2").reason
    assert [len(one.trials) for one in project.cells] == [4] * 6
    kept = Store(tmp_path / "store").run(project.session.record.id)
    assert kept.cells == project.cells


def test_the_reference_runs_too_where_it_is_not_selected(tmp_path: Path) -> None:
    project = made(tmp_path, a2=1.5)
    project.run(selection=Selection(only=({"a": ("2",)},)))
    assert verdicts(project) == {"2": "reproduced", "1": "not-reproduced"}


def test_a_value_that_the_matrix_lacks_is_a_reference(tmp_path: Path) -> None:
    project = made(tmp_path, reference='{cell: {a: "0"}}', a0=1.0, a3=2.0)
    project.run()
    assert verdicts(project) == {"0": "not-reproduced", "1": "not-reproduced", "2": "not-reproduced", "3": "reproduced"}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"a1": "fails"}, "the reference a=1 is reproduced"),
        ({"a1": [1.0, 2.0]}, "the reference a=1 is inconclusive: the cell is not deterministic"),
        ({"a2": [1.5, 1.6]}, "the cell is not deterministic within the tolerance: trial 2 against trial 1: out.json"),
        ({"a2": None}, "trial 1 wrote no output that matches expect.compare.outputs"),
        ({"a2": float("nan")}, None),
    ],
)
def test_what_cannot_be_compared_is_never_a_finding(tmp_path: Path, values: dict[str, object], why: str | None) -> None:
    project = made(tmp_path, **values)
    project.run()
    found = cell(project, "2")
    if why is None:  # NaN against a number is another number; NaN everywhere is a test of its own
        assert str(found.verdict) == "reproduced"
        return
    assert str(found.verdict) == "inconclusive"
    assert found.as_expected is None
    assert why.replace("is reproduced", "is different-failure") in found.reason


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"a3": 7.0}, {"1": "not-reproduced", "2": "not-reproduced", "3": "reproduced"}),
        ({"a1": 7.0}, {"1": "reproduced", "2": "not-reproduced", "3": "not-reproduced"}),
        ({"a1": 7.0, "a2": 8.0}, {"1": "inconclusive", "2": "inconclusive", "3": "inconclusive"}),
        ({"a3": "fails"}, {"1": "inconclusive", "2": "inconclusive", "3": "different-failure"}),
    ],
)
def test_the_majority(tmp_path: Path, values: dict[str, object], expected: dict[str, str]) -> None:
    project = made(tmp_path, reference="majority", **values)
    project.run()
    assert verdicts(project) == expected


def test_a_file_of_the_case_is_a_reference(tmp_path: Path) -> None:
    project = made(tmp_path, reference="{file: want.json}", a2=1.5)
    project.case.write_text(project.case.read_text() + "files: {want.json: '{\"x\": [1, 1.0]}'}\n")
    project.run()
    assert verdicts(project) == {"1": "not-reproduced", "2": "reproduced", "3": "not-reproduced"}


def test_a_failing_trial_is_another_failure(tmp_path: Path) -> None:
    project = made(tmp_path, a2="fails")
    project.run()
    assert str(cell(project, "2").verdict) == "different-failure"


def test_a_stopped_engine_leaves_cells_that_a_resumed_run_decides(tmp_path: Path) -> None:
    project = made(tmp_path, a2=1.5)
    behave = project.engine.behave

    def broken(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if trial.env["A"] == "1":
            raise KeyboardInterrupt
        return behave(trial, sink)

    project.engine.behave = broken
    project.run(jobs=1)
    assert "inconclusive" not in verdicts(project).values()
    project.engine.behave = behave
    project.session = project.new_session()
    project.session.resume(Request(cases=(str(project.case),), base_images="registry", jobs=1))
    assert verdicts(project) == {"1": "not-reproduced", "2": "reproduced", "3": "not-reproduced"}


def test_one_trial_is_never_enough(tmp_path: Path) -> None:
    project = made(tmp_path, a2=1.5)
    project.run(trials=1)
    assert [len(one.trials) for one in project.cells] == [4] * 3


def test_a_search_over_a_majority_is_refused(tmp_path: Path) -> None:
    project = made(tmp_path, reference="majority")
    [file] = load_all((str(project.case),))
    with pytest.raises(UsageError, match="a search runs a few cells, and the case compares with the majority of all"):
        check_search(file.case)

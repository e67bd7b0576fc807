"""Cells are repeated until their trials carry what a run says of them: within a budget, recorded, and resumable."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.cli.display.screen import Screen
from reprokit.core.errors import EngineError
from reprokit.engine.protocol import Trial
from reprokit.evidence.model import Ending
from reprokit.evidence.records import CellRecord
from reprokit.report.formats.json import result
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.search.repeating import planner
from reprokit.store.database import Store
from tests.unit.fakes import FakeEngine

CASE = """\
schema: reprokit/v1
id: toy
title: A toy
matrix: {k: [a, b, c]}
env: {K: "{{ k }}"}
command: toy
expect: {failure: {exit_code: 3}}
fix: {env: {FIXED: "1"}}
"""
FAILED, PASSED = Ending(exit_code=3, seconds=0.1), Ending(exit_code=0, seconds=0.1)


class Project:
    """A folder with a case, a store and an engine whose trials of ``k`` end as ``ends`` says, the last for ever."""

    def __init__(self, folder: Path, **ends: str) -> None:
        self.folder = folder
        self.case = folder / "toy.yaml"
        self.case.write_text(CASE)
        self.ends = ends or {"b": "F"}
        self.ran: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.engine = FakeEngine(self.behave)
        self.output = io.StringIO()
        self.session = self.new_session()

    def behave(self, trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        with self.lock:
            k = trial.env["K"] + trial.env.get("FIXED", "")
            self.ran[k] += 1
            ends = self.ends.get(k, "P")
            return FAILED if ends[min(self.ran[k], len(ends)) - 1] == "F" else PASSED

    def new_session(self) -> Session:
        self.output = io.StringIO()
        return Session(
            self.folder / "store", display=Screen(self.output), engine=lambda: self.engine, confirming=planner
        )

    def run(self, **values: object) -> int:
        defaults = {"cases": (str(self.case),), "base_images": "registry", "jobs": 1}
        return self.session.start(Request(**{**defaults, **values}))  # type: ignore[arg-type]

    @property
    def cells(self) -> dict[str, CellRecord]:
        assert self.session.record is not None
        return {one.cell["k"] + "1" * (one.variant == "fix"): one for one in self.session.record.cells}

    @property
    def verdicts(self) -> dict[str, str]:
        return {k: str(one.verdict) for k, one in self.cells.items()}


@pytest.mark.parametrize("jobs", [1, 4])
def test_a_certain_failure_costs_a_few_trials_and_keeps_its_plain_sentence(project: Project, jobs: int) -> None:
    assert project.run(jobs=jobs) == 0
    assert project.verdicts == {"a": "not-reproduced", "b": "reproduced", "c": "not-reproduced"}
    said = project.output.getvalue()
    assert re.search(
        r"reproduces when k = b \(\d of \d runs; elsewhere 0 of \d.* each, a failure in up to \d+ % of runs", said
    )
    assert re.search(r"; \d+ trials more to confirm \d cells$", said, re.M)
    assert "confirming" not in said
    assert "one trial" not in said
    assert sum(project.ran.values()) <= 15 + jobs - 1  # what ran when the last one that was needed ended
    for k, cell in project.cells.items():
        assert [trial.number for trial in cell.trials] == list(range(1, project.ran[k] + 1))
        assert all((project.folder / "store" / trial.log).exists() for trial in cell.trials)
        assert cell.details.repeats == project.ran[k] - 1
        assert cell.details.trials is not None
        assert cell.details.trials.of == project.ran[k]
    assert project.session.record is not None
    [kept] = [Store(project.folder / "store").run(project.session.record.id)]
    assert kept.cells == project.session.record.cells
    found = result(kept, project.folder / "store").cases[0].explanation
    assert (found.strength, found.trials.repeats) == ("supported", sum(project.ran.values()) - 3)


def test_a_flake_is_found_and_its_cells_say_so(tmp_path: Path) -> None:
    project = Project(tmp_path, b="FPPF", a="PF", c="PPPF")
    project.run()
    assert (project.verdicts["a"], project.verdicts["b"]) == ("flaky", "flaky")
    said = project.output.getvalue()
    assert "exactly when" not in said
    assert "otherwise" not in said
    assert "k=b: flaky (was reproduced): 1 of 2 trials failed with the signature" in said


def test_a_flake_that_departs_from_what_is_expected_is_seen_by_the_exit_status(tmp_path: Path) -> None:
    project = Project(tmp_path, b="FP")
    project.case.write_text(CASE.replace("exit_code: 3}", "exit_code: 3}, reproduces: [{k: b}]"))
    assert project.run() == 1
    assert project.verdicts["b"] == "flaky"


def test_never_repeats_nothing_and_says_what_it_rests_on(project: Project) -> None:
    project.run(confirm="never")
    assert project.ran == Counter("abc")
    said = project.output.getvalue()
    assert "in one trial each: failed in the 1 cell with k = b, passed in the other 2 cells, where " in said
    assert f"repeat the cells that decide it: reprokit run {project.case} --confirm always" in said


def test_auto_keeps_to_its_budget_and_always_does_not(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprokit.search.repeating.LEAST_BUDGET", 0.0)
    project.run()
    assert sum(project.ran.values()) <= 7, "three trials, and about as long again"
    assert "in 1 to 3 trials each" in project.output.getvalue() or "in 2 trials each" in project.output.getvalue()
    project.session = project.new_session()
    project.run(confirm="always")
    assert "reproduces when k = b" in project.output.getvalue()


def test_cells_that_do_not_differ_and_those_with_the_fix_are_not_repeated(project: Project) -> None:
    project.run(fix=True)
    assert {k: number for k, number in project.ran.items() if k.endswith("1")} == {"a1": 1, "b1": 1, "c1": 1}
    project.ran.clear()
    project.ends = {}
    project.session = project.new_session()
    project.run()
    assert project.ran == Counter("abc")


def test_trials_that_the_case_asked_for_count(project: Project) -> None:
    project.run(trials=12)
    assert set(project.ran.values()) == {12}


def test_an_engine_that_fails_leaves_the_verdicts_and_ends_the_repeats(project: Project) -> None:
    ran = project.engine.behave

    def fails_later(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if sum(project.ran.values()) >= 4:
            raise EngineError("the engine went away")
        return ran(trial, sink)

    project.engine.behave = fails_later
    assert project.run() == 0
    assert project.verdicts == {"a": "not-reproduced", "b": "reproduced", "c": "not-reproduced"}
    said = project.output.getvalue()
    assert "note: toy: its cells are not repeated any more to confirm what they say: the engine went away" in said
    assert "in 1 to 2 trials each: failed in" in said


def test_ctrl_c_keeps_the_verdicts_and_resume_goes_on_confirming(project: Project) -> None:
    ran = project.engine.behave

    def interrupted(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if sum(project.ran.values()) == 5:
            os.kill(os.getpid(), signal.SIGINT)
            project.engine.cancel.wait(10)
        return ran(trial, sink)

    project.engine.behave = interrupted
    assert project.run() == 130
    assert project.verdicts == {"a": "not-reproduced", "b": "reproduced", "c": "not-reproduced"}
    assert "interrupted: 3 of 3 cells are decided and kept" in project.output.getvalue()
    first = {k: len(cell.trials) for k, cell in project.cells.items()}
    assert sum(first.values()) >= 5
    project.engine.behave = ran
    project.session = project.new_session()
    assert project.session.resume(None) == 0
    assert "reproduces when k = b" in project.output.getvalue()
    for k, cell in project.cells.items():
        assert [trial.number for trial in cell.trials] == list(range(1, len(cell.trials) + 1)), k
        assert len(cell.trials) >= first[k]


def test_a_run_that_was_asked_for_no_repeats_is_resumed_without(project: Project) -> None:
    asked = Request(cases=("toy.yaml",), confirm="never")
    assert Request.from_json(json.loads(json.dumps(asked.to_json()))).confirm == "never"
    older = {name: value for name, value in asked.to_json().items() if name != "confirm"}
    assert Request.from_json(older).confirm == "auto"


def test_several_cases_have_a_budget_each(project: Project) -> None:
    other = project.folder / "other.yaml"
    other.write_text(CASE.replace("id: toy", "id: other"))
    project.run(cases=(str(project.case), str(other)), jobs=3)
    for name in ("toy", "other"):
        assert f"{name}: reproduces when k = b" in project.output.getvalue()

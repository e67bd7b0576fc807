"""Scheduling, faults and resumption, on a fake engine. The real one is in tests/integration."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import sys
import threading
import xml.etree.ElementTree as ET
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import FrameType

import pytest

from reprokit.case import read as read_module
from reprokit.case.cellspec import FileSpec
from reprokit.case.filters import Filter
from reprokit.case.matrix import Selection
from reprokit.case.read import Text
from reprokit.case.trust import Trust
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import BuildFailed, EngineError, RecordError, UsageError
from reprokit.engine import bases
from reprokit.engine.protocol import Build, EngineInfo, ImageInfo, Trial
from reprokit.environment.model import Base
from reprokit.evidence.details import FailedBuildRecord
from reprokit.evidence.model import Ending, Verdict
from reprokit.evidence.origin import HostRecord
from reprokit.evidence.records import CellRecord
from reprokit.evidence.sequential import Trials
from reprokit.report.formats import junit
from reprokit.report.formats.json import result
from reprokit.run import building, loading
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.run.threads import Builds, Workers
from reprokit.store import journal
from reprokit.store.database import Store
from tests.stored import finish
from tests.unit.fakes import FakeEngine

CASE = """\
schema: reprokit/v1
id: toy
title: A toy
matrix: {a: ["1", "2"], b: [x, y]}
env: {A: "{{ a }}", B: "{{ b }}"}
command: toy
expect:
  failure: {exit_code: 3, output: boom}
  reproduces: [{a: "2"}]
fix: {env: {FIXED: "1"}}
"""


def toy(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
    """Fails with the signature where A is 2, unless it is fixed."""
    if trial.env["A"] == "2" and "FIXED" not in trial.env:
        sink(b"boom\n")
        return Ending(exit_code=3, seconds=0.1)
    return Ending(exit_code=0, seconds=0.1)


class Project:
    """A folder with a case, a store and a fake engine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.case = folder / "toy.yaml"
        self.case.write_text(CASE)
        self.engine = FakeEngine(toy)
        self.output = io.StringIO()
        self.session = self.new_session()

    def new_session(self) -> Session:
        return Session(self.folder / "store", display=Screen(self.output), engine=lambda: self.engine)

    def run(self, **values: object) -> int:
        defaults = {"cases": (str(self.case),), "base_images": "registry"}
        return self.session.start(Request(**{**defaults, **values}))  # type: ignore[arg-type]

    @property
    def cells(self) -> tuple[CellRecord, ...]:
        return self.session.record.cells

    @property
    def verdicts(self) -> list[str]:
        return [str(cell.verdict) for cell in self.cells]


def test_cells_that_differ_in_env_only_share_one_image_and_are_judged(project: Project) -> None:
    assert project.run() == 0
    assert project.verdicts == ["not-reproduced", "not-reproduced", "reproduced", "reproduced"]
    assert len(project.engine.built) == 1
    assert [cell.as_expected for cell in project.cells] == [True] * 4
    assert "2 not-reproduced, 2 reproduced; all as expected" in project.output.getvalue()


def test_cells_whose_image_is_there_do_not_wait_for_the_builds_of_others(project: Project) -> None:
    case = CASE.replace("command: toy", "environment: {setup: 'echo {{ a }}'}\ncommand: toy")
    project.case.write_text(case.replace('["1", "2"]', '["3"]').replace("reproduces", "known: []\n  #"))
    assert project.run(jobs=1) == 0
    began, late = threading.Event(), []

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if trial.env["A"] == "3":
            began.set()
        return toy(trial, sink)

    project.engine.behave = behave
    project.engine.make = lambda build: late.append(began.wait(60))
    project.case.write_text(case.replace('["1", "2"]', '["1", "2", "3"]'))
    project.session = project.new_session()
    assert project.run(jobs=1) == 0
    assert late == [True, True]


def test_a_build_waits_for_images_that_are_there_and_follow_after_it_was_looked_for() -> None:
    order: list[object] = []
    with Workers(1, "build") as workers:
        builds = Builds(workers)
        builds.start(lambda: order.append("not here"), lambda: False)
        builds.started[0].result(60)
        builds.start(lambda: order.append("here"), lambda: True)
        builds.wait()
    assert order == ["here", "not here"]


def test_a_second_run_builds_and_measures_nothing(project: Project) -> None:
    project.run()
    project.engine.build_error = AssertionError("nothing may be built")
    project.session = project.new_session()
    assert project.run() == 0
    assert project.cells[0].image is not None
    assert project.cells[0].image.built is False


def test_what_asks_for_more_than_the_host_grants_is_not_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPROKIT_MAX_MEMORY", "1g")
    monkeypatch.setenv("REPROKIT_MAX_CPUS", "0.5")
    project.case.write_text(CASE + "resources: {memory: 2g}\n")
    project.run()
    assert set(project.verdicts) == {"unsupported"}
    assert "resources.memory 2 GiB; this host grants at most 1 GiB" in str(project.cells[0].reason)
    assert project.engine.built == []
    project.case.write_text(CASE + "resources: {memory: 512m}\n")
    project.session = project.new_session()
    assert project.run() == 0
    granted = project.engine.trials[-1].limits
    assert (granted.memory, granted.cpus) == (512 * 1024**2, 0.5)


def test_the_fixed_variant_runs_beside_the_case_and_must_not_fail(project: Project) -> None:
    assert project.run(fix=True) == 0
    variants = [(cell.cell["a"], cell.variant, str(cell.verdict)) for cell in project.cells if cell.cell["b"] == "x"]
    assert variants == [
        ("1", "case", "not-reproduced"),
        ("1", "fix", "not-reproduced"),
        ("2", "case", "reproduced"),
        ("2", "fix", "not-reproduced"),
    ]


def test_a_fix_runs_only_where_it_makes_sense(project: Project) -> None:
    project.case.write_text(CASE.replace("fix: {", 'fix: {only: [{a: "2", b: x}], '))
    assert project.run(fix=True) == 0
    fixed = [dict(cell.cell) for cell in project.cells if cell.variant == "fix"]
    assert fixed == [{"a": "2", "b": "x"}]
    assert len(project.cells) == 5


@pytest.mark.parametrize("selection", [Selection(only=({"a": ("1",)},)), Selection(axes={"a": ("3",)})])
def test_a_fix_that_makes_sense_in_no_selected_cell_is_said(project: Project, selection: Selection) -> None:
    project.case.write_text(CASE.replace("fix: {", 'fix: {only: [{a: "2"}], '))
    with pytest.raises(UsageError, match="in none of the selected cells does a fix make sense"):
        project.run(fix=True, selection=selection)
    assert not project.engine.trials
    assert project.run(selection=selection) == 0


FILES = CASE.replace("command: toy", 'files: {go.py: "print({{ a }})", run.sh: "#!/bin/sh"}\ncommand: toy')


def test_cases_that_differ_in_files_only_share_one_image(project: Project) -> None:
    project.case.write_text(FILES)
    (project.folder / "other.yaml").write_text(CASE.replace("id: toy", "id: other"))
    project.run(cases=(str(project.folder),))
    assert len(project.engine.built) == 1
    found = [(trial.env["A"], trial.files.get("go.py")) for trial in project.engine.trials]
    texts = {(value, file and file.text) for value, file in found}
    assert texts == {("1", "print(1)"), ("2", "print(2)"), ("1", None), ("2", None)}
    kept = project.folder / "store" / "runs" / project.session.record.id
    copies = sorted(path for path in kept.rglob("files/*") if "001-" in str(path) or "toy" in str(path))
    assert {path.name for path in copies} == {"go.py", "run.sh"}
    assert {path.stat().st_mode & 0o777 for path in copies if path.name == "run.sh"} == {0o755}


@pytest.mark.parametrize(
    "reader",
    [
        "environment: {setup: python go.py}",
        "environment: {pip: [./go.py]}",
        "datasets: {d: {path: d, generate: python go.py}}",
    ],
)
def test_files_that_the_build_may_read_are_in_the_image(project: Project, reader: str) -> None:
    project.case.write_text(FILES + reader + "\n")
    project.run(fix=True)
    assert len(project.engine.built) == 2  # one for each text of go.py
    assert not any(trial.files for trial in project.engine.trials)


@pytest.mark.parametrize(
    ("path", "wrong"),
    [("link/x", "link is a symbolic link"), ("a.py/x", "a.py is a file"), ("real", "real is a folder"), ("a.py", "")],
)
def test_files_take_the_place_of_files_of_a_source_only(project: Project, path: str, wrong: str) -> None:
    tree = project.folder / "tree"
    (tree / "real").mkdir(parents=True)
    (tree / "link").symlink_to("real")
    (tree / "a.py").write_text("")
    source = "sources: {S: {git: https://example.org/s, ref: v1, path: src/s}}\n"
    project.case.write_text(CASE + f"files: {{src/s/{path}: new}}\n" + source)
    project.run(sources={"S": tree})
    if wrong:
        assert set(project.verdicts) == {"build-failed"}
        assert f"files.src/s/{path} cannot be put into the source S: its {wrong}" in project.cells[0].reason
    else:
        assert [dict(trial.files) for trial in project.engine.trials] == [{"src/s/a.py": FileSpec(text="new")}] * 4


def test_a_fix_that_does_not_help_is_a_departure(project: Project) -> None:
    project.case.write_text(CASE.replace("FIXED", "USELESS"))
    assert project.run(fix=True) == 1


def test_more_trials_make_a_flaky_cell_visible(project: Project) -> None:
    seen: list[int] = []

    def sometimes(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        seen.append(1)
        return toy(trial, sink) if len(seen) % 2 else Ending(exit_code=0)

    project.engine.behave = sometimes
    assert project.run(trials=4, jobs=1, selection=only(a="2", b="x")) == 1
    assert project.verdicts == ["flaky"]
    assert [trial.outcome.value for trial in project.cells[0].trials] == ["reproduced", "passed"] * 2


REPEATED = CASE + "trials: {max: 20, confidence: 0.95, rate: 0.1}\n"


def test_trials_stop_when_the_cell_is_decided_and_the_record_says_the_rate(project: Project) -> None:
    project.case.write_text(REPEATED)
    assert project.run() == 0
    assert [len(cell.trials) for cell in project.cells] == [20, 20, 4, 4]
    clean, failing = project.cells[0], project.cells[2]
    assert "up to 13.9 % is still possible (95 % upper bound), so at least 10 % is not excluded" in clean.reason
    assert clean.details.trials.possible == pytest.approx(0.139108)
    assert failing.details.trials.to_json() == {
        "policy": {"max": 20, "confidence": 0.95, "rate": 0.1},
        "reproduced": 4,
        "of": 4,
        "rate": 1.0,
        "interval": [pytest.approx(0.397635), 1.0],
        "confidence": 0.95,
        "decided": "at-least",
    }
    store = Store(project.folder / "store")
    assert store.run("last").cells[2].details.trials == failing.details.trials
    written = result(project.session.record, project.folder / "store").to_json()
    assert written["cases"][0]["cells"][2]["details"]["trials"]["interval"][1] == 1
    assert "failed with the signature (95 % interval 40 to 100 %)" in junit.junit(project.session.record)


@pytest.mark.parametrize(
    ("text", "asked", "count", "status"),
    [
        (REPEATED, None, 3, 0),  # that it does not always fail is what such a case expects
        (REPEATED, Trials.of(6), 6, 0),
        (CASE, Trials(), 3, 0),
        (CASE, Trials.of(6), 6, 1),
        (REPEATED.replace('[{a: "2"}]', "none"), None, 3, 1),
    ],
)
def test_a_flaky_cell_reproduces_where_a_rate_is_asked_for(
    project: Project, text: str, asked: Trials | None, count: int, status: int
) -> None:
    seen: list[int] = []

    def sometimes(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        seen.append(1)
        return toy(trial, sink) if len(seen) % 2 else Ending(exit_code=0)

    project.engine.behave = sometimes
    project.case.write_text(text)
    assert project.run(trials=asked, jobs=1, selection=only(a="2", b="x")) == status
    assert project.verdicts == ["flaky"]
    assert len(project.cells[0].trials) == count
    assert project.cells[0].as_expected is (status == 0)
    assert Store(project.folder / "store").run("last").cells[0].as_expected is (status == 0)


@pytest.mark.parametrize("asked", [None, 5, Trials.of(5), Trials(), Trials(max=9, confidence=0.9, rate=0.5)])
def test_a_request_for_trials_is_resumed_as_it_was(asked: int | Trials | None) -> None:
    kept = json.loads(json.dumps(Request(cases=("a.yaml",), trials=asked).to_json()))
    assert Request.from_json(kept).to_json() == kept
    assert kept["trials"] == (5 if asked == Trials.of(5) else asked and Trials.of(asked).to_json())
    before = {**kept, "trials": 7}  # as an earlier version kept it
    assert Request.from_json(before).trials == Trials.of(7)


def only(**values: str) -> Selection:
    return Selection(only=({name: (value,) for name, value in values.items()},))


def test_a_time_out_stops_the_trials_of_its_cell(project: Project) -> None:
    project.engine.behave = lambda trial, sink: Ending(exit_code=137, timed_out=True, seconds=1)
    assert project.run(trials=5, selection=only(a="1", b="x")) == 3
    assert project.verdicts == ["timed-out"]
    assert len(project.cells[0].trials) == 1


def test_a_failed_build_is_not_a_finding_and_keeps_step_and_tail(project: Project) -> None:
    project.engine.build_error = BuildFailed("pip found no such version", step="RUN pip install", tail=("ERROR: no",))
    assert project.run() == 3
    assert project.verdicts == ["build-failed"] * 4
    kept = FailedBuildRecord(
        step="RUN pip install", tail=("ERROR: no",), cause="the step failed; the last lines: ERROR: no"
    )
    assert project.cells[3].details.build == kept


def test_the_reason_of_a_failed_build_is_its_cause_then_the_fix_then_the_step(project: Project) -> None:
    tail = ("a.c:1:10: fatal error: zlib.h: No such file or directory", "error: command 'gcc' failed")
    step = "RUN --mount=type=cache,id=x . /run/reprokit/site.sh && pip install " + "name==1.0 " * 90
    project.engine.build_error = BuildFailed("failed", step=step, tail=tail)
    assert project.run() == 3
    cell = project.cells[0]
    start = (
        "the build needs the header zlib.h; put into the case: environment.apt: [zlib1g-dev] (step: pip install name=="
    )
    assert cell.reason.startswith(start)
    assert len(cell.reason) < 200
    assert cell.details.build is not None
    assert (cell.details.build.cause, cell.details.build.put) == (
        "the build needs the header zlib.h",
        "environment.apt: [zlib1g-dev]",
    )
    assert f"build-failed: {start}" in project.output.getvalue()
    assert start in junit.junit(project.session.record)


def test_without_an_engine_nothing_is_recorded(project: Project) -> None:
    def gone() -> FakeEngine:
        raise EngineError("no engine answers: start one")

    project.run()
    before = [run.id for run in Store(project.folder / "store").runs()]
    session = Session(project.folder / "store", display=Screen(project.output), engine=gone)
    request = Request(cases=(str(project.case),))
    for command in (session.start, session.build, session.lock):
        with pytest.raises(EngineError, match="no engine answers") as error:
            command(request)
        assert error.value.exit_status == 3
    assert session.record is None
    assert [run.id for run in Store(project.folder / "store").runs()] == before
    other = Session(project.folder / "other", display=Screen(project.output), engine=gone)
    with pytest.raises(EngineError):
        other.start(request)
    assert not (project.folder / "other").exists()


def test_a_run_says_how_long_builds_and_trials_took(project: Project) -> None:
    project.run()
    text = project.output.getvalue()
    assert re.search(r"^built in \d+\.\d+ s: .* \(image of 4 cells\)$", text, re.M)
    assert re.search(r"^took .*; built 1 image in \d+\.\d+ s$", text, re.M)
    project.output = io.StringIO()
    project.session = project.new_session()
    project.run()
    again = project.output.getvalue()
    assert re.search(r"^took .*; reused 1 image$", again, re.M)
    assert "built in" not in again


def test_a_failed_build_says_how_long_it_took(project: Project) -> None:
    def make(build: Build) -> None:
        raise BuildFailed("failed", step="RUN pip install x", tail=("ERROR: no",))

    project.engine.make = make
    project.run()
    assert re.search(r"^build failed after \d+\.\d+ s: ", project.output.getvalue(), re.M)


def test_an_engine_that_goes_away_is_an_engine_error(project: Project) -> None:
    def gone(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        raise EngineError("the engine went away")

    project.engine.behave = gone
    assert project.run() == 3
    assert set(project.verdicts) == {"engine-error"}
    assert project.cells[0].reason == "the engine went away"


def test_a_defect_of_ours_in_one_cell_does_not_take_the_others_down(project: Project) -> None:
    def defect(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if trial.env["B"] == "x":
            raise ZeroDivisionError("ours")
        return toy(trial, sink)

    project.engine.behave = defect
    assert project.run() == 3
    assert project.verdicts == ["engine-error", "not-reproduced", "engine-error", "reproduced"]


def test_without_a_gpu_a_cell_is_unsupported_and_no_engine_is_asked(project: Project) -> None:
    project.case.write_text(CASE + "resources: {gpus: 1}\n")

    def no_engine() -> FakeEngine:
        raise AssertionError("the engine must not be asked")

    session = Session(project.folder / "store", display=Screen(project.output), engine=no_engine)
    assert session.start(Request(cases=(str(project.case),))) == 3
    assert {str(cell.verdict) for cell in session.record.cells} == {"unsupported"}
    assert "GPU" in session.record.cells[0].reason


def test_an_image_that_measures_otherwise_than_asked_is_a_mismatch(project: Project) -> None:
    # The fake's image has Python 3.11 and gcc 12, whatever is asked for.
    project.case.write_text(CASE.replace("matrix: {", 'matrix: {os: [debian-11], python: ["3.9"], '))
    assert project.run() == 3
    assert set(project.verdicts) == {"environment-mismatch"}
    assert "3.9" in project.cells[0].reason


def test_a_conflict_that_the_case_wants_is_tolerated_and_recorded(project: Project) -> None:
    text = CASE.replace("matrix: {", 'matrix: {os: [debian-12], cuda: ["11.8"], gcc: ["12"], ')
    project.case.write_text(text.replace("command:", "environment: {apt: [nvidia-cuda-toolkit]}\ncommand:"))
    project.run()
    by_verdict = {str(cell.verdict): cell for cell in project.cells}
    assert "gcc 12 is not supported by nvcc 11.8: at most GCC 11" in by_verdict["unsupported"].reason
    # Where the case expects its failure the image is made. The fake's has no CUDA, which then decides the cell.
    [note] = by_verdict["environment-mismatch"].details.notes
    assert note.startswith("conflict tolerated, the case expects its failure here: gcc 12 is not supported by nvcc")


def test_an_image_whose_tag_is_gone_is_made_of_wheels_instead(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the record has what was made: its provider, what it starts from, and why."""
    held, asked = project.engine.image, []

    def image(tag: str) -> ImageInfo | None:
        asked.append(tag)
        return None if tag.startswith("nvidia/cuda") else held(tag)

    monkeypatch.setattr(project.engine, "image", image)
    monkeypatch.setattr(project.engine, "pull", lambda reference, trust, cancel: None)
    project.case.write_text(CASE.replace("matrix: {", 'matrix: {os: [ubuntu-22.04], cuda: ["11.8"], '))
    project.run()
    gone = "nvidia/cuda:11.8.0-devel-ubuntu22.04"
    assert gone in asked
    for cell in project.cells:
        details = cell.details
        assert cell.verdict is Verdict.ENVIRONMENT_MISMATCH  # the fake's image has no CUDA
        assert details.base is not None
        assert details.base.reference == "ubuntu:22.04"
        assert details.served_by["cuda"].startswith("wheels ")
        assert any(gone in note for note in details.notes)
        assert "FROM ubuntu:22.04" in cell.dockerfile


def test_a_tag_that_is_gone_decides_a_cell_that_nothing_else_serves(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = project.engine.image
    monkeypatch.setattr(project.engine, "image", lambda tag: None if tag.startswith("nvidia/cuda") else held(tag))
    monkeypatch.setattr(project.engine, "pull", lambda reference, trust, cancel: None)
    text = CASE.replace("matrix: {", 'matrix: {os: [ubuntu-22.04], cuda: ["11.8"], ')
    project.case.write_text(re.sub("command: .*", "command: nvcc a.cu", text, count=1))
    project.run()
    assert set(project.verdicts) == {"unsupported"}
    assert "the registry has no image nvidia/cuda:11.8.0-devel-ubuntu22.04" in project.cells[0].reason


def test_ctrl_c_keeps_what_is_decided_and_resume_goes_on(project: Project) -> None:
    def interrupt(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if len(project.engine.trials) <= 2:  # two containers are made, the first to get its turn is here
            os.kill(os.getpid(), signal.SIGINT)
            assert project.engine.cancel.wait(60)
        return toy(trial, sink)

    project.engine.behave = interrupt
    assert project.run(jobs=1) == 130
    before = {cell.number: cell.verdict for cell in project.cells}
    assert list(before.values()).count(Verdict.CANCELLED) == 3
    assert "reprokit run --resume" in project.output.getvalue()

    project.engine.behave = toy
    project.engine.trials.clear()
    project.session = project.new_session()
    assert project.session.resume(None) == 0
    assert project.verdicts == ["not-reproduced", "not-reproduced", "reproduced", "reproduced"]
    assert len(project.engine.trials) == 3
    stored = Store(project.folder / "store").run("last")
    assert (stored.exit_status, [str(cell.verdict) for cell in stored.cells]) == (0, project.verdicts)


def test_nothing_to_resume_and_a_case_that_changed_are_said(project: Project) -> None:
    with pytest.raises(UsageError, match="nothing to resume"):
        project.session.resume(None)

    project.run()
    store = Store(project.folder / "store")
    run = store.run("last")
    finish(store, run.id, finished_at=run.started_at, exit_status=130, host=HostRecord())
    project.case.write_text(CASE.replace("boom", "bang"))
    with pytest.raises(UsageError, match="changed since"):
        project.new_session().resume(None)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"datasets": {"x": Path()}, "named": ("--dataset x",)}, "--dataset x"),
        ({"sources": {"x": Path()}, "named": ("--source x",)}, "--source x"),
        ({"filter": Filter(tags=("slow",))}, "no case has the tag 'slow'"),
    ],
)
def test_wrong_names_are_refused_before_anything_runs(project: Project, values: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        project.run(**values)
    assert not project.engine.built


def test_the_result_file_is_what_the_contract_describes(project: Project) -> None:
    project.run()
    data = result(project.session.record, project.folder / "store").to_json()
    assert data["format"] == "reprokit-result/v1"
    assert data["exit_status"] == 0
    assert set(data["host"]) == {"engine", "engine_kind", "kernel", "driver", "gpus"}
    cell = data["cases"][0]["cells"][2]
    assert cell["cell"] == {"a": "2", "b": "x"}
    assert (cell["variant"], cell["verdict"], cell["expected"], cell["as_expected"]) == (
        "case",
        "reproduced",
        "reproduced",
        True,
    )
    assert set(cell["image"]) >= {"tag", "id", "built", "seconds"}
    assert set(cell["environment"]) >= {"python", "gcc", "cuda", "glibc", "packages"}
    trial = cell["trials"][0]
    assert set(trial) >= {"outcome", "exit_code", "seconds", "oom", "timed_out", "exception", "log"}
    assert (project.folder / "store" / trial["log"]).read_text() == "boom\n"


def test_junit_shows_departures_as_failures(project: Project) -> None:
    project.case.write_text(CASE.replace('reproduces: [{a: "2"}]', "reproduces: none"))
    assert project.run() == 1
    suite = ET.fromstring(junit.junit(project.session.record)).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("4", "2", "0")


def interrupted(project: Project) -> str:
    """Make the last run look interrupted; its id."""
    store = Store(project.folder / "store")
    run = store.run("last")
    finish(store, run.id, finished_at=run.started_at, exit_status=130, host=HostRecord())
    return run.id


@pytest.mark.parametrize("named", ["https://bugs.example/7.md", "-"])
def test_what_was_read_once_is_resumed_as_it_was_read(
    named: str, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address may say something else by now, or be gone; what was said of the text is that this one may run."""
    other = CASE.replace("id: toy", "id: other")
    project.case.write_text(other)
    path = "<stdin>" if named == "-" else f"{named}#note-1"
    read = Text(path=path, text=f"```yaml\n{CASE}```\n", markdown=True)
    monkeypatch.setattr(loading, "fetch", lambda url: read)
    monkeypatch.setattr(read_module, "_stdin", lambda stdin: read)
    request = Request(cases=(named, str(project.case)), base_images="registry", yes=True)
    assert project.session.start(request) == 0
    before = [(cell.case_id, cell.case_path) for cell in project.cells]
    interrupted(project)
    monkeypatch.setattr(loading, "fetch", None)
    monkeypatch.delattr(read_module, "_stdin")
    project.session = project.new_session()
    assert project.session.resume(None) == 0
    assert [(cell.case_id, cell.case_path) for cell in project.cells] == before
    assert {path for _, path in before} == {path, str(project.case)}


def test_resume_holds_to_what_was_asked(project: Project) -> None:
    project.run()
    interrupted(project)
    other = Request(cases=(str(project.case),), base_images="registry", trials=5)
    with pytest.raises(UsageError, match="asked for something else"):
        project.new_session().resume(other)
    same = Request(cases=(str(project.case),), base_images="registry", jobs=7)
    assert project.new_session().resume(same) == 0


class Gone(io.StringIO):
    """A reader that leaves after some lines."""

    def __init__(self, lines: int) -> None:
        super().__init__()
        self.left = lines

    def write(self, text: str) -> int:
        self.left -= text.count("\n")
        if self.left < 0:
            raise BrokenPipeError
        return super().write(text)


@pytest.mark.parametrize("lines", [0, 1, 4, 8])
def test_a_reader_that_leaves_changes_no_verdict(project: Project, lines: int) -> None:
    project.output = Gone(lines)
    project.session = project.new_session()
    assert project.run(jobs=1) == 0
    assert project.verdicts == ["not-reproduced", "not-reproduced", "reproduced", "reproduced"]


def test_trials_before_the_engine_failed_are_kept(project: Project) -> None:
    def third_fails(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if len(project.engine.trials) == 3:
            raise EngineError("gone")
        return toy(trial, sink)

    project.engine.behave = third_fails
    assert project.run(trials=5, selection=only(a="2", b="x")) == 3
    assert project.verdicts == ["engine-error"]
    assert [str(trial.outcome) for trial in project.cells[0].trials] == ["reproduced", "reproduced"]
    assert project.cells[0].repeat.startswith("docker run")


def test_two_runs_that_meet_in_a_new_store_both_record(project: Project) -> None:
    sessions = [project.new_session() for _ in range(4)]
    request = Request(cases=(str(project.case),), base_images="registry")
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda session: session.start(request), sessions)) == [0] * 4
    assert len(Store(project.folder / "store").runs()) == 4


def test_the_record_is_written_by_our_libraries_not_by_files_of_the_folder(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "sqlalchemy.py").write_text("raise SystemExit('imported from the folder')")
    monkeypatch.chdir(project.folder)
    assert project.run() == 0
    assert Store(project.folder / "store").run("last").exit_status == 0


def test_a_program_is_unbuffered_unless_its_case_says_otherwise(project: Project) -> None:
    project.run()
    assert "--env=PYTHONUNBUFFERED=1 " in project.cells[0].repeat
    project.case.write_text(CASE.replace("env: {A", 'env: {PYTHONUNBUFFERED: "", A'))
    project.session = project.new_session()
    project.run()
    assert {trial.env["PYTHONUNBUFFERED"] for trial in project.engine.trials} == {"1", ""}
    assert len(set(project.engine.built)) == 1


def test_a_run_whose_verdicts_cannot_be_written_any_more_stops_and_says_so_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, began = os.write, []

    def full(file: int, data: bytes) -> int:
        if b'"kind":"decide"' in data:
            began.append(data)
            if len(began) > 1:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    monkeypatch.setattr(journal, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(journal.os, "write", full)
    with pytest.raises(RecordError, match="No space left on device; make room"):
        project.run(jobs=1)
    said = project.output.getvalue()
    assert "internal error" not in said
    assert len([cell for cell in project.cells if cell.verdict is not None]) == 1
    monkeypatch.undo()
    stored = Store(project.folder / "store").run("last")
    assert [cell.verdict for cell in stored.cells if cell.verdict] == [project.cells[0].verdict]
    assert stored.exit_status is None
    assert len(project.engine.trials) < 4


def test_a_run_whose_end_cannot_be_written_is_not_called_as_expected(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, data: bytes, write: Callable[[int, bytes], int] = os.write) -> int:
        if b'"kind":"finish"' in data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    monkeypatch.setattr(journal, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(journal.os, "write", full)
    with pytest.raises(RecordError, match="No space left on device; make room"):
        project.run()
    said = project.output.getvalue()
    assert "2 not-reproduced, 2 reproduced; not all of this is recorded\n" in said
    assert "as expected\n" not in said
    assert project.session.record.exit_status == 3


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "full"), "the store cannot be written: [Errno 28] full"),
        (OSError(errno.ENOLCK, "no locks", "/cache/x.lock"), "/cache/x.lock: no locks"),
    ],
)
def test_a_file_that_cannot_be_written_is_named_without_a_traceback(
    error: OSError, reason: str, project: Project
) -> None:
    (project.folder / "store" / "runs").mkdir(parents=True)
    project.engine.behave = lambda trial, sink: (_ for _ in ()).throw(error)
    assert project.run() == 3
    assert project.verdicts == ["engine-error"] * 4
    assert "internal error" not in project.output.getvalue()
    assert project.cells[0].reason == reason


@pytest.mark.parametrize(("has_base", "answers"), [(False, False), (False, True), (True, False)])
def test_downloads_that_do_not_answer_are_said_before_a_base_is_made(
    project: Project, monkeypatch: pytest.MonkeyPatch, has_base: bool, answers: bool
) -> None:
    made = ["before"] if has_base else []

    class Bare(FakeEngine):
        def info(self) -> EngineInfo:
            return replace(super().info(), storage=project.folder)

        def image(self, tag: str) -> ImageInfo | None:
            return super().image(tag) if made or not tag.startswith("reprokit/base") else None

    def make(engine: FakeEngine, base: Base, cancel: threading.Event, *_: object) -> ImageInfo | None:
        made.extend([] if made else [base.reference])
        return engine.pull(base.reference, Trust.OWN, cancel)

    project.engine = Bare(toy)
    monkeypatch.setattr(building.providers, "silent", lambda name, settings: "" if answers else f"no {name}")
    monkeypatch.setattr(bases, "bootstrapped", make)
    project.case.write_text(CASE.replace("matrix: {", 'matrix: {python: ["3.12"], '))
    project.run(base_images="bootstrap")
    refused = not has_base and not answers
    assert made == ([] if refused else ["before"] if has_base else ["reprokit/base:debian-12"])
    assert len(project.engine.built) == (not refused)
    # The image of this engine measures another Python.
    assert set(project.verdicts) == {"unsupported" if refused else "environment-mismatch"}
    if refused:
        assert "uv would serve 3.12" in project.cells[0].reason
        assert "no uv" in project.cells[0].reason


ROOT = Path(__file__).parents[3]
STEP = re.compile(r"^\d+\. `reprokit/([\w/]+)\.py`: `(\w+)`", re.M)
THREADS = re.compile(r"\bthreading\.Thread\(|\bThreadPoolExecutor\b|\bconcurrent\.futures\.\w*Executor\b")


def listed() -> list[tuple[str, str]]:
    """Module and function of each step that the page lists, in its order."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## The way of one cell")[2]
    return [(f"reprokit.{name.replace('/', '.')}", function) for name, function in STEP.findall(text.split("\n## ")[0])]


def test_a_cell_passes_the_modules_that_the_page_lists_in_their_order(project: Project) -> None:
    steps = listed()
    assert 8 <= len(steps) <= 15
    assert len({module for module, _ in steps}) == len(steps)
    met: list[tuple[str, str]] = []

    def see(frame: FrameType, event: str, _: object) -> None:
        step = str(frame.f_globals.get("__name__")), frame.f_code.co_name
        if event == "call" and step in steps and step not in met:
            met.append(step)

    threading.setprofile(see)
    sys.setprofile(see)
    try:
        assert project.run(selection=Selection(only=({"a": ("2",), "b": ("x",)},)), jobs=1) == 0
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    assert met == steps


def test_one_module_of_the_room_starts_threads_and_it_knows_nothing_of_cells() -> None:
    room = ROOT / "reprokit" / "run"
    assert [path.name for path in room.glob("*.py") if THREADS.search(path.read_text())] == ["threads.py"]
    imports = re.findall(r"^from (reprokit\S+)", (room / "threads.py").read_text(), re.M)
    assert all(name.startswith("reprokit.core") for name in imports)

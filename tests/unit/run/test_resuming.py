"""What ``--resume`` goes on with: after a kill, a restart, engine errors; which cells run again, and what is said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.core import ownership
from reprokit.core.errors import EngineError, UsageError
from reprokit.core.ownership import ownership as labels_of_this_process
from reprokit.engine.protocol import Build
from reprokit.evidence.model import RULES_VERSION, Ending, Verdict
from reprokit.evidence.origin import HostRecord, OwnerRecord
from reprokit.evidence.records import CellRecord, RequestRecord, RunRecord
from reprokit.run import resuming
from reprokit.run.request import Request
from reprokit.store.database import Store
from tests.stored import finish
from tests.unit.nights import Nights
from tests.unit.run.test_runner import CASE, Project, toy

THERE = "elsewhere/0000-boot/pid:[1]"


def resumed(project: Project) -> int:
    project.engine.trials.clear()
    project.session = project.new_session()
    return project.session.resume(None)


def fail_once(project: Project, error: Exception) -> None:
    """Let the first trial fail so, in an engine of one trial at a time."""

    def behave(trial: object, sink: object) -> Ending:
        project.engine.behave = toy
        raise error

    project.engine.behave = behave


def test_engine_errors_are_offered_and_resumed(project: Project) -> None:
    fail_once(project, EngineError("the engine went away"))
    assert project.run(jobs=1) == 3
    last = project.output.getvalue().splitlines()[-1]
    assert last == "1 cell has no verdict on the bug; try again with: reprokit run --resume"
    assert resumed(project) == 0
    assert len(project.engine.trials) == 1
    assert "--resume" not in project.output.getvalue().splitlines()[-1]
    with pytest.raises(UsageError, match="no run was stopped or has inconclusive cells"):
        resumed(project)


def test_every_inconclusive_cell_runs_again_where_nothing_was_stopped(project: Project) -> None:
    project.engine.behave = lambda trial, sink: Ending(exit_code=143, timed_out=trial.env["A"] == "1", seconds=1.0)
    project.run()
    assert project.verdicts.count("timed-out") == 2
    assert "--resume" not in project.output.getvalue()  # it would time out again, as far as we know
    project.engine.behave = toy
    resumed(project)
    assert project.verdicts == ["not-reproduced", "not-reproduced", "different-failure", "different-failure"]
    assert len(project.engine.trials) == 2


def test_a_cell_that_the_engine_cannot_serve_does_not_stop_the_others(project: Project) -> None:
    project.engine.unenforced = frozenset({"memory"})
    other = project.folder / "other.yaml"
    other.write_text(f"{CASE.replace('id: toy', 'id: other')}resources: {{memory: 1g}}\n")
    project.run(cases=(str(project.case), str(other)))
    assert {one.case_id: one.verdict for one in project.cells}["other"] is Verdict.UNSUPPORTED
    record = project.session.record
    assert record is not None
    store = Store(project.folder / "store")
    store.decide(record.id, replace(project.cells[0], verdict=Verdict.CANCELLED))
    finish(store, record.id, finished_at="2026-01-01T00:00:00Z", exit_status=130, host=HostRecord())
    resumed(project)
    assert len(project.engine.trials) == 1
    assert Verdict.CANCELLED not in {one.verdict for one in project.cells}


def test_a_failed_build_is_built_again(project: Project) -> None:
    def fail(build: Build) -> None:
        raise EngineError("no space left on device")

    project.engine.make = fail
    assert project.run() == 3
    project.engine.make = lambda build: None
    assert resumed(project) == 0


def cell(number: int, verdict: Verdict | None) -> CellRecord:
    bare = CellRecord(number=number, case_id="a", case_path="", case_digest="", cell={}, rules=RULES_VERSION)
    return replace(bare, verdict=verdict)


def test_what_was_stopped_runs_again_before_what_is_inconclusive() -> None:
    cells = [cell(1, Verdict.TIMED_OUT), cell(2, None), cell(3, Verdict.ENGINE_ERROR), cell(4, Verdict.REPRODUCED)]
    assert [one.number for one in resuming.cells_to_repeat(cells)] == [2, 3]
    assert [one.number for one in resuming.cells_to_repeat([cells[0], cells[3]])] == [1]
    assert resuming.cells_to_repeat([cells[3]]) == []


def killed(project: Project, change: Mapping[str, str]) -> str:
    """Make the last run look as a kill leaves it, by a process with these labels; its id."""
    store = Store(project.folder / "store")
    run = store.run("last")
    owner = OwnerRecord(labels={**labels_of_this_process(), **change})
    cells = (replace(run.cells[0], verdict=None, trials=()), *run.cells[1:])
    store.put(replace(run, owner=owner, finished_at=None, exit_status=None, cells=cells), {})
    store.close()
    return run.id


@pytest.mark.parametrize(
    ("change", "goes_on"),
    [
        ({ownership.PID: "4194305"}, True),
        ({ownership.HOST: THERE, ownership.LOCK: ""}, True),  # before the last restart of this machine
        ({ownership.HOST: THERE, ownership.LOCK: "1:/gone", ownership.MACHINE: "another"}, False),
        ({ownership.HOST: THERE, ownership.LOCK: "", ownership.MACHINE: ""}, False),  # of reprokit 0.1
    ],
)
def test_a_killed_run_is_resumed_after_a_restart_and_never_while_it_may_live(
    change: Mapping[str, str], goes_on: bool, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "machine", lambda: "this machine")
    project.run()
    run = killed(project, change)
    if goes_on:
        assert resumed(project) == 0
        assert f"resuming run {run}: 3 of 4 cells are decided" in project.output.getvalue()
        return
    with pytest.raises(UsageError, match=f"run {run} is not finished, and .* on the machine elsewhere"):
        resumed(project)
    same = Request(cases=(str(project.case),), base_images="registry")
    assert project.new_session().resume(same) == 0
    assert "nothing to resume for these cases: starting a new run" in project.output.getvalue()


def test_a_run_in_progress_is_not_resumed(project: Project) -> None:
    project.run()
    killed(project, {})
    with pytest.raises(UsageError, match="nothing to resume: in "):
        resumed(project)


def test_beside_a_run_in_progress_a_new_one_is_started_and_it_is_named(project: Project) -> None:
    project.run()
    run = killed(project, {})
    assert project.new_session().resume(Request(cases=(str(project.case),), base_images="registry")) == 0
    said = project.output.getvalue()
    assert f"nothing to resume for these cases: starting a new run; run {run} is still in progress, in " in said


def test_the_owner_of_a_run_holds_a_lock_in_its_folder(project: Project) -> None:
    project.run()
    record = Store(project.folder / "store").run("last")
    lock = Path(record.owner.labels[ownership.LOCK].partition(":")[2])
    assert lock.parent == (project.folder / "store/runs" / record.id).resolve()
    assert lock.exists()


def test_a_changed_case_is_named(project: Project) -> None:
    fail_once(project, EngineError("gone"))
    project.run(jobs=1)
    project.case.write_text(CASE.replace("boom", "bang"))
    with pytest.raises(UsageError, match=r"cannot be resumed: toy changed since; run again, without --resume"):
        resumed(project)


def test_another_kernel_than_at_the_start_is_said(project: Project) -> None:
    fail_once(project, EngineError("gone"))
    project.run(jobs=1)
    store = Store(project.folder / "store")
    run = store.run("last")
    finish(store, run.id, finished_at="x", exit_status=3, host=replace(run.host, kernel="1.0", gpus=("old",)))
    assert resumed(project) == 0
    said = project.output.getvalue()
    assert "this host has changed since the run began (kernel 1.0 then, " in said
    assert "GPUs old then, none now" in said
    assert resuming.changes_of_host(HostRecord(kernel="6.1"), HostRecord(kernel="6.1")) == ""


def test_a_run_of_another_store_is_never_resumed(tmp_path: Path) -> None:
    labels = {ownership.PID: "1", ownership.HOST: "elsewhere"}
    stopped = RunRecord(
        id="stopped", started_at="2026-01-01T00:00:00Z", version="0", finished_at="2026-01-01T00:00:01Z",
        exit_status=130, owner=OwnerRecord(labels=labels),
    )  # fmt: skip
    store = Store(tmp_path / "store")
    store.put(stopped, {})
    assert resuming.find_resumable(store, None) is not None
    store.put(replace(stopped, owner=stopped.owner.as_imported()), {})
    assert resuming.find_resumable(store, None) is None
    assert stopped.owner.same_as(stopped.owner.as_imported())
    assert not stopped.owner.is_here


@pytest.mark.parametrize("path", ["https://evil.example/x.yaml", "<stdin>"])
def test_a_text_that_was_read_on_another_machine_is_asked_about_again(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = Request(cases=("-" if path == "<stdin>" else path,)).to_json()
    labels = {ownership.PID: "1", ownership.HOST: "elsewhere"}
    nights = Nights(tmp_path / "store")
    nights.run({"1": "E"}, case_path=path, request=RequestRecord(asked=asked), owner=OwnerRecord(labels=labels))
    nights.store.close()
    assert invoke(["run", "--resume", "--store", str(tmp_path / "store")]) == 2
    assert "there is no terminal to ask at" in capsys.readouterr().err

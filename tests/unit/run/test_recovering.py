"""What an engine loses is done again once it answers, and it is waited for once, and not for ever."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import pytest

from reprokit.core.errors import BuildFailed, Cancelled, EngineError, EngineLost
from reprokit.engine.protocol import Build, Trial
from reprokit.evidence.model import Ending
from reprokit.run import recovering
from reprokit.run.recovering import PAUSES, EngineRecovery
from tests.unit.fakes import FakeEngine
from tests.unit.run.test_runner import Project, toy


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovering, "POLL", 0.01)
    monkeypatch.setattr(recovering, "PAUSES", (0.01,) * len(PAUSES))


def losing(times: int) -> Callable[[Trial, Callable[[bytes], None]], Ending]:
    """The toy, whose first ``times`` trials are lost after some output."""
    count = itertools.count()

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if next(count) < times:
            sink(b"half of it\n")
            raise EngineLost("the engine stopped")
        return toy(trial, sink)

    return behave


def test_a_lost_trial_is_done_again(project: Project) -> None:
    project.engine.behave = losing(1)
    assert project.run(jobs=1) == 0
    assert project.verdicts == ["not-reproduced", "not-reproduced", "reproduced", "reproduced"]
    (lost,) = (project.folder / "store").rglob("*.lost.log")
    assert lost.read_bytes() == b"half of it\n"
    assert (lost.parent / "trial-1.log").read_bytes() == b""


def test_a_trial_that_is_lost_again_and_again_is_an_engine_error(project: Project) -> None:
    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        return losing(1)(trial, sink) if (trial.env["A"], trial.env["B"]) == ("1", "x") else toy(trial, sink)

    project.engine.behave = behave
    assert project.run(jobs=1) == 3
    assert len(project.engine.trials) == len(PAUSES) + 4
    assert project.verdicts == ["engine-error", "not-reproduced", "reproduced", "reproduced"]
    assert project.cells[0].reason == "the engine stopped; so it went 5 times in a row"


def test_an_engine_that_is_away_for_a_while_is_waited_for(project: Project) -> None:
    project.engine.behave = losing(1)
    project.engine.down = lambda: project.engine.pings < 4
    assert project.run(jobs=1) == 0
    said = project.output.getvalue()
    assert said.count("the engine does not answer; it is waited for up to 60 s") == 1
    assert said.count("the engine answers again") == 1


def test_an_engine_that_stays_away_fails_the_queued_cells_at_once(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPROKIT_ENGINE_WAIT", "0.05")
    project.engine.behave = losing(100)
    project.engine.down = lambda: True
    assert project.run(jobs=1) == 3
    assert project.verdicts == ["engine-error"] * 4
    reason = str(project.cells[0].reason)
    assert reason.startswith("the engine stopped; the engine did not answer again within 0.05 s")
    assert project.engine.pings < 50


def test_a_build_that_a_restart_cut_is_done_again(project: Project) -> None:
    builds: list[str] = []

    def make(build: Build) -> None:
        builds.append(build.tag)
        if len(builds) == 1:
            raise EngineLost("the conversation broke off")

    project.engine.make = make
    assert project.run() == 0
    assert len(builds) == 2


def test_what_ran_while_the_host_slept_is_done_again(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    slept = itertools.chain([3600.0], itertools.repeat(0.0))
    monkeypatch.setattr(recovering, "seconds_slept", lambda: next(slept))
    assert project.run(jobs=1) == 0
    assert len(project.engine.trials) == 5


def test_a_build_that_failed_while_the_host_slept_is_done_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    builds: list[str] = []

    def make(build: Build) -> None:
        builds.append(build.tag)
        if len(builds) == 1:
            raise BuildFailed("exit code: 1", step="RUN pip install x", tail=("timed out",))

    slept = itertools.chain([3600.0], itertools.repeat(0.0))
    monkeypatch.setattr(recovering, "seconds_slept", lambda: next(slept))
    project.engine.make = make
    assert project.run() == 0
    assert len(builds) == 2


def recovery(engine: FakeEngine, cancel: threading.Event, patience: float = 60.0) -> EngineRecovery:
    return EngineRecovery(engine=engine, cancel=cancel, note=lambda text: None, patience=patience)


def lose() -> None:
    raise EngineLost("the engine stopped")


def test_waiting_ends_with_the_run() -> None:
    engine, cancel = FakeEngine(), threading.Event()
    engine.down = lambda: cancel.set() or True  # type: ignore[func-returns-value]
    with pytest.raises(Cancelled):
        recovery(engine, cancel).repeated(lose)


def test_an_engine_that_was_given_up_and_came_back_serves_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovering, "_ASKED_LATELY", 0.0)
    engine = FakeEngine()
    engine.down = lambda: True
    one = recovery(engine, threading.Event(), patience=0.02)
    with pytest.raises(EngineError, match="did not answer again"):
        one.repeated(lose)
    with pytest.raises(EngineError, match="did not answer again"):
        one.repeated(lambda: pytest.fail("it is not asked for anything"))
    engine.down = lambda: False
    assert one.repeated(lambda: "served") == "served"


def test_many_that_wait_ask_as_one() -> None:
    engine = FakeEngine()
    engine.down = lambda: engine.pings < 10
    one = recovery(engine, threading.Event())
    lost = threading.Barrier(8)

    def work() -> str:
        if not threading.current_thread().__dict__.setdefault("was_lost", []):
            threading.current_thread().__dict__["was_lost"].append(True)
            lost.wait(10)
            lose()
        return "done"

    threads = [threading.Thread(target=one.repeated, args=(work,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert not any(thread.is_alive() for thread in threads)
    assert engine.pings < 10 + 8

"""Thousands of schedules of faults: at any call of the engine it may refuse, hang, be cut off, restart, be slow or have
no space, and we may be interrupted or killed. Whatever happens: a finding has a witnessed end, what was shown is on
disk, what was decided is not run again, and Ctrl-C ends.

Each schedule runs in a process of its own, on a fake engine; the real ones are in tests/integration.
"""

from __future__ import annotations

import enum
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from reprokit.case.trust import Trust
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import Cancelled, EngineError, EngineLost, ReprokitError
from reprokit.engine.protocol import Build, EngineInfo, ImageInfo, Progress, Slot, Trial
from reprokit.evidence.model import Ending, Verdict
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.store.database import Store
from tests.unit.fakes import FakeEngine

CASE = """\
schema: reprokit/v1
id: toy
title: A toy
matrix: {a: ["1", "2"], b: [x, y]}
environment: {pip: ["toy=={{ b }}"]}
env: {A: "{{ a }}"}
command: toy
expect: {failure: {exit_code: nonzero}, reproduces: [{a: "2"}]}
"""
TRUTH = {"1": Verdict.NOT_REPRODUCED, "2": Verdict.REPRODUCED}
CONCLUSIVE = {"reproduced", "flaky", "not-reproduced", "different-failure"}
SHOWN = re.compile(r"^\[\d+/\d+\] #\d+ a=(.) b=(.): ([a-z-]+)", re.M)
LONGEST = 60.0
"""Seconds that a schedule may take: it is over in less than one, and hangs for ever where something is wrong."""


class Fault(str, enum.Enum):
    """What goes wrong at a call."""

    REFUSED = "refused"
    FULL = "no space"
    HUNG = "hung"
    SLOW = "slow"
    LOST = "lost"
    DEFECT = "defect"
    INTERRUPT = "Ctrl-C"
    KILLED = "killed"


RARER = (Fault.INTERRUPT, Fault.LOST, Fault.REFUSED)
Schedule = dict[int, Fault]
"""The place of a call in the order in which calls are made, beginning with 0 -> what goes wrong there."""


class FaultyEngine(FakeEngine):
    """Meets the faults of a schedule: each call counts when it is made and, of those that take time, in the middle."""

    def __init__(self, schedule: Schedule, ran: Path) -> None:
        super().__init__(self._program)
        self.schedule = schedule
        self.ran = ran
        self.calls = 0

    def meet(self, call: str, cancel: threading.Event | None = None) -> None:
        """The fault that is due."""
        with self.lock:
            fault = self.schedule.get(self.calls)
            self.calls += 1
        if fault is Fault.REFUSED:
            raise EngineError(f"the container engine refused: {call}")
        if fault is Fault.FULL:
            raise EngineError("the engine's disk is full")
        if fault is Fault.LOST:
            raise EngineLost(f"the container engine went away: {call}")
        if fault is Fault.DEFECT:
            raise RuntimeError(f"a defect at {call}")
        if fault is Fault.HUNG:
            # As the docker SDK: cut off by its own time limit, or by ours once the run is cancelled.
            (cancel or threading.Event()).wait(0.2)
            raise EngineError("the container engine did not answer in time")
        if fault is Fault.SLOW:
            time.sleep(0.01)
        if fault is Fault.INTERRUPT:
            os.kill(os.getpid(), signal.SIGINT)
        if fault is Fault.KILLED:
            os._exit(137)

    def _program(self, trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        fails = trial.env["A"] == "2"
        sink(b"boom\n" if fails else b"fine\n")
        self.meet("trial")
        with self.ran.open("a") as file:
            file.write(trial.env["A"] + trial.labels["org.reprokit.cell"] + "\n")
        return Ending(exit_code=1 if fails else 0, seconds=0.1)

    def info(self) -> EngineInfo:
        self.meet("info")
        return super().info()

    def image(self, tag: str) -> ImageInfo | None:
        self.meet("image")
        return super().image(tag)

    def build(
        self, build: Build, site: object, on_progress: Callable[[Progress], None], cancel: threading.Event
    ) -> ImageInfo:
        self.meet("build", cancel)
        found = super().build(build, site, on_progress, cancel)
        self.meet("build", cancel)
        return found

    def pull(self, reference: str, trust: Trust, cancel: threading.Event) -> ImageInfo | None:
        self.meet("pull", cancel)
        return super().pull(reference, trust, cancel)

    def run(
        self, trial: Trial, sink: Callable[[bytes], None], cancel: threading.Event, slot: Slot | None = None
    ) -> Ending:
        self.meet("create", cancel)
        ending = super().run(trial, sink, cancel, slot)
        self.meet("remove")
        if cancel.is_set():
            raise Cancelled("cancelled during the trial")
        return ending

    def sweep(self) -> list[str]:
        self.meet("sweep")
        return super().sweep()


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a process ended, and what it had shown until then: cell -> verdict."""

    status: int
    shown: dict[tuple[str, str], str]
    text: str


def in_a_process(folder: Path, schedule: Schedule, jobs: int, *, resume: bool) -> Ended:
    """Run the case, or go on with it, and wait for the end."""
    shown = folder / "shown"
    shown.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        _child(folder, schedule, jobs, resume=resume)
    give_up = time.monotonic() + LONGEST
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > give_up:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise AssertionError(f"still running after {LONGEST:g} s\n{shown.read_text()}")
        time.sleep(0.002)
    text = shown.read_text() if shown.exists() else ""
    verdicts = {(a, b): verdict for a, b, verdict in SHOWN.findall(text)}
    return Ended(status=os.waitstatus_to_exitcode(status), shown=verdicts, text=text)


def _child(folder: Path, schedule: Schedule, jobs: int, *, resume: bool) -> None:
    status = 99
    os.environ["REPROKIT_ENGINE_WAIT"] = "1s"
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with (folder / "shown").open("a", buffering=1) as output:
            engine = FaultyEngine(schedule, folder / "ran")
            session = Session(folder / "store", display=Screen(output), engine=lambda: engine)
            if resume:
                status = session.resume(None)
            else:
                asked = Request(cases=(str(folder / "toy.yaml"),), base_images="registry", jobs=jobs)
                status = session.start(asked)
    except KeyboardInterrupt:
        status = 130
    except ReprokitError as error:  # before anything ran, as the command line shows it
        status = error.exit_status
        (folder / "shown").open("a").write(str(error))
    except BaseException as error:
        defect = isinstance(error, RuntimeError) and Fault.DEFECT in schedule.values()
        status = 3 if defect else 99
        (folder / "shown").open("a").write(traceback.format_exc())
    finally:
        sys.stderr.flush()
        os._exit(status)


def check(schedule: Schedule, jobs: int) -> Counter[str]:
    """Run a schedule, go on with a healthy engine until all is decided, and hold what is promised."""
    folder = Path(tempfile.mkdtemp(prefix="schedule-"))
    try:
        (folder / "toy.yaml").write_text(CASE)
        first = in_a_process(folder, schedule, jobs, resume=False)
        assert first.status in {0, 3, 130, 137}, first.text
        assert "Traceback" not in first.text or Fault.DEFECT in schedule.values(), first.text
        decided = {cell: verdict for cell, verdict in first.shown.items() if verdict in CONCLUSIVE}
        for (a, _), verdict in decided.items():
            assert verdict == TRUTH[a], f"a false finding\n{first.text}"
        if not (folder / "store").exists():
            return Counter([str(first.status)])
        store = Store(folder / "store")
        runs = store.runs()
        kept = store.run(runs[0].id) if runs else None
        store.close()
        assert kept is not None or not decided, first.text
        for (a, b), verdict in decided.items():
            [cell] = [cell for cell in kept.cells if cell.cell == {"a": a, "b": b}] if kept else []
            assert cell.verdict == verdict, f"shown and lost: a={a} b={b}\n{first.text}"
        if first.status == 0 or kept is None:
            return Counter([str(first.status)])
        (folder / "ran").unlink(missing_ok=True)
        second = in_a_process(folder, {}, jobs, resume=True)
        assert second.status == 0, f"{first.text}\n--- resumed:\n{second.text}"
        assert {**decided, **second.shown} == {(a, b): TRUTH[a].value for a in "12" for b in "xy"}, second.text
        again = (folder / "ran").read_text() if (folder / "ran").exists() else ""
        for a, b in decided:
            assert f'"a": "{a}", "b": "{b}"' not in again, f"decided, and run again\n{first.text}"
        return Counter([str(first.status)])
    finally:
        shutil.rmtree(folder)


schedules = st.dictionaries(st.integers(0, 40), st.sampled_from(Fault), max_size=4)


@pytest.mark.system
@given(schedule=schedules, jobs=st.integers(1, 3))
@example(schedule={12: Fault.LOST, 13: Fault.LOST, 14: Fault.LOST}, jobs=1)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_whatever_goes_wrong_nothing_is_false_lost_or_repeated(schedule: Schedule, jobs: int) -> None:
    check(schedule, jobs)


@pytest.mark.system
@pytest.mark.parametrize("fault", [Fault.KILLED, *(pytest.param(one, marks=pytest.mark.nightly) for one in RARER)])
def test_at_every_call(fault: Fault) -> None:
    for place in range(30):
        check({place: fault}, 2)

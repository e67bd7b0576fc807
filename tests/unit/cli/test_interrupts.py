"""Ctrl-C and signals at any moment: the process ends, says what is left, and prints no traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from reprokit.core import interrupts
from reprokit.core.errors import Cancelled
from reprokit.core.interrupts import GaveUp
from reprokit.engine.containers import shielded
from reprokit.evidence.model import Ending
from reprokit.run.threads import stop
from reprokit.store.database import Store
from tests.unit.run.test_runner import CASE, Project, toy


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "WAIT_FOR", 0.2)
    monkeypatch.setattr(interrupts, "CALL_WITHIN", 0.2)


@pytest.mark.usefixtures("impatient")
def test_a_run_whose_engine_hangs_ends_after_one_interrupt_and_names_what_is_left(tmp_path: Path) -> None:
    project = Project(tmp_path)
    answers = threading.Event()

    def hang(trial: object, sink: object) -> Ending:
        if len(project.engine.trials) > 1:
            return Ending(exit_code=0)
        interrupts.would_leave("container reprokit-1", "remove it with: docker rm -fv reprokit-1")
        os.kill(os.getpid(), signal.SIGINT)
        answers.wait(60)
        interrupts.leaves_no_more("container reprokit-1")
        raise Cancelled("stopped")

    project.engine.behave = hang
    try:
        assert project.run(jobs=1) == 130
        said = project.output.getvalue()
        assert "what runs did not stop in time: it is not waited for" in said
        assert "left behind: container reprokit-1; remove it with: docker rm -fv reprokit-1" in said
        assert set(project.verdicts) == {"cancelled"}
        assert Store(project.folder / "store").run("last").exit_status == 130
        assert interrupts.threads_are_left()
    finally:
        answers.set()
    project.engine.behave = toy
    project.session = project.new_session()
    assert project.session.resume(None) == 0


def test_what_is_stopped_is_waited_for_as_long_as_some_of_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import Future, wait

    monkeypatch.setattr(interrupts, "WAIT_FOR", 0.2)
    patience: list[float] = []
    futures: list[Future[None]] = [Future() for _ in range(4)]
    for future in futures:
        future.set_running_or_notify_cancel()

    def one_ends(pending: set[Future[None]], timeout: float, return_when: str) -> Any:
        patience.append(timeout)
        next(iter(pending)).set_result(None)
        return wait(pending, timeout, return_when)

    with monkeypatch.context() as patch:
        patch.setattr("reprokit.run.threads.wait", one_ends)
        stop(lambda: futures, lambda text: None)
    assert patience == [0.2] * 4
    never: Future[None] = Future()
    never.set_running_or_notify_cancel()
    with pytest.raises(GaveUp):
        stop(lambda: [never], lambda text: None)


@pytest.mark.usefixtures("impatient")
def test_shielded_work_that_does_not_end_is_left_after_an_interrupt() -> None:
    answers = threading.Event()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        answers.wait(60)

    with pytest.raises(KeyboardInterrupt):
        shielded(work)
    assert not answers.is_set()
    answers.set()


@pytest.mark.parametrize("ignored", [signal.SIGHUP, signal.SIGINT])
def test_a_signal_that_is_ignored_stays_ignored(ignored: signal.Signals) -> None:
    before = signal.signal(ignored, signal.SIG_IGN)
    try:
        with interrupts.signals():
            assert signal.getsignal(ignored) is signal.SIG_IGN
            assert signal.getsignal(signal.SIGQUIT) is not signal.SIG_DFL
    finally:
        signal.signal(ignored, before)


STUBBORN = """
import threading
from reprokit.core import interrupts
with interrupts.signals():
    interrupts.would_leave("container reprokit-1", "remove it with: docker rm -fv reprokit-1")
    words = "up"
    while True:
        try:
            print(words, flush=True)
            threading.Event().wait()
        except KeyboardInterrupt:
            words = "caught"
"""


@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGQUIT, 128 + signal.SIGQUIT)]
)
def test_the_third_interrupt_names_what_is_left_and_ends_at_once(sent: signal.Signals, status: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        for expected in ("up", "caught", "caught"):
            line = child.stdout.readline().strip()
            assert line == expected, f"{child.wait(30)}: {child.stderr.read()}"
            child.send_signal(sent)
        assert child.wait(30) == status
        assert child.stderr.read() == "\nleft behind: container reprokit-1; remove it with: docker rm -fv reprokit-1\n"


def test_the_third_interrupt_does_not_wait_for_a_reader() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        with contextlib.suppress(BlockingIOError), Path(f"/proc/{child.pid}/fd/2").open("wb", buffering=0) as pipe:
            os.set_blocking(pipe.fileno(), False)
            while os.write(pipe.fileno(), b"x" * 4096):
                pass
        for _ in range(3):
            child.stdout.readline()
            child.send_signal(signal.SIGINT)
        assert child.wait(30) == 130


STARTED = """
import sys
import reprokit.__main__ as program  # what Python does before, it does without us
print("up", flush=True)
program.main()
"""


@pytest.mark.system
@pytest.mark.parametrize("after", [0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0, 2.0])
def test_ctrl_c_at_any_moment_of_the_start_prints_no_traceback(after: float, tmp_path: Path) -> None:
    case = tmp_path / "toy.yaml"
    case.write_text(CASE)
    words = ["run", str(case), "--store", str(tmp_path / "store"), "--engine", "docker"]
    hung = socket.socket(socket.AF_UNIX)  # an engine that takes connections and never answers
    hung.bind(str(tmp_path / "hung.sock"))
    hung.listen(50)
    with (
        hung,
        subprocess.Popen(
            [sys.executable, "-c", STARTED, *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "DOCKER_HOST": f"unix://{hung.getsockname()}"},
        ) as child,
    ):
        assert child.stdout is not None
        assert child.stdout.readline() == "up\n"
        time.sleep(after)
        child.send_signal(signal.SIGINT)
        said = child.stdout.read()
        assert child.wait(60) == 130
    assert "Traceback" not in said


SWALLOWING = """
import signal, sys, time
from reprokit.core import interrupts

class Lock:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

class Field:
    def __set_name__(self, owner, name):
        signal.raise_signal(signal.SIGINT)

with interrupts.raised():
    try:
        Lock()  # Python ignores what __del__ raises
        time.sleep(30)
    except KeyboardInterrupt:
        print("raised again")
    try:
        class Record:
            field = Field()
    except Exception as error:
        print("is behind", interrupts.is_behind(error))
    except KeyboardInterrupt:  # Python 3.12 no longer wraps it
        print("is behind True")
"""


def test_an_interrupt_is_not_lost_where_python_or_a_library_swallows_it() -> None:
    done = subprocess.run([sys.executable, "-c", SWALLOWING], capture_output=True, text=True, timeout=25, check=True)
    assert done.stdout.splitlines() == ["raised again", "is behind True"]
    assert not done.stderr

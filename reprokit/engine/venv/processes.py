"""One program of this host: started, followed to its end, and ended with all that it started."""

from __future__ import annotations

import fcntl
import json
import math
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from reprokit.core.errors import Cancelled, EngineError
from reprokit.engine.containers import GRACE
from reprokit.engine.stream import Joined, Pace
from reprokit.engine.witness import DRAIN

WATCHER = Path(__file__).with_name("inside.py")
_TICK = 0.2  # how often a silent program's cancel event is looked at
_READ = 256 * 1024
_PIPE = 1024 * 1024  # what a program can print before it waits for us


@dataclass(frozen=True, kw_only=True)
class HostProcess:
    """What is to be run, and nothing else: no variable of ours reaches it."""

    command: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    memory: int | None = None
    """Bytes that it and all that it starts may use; None: no limit."""
    joined: bool = True
    """Whether stdout and stderr are one pipe."""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a program ended."""

    code: int
    """As a shell tells it: above 128, 128 + the signal."""
    seconds: float
    cpu_seconds: float
    """Of all its processes."""
    peak_memory: int
    """Bytes of its largest process."""
    oom: bool = False
    timed_out: bool = False


def make_private_folders(scratch: Path) -> dict[str, str]:
    """Make a program's HOME and TMPDIR below ``scratch``; the variables that lead to them."""
    for name in ("home", "tmp"):
        (scratch / name).mkdir(mode=0o700)
    return {"HOME": str(scratch / "home"), "TMPDIR": str(scratch / "tmp")}


def run(
    program: HostProcess, sink: Callable[[bytes], None], cancel: threading.Event, *, timeout: float = math.inf
) -> Ended:
    """Run to the end, the time limit or ``cancel``; nothing that was started is left when this returns.

    At its time limit (seconds) a program gets SIGTERM and, ``GRACE`` seconds later, SIGKILL. Raises Cancelled, and
    EngineError when it could not be started.
    """
    reading, writing = os.pipe()
    request = {
        "status": writing,
        "memory": program.memory,
        "folder": str(program.folder),
        "command": list(program.command),
        "environ": dict(program.environ),
    }
    text = json.dumps(request).encode()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WATCHER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if program.joined else subprocess.PIPE,
            pass_fds=(writing,),
            start_new_session=True,  # Ctrl-C is for reprokit, which then ends this
            env={},
            cwd="/",
            bufsize=0,
        )
    finally:
        os.close(writing)
    assert process.stdin is not None
    assert process.stdout is not None
    pace = Pace(timeout, time.monotonic(), sink)
    follower = _Follower(process, reading, pace, cancel)
    try:
        with suppress(BrokenPipeError):
            process.stdin.write(b"%010d" % len(text) + text)
        with suppress(OSError):  # a user may have so many pages of pipes: the usual size does, too
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE)
        signalled = follower.follow()
        process.wait()
        ended = follower.read_end()
        # Its end can be older than our signal, if we were late: what it was measured to have run decides.
        ended = replace(ended, timed_out=signalled and ended.seconds >= timeout)
        pace.check(timed_out=ended.timed_out)
        return ended
    finally:
        process.stdin.close()  # the watcher then kills the rest
        try:
            process.wait(DRAIN)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.returncode and follower.group:  # the watcher itself was killed
            with suppress(ProcessLookupError):
                os.killpg(follower.group, signal.SIGKILL)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
        os.close(reading)


class _Follower:
    """Follows a program's output until all that could write to it are gone."""

    def __init__(self, process: subprocess.Popen[bytes], status: int, pace: Pace, cancel: threading.Event) -> None:
        self._process = process
        self._streams = {status: 0}
        for number, stream in enumerate((process.stdout, process.stderr), 1):
            if stream is not None:
                self._streams[stream.fileno()] = number
        self._joined = Joined(pace.pass_on)
        self._pace = pace
        self._cancel = cancel
        self._report = b""
        self.group = 0
        """Of the program's processes, once it has started."""

    def follow(self) -> bool:
        """Pass output on until the end; whether the time limit stopped it. Raises Cancelled, EngineError."""
        orders = [b"T", b"K", b""]
        deadline: float | None = None  # of the last order
        with selectors.DefaultSelector() as selector:
            for descriptor in self._streams:
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map():
                if self._cancel.is_set():
                    raise Cancelled("cancelled during the trial")
                now = time.monotonic()
                left = self._pace.left(now) if deadline is None else deadline - now
                moments = [_TICK, self._joined.wait(now), left]
                pieces = self._read(selector, max(min(moment for moment in moments if moment is not None), 0.0))
                # Before the output is passed on: the time that this takes is not the program's.
                now = time.monotonic()
                left = self._pace.left(now) if deadline is None else deadline - now
                if left <= 0 and orders:
                    self._order(orders.pop(0))
                    deadline = now + (GRACE if len(orders) == 2 else DRAIN)
                self._joined.feed(pieces, now)
        self._joined.close()
        self._pace.close()
        return len(orders) < 3

    def read_end(self) -> Ended:
        """How the program ended, as its watcher reported it. Raises EngineError where it never started."""
        report = json.loads(self._report)
        if "error" in report:
            raise EngineError(f"cannot be started on this host: {report['error']}")
        return Ended(**report)

    def _order(self, order: bytes) -> None:
        """Ask the watcher to end the program (T) or all (K); without an order: end the watcher, too."""
        assert self._process.stdin is not None
        if not order:
            self._process.kill()
            return
        with suppress(OSError):  # it has ended meanwhile
            self._process.stdin.write(order)

    def _read(self, selector: selectors.BaseSelector, patience: float) -> list[tuple[int, bytes]]:
        pieces = []
        ready = selector.select(0)
        late = bool(ready)
        for key, _ in ready or selector.select(patience):
            data = os.read(key.fd, _READ)
            if not data:
                if not self._streams[key.fd] and not self._report:
                    raise EngineError("the process that watches a program on this host was killed")
                selector.unregister(key.fd)
            elif self._streams[key.fd]:
                pieces.append((self._streams[key.fd], data))
            else:
                self._report += data
        if not self.group and b"\n" in self._report:
            group, _, self._report = self._report.partition(b"\n")
            self.group = int(group)
            self._pace.start(time.monotonic())
        self._pace.looked(sum(len(data) for _, data in pieces), time.monotonic(), late=late)
        return pieces

"""One program of this host in its sandbox: described, started, followed to its end, never left alone."""

from __future__ import annotations

import fcntl
import json
import math
import os
import selectors
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from reprokit.core.errors import Cancelled, EngineError
from reprokit.core.tty import Master, Terminal, relay
from reprokit.engine.containers import GRACE
from reprokit.engine.ending import DRAIN
from reprokit.engine.pace import Pace
from reprokit.engine.stream import Joined
from reprokit.engine.venv import bubblewrap
from reprokit.engine.venv.bubblewrap import SandboxProgram

ENTERING = Path(__file__).with_name("entering.py")
INSIDE = Path(__file__).with_name("inside.py")
_TICK = 0.2  # how often a silent program's cancel event is looked at
_READ = 256 * 1024
_PIPE = 1024 * 1024  # what a program can print before it waits for us


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a program ended: its exit status as a shell tells it, the seconds it ran, whether its time was up.

    ``cpu_seconds``: of all its processes; ``peak_memory``: bytes of the largest one.
    """

    code: int
    seconds: float
    cpu_seconds: float
    peak_memory: int
    timed_out: bool = False


def described(program: SandboxProgram, status: int, *, terminal: bool = False) -> bytes:
    """The description that ``entering.py`` reads. ``terminal``: its output is one, and its input, too."""
    root = os.getuid() == 0
    arguments, staged = bubblewrap.arguments(program, bubblewrap.STAGE if root else "")
    inside = {
        "status": status,
        "cut_off": program.cut_off,
        "terminal": terminal,
        "rlimits": {"RLIMIT_CORE": 0},
        "folder": program.folder,
        "command": list(program.command),
        "environ": dict(program.environ),
    }
    text = json.dumps(
        {
            "parent": os.getpid(),
            "user": bubblewrap.NOBODY if root else None,
            "stage": bubblewrap.STAGE,
            "staged": staged,
            "cgroups": list(program.joins),
            "bubblewrap": arguments,
            "program": INSIDE.read_text(encoding="utf-8"),
            "inside": inside,
        }
    ).encode()
    return b"%010d" % len(text) + text


def run(
    program: SandboxProgram,
    sink: Callable[[bytes], None],
    cancel: threading.Event,
    *,
    timeout: float = math.inf,
    terminal: Terminal | None = None,
) -> Ended:
    """Run to the end, the time limit or ``cancel``; nothing that was started is left when this returns.

    At its time limit (seconds) a program gets SIGTERM and, ``GRACE`` seconds later, SIGKILL. Raises Cancelled, and
    EngineError when it could not be started.
    """
    reading, writing = os.pipe()
    master, slave = os.openpty() if terminal else (None, None)
    try:
        description = described(program, writing, terminal=terminal is not None)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(ENTERING)],
            stdin=subprocess.PIPE,
            stdout=slave or subprocess.PIPE,
            stderr=subprocess.STDOUT if program.joined or slave else subprocess.PIPE,
            pass_fds=(writing,),
            start_new_session=True,  # Ctrl-C is for reprokit, which then ends this
            env={},
            cwd="/",
            bufsize=0,
        )
    finally:
        os.close(writing)
        if slave is not None:
            os.close(slave)
    try:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(description)
        if process.stdout is not None:
            with suppress(OSError):  # a user may have so many pages of pipes: the usual size does, too
                fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE)
        if terminal is not None and master is not None:
            _attend(terminal, Master(master), cancel)
        pace = Pace(timeout, time.monotonic(), sink)
        watch = _Watch(process, reading, pace, cancel)
        signalled = watch.follow()
        process.wait()
        ended = watch.ended(program.command[0])
        # Its end can be older than our signal, if we were late: what it was measured to have run decides.
        ended = replace(ended, timed_out=signalled and ended.seconds >= timeout)
        pace.check(timed_out=ended.timed_out)
        return ended
    finally:
        _end(process)
        os.close(reading)
        if master is not None:
            os.close(master)


def _attend(terminal: Terminal, master: Master, cancel: threading.Event) -> None:
    """Connect the terminal with the program's until no process has that open. Raises Cancelled."""

    def tick() -> None:
        if cancel.is_set():
            raise Cancelled("cancelled while the terminal was attached")

    relay(terminal, master, master.resize, tick)


def _end(process: subprocess.Popen[bytes]) -> None:
    """See to it that nothing is left, whatever happened before: its end is that of all that it started."""
    if process.stdin is not None:
        process.stdin.close()  # process 1 then kills the rest
    try:
        process.wait(DRAIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


class _Watch:
    """Follows a program's output until all that could write to it are gone."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        status: int,
        pace: Pace,
        cancel: threading.Event,
    ) -> None:
        self._process = process
        self._streams = {status: 0}
        for number, stream in enumerate((process.stdout, process.stderr), 1):
            if stream is not None:
                self._streams[stream.fileno()] = number
        self._joined = Joined(pace.pass_on)
        self._pace = pace
        self._cancel = cancel
        self.said = b""

    def follow(self) -> bool:
        """Pass output on until the end; whether the time limit stopped it. Raises Cancelled."""
        orders = [b"T", b"K", b""]
        following: float | None = None
        with selectors.DefaultSelector() as selector:
            for descriptor in self._streams:
                selector.register(descriptor, selectors.EVENT_READ)
            while selector.get_map():
                if self._cancel.is_set():
                    raise Cancelled("cancelled during the trial")
                now = time.monotonic()
                left = self._pace.left(now) if following is None else following - now
                moments = [_TICK, self._joined.wait(now), left]
                pieces = self._read(selector, max(min(moment for moment in moments if moment is not None), 0.0))
                # Before the output is passed on: the time that this takes is not the program's.
                now = time.monotonic()
                left = self._pace.left(now) if following is None else following - now
                if left <= 0 and orders:
                    self._order(orders.pop(0))
                    following = now + (GRACE if len(orders) == 2 else DRAIN)
                self._joined.feed(pieces, now)
        self._joined.close()
        self._pace.close()
        return len(orders) < 3

    def _order(self, order: bytes) -> None:
        """Ask process 1 to end the program (T) or all (K); without an order: end process 1, too."""
        assert self._process.stdin is not None
        if not order:
            self._process.kill()
            return
        with suppress(OSError):  # it has ended meanwhile
            self._process.stdin.write(order)

    def ended(self, command: str) -> Ended:
        """What was said of the end. Raises EngineError where the program never started, or no one saw it end."""
        try:
            report = json.loads(self.said)
        except ValueError:
            why = self.said.decode(errors="replace").strip() or f"process 1 of the sandbox of {command} went away"
            raise EngineError(f"cannot be started on this host: {why}") from None
        if "error" in report:
            raise EngineError(f"cannot be started on this host: {report['error']}")
        return Ended(**report)

    def _read(self, selector: selectors.BaseSelector, patience: float) -> list[tuple[int, bytes]]:
        pieces = []
        ready = selector.select(0)
        late = bool(ready)
        for key, _ in ready or selector.select(patience):
            data = os.read(key.fd, _READ)
            if not data:
                selector.unregister(key.fd)
            elif self._streams[key.fd]:
                pieces.append((self._streams[key.fd], data))
            elif data == b"\n" and not self.said:
                self._pace.start(time.monotonic())
            else:
                self.said += data
        self._pace.looked(sum(len(data) for _, data in pieces), time.monotonic(), late=late)
        return pieces

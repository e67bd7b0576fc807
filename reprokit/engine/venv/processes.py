"""One program of this host: started, followed to its end, and ended with all that it started."""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from reprokit.core import ownership
from reprokit.core.errors import Cancelled, EngineError
from reprokit.core.tty import Master, Terminal, relay
from reprokit.engine.containers import GRACE
from reprokit.engine.stream import Joined, Pace
from reprokit.engine.witness import DRAIN

WATCHER = Path(__file__).with_name("inside.py")
_TICK = 0.2  # how often a silent program's cancel event is looked at
_READ = 256 * 1024
_PIPE = 1024 * 1024  # what a program can print before it waits for us
_HOME = re.compile(rb"(?:^|\0)HOME=([^\0]*)/home(?:\0|$)")


@dataclass(frozen=True, kw_only=True)
class HostProcess:
    """What is to be run, and nothing else: no variable of ours reaches it.

    ``scratch``: its private folder, in which ``home`` is its HOME. ``memory``: bytes that it and all that it starts may
    use, None = not limited. ``joined``: stdout and stderr are one pipe.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    scratch: Path
    memory: int | None = None
    joined: bool = True


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a program ended: its exit status as a shell tells it, the seconds it ran, whether a limit stopped it.

    ``cpu_seconds``: of all its processes; ``peak_memory``: bytes of the largest one.
    """

    code: int
    seconds: float
    cpu_seconds: float
    peak_memory: int
    oom: bool = False
    timed_out: bool = False


def scratch_folders(scratch: Path) -> dict[str, str]:
    """Make the private folders of a program below ``scratch``; the variables that lead to them."""
    for name in ("home", "tmp"):
        (scratch / name).mkdir(mode=0o700)
    return {"HOME": str(scratch / "home"), "TMPDIR": str(scratch / "tmp")}


def run(
    program: HostProcess,
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
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(WATCHER)],
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
            process.stdin.write(_request(program, writing, terminal=terminal is not None))
        if process.stdout is not None:
            with suppress(OSError):  # a user may have so many pages of pipes: the usual size does, too
                fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE)
        if terminal is not None and master is not None:
            _attend(terminal, Master(master), cancel)
        pace = Pace(timeout, time.monotonic(), sink)
        watch = _Watch(process, reading, pace, cancel)
        signalled = watch.follow()
        process.wait()
        ended = watch.ended()
        # Its end can be older than our signal, if we were late: what it was measured to have run decides.
        ended = replace(ended, timed_out=signalled and ended.seconds >= timeout)
        pace.check(timed_out=ended.timed_out)
        return ended
    finally:
        _end(process, program.scratch)
        os.close(reading)
        if master is not None:
            os.close(master)


def _request(program: HostProcess, status: int, *, terminal: bool) -> bytes:
    """What ``inside.py`` reads. ``terminal``: its output is one, and its input, too."""
    text = json.dumps(
        {
            "status": status,
            "terminal": terminal,
            "memory": program.memory,
            "folder": str(program.folder),
            "command": list(program.command),
            "environ": dict(program.environ),
        }
    ).encode()
    return b"%010d" % len(text) + text


def _attend(terminal: Terminal, master: Master, cancel: threading.Event) -> None:
    """Connect the terminal with the program's until no process has that open. Raises Cancelled."""

    def tick() -> None:
        if cancel.is_set():
            raise Cancelled("cancelled while the terminal was attached")

    relay(terminal, master, master.resize, tick)


def _end(process: subprocess.Popen[bytes], scratch: Path) -> None:
    """See to it that nothing is left, whatever happened before: also where the program killed what watches it."""
    if process.stdin is not None:
        process.stdin.close()  # the watcher then kills the rest
    try:
        process.wait(DRAIN)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.returncode:
        kill_marked(lambda place: place == scratch)
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def kill_marked(wanted: Callable[[Path], bool]) -> list[str]:
    """Kill this user's processes whose HOME is that of a program in a ``wanted`` private folder; their ids."""
    killed = []
    while several := [one for one in _marked(wanted) if one not in killed]:
        for process in several:
            with suppress(OSError):
                os.kill(int(process), signal.SIGKILL)
            killed.append(process)
    return killed


def _marked(wanted: Callable[[Path], bool]) -> Iterator[str]:
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            found = _HOME.search((process / "environ").read_bytes())
            if found and wanted(Path(os.fsdecode(found[1]))):
                yield process.name


def sweep() -> list[str]:
    """Kill what processes of reprokit that are gone left running; returns what was killed, in words."""
    killed = kill_marked(lambda place: ownership.is_left(place.name))
    return [f"process {process}" for process in killed]


class _Watch:
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
        self.said = b""

    def follow(self) -> bool:
        """Pass output on until the end; whether the time limit stopped it. Raises Cancelled, EngineError."""
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
        """Ask the watcher to end the program (T) or all (K); without an order: end the watcher, too."""
        assert self._process.stdin is not None
        if not order:
            self._process.kill()
            return
        with suppress(OSError):  # it has ended meanwhile
            self._process.stdin.write(order)

    def ended(self) -> Ended:
        """What was said of the end. Raises EngineError where the program never started."""
        report = json.loads(self.said)
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
                if not self._streams[key.fd] and not self.said:
                    raise EngineError("the process that watches a program on this host was killed")
                selector.unregister(key.fd)
            elif self._streams[key.fd]:
                pieces.append((self._streams[key.fd], data))
            elif data == b"\n" and not self.said:
                self._pace.start(time.monotonic())
            else:
                self.said += data
        self._pace.looked(sum(len(data) for _, data in pieces), time.monotonic(), late=late)
        return pieces

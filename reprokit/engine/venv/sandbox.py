"""One program of this host, shut off and limited: described for ``inside.py``, followed to its end, never left alone."""

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
from typing import Any, Literal

from reprokit.engine.containers import GRACE, HOSTNAME
from reprokit.engine.ending import DRAIN
from reprokit.core.errors import Cancelled, EngineError
from reprokit.engine.pace import Pace
from reprokit.engine.stream import Joined

INSIDE = Path(__file__).with_name("inside.py")
NOBODY = 65534
"""The user id of programs of ours where reprokit runs as root: nobody's, everywhere."""

CUDA_PLACE = "/usr/local/cuda"
HIDDEN = ("/home", "/opt", "/root", "/tmp", "/usr/local", "/var/tmp")
"""Folders of the host in which the distribution has nothing, and so no image either."""

_TICK = 0.2  # how often a silent program's cancel event is looked at
_READ = 256 * 1024
_PIPE = 1024 * 1024  # what a program can print before it waits for us


@dataclass(frozen=True, kw_only=True)
class SandboxMount:
    """What a program sees at ``target``: ``source``, or a file system in memory of ``size`` bytes."""

    target: str
    source: str = ""
    kind: Literal["bind", "read-only", "tmpfs"] = "bind"
    size: int = 0


@dataclass(frozen=True, kw_only=True)
class SandboxProgram:
    """What is to be run. ``user``: the id that root becomes, None to stay. ``root``: an empty folder to mount on.

    Without ``namespaces``, ``mounts`` are not made and the network is not ``cut_off``. ``joins``: control groups.
    ``joined``: stdout and stderr are one pipe.
    """

    command: Sequence[str]
    environ: Mapping[str, str]
    folder: str
    namespaces: bool
    root: Path
    mounts: Sequence[SandboxMount] = ()
    cut_off: bool = False
    user: int | None = None
    joins: Sequence[str] = ()
    joined: bool = True


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a program ended: its exit status as a shell tells it, the seconds it ran, whether its time was up."""

    code: int
    seconds: float
    timed_out: bool = False


def hidden() -> list[str]:
    """The host's folders that programs find empty."""
    places = [*HIDDEN, os.path.expanduser("~")]
    real = sorted({os.path.realpath(place) for place in places if Path(place).is_dir()} - {"/"})
    return [place for place in real if not any(Path(place).is_relative_to(other) for other in real if other != place)]


def is_hidden(path: str) -> bool:
    """Whether programs find nothing of the host at that path."""
    return any(Path(path).is_relative_to(place) for place in hidden())


def placed(target: str) -> str:
    """The path of a place, without links of the host: they would lead out of a root that is being made."""
    return os.path.normpath(target) if is_hidden(target) else os.path.realpath(target)


def described(program: SandboxProgram, status: int) -> dict[str, Any]:
    """The description that ``inside.py`` reads."""
    mounts = [
        {"kind": mount.kind, "source": mount.source, "target": placed(mount.target), "size": mount.size}
        for mount in program.mounts
    ]
    return {
        "status": status,
        "parent": os.getpid(),
        "namespaces": program.namespaces,
        "cut_off": program.cut_off,
        "root": str(program.root),
        "hidden": hidden(),
        "mounts": mounts,
        "hostname": HOSTNAME,
        "user": program.user,
        "rlimits": {"RLIMIT_CORE": 0},
        "cgroups": list(program.joins),
        "folder": program.folder,
        "command": list(program.command),
        "environ": dict(program.environ),
    }


def run(
    program: SandboxProgram, sink: Callable[[bytes], None], cancel: threading.Event, *, timeout: float = math.inf
) -> Ended:
    """Run to the end, the time limit or ``cancel``; nothing that was started is left when this returns.

    At its time limit (seconds) a program gets SIGTERM and, ``GRACE`` seconds later, SIGKILL. Raises Cancelled, and
    EngineError when it could not be started.
    """
    reading, writing = os.pipe()
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(INSIDE)],
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
        description = json.dumps(described(program, writing)).encode()
        os.close(writing)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError), process.stdin as stream:
            stream.write(description)
        with suppress(OSError):  # a user may have so many pages of pipes: the usual size does, too
            fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, _PIPE)
        pace = Pace(timeout, time.monotonic(), sink)
        watch = _Watch(process, reading, pace, cancel)
        signalled = watch.follow()
        process.wait()
        ended = _ended(watch.said, program.command[0])
        # Its end can be older than our signal, if we were late: what it was measured to have run decides.
        ended = replace(ended, timed_out=signalled and ended.seconds >= timeout)
        pace.check(timed_out=ended.timed_out)
        return ended
    finally:
        _end(process)
        os.close(reading)


def _ended(said: bytes, command: str) -> Ended:
    try:
        report = json.loads(said)
    except ValueError:
        raise EngineError(f"the process that watches {command} went away: {said.decode(errors='replace')!r}") from None
    if "error" in report:
        raise EngineError(f"cannot be started on this host: {report['error']}")
    return Ended(code=report["code"], seconds=report["seconds"])


def _end(process: subprocess.Popen[bytes]) -> None:
    """See to it that nothing is left, whatever happened before."""
    while process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(DRAIN)
        except subprocess.TimeoutExpired:
            process.kill()
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
        assert process.stdout is not None
        self._process = process
        self._streams = {process.stdout.fileno(): 1, status: 0}
        if process.stderr is not None:
            self._streams[process.stderr.fileno()] = 2
        self._joined = Joined(pace.pass_on)
        self._pace = pace
        self._cancel = cancel
        self.said = b""

    def follow(self) -> bool:
        """Pass output on until the end; whether the time limit stopped it. Raises Cancelled."""
        signals = [signal.SIGTERM, signal.SIGINT, signal.SIGKILL]  # SIGINT: kill all that runs
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
                if left <= 0 and signals:
                    self._process.send_signal(signals.pop(0))
                    following = now + (GRACE if len(signals) == 2 else DRAIN)
                self._joined.feed(pieces, now)
        self._joined.close()
        self._pace.close()
        return len(signals) < 3

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

"""The limits of a build that no engine holds: its time, and what it leaves of this host's memory, disk and processes.

A build that passes one is stopped, and its cells get ``build-failed`` with the limit as the reason: never a finding.
"""

from __future__ import annotations

import collections
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from reprokit.case.limits import shown_bytes
from reprokit.case.trust import Trust, limited_by
from reprokit.core.errors import BuildFailed, Cancelled, EngineError
from reprokit.core.text import seconds as spelt
from reprokit.engine.failure import TAIL
from reprokit.engine.protocol import EngineInfo, Progress
from reprokit.environment.steps import short_step

LOOK = 0.2
"""Seconds between two looks at the limits."""

LEAST_MEMORY = 0.02
"""Share of this host's memory, swap included, that a build has to leave: below it the kernel kills what it likes."""

LEAST_DISK = 256 * 1024**2
"""Bytes that a build has to leave on the engine's disk: a full one takes the engine down."""

MOST_TASKS = 0.5
"""Share of the processes that this host can have, with a build and all else; the rest stops a fork bomb."""

_PROC = Path("/proc")


def host_is_short(storage: Path, proc: Path = _PROC) -> str:
    """What this host runs out of, in words; '' for nothing. ``storage``: where the engine keeps its data."""
    try:
        found = re.findall(r"(\w+): +(\d+) kB", (proc / "meminfo").read_text())
        kib = {name: int(value) for name, value in found}
        free, total = kib["MemAvailable"] + kib.get("SwapFree", 0), kib["MemTotal"] + kib.get("SwapTotal", 0)
        if free < LEAST_MEMORY * total:
            return f"only {shown_bytes(free * 1024)} of this host's memory were left"
        tasks = int((proc / "loadavg").read_text().split()[3].partition("/")[2])
        most = min(int((proc / "sys/kernel" / name).read_text()) for name in ("pid_max", "threads-max"))
        if tasks > MOST_TASKS * most:
            return f"this host had {tasks} processes and threads, of at most {most}"
        disk = os.statvfs(storage)
    except (OSError, ValueError, KeyError, IndexError):  # another kernel, or another user's folder
        return ""
    left = disk.f_bavail * disk.f_frsize
    return f"only {shown_bytes(left)} were left on the disk of {storage}" if left < LEAST_DISK else ""


class BuildWatch:
    """Watches one build. ``cancel``: the run's, which stops it as well; ``seconds``: the most that it takes;
    ``trust``: in its case, for messages.
    """

    def __init__(
        self, cancel: threading.Event, seconds: float | None, engine: EngineInfo, trust: Trust = Trust.OWN
    ) -> None:
        self._trust = trust
        self.stop = threading.Event()
        self.reason = ""
        self._cancel = cancel
        self._seconds = seconds
        self._storage = engine.storage
        self._ended = threading.Event()
        self._step = Progress(number=0, total=0, name="")
        self._tail: collections.deque[str] = collections.deque(maxlen=TAIL)

    def follow(self, on_progress: Callable[[Progress], None]) -> Callable[[Progress], None]:
        """``on_progress``, and what the watch itself remembers of the step that it may stop."""

        def seen(progress: Progress) -> None:
            if progress.log:
                self._tail.extend(progress.log.splitlines())
            elif progress.took is None and progress.name != self._step.name:
                self._step = progress
                self._tail.clear()
            on_progress(progress)

        return seen

    def failure(self) -> BuildFailed:
        """What a build that was stopped raises."""
        return BuildFailed(self.reason, step=self._step.name, tail=tuple(self._tail), reason=self.reason)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch while the block builds. Raises BuildFailed instead of what a build raises that was stopped."""
        thread = threading.Thread(target=self._watch, name="build-watch", daemon=True)
        thread.start()
        try:
            yield
        except (Cancelled, EngineError, BuildFailed) as error:
            if self.reason:
                raise self.failure() from error
            raise
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        started = time.monotonic()
        while not self._ended.wait(LOOK):
            if not self._cancel.is_set():
                self.reason = self._passed(time.monotonic() - started)
            if self.reason or self._cancel.is_set():
                self.stop.set()
                return

    def _passed(self, took: float) -> str:
        """The limit that was passed, in words; ''."""
        where = f" in the step {short_step(self._step.name)}" if self._step.name else ""
        if self._seconds is not None and took > self._seconds:
            return (
                f"the build was stopped{where} after {spelt(self._seconds)}, the most that an image takes here "
                f"({limited_by('max_build_time', self._trust)})"
            )
        short = host_is_short(self._storage) if self._storage else ""
        return f"the build was stopped{where}: {short}" if short else ""

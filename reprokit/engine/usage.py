"""What a trial uses, by its control groups: processor time, its peak of memory, memory at each marked iteration."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from reprokit.engine.memory_kills import MemoryKills
from reprokit.evidence.usage import MARK, Usage

CGROUPS = Path("/sys/fs/cgroup")
EVERY = 0.05
"""Seconds between two looks at a running trial: its groups may be gone before the look at its end."""

MOST = 1024
"""Samples that are kept; of more, every second one is left out, again and again."""

_MARKED = re.compile(rb"(?:^|\n)" + MARK.encode() + rb" (\d{1,9})(?=\r?\n)")
_TAIL = len(MARK) + 16  # bytes of a line that may be cut between two pieces of output


class Meter:
    """Reads the control groups of a trial: ``folders`` by controller ("memory", "cpuacct"), or the one of version 2 as
    "". What cannot be read is not known; ``cpu_seconds``: known from elsewhere.

    ``kills``: looked at together with them. ``process``: a descriptor that becomes readable at the end of the trial,
    when its groups are still there; -1: none.
    """

    def __init__(self, folders: Mapping[str, Path], kills: MemoryKills | None = None, process: int = -1) -> None:
        self.process = process
        self._memory = folders.get("memory", folders.get(""))
        self._cpu = folders.get("cpuacct", folders.get(""))
        self._kills = kills
        self._next = 0.0
        self._tail = b"\n"
        self._step = 1
        self._usage = Usage()
        self._samples: list[tuple[int, int]] = []

    def look(self, *, last: bool = False) -> None:
        """Read what has been used so far, at most every :data:`EVERY` seconds unless this is the ``last`` look."""
        if self._kills is not None:
            self._kills.look()
        if not last and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        cpu, peak = _first(self._cpu, _CPU), _first(self._memory, _PEAK)
        self._usage = Usage(
            cpu_seconds=self._usage.cpu_seconds if cpu is None else round(cpu, 6),
            peak_memory=max((int(one) for one in (peak, self._usage.peak_memory) if one is not None), default=None),
        )

    def ended(self) -> None:
        """Read what was used in all, once :attr:`process` has become readable: the output may end too late for it."""
        self.look(last=True)
        os.close(self.process)
        self.process = -1

    def taking(self, sink: Callable[[bytes], None]) -> Callable[[bytes], None]:
        """``sink``, before which the memory is read where the output marks an iteration."""

        def take(data: bytes) -> None:
            text = self._tail + data
            self._tail = text[-_TAIL:]
            if MARK.encode() in text and (marks := _MARKED.findall(text)):
                self._sample(int(marks[-1]))
            sink(data)

        return take

    def _sample(self, number: int) -> None:
        before = self._samples[-1][0] if self._samples else -1
        if number < before + self._step:
            return
        self.look(last=True)
        memory = _first(self._memory, _NOW)
        if memory is not None:
            self._samples.append((number, int(memory)))
        if len(self._samples) >= MOST:
            del self._samples[1::2]
            self._step *= 2

    @property
    def usage(self) -> Usage | None:
        """What was read; None where nothing could be."""
        found = Usage(**{**vars(self._usage), "iterations": tuple(self._samples)})
        return None if found == Usage() else found

    @property
    def saw_kill(self) -> bool:
        """Whether a process was killed for memory, as far as looked."""
        return self._kills is not None and self._kills.seen

    def close(self) -> None:
        """Stop watching."""
        if self.process >= 0:
            os.close(self.process)
            self.process = -1
        if self._kills is not None:
            self._kills.close()


def of_container(pid: int, container: str, *, kills: bool) -> Meter:
    """The meter of a running container of this host, by its process and id.

    Of one that cannot be seen from here, or has no group of its own, nothing is ever read: see :class:`MemoryKills`.
    """
    found: dict[str, Path] = {}
    process = -1
    with suppress(OSError, AttributeError):  # a Python that was built for an older Linux has no pidfd_open
        found = folders_of(Path(f"/proc/{pid}/cgroup").read_text(), container)
        process = os.pidfd_open(pid) if found else -1
    return Meter(found, MemoryKills(pid, container) if kills else None, process)


def folders_of(groups: str, container: str, root: Path = CGROUPS) -> dict[str, Path]:
    """The groups of a container, for the text of a ``/proc/PID/cgroup``, as :class:`Meter` takes them. Pure."""
    found: dict[str, Path] = {}
    for line in groups.splitlines():
        _, names, path = line.split(":", 2)
        if container in path:
            found |= {name: root / name / path.lstrip("/") for name in names.split(",")}
    return found


def _count(text: str) -> float:
    return float(text)


def _key(name: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        return float(text.split(f"{name} ", 1)[1].split("\n", 1)[0])

    return read


_CPU = (
    ("cpuacct.usage", lambda text: float(text) / 1e9),
    ("cpu.stat", lambda text: _key("usage_usec")(text) / 1e6),
)
_PEAK = (("memory.max_usage_in_bytes", _count), ("memory.peak", _count), ("memory.current", _count))
_NOW = (("memory.stat", _key("total_rss")), ("memory.stat", _key("anon")))
"""Files of either version of control groups, with how each is read: seconds and bytes."""


def _first(folder: Path | None, files: tuple[tuple[str, Callable[[str], float]], ...]) -> float | None:
    """What the first of ``files`` says that is there."""
    for name, read in files if folder is not None else ():
        with suppress(OSError, ValueError, IndexError):
            assert folder is not None
            return read((folder / name).read_text())
    return None

"""What a trial uses: processor time, memory at each marked iteration, kills for memory, bytes on the disk."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from reprokit.case.trust import Trust, limited_by
from reprokit.core.errors import Unsupported
from reprokit.core.files import used_bytes
from reprokit.engine.wire import ANSWER_WITHIN, Wire, raise_for_status
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


def meter_container(pid: int, container: str, *, kills: bool) -> Meter:
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


_KERNEL_LOG = Path("/dev/kmsg")
_RECORD = 8192  # bytes: the kernel's limit for one record of its log
_COUNT = re.compile(rb"^oom_kill (\d+)$", re.M)


class MemoryKills:
    """Watches the memory cgroup of a container's process: :meth:`seen` holds once a look found a kill.

    For engines that do not tell: Podman has no oom event, and its ``OOMKilled`` stays false with cgroups v1 (seen with
    4.3.1). The count goes with the container's cgroup, so look while it runs and at once when its output ends. Where
    it was gone by then, the kernel's log is asked, which root can read. Of a container that cannot be seen from here,
    or has no cgroup of its own, nothing is ever found: its pid may be another process here (an engine on another
    machine), and its group others' too.
    """

    def __init__(self, pid: int, container: str) -> None:
        self._file = -1
        self._seen = False
        self._gone = False
        self._container = container
        with suppress(OSError):
            path = counter_of(Path(f"/proc/{pid}/cgroup").read_text())
            if path is not None and container in str(path):
                self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def look(self) -> None:
        """Read the count."""
        if self._file < 0 or self._seen:
            return
        try:
            found = _COUNT.search(os.pread(self._file, 4096, 0))
            self._seen = found is not None and int(found[1]) > 0
        except OSError:  # gone together with the container
            self._gone = True

    @property
    def seen(self) -> bool:
        """Whether a process was killed for memory, as far as looked."""
        return self._seen or (self._gone and in_kernel_log(self._container))

    def close(self) -> None:
        """Stop watching."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def counter_of(groups: str, root: Path = CGROUPS) -> Path | None:
    """The file with the count, for the text of a ``/proc/PID/cgroup``; None without a memory group of its own.

    ``memory.oom_control`` of cgroups v1, ``memory.events`` of v2 (Linux, admin-guide/cgroup-v1/memory.rst and
    admin-guide/cgroup-v2.rst).
    """
    of = {names: path for _, names, path in (line.split(":", 2) for line in groups.splitlines())}
    for names, path in of.items():
        if "memory" in names.split(",") and path != "/":
            return root / "memory" / path.lstrip("/") / "memory.oom_control"
    path = of.get("", "/")
    return None if path == "/" else root / path.lstrip("/") / "memory.events"


def in_kernel_log(container: str, log: Path = _KERNEL_LOG) -> bool:
    """Whether the kernel's log says that it killed a process of that container for memory. False where it is closed."""
    needle = container.encode()
    with suppress(OSError):  # not for this user, or all of it was read
        file = os.open(log, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while record := os.read(file, _RECORD):
                if b"oom-kill:" in record and needle in record.partition(b"task_memcg=")[2]:
                    return True
        finally:
            os.close(file)
    return False


FIRST = 1.0
"""Seconds until the first look: most trials have ended by then."""

IDLE = 10
"""How many times as long as a look takes the watch waits for the next: counting files is work for the engine."""

GIB = 1024**3


class DiskWatch:
    """Counts what the container ``name`` has written, until :meth:`close`. ``most``: bytes; None = it is not watched.
    ``trust``: in the case, for messages.

    That is its own layer and its volumes; what is in memory (``/dev/shm``) counts as memory.
    """

    def __init__(self, wire: Wire, name: str, most: int | None, trust: Trust) -> None:
        self._trust = trust
        self._most = most
        self._written = 0
        self._ended = threading.Event()
        if most is not None:
            look = lambda: _written(wire, name)  # noqa: E731
            threading.Thread(target=self._watch, args=(look,), name="disk-watch", daemon=True).start()

    def check(self) -> None:
        """Raise Unsupported where it has written more than it may."""
        if self._most is not None and self._written > self._most:
            raise Unsupported(
                f"the trial wrote {self._written / GIB:.3g} GiB to its disk; it gets at most "
                f"{self._most / GIB:.3g} GiB here ({limited_by('max_disk', self._trust)})"
            )

    def close(self) -> None:
        """Stop watching."""
        self._ended.set()

    def _watch(self, look: Callable[[], int]) -> None:
        pause = FIRST
        while not self._ended.wait(pause):
            began = time.monotonic()
            with suppress(Exception):  # the container is gone, or the engine is busy: the next look tells
                self._written = look()
            pause = max(FIRST, IDLE * (time.monotonic() - began))


def _written(wire: Wire, name: str) -> int:
    client = wire.client()
    answer = client.get(wire.url(f"/containers/{name}/json"), params={"size": "1"}, timeout=ANSWER_WITHIN)
    raise_for_status(answer)
    found: dict[str, Any] = answer.json()
    volumes = [mount["Source"] for mount in found.get("Mounts") or [] if mount.get("Type") == "volume"]
    volumes = volumes if wire.is_local() else []  # its folders are another machine's
    return int(found.get("SizeRw") or 0) + sum(used_bytes(Path(volume)) for volume in volumes)

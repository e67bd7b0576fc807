"""The kernel's own count of processes that it killed for memory in a container of this host."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
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


def counter_of(groups: str, root: Path = _CGROUPS) -> Path | None:
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

"""Ownership labels: whose container is it, and is its owner still alive?

Every container carries the run, case and cell that it serves and the process that made it. A process is named by its
pid, its start time (pids are used again) and the place in which that pid means something: host name, boot and pid
namespace. A container is an orphan only when all of that says: made here, and that process is gone.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PREFIX = "org.reprokit."
RUN = PREFIX + "run"
CASE = PREFIX + "case"
CELL = PREFIX + "cell"
PID = PREFIX + "pid"
PID_START = PREFIX + "pid-start"
HOST = PREFIX + "host"
IMAGE = PREFIX + "image"
GPUS = PREFIX + "gpus"
"""UUIDs of the GPUs that a container has, with commas between them."""

IMAGE_LABELS: Mapping[str, str] = {IMAGE: "1"}
"""What images of ours carry. Nothing of a single run: images are shared between runs."""


def ownership(run_id: str = "", case_id: str = "", cell: Mapping[str, str] | None = None) -> dict[str, str]:
    """The labels of a container made by this process for that run, case and cell (``cell`` as sorted JSON)."""
    pid = os.getpid()
    return {
        RUN: run_id,
        CASE: case_id,
        CELL: json.dumps(dict(cell or {}), sort_keys=True),
        PID: str(pid),
        PID_START: started(pid) or "",
        HOST: here(),
    }


@functools.cache
def here() -> str:
    """Where this process's pids mean something: host name, boot id and pid namespace (the last two on Linux)."""
    parts = [platform.node()]
    try:
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    except OSError:
        pass  # no Linux: the host's name has to do
    return "/".join(parts)


def started(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; '' where the system does not say; None where it is gone.

    Field 22 of /proc/PID/stat (proc(5)), counted behind the command name, which may hold spaces and brackets.
    A zombie is gone: it will never clean up.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        if Path("/proc/self/stat").exists():
            return None
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        except PermissionError:
            return ""
        return ""
    return None if fields[0] in {"Z", "X"} else fields[19]


def process_start_time(pid: int) -> float | None:
    """When a process started, in seconds since 1970 (to a hundredth); None where it is gone or the system is silent."""
    ticks = started(pid)
    try:
        uptime = float(Path("/proc/uptime").read_text("ascii").split()[0])
    except OSError:
        return None
    return time.time() - uptime + int(ticks) / os.sysconf("SC_CLK_TCK") if ticks else None


def is_orphan(
    labels: Mapping[str, str], *, place: str | None = None, started_at: Callable[[int], str | None] = started
) -> bool:
    """Whether labels say: ours, made here, by a process that is gone.

    ``place`` is :func:`here` by default; ``started_at`` gives when a pid's process started (None: no such process).
    What is not ours, or was made elsewhere, is never an orphan: its owner may be alive where we cannot look.
    """
    pid = labels.get(PID, "")
    if not pid.isdecimal() or labels.get(HOST) != (here() if place is None else place):
        return False
    now = started_at(int(pid))
    return now is None or now != labels.get(PID_START, "")

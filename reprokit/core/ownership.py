"""Ownership labels: whose container is it, and is its owner still alive?

Every container carries the run, case and cell that it serves and the process that made it. A process is named by its
pid, its start time (pids are used again) and the place in which that pid means something: boot and pid namespace. From
elsewhere, the lock that it holds tells whether it lives (:mod:`reprokit.core.owner_lock`), and the machine's id whether
it ran before the last restart of this machine. Where none of these tells, its state is unknown: it may be alive.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from reprokit.core import cache, owner_lock

PREFIX = "org.reprokit."
RUN = PREFIX + "run"
CASE = PREFIX + "case"
CELL = PREFIX + "cell"
PID = PREFIX + "pid"
PID_START = PREFIX + "pid-start"
HOST = PREFIX + "host"
"""Host name, boot id and pid namespace, with slashes between them (the last two on Linux)."""
MACHINE = PREFIX + "machine"
LOCK = PREFIX + "lock"
"""The lock that the process holds, as :func:`reprokit.core.owner_lock.hold` names it."""
IMPORTED = PREFIX + "imported"
"""In the record of a run that was brought from another store."""
IMAGE = PREFIX + "image"
GPUS = PREFIX + "gpus"
"""UUIDs of the GPUs that a container has, with commas between them."""

IMAGE_LABELS: Mapping[str, str] = {IMAGE: "1"}
"""What images of ours carry. Nothing of a single run: images are shared between runs."""

INPUTS = PREFIX + "inputs"
"""The hash of what an image was built from, with the domain of its case: as in its name."""


_INITIAL_PIDS = "pid:[4026531836]"
"""The pid namespace that the kernel starts with: outside of every container."""

_lock = ""


def hold_lock(folder: Path) -> None:
    """Hold this process's lock in ``folder``, such as a run's, where those who share the folder see it."""
    global _lock
    _lock = owner_lock.hold(folder) or _lock


def ownership(run_id: str = "", case_id: str = "", cell: Mapping[str, str] | None = None) -> dict[str, str]:
    """The labels of a container made by this process for that run, case and cell (``cell`` as sorted JSON)."""
    if not _lock:
        hold_lock(cache.folder("owners"))
    pid = os.getpid()
    return {
        RUN: run_id,
        CASE: case_id,
        CELL: json.dumps(dict(cell or {}), sort_keys=True),
        PID: str(pid),
        PID_START: started(pid) or "",
        HOST: here(),
        MACHINE: machine(),
        LOCK: _lock,
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


def boot_id() -> str:
    """What names the time since the last start of this machine's kernel; '' where the system does not say."""
    return _parts(here())[1]


@functools.cache
def machine() -> str:
    """What names this machine across restarts (machine-id(5)); '' where nothing does."""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            found = Path(path).read_text("ascii").strip()
        except (OSError, ValueError):
            continue
        if len(found) == 32:
            # That of a container may be its image's, and the same wherever the image runs.
            return found if here().endswith(_INITIAL_PIDS) else f"{found}/{platform.node()}"
    return ""


def started(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; '' where the system does not say; None where it is gone.

    Field 22 of /proc/PID/stat (proc(5)), counted behind the command name, which may hold spaces and brackets.
    A zombie is gone: it will never clean up.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:  # gone, of another user where /proc hides these (hidepid), or no Linux
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


class OwnerState(Enum):
    """What is known of the process that made something."""

    ALIVE = "alive"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Place:
    """Where someone looks from: ``host`` as of :func:`here`, ``machine`` as of :func:`machine`.

    ``started_at``: when the process of a pid started (None: there is none). ``is_held``: whether a lock is held.
    """

    host: str
    machine: str
    started_at: Callable[[int], str | None] = started
    is_held: Callable[..., bool | None] = owner_lock.is_held


def state_of_owner(labels: Mapping[str, str], place: Place | None = None) -> OwnerState:
    """Whether the process that ``labels`` name is alive, as seen from ``place`` (by default from this process).

    EXITED is said only where that is certain. Labels of others, and of owners that cannot be seen, give UNKNOWN.
    """
    place = place or Place(here(), machine())
    pid, host = labels.get(PID, ""), labels.get(HOST, "")
    if not (pid.isdecimal() and len(pid) < 10):
        return OwnerState.UNKNOWN
    (_, boot, pids), (_, own_boot, own_pids) = _parts(host), _parts(place.host)
    same_kernel = boot == own_boot != ""
    if host == place.host or (same_kernel and pids == own_pids != ""):  # a host name may change meanwhile
        now = place.started_at(int(pid))
        other = now is None or (now != "" and now != labels.get(PID_START, ""))
        return OwnerState.EXITED if other else OwnerState.ALIVE
    held = place.is_held(labels.get(LOCK, ""), same_kernel=same_kernel)
    if held is not None:
        return OwnerState.ALIVE if held else OwnerState.EXITED
    if boot and own_boot and not same_kernel and labels.get(MACHINE) == place.machine != "":
        return OwnerState.EXITED  # it ran before this machine started
    return OwnerState.UNKNOWN


def is_orphan(labels: Mapping[str, str]) -> bool:
    """Whether labels say: ours, and the process that made it has certainly exited."""
    return state_of_owner(labels) is OwnerState.EXITED


def _parts(host: str) -> tuple[str, str, str]:
    name, _, rest = host.partition("/")
    boot, _, pids = rest.partition("/")
    return name, boot, pids

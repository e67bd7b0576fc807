"""Limits of a trial by control groups, of either version, below the group that this process is in."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from reprokit.case.cellspec import Limits
from reprokit.core.leftovers import is_left, owned_name
from reprokit.engine.container_spec import PIDS

CONTROLLERS = ("memory", "cpu", "pids")
PERIOD = 100_000
"""Microseconds over which the use of processors is counted: the kernel's default."""

GONE_WITHIN = 5.0
"""Seconds for which a group may be busy after its last process was killed."""


@dataclass(frozen=True, kw_only=True)
class CgroupParent:
    """Where groups of one controller can be made: the ``folder`` that holds them, in hierarchy ``version`` 1 or 2."""

    folder: Path
    version: int


@dataclass(frozen=True, kw_only=True)
class TrialGroups:
    """The groups of one trial, by controller."""

    places: Mapping[str, CgroupParent]

    @property
    def joins(self) -> list[str]:
        """The files into which a process writes itself to be limited."""
        return sorted({str(place.folder / "cgroup.procs") for place in self.places.values()})

    @property
    def folders(self) -> dict[str, Path]:
        """The groups as :class:`reprokit.engine.usage.Meter` takes them."""
        return {name if place.version == 1 else "": place.folder for name, place in self.places.items()}

    def saw_oom(self) -> bool:
        """Whether the kernel killed a process of the group for memory."""
        place = self.places.get("memory")
        if place is None:
            return False
        events = place.folder / ("memory.oom_control" if place.version == 1 else "memory.events")
        found = re.search(r"^oom_kill (\d+)$", events.read_text(), re.MULTILINE)
        return found is not None and int(found[1]) > 0


def places(cgroup: str | None = None, mountinfo: str | None = None) -> dict[str, CgroupParent]:
    """Where this process may make groups, by controller; what is not permitted is left out.

    ``cgroup`` and ``mountinfo``: the texts of /proc/self/cgroup and /proc/self/mountinfo. See cgroups(7).
    """
    with suppress(OSError):
        cgroup = Path("/proc/self/cgroup").read_text() if cgroup is None else cgroup
        mountinfo = Path("/proc/self/mountinfo").read_text() if mountinfo is None else mountinfo
    found = {}
    for line in (cgroup or "").splitlines():
        _, controllers, path = line.split(":", 2)
        for name in CONTROLLERS:
            if name in controllers.split(","):
                place = _first_version(name, path, mountinfo or "")
            elif not controllers:
                place = _second_version(name, path, mountinfo or "")
            else:
                continue
            if place is not None:
                found[name] = place
    return found


def _first_version(controller: str, path: str, mountinfo: str) -> CgroupParent | None:
    mounted = _mounted(mountinfo, rf" - cgroup \S+ (?:\S+,)?{controller}(?:,|$)")
    if mounted is None:
        return None
    own = mounted / path.strip("/")
    folder = own if own.is_dir() else mounted  # a container sees its own group as the top
    return CgroupParent(folder=folder, version=1) if os.access(folder, os.W_OK) else None


def _second_version(controller: str, path: str, mountinfo: str) -> CgroupParent | None:
    """The nearest group upwards that hands the controller to its children: the own one has processes, so it cannot."""
    mounted = _mounted(mountinfo, " - cgroup2 ")
    if mounted is None:
        return None
    own = mounted / path.strip("/")
    for folder in (own, *own.parents):
        if not folder.is_relative_to(mounted):
            return None
        with suppress(OSError):
            handed = (folder / "cgroup.subtree_control").read_text().split()
            if controller in handed and os.access(folder, os.W_OK) and os.access(folder / "cgroup.procs", os.W_OK):
                return CgroupParent(folder=folder, version=2)
    return None


def _mounted(mountinfo: str, kind: str) -> Path | None:
    """The mount point of the first file system of that ``kind``, a pattern over the line's end."""
    line = next((line for line in mountinfo.splitlines() if re.search(kind, line)), None)
    return Path(line.split()[4]) if line else None


def refusals() -> dict[str, str]:
    """By controller: '' where limits can be set, else why not.

    As :class:`reprokit.environment.on_host.HostCapabilities` has it. Tried, not believed: a folder that looks
    writable may refuse all the same.
    """
    here = places()
    found = {}
    for name in CONTROLLERS:
        if name not in here:
            found[name] = (
                f"this user may not make control groups for {name} (root may; systemd-run --user --scope helps)"
            )
            continue
        try:
            with held({name: here[name]}, Limits(memory=1 << 30, cpus=1.0)):
                found[name] = ""
        except OSError as error:
            found[name] = f"control groups for {name} are refused: {error}"
    return found


@contextmanager
def held(here: Mapping[str, CgroupParent], limits: Limits) -> Iterator[TrialGroups]:
    """Groups with the limits of one trial, below ``here``; gone when the block ends. Raises OSError."""
    name = owned_name("trial")
    made = {key: CgroupParent(folder=place.folder / name, version=place.version) for key, place in here.items()}
    try:
        for folder in {place.folder for place in made.values()}:
            folder.mkdir()
        for controller, place in made.items():
            for file, text in _settings(controller, place.version, limits).items():
                _set(place.folder / file, text)
        yield TrialGroups(places=made)
    finally:
        for folder in {place.folder for place in made.values()}:
            _remove(folder)


def _settings(controller: str, version: int, limits: Limits) -> dict[str, str]:
    """File -> what to write into it. Swap counts as memory: a limit that swaps is not a limit."""
    if controller == "memory" and limits.memory is not None:
        if version == 1:
            return {"memory.limit_in_bytes": str(limits.memory), "memory.memsw.limit_in_bytes": str(limits.memory)}
        return {"memory.max": str(limits.memory), "memory.swap.max": "0"}
    if controller == "cpu" and limits.cpus is not None:
        quota = str(round(limits.cpus * PERIOD))
        if version == 1:
            return {"cpu.cfs_period_us": str(PERIOD), "cpu.cfs_quota_us": quota}
        return {"cpu.max": f"{quota} {PERIOD}"}
    if controller == "pids":
        return {"pids.max": str(limits.pids or PIDS)}
    return {}


def _set(file: Path, text: str) -> None:
    if file.name in {"memory.memsw.limit_in_bytes", "memory.swap.max"} and not file.exists():
        return  # a kernel that does not account for swap
    file.write_text(text)


def _remove(folder: Path) -> None:
    """Remove a group. The kernel may need a moment to see that its processes are gone."""
    until = time.monotonic() + GONE_WITHIN
    while folder.is_dir():
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > until:
                return  # the next sweep tries again
            time.sleep(0.01)


def sweep() -> list[str]:
    """Remove the groups of processes that are gone; returns what was removed, in words."""
    removed = []
    for parent in {place.folder for place in places().values()}:
        for folder in parent.glob("reprokit-*"):
            if is_left(folder.name):
                with suppress(OSError):
                    folder.rmdir()
                    removed.append(f"control group {folder}")
    return removed

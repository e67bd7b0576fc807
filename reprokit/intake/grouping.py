"""Which environment blocks of a report describe the same environment, and in which of them it failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from reprokit.environment import versions
from reprokit.intake.environments import Claim, Found, Rank
from reprokit.intake.failure import Shown


def grouped(found: Iterable[Found]) -> list[list[Found]]:
    """The blocks of each environment: a new one begins where a block contradicts what the one before it says."""
    groups: list[list[Found]] = []
    for block in found:
        if groups and not _contradicts(groups[-1], block):
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


def _contradicts(group: Sequence[Found], block: Found) -> bool:
    """Whether a block tells of another machine: one of the same kind, with another version of the same thing."""
    for one in group:
        if one.kind != block.kind:
            continue
        for mine, other in ((one.axes, block.axes), (one.packages, block.packages), (one.values, block.values)):
            if any(not _same(mine[key], other[key]) for key in set(mine) & set(other)):
                return True
    return False


def _same(one: str, other: str) -> bool:
    a, b = versions.parts(one), versions.parts(other)
    return all(x == y for x, y in zip(a, b, strict=False))


def from_paths(shown: Shown | None, groups: Sequence[Sequence[Found]]) -> Found | None:
    """What the paths of a traceback tell of its environment where nothing else does: the Python, the system."""
    paths = [frame.file.replace("\\", "/") for frame in (shown.frames if shown else ())]
    python = next((hit[1] for path in paths if (hit := re.search(r"/python(\d\.\d{1,2})/", path))), "")
    told = {axis for group in groups for found in group for axis in found.axes}
    system = next((found.system for group in groups for found in group if found.system), "")
    if not system:
        system = "windows" if any(re.match(r"[A-Za-z]:/", path) for path in paths) else ""
        system = "macos" if any(path.startswith("/Users/") for path in paths) else system
    claims = (
        (Claim(axis="python", version=python, rank=Rank.STATED, said="a path"),)
        if python and "python" not in told
        else ()
    )
    if shown is None or not (claims or system):
        return None
    return Found(kind="the traceback's paths", first=shown.line, last=shown.last, claims=claims, system=system)


def failing(groups: Sequence[Sequence[Found]], shown: Shown | None) -> int:
    """The environment in which it failed: the one told of last before the failure, else the first."""
    if shown is None:
        return 0
    before = [number for number, group in enumerate(groups) if group[0].first <= shown.line]
    return before[-1] if before else 0

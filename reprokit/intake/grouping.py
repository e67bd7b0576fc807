"""Which environment blocks of a report describe the same environment, and in which of them it failed. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reprokit.intake.environments import Claim, Found, Rank, together
from reprokit.intake.failure import Shown

MOST = 200
"""Environment blocks of one report that are read."""


def grouped(found: Sequence[Found]) -> list[list[Found]]:
    """The blocks of each environment (:func:`environments.together`).

    Of more than ``MOST`` blocks, which is no report of one bug, only the first are read.
    """
    return together(found[:MOST])


def from_paths(shown: Shown | None, groups: Sequence[Sequence[Found]], system: str) -> Found | None:
    """What the paths of a traceback tell of its environment where nothing else does: the Python, the ``system``."""
    paths = [frame.file.replace("\\", "/") for frame in (shown.frames if shown else ())]
    python = next((hit[1] for path in paths if (hit := re.search(r"/python(\d\.\d{1,2})/", path))), "")
    told = {axis for group in groups for found in group for axis in found.axes}
    if shown is None or any(found.system for group in groups for found in group):
        system = ""
    if shown is None or not ((python and "python" not in told) or system):
        return None
    where = f"lines {shown.line} to {shown.last}"
    claims = (
        [Claim(axis="python", version=python, rank=Rank.STATED, said=where)] if python and "python" not in told else []
    )
    remarks = [f"python {python} is what the paths in the traceback say ({where})"] if claims else []
    return Found(
        kind="paths", first=shown.line, last=shown.last, claims=tuple(claims), system=system, remarks=tuple(remarks)
    )


def system_of(text: str) -> str:
    """``windows`` or ``macos`` where the paths in a text, before home directories are taken out of it, are of those."""
    if re.search(r"(?<![\w/])/Users/\w", text):
        return "macos"
    return "windows" if re.search(r"(?<!\w)[A-Z]:\\\w[^\n]{0,200}?\\", text) else ""


def failing(groups: Sequence[Sequence[Found]], shown: Shown | None) -> int:
    """The environment in which it failed: the one told of last before the failure, else the first."""
    if shown is None:
        return 0
    before = [number for number, group in enumerate(groups) if group[0].first <= shown.line]
    return before[-1] if before else 0

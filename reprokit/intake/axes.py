"""The environments of a report as a matrix: known axes with values that images can have, as precise as cases. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from reprokit.case.cellspec import CellSpec, EnvironmentSpec, Limits
from reprokit.core.errors import ReprokitError
from reprokit.environment import versions
from reprokit.environment.axes import KNOWN, READERS, REPORTED
from reprokit.environment.axes.operating_system import DEFAULT as DEFAULT_OS
from reprokit.environment.catalog import OURS
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from reprokit.intake.environments import EnvironmentBlock

_PARTS = dict.fromkeys(KNOWN.of_versions(), 2)
"""Parts of a version that cases use: what comes behind is a patch release, of which an image has one."""
ORDER = tuple(dict.fromkeys(("os", "cuda", "cudnn", *REPORTED, *READERS)))
"""The axes of a draft: CUDA's before what is compiled with it, the others in their usual order."""
_SHOWN = 10
"""Most environments whose lines a comment lists."""


@dataclass
class DraftMatrix:
    """``data``: the format's ``matrix``; ``notes``: place -> comments; ``cells``: one per environment, in their order.

    ``missing``: what was reported but is not in the matrix, one sentence each.
    """

    data: dict[str, Any] = field(default_factory=dict)
    notes: dict[tuple[str | int, ...], tuple[str, ...]] = field(default_factory=dict)
    cells: list[dict[str, str]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


def matrix(environments: Sequence[EnvironmentBlock], free: Sequence[Mapping[str, str]]) -> DraftMatrix:
    """The matrix of a report's environments. ``free``: further axes of each (a framework's version), used unchanged."""
    result = DraftMatrix()
    os_notes: list[str] = []
    for found, more in zip(environments, free, strict=True):
        cell, left, note = _cell(found)
        result.missing += [text for text in left if text not in result.missing]
        os_notes += [note] if note and note not in os_notes else []
        result.cells.append({**cell, **more})
    cells = [cell for number, cell in enumerate(result.cells) if cell not in result.cells[:number]]
    result.data = _written(cells)
    where = "; ".join(
        f"{f'lines {one.first} to {one.last}' if one.first != one.last else f'line {one.first}'} ({one.kind})"
        for one in environments[:_SHOWN]
    )
    where += f" and {len(environments) - _SHOWN} more" if len(environments) > _SHOWN else ""
    remarks = dict.fromkeys(note for one in environments for note in one.notes)
    result.notes[("matrix",)] = (f"from {where}, in the precision of cases", *remarks)
    if "os" in result.data and os_notes:
        result.notes[("matrix", "os")] = tuple(os_notes)
    elif os_notes:
        result.notes[("matrix",)] += tuple(os_notes)
    return result


def _cell(found: EnvironmentBlock) -> tuple[dict[str, str], list[str], str]:
    """(an available cell, what is left out of it, how its system was chosen where the report names none that is there).

    Where the report names no system, it is the default, or the first on which less is left out.
    """
    reported = found.axes.get("os", "")
    own = release_of(reported)
    if own:
        return (*_filled(found, own), "")
    systems = dict.fromkeys((DEFAULT_OS, *(name for name, one in OURS.releases().items() if one.bootstraps)))
    tried = [_filled(found, name) for name in systems]
    cell, left = min(tried, key=lambda one: len(one[1]))
    why = f"{reported} was reported, which is not available" if reported else "the report names no distribution"
    if found.system in ("windows", "macos"):
        why = f"the report is from {'Windows' if found.system == 'windows' else 'macOS'}, and a container runs Linux"
    left = [f"os {reported} was reported and is not available.", *left] if reported else left
    return (
        cell,
        left,
        f"{cell['os']} is {'the default' if cell['os'] == DEFAULT_OS else 'a release that has the rest'}: {why}",
    )


def _filled(found: EnvironmentBlock, os: str) -> tuple[dict[str, str], list[str]]:
    """The cell on a system, with every axis that is available there, and what is left out."""
    cell = {"os": os}
    left = []
    for axis in ORDER[1:]:
        text = found.axes.get(axis, "").removesuffix(".*")
        if not re.fullmatch(r"\d+(?:\.\d+)*", text):
            continue
        asked = ".".join(versions.parts(text)[: _PARTS[axis]])
        reason = unavailable({**cell, axis: asked})
        # Before 5 the second number was that of a release of its own.
        if reason and axis == "gcc" and versions.order(asked) >= (5,):
            major = versions.parts(text)[0]
            asked, reason = (major, "") if not unavailable({**cell, axis: major}) else (asked, reason)
        if not reason:
            cell[axis] = asked
            continue
        why = re.split(": its | [(]|; ", reason)[0]  # the alternatives are long, and validate lists them, too
        left.append(f"{axis} {text} was reported and is left out: {why}.")
    return cell, left


def unavailable(cell: Mapping[str, str]) -> str:
    """Why no image can be made for a cell, '' where one can."""
    return _resolved(tuple(cell.items()))[0]


def of_conda(cell: Mapping[str, str]) -> frozenset[str]:
    """The axes of a cell that conda-forge serves, since nothing else has that version."""
    return _resolved(tuple(cell.items()))[1]


@lru_cache(maxsize=4096)  # the same few are asked for on every system
def _resolved(cell: tuple[tuple[str, str], ...]) -> tuple[str, frozenset[str]]:
    spec = CellSpec(
        cell=dict(cell), environment=EnvironmentSpec(), sources={}, files={}, datasets={}, env={}, workdir="/workspace",
        command=("true",), limits=Limits(),
    )  # fmt: skip
    try:
        found = resolve(spec, Supply(base_source="registry"))
    except ReprokitError as error:
        return str(error), frozenset()
    parts = {"python": found.python, "gcc": found.gcc, "cuda": found.cuda, "cudnn": found.cudnn}
    return "", frozenset(name for name, part in parts.items() if part and part.source == "conda")


def release_of(text: str) -> str:
    """The known release in a text such as ``Ubuntu 20.04.6 LTS`` or ``ubuntu-20.04``; '' where there is none."""
    for name, release in OURS.releases().items():
        version = name.partition("-")[2]
        if re.search(rf"\b{release.family}\D{{0,30}}{re.escape(version)}(?![\d])", text, re.IGNORECASE):
            return name
    return ""


def manager_of(os: str) -> str:
    """The package manager of a release: ``apt`` or ``dnf``."""
    releases = OURS.releases()
    return releases[os].manager if os in releases else "apt"


def _written(cells: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """``matrix`` for exactly these cells: axes where all of their combinations were reported; else ``include``."""
    every = dict.fromkeys((*ORDER, *(name for cell in cells for name in cell)))
    names = [name for name in every if any(name in cell for cell in cells)]
    included = {"include": [{name: cell[name] for name in names if name in cell} for cell in cells]}
    if any(set(cell) != set(names) for cell in cells):
        return included
    values = {
        name: sorted({cell[name] for cell in cells}, key=lambda one: (versions.order(one), one)) for name in names
    }
    exact = math.prod(len(values[name]) for name in names) == len(cells)
    return values if exact else included

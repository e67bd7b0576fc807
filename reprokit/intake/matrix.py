"""The environments of a report as a matrix: known axes with values that images can have, as precise as cases. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import takewhile
from typing import Any

from reprokit.case.cellspec import CellSpec, EnvironmentSpec, Limits
from reprokit.case.model import RESERVED
from reprokit.case.templates import is_template
from reprokit.core.errors import ReprokitError
from reprokit.environment import versions
from reprokit.environment.axes import BY_NAME, KNOWN, READERS, REPORTED
from reprokit.environment.axes.operating_system import DEFAULT as DEFAULT_OS
from reprokit.environment.catalog import OURS
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from reprokit.intake.environment_model import EnvironmentBlock
from reprokit.intake.facts import ContrastFact

_PARTS = dict.fromkeys(KNOWN.of_versions(), 2)
"""Parts of a version that cases use: what comes behind is a patch release, of which an image has one."""
ORDER = tuple(dict.fromkeys(("os", "cuda", "cudnn", *REPORTED, *READERS)))
"""The axes of a draft: CUDA's before what is compiled with it, the others in their usual order."""
_REGISTRY = Supply(base_source="registry")
_OWN_PACKAGES = Supply(base_source="bootstrap", python=("distribution",), gcc=("distribution",))
_SHOWN = 10
"""Most environments whose lines a comment lists."""


@dataclass
class DraftMatrix:
    """The format's ``matrix``, and where it comes from."""

    data: dict[str, Any] = field(default_factory=dict)
    notes: dict[tuple[str | int, ...], tuple[str, ...]] = field(default_factory=dict)
    cells: list[dict[str, str]] = field(default_factory=list)
    """One per environment, in their order."""
    missing: list[str] = field(default_factory=list)
    """What was reported but is not in the matrix, one sentence each."""


def build_matrix(environments: Sequence[EnvironmentBlock], free: Sequence[Mapping[str, str]]) -> DraftMatrix:
    """The matrix of a report's environments. ``free``: further axes of each (a framework's version), used unchanged."""
    result = DraftMatrix()
    os_notes: list[str] = []
    for found, more in zip(environments, free, strict=True):
        cell, left, note = _choose_cell(found)
        result.missing += [text for text in left if text not in result.missing]
        os_notes += [note] if note and note not in os_notes else []
        result.cells.append({**cell, **more})
    cells = [cell for number, cell in enumerate(result.cells) if cell not in result.cells[:number]]
    result.data = _write_matrix(cells)
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


def _choose_cell(found: EnvironmentBlock) -> tuple[dict[str, str], list[str], str]:
    """(an available cell, what is left out of it, how its system was chosen where the report names none that is there).

    Where the report names no system, it is the one on which least is left out, and of these one whose own Python the
    cell asks for: without a registry nothing else has it.
    """
    reported = found.axes.get("os", "")
    own = release_of(reported)
    if own:
        return (*_fill_cell(found, own), "")
    systems = dict.fromkeys((DEFAULT_OS, *(name for name, one in OURS.releases().items() if one.bootstraps)))
    cell, left = min(
        (_fill_cell(found, name) for name in systems), key=lambda one: (len(one[1]), not _has_python(one[0]))
    )
    why = f"{reported} was reported, which is not available" if reported else "the report names no distribution"
    if found.system in ("windows", "macos"):
        why = f"the report is from {'Windows' if found.system == 'windows' else 'macOS'}, and a container runs Linux"
    left = [f"os {reported} was reported and is not available.", *left] if reported else left
    how = "the default" if cell["os"] == DEFAULT_OS else "a release that has the rest"
    if how != "the default" and _has_python(cell):
        how = f"a release whose own Python is {cell['python']}"
    return cell, left, f"{cell['os']} is {how}: {why}"


def _has_python(cell: Mapping[str, str]) -> bool:
    """Whether a cell asks for no Python, or for that of its system's own packages."""
    asked = tuple((axis, cell[axis]) for axis in ("os", "python") if axis in cell)
    return "python" not in cell or not _resolve_cell(asked, own=True)[0]


def _fill_cell(found: EnvironmentBlock, os: str) -> tuple[dict[str, str], list[str]]:
    """The cell on a system, with every axis that is available there, and what is left out."""
    cell = {"os": os}
    left = []
    for axis in ORDER[1:]:
        text = found.axes.get(axis, "").removesuffix(".*")
        if not re.fullmatch(r"\d+(?:\.\d+)*", text):
            continue
        asked = ".".join(versions.parts(text)[: _PARTS[axis]])
        reason = why_unavailable({**cell, axis: asked})
        # Before 5 the second number was that of a release of its own.
        if reason and axis == "gcc" and versions.order(asked) >= (5,):
            major = versions.parts(text)[0]
            asked, reason = (major, "") if not why_unavailable({**cell, axis: major}) else (asked, reason)
        if not reason:
            cell[axis] = asked
            continue
        why = re.split(": its | [(]|; ", reason)[0]  # the alternatives are long, and validate lists them, too
        left.append(f"{axis} {text} was reported and is left out: {why}.")
    return cell, left


def why_unavailable(cell: Mapping[str, str]) -> str:
    """Why no image can be made for a cell, '' where one can."""
    return _resolve_cell(tuple(cell.items()))[0]


def conda_axes(cell: Mapping[str, str]) -> frozenset[str]:
    """The axes of a cell that conda-forge serves, since nothing else has that version."""
    return _resolve_cell(tuple(cell.items()))[1]


@lru_cache(maxsize=4096)  # the same few are asked for on every system
def _resolve_cell(cell: tuple[tuple[str, str], ...], *, own: bool = False) -> tuple[str, frozenset[str]]:
    """(why a cell is not available, the axes that conda-forge serves). ``own``: of its system's packages alone."""
    spec = CellSpec(
        cell=dict(cell), environment=EnvironmentSpec(), sources={}, files={}, datasets={}, env={}, workdir="/workspace",
        command=("true",), limits=Limits(),
    )  # fmt: skip
    try:
        found = resolve(spec, _OWN_PACKAGES if own else _REGISTRY)
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


def _write_matrix(cells: Sequence[Mapping[str, str]]) -> dict[str, Any]:
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


# -- what a reader says is changed where it works ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Variation:
    """An axis with a value that fails and one that works."""

    axis: str
    fails: str
    works: str
    data: Mapping[str, Any]
    """The keys of the case in which its value stands."""


def vary(one: ContrastFact, data: Mapping[str, Any]) -> Variation | None:
    """The axis of what is changed; None where no variable, and not one place of the command, has what fails.

    ``MODE=fast`` and ``MODE=slow`` have the values fast and slow: what both begin with stays in the text.
    """
    fails, works, command = one.fails.strip(), one.works.strip(), str(data["command"])
    parts = zip(re.split(r"(?<=[=:\s])", fails), re.split(r"(?<=[=:\s])", works), strict=False)
    head = "".join(part for part, _ in takewhile(lambda pair: pair[0] == pair[1], parts))
    bad, good = fails[len(head) :], works[len(head) :]
    axis = re.sub(r"[^a-z0-9]+", "_", (one.name or head or fails).lower()).strip("_").lstrip("0123456789_")[:40]
    taken = {*data.get("matrix", {}), *BY_NAME, *RESERVED}
    if not (bad and good and axis) or axis in taken or any(map(is_template, (fails, works, command))):
        return None
    name = head.removesuffix("=")
    if data.get("env", {}).get(name) == bad:
        changed: dict[str, Any] = {"env": {**data["env"], name: f"{{{{ {axis} }}}}"}}
    elif len(found := re.findall(rf"(?<![\w.-]){re.escape(fails)}(?![\w.-])", command)) == 1:
        changed = {"command": command.replace(found[0], f"{head}{{{{ {axis} }}}}")}
    else:
        return None
    return Variation(axis=axis, fails=bad, works=good, data=changed)

"""The environments of a report as a matrix: known axes with available values, in the precision of cases. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from reprokit.case.cellspec import CellSpec, EnvironmentSpec, Limits
from reprokit.core.errors import ReprokitError
from reprokit.environment import versions
from reprokit.environment.axes import BY_NAME, KNOWN, READERS, REPORTED
from reprokit.environment.axes.operating_system import DEFAULT as DEFAULT_OS
from reprokit.environment.catalog import OURS
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from reprokit.intake.environments import EnvironmentBlock, Rank

PARTS = dict.fromkeys(KNOWN.of_versions(), 2)
"""Parts of a version that cases use: what comes behind is a patch release, of which an image has one."""
ORDER = tuple(dict.fromkeys(("os", "cuda", "cudnn", *REPORTED, *READERS)))
"""The axes of a draft: CUDA's before what is compiled with it, the others in their usual order."""
_UNNAMED = "the report names no distribution"
FAMILIES = frozenset(release.family for release in OURS.releases().values())
_SHOWN = 10
"""Most environments whose lines a comment lists."""
MOST_PARTIAL = 1
"""``exclude`` is used where it has at most so many entries per environment; else ``include`` is shorter."""


@dataclass
class DraftMatrix:
    """``data``: the format's ``matrix``; ``notes``: place -> comments; ``cells``: one per environment, in their order.

    ``dropped``: what was reported but is not in the matrix, in words.
    """

    data: dict[str, Any] = field(default_factory=dict)
    notes: dict[tuple[str | int, ...], tuple[str, ...]] = field(default_factory=dict)
    cells: list[dict[str, str]] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


def matrix(
    environments: Sequence[EnvironmentBlock], failing: int, *, compiles: bool, free: Sequence[Mapping[str, str]] = ()
) -> DraftMatrix:
    """The matrix of a report's environments; it failed in the environment with index ``failing``.

    ``compiles``: something is compiled before it fails, so the compiler matters. Otherwise all cells have the compiler
    of the environment that failed: one difference less to examine. ``free``: further axes of each environment (a
    framework's version), used unchanged.
    """
    result = DraftMatrix()
    compiles = compiles or _compared("gcc", environments)
    asked = [dict(found.axes) for found in environments]
    light = [_weights(found, compiles=compiles) for found in environments]
    if not compiles:
        for number, (found, versions_) in enumerate(zip(environments, asked, strict=True)):
            gcc = asked[failing].get("gcc", "")
            if number != failing and versions_.get("gcc", gcc) != gcc:
                result.dropped.append(
                    f"gcc {versions_['gcc']} of the environment in lines {found.first} to {found.last}: nothing is "
                    "compiled here, so every cell has the compiler of the environment that failed"
                )
            versions_["gcc"] = gcc
    os_notes: dict[str, dict[str, None]] = {}
    for number, (found, cell) in enumerate(zip(environments, _cells(asked, light, environments), strict=True)):
        result.dropped += [text for text in cell.dropped if text not in result.dropped]
        if cell.note:
            glibc = found.glibc if cell.note.endswith(_UNNAMED) else ""
            os_notes.setdefault(cell.note, {}).update({glibc: None} if glibc else {})
        result.cells.append({**cell.values, **(free[number] if free else {})})
    result.data = _written([cell for number, cell in enumerate(result.cells) if cell not in result.cells[:number]])
    notes = [note + (f", only glibc {' and '.join(glibc)}" if glibc else "") for note, glibc in os_notes.items()]
    _comment(result, environments, notes)
    return result


def _compared(axis: str, environments: Sequence[EnvironmentBlock]) -> bool:
    """Whether sentences compare versions of an axis."""
    stated = {found.axes.get(axis, "") for found in environments if found.kind == "stated"}
    return any(stated - {found.axes.get(axis, "")} - {""} for found in environments if axis in found.axes)


def _weights(found: EnvironmentBlock, *, compiles: bool) -> Mapping[str, float]:
    """How much axes count for the choice of a system that count less than others.

    What programs list incidentally does not count where nothing is compiled; the CUDA for which a framework was built
    counts little, since its packages bring it.
    """
    ranks = {axis: found.claim(axis).rank for axis in found.axes}
    listed = {axis: 0.0 for axis, rank in ranks.items() if axis not in REPORTED and rank is not Rank.STATED}
    built = {axis: _BUILT for axis in ("cuda", "cudnn") if ranks.get(axis) is Rank.BUILT}
    return built if compiles else built | listed


_BUILT = 0.3


_NEAREST = {"python": 0, "cuda": 3, "cudnn": 4, "gcc": 3, "clang": 3, "cmake": 1, "nccl": 0}
"""How far the first number of a version may be from the reported one that is not available."""
_LEFT_OUT, _FAR, _NEAR, _OTHER_SYSTEM, _OTHER_FAMILY = 4000, 3000, 2000, 1500, 2000
"""How much it costs that an axis is left out or has another version, and that the release or its family is another.

CUDA and cuDNN of another generation, and another Python, are hardly better than none.
"""
_OF_CONDA = 100
"""How much it costs that conda-forge has to serve an axis: less than another system, but where the report leaves the
system open, one is preferred whose CUDA has nvcc and whose packages a lock holds."""


@dataclass(frozen=True)
class _Cell:
    """``values``: an available cell; ``dropped``: what differs from the report and why; ``cost``: how much that is."""

    values: dict[str, str]
    dropped: tuple[str, ...] = ()
    cost: int = 0
    note: str = ""


def _cells(
    asked: Sequence[Mapping[str, str]], light: Sequence[Mapping[str, float]], environments: Sequence[EnvironmentBlock]
) -> list[_Cell]:
    """An available cell for each environment, on a system on which all that it asks for is available together.

    Where no system has all, it is the one on which least is left out, or near what is asked for. Environments without a
    system get the same one if that costs none of them a version: one difference less to examine.
    """
    options = [
        {name: _cell(one, name, few) for name in _systems(one, found)}
        for one, few, found in zip(asked, light, environments, strict=True)
    ]
    chosen = [min(cells, key=lambda name: cells[name].cost) for cells in options]
    unnamed = [number for number, one in enumerate(asked) if not release_of(one.get("os", ""))]
    for name in dict.fromkeys(name for number in unnamed for name in options[number]):
        if all(name in options[at] and options[at][name].cost == options[at][chosen[at]].cost for at in unnamed):
            chosen = [name if number in unnamed else one for number, one in enumerate(chosen)]
            break
    return [
        replace(cells[name], note=_why(name, one, found, cells))
        for name, cells, one, found in zip(chosen, options, asked, environments, strict=True)
    ]


def _cell(asked: Mapping[str, str], os: str, light: Mapping[str, float]) -> _Cell:
    """The cell on a system, with every axis that is available there. ``light``: how much axes count that count less.

    Where cuDNN is not available for the CUDA that is nearest, with another CUDA if that has one.
    """
    cell = _filled(asked, os, light, ())
    if "cuda" in cell.values and "cudnn" in asked and "cudnn" not in cell.values:
        others = _nearest("cuda", cell.values["cuda"], "")[:_TRIED]
        return min([cell, *(_filled(asked, os, light, (one,)) for one in others)], key=lambda one: one.cost)
    return cell


_TRIED = 8
"""Most versions of CUDA that are tried for a cuDNN."""


def _filled(asked: Mapping[str, str], os: str, light: Mapping[str, float], cuda: Sequence[str]) -> _Cell:
    own, family = release_of(asked.get("os", "")), asked.get("os", "").partition("-")[0]
    cost = _OTHER_SYSTEM if own and own != os else 0
    if family in FAMILIES and family != os.partition("-")[0] and not _rebuilds(os, asked.get("os", "")):
        cost += _OTHER_FAMILY
    cell: dict[str, str] = {"os": os}
    dropped = []
    for axis in ORDER[1:]:
        text = asked.get(axis, "").removesuffix(".*")
        if not re.fullmatch(r"\d+(?:\.\d+)*", text):
            if text and text != versions.NONE:
                dropped.append(f"{axis} {text!r} is not a version")
            continue
        value, why, near = _served(cell, axis, text, cuda if axis == "cuda" else ())
        first, second = _apart(value, text) if near else (0, 0)
        first = second if axis == "python" else first
        distance = _FAR if first > 0 and axis in ("cuda", "cudnn", "python") else _NEAR
        more = distance + 100 * first + second if near else 0 if value else _LEFT_OUT
        if value:
            cell[axis] = value
            more += _OF_CONDA * (axis in of_conda(cell))
        cost += int(more * light.get(axis, 1))
        if why:
            dropped.append(why)
    return _Cell(cell, tuple(dropped), cost)


def _systems(asked: Mapping[str, str], found: EnvironmentBlock) -> list[str]:
    """The releases that may serve an environment, the preferred ones first: its own, then the nearest of its family.

    For one that names none, and behind those: those that package its Python, the default, then releases with its glibc,
    then the newest.
    """
    releases = OURS.releases()
    family, _, version = asked.get("os", "").lower().partition("-")
    own = release_of(asked.get("os", ""))
    # What the report does not name itself is a release that any host can build, where its family has one.
    current = {name: release for name, release in releases.items() if release.bootstraps}
    family = releases[own].family if own else family
    alike = [name for name, release in current.items() if release.family == family]
    near = sorted(
        alike or [name for name, release in releases.items() if release.family == family],
        key=lambda name: _distance(
            name.partition("-")[2], own.partition("-")[2] or version or _USUAL.get(family, "99")
        ),
    )
    newest = sorted(current, key=lambda name: -releases[name].epoch)
    rebuilds = [name for name in releases if _rebuilds(name, asked.get("os", ""))]
    glibc = [name for name in newest if found.glibc and releases[name].glibc == found.glibc]
    names = list(dict.fromkeys([*([own] if own else []), *rebuilds, *near, DEFAULT_OS, *glibc, *newest]))
    python = ".".join(versions.parts(asked.get("python", ""))[:2])
    if own or not python:
        return names
    # Of the releases that may serve it, first those whose own packages have that Python: any host can build these.
    has = {name for name in names if any(versions.matches(python, one) for one in releases[name].pythons)}
    like = {*rebuilds, *near}
    return sorted(names, key=lambda name: (bool(like) and name not in like, name not in has))


_USUAL = {"ubuntu": "24.04", "centos": "7"}
"""The release of a family for reports that name none, where it is not the newest: reports look back."""
_ENTERPRISE_LINUX = ("centos", "rocky", "almalinux", "oraclelinux", "rhel")
"""Families whose releases of one number are built from the same sources."""


def _rebuilds(name: str, reported: str) -> bool:
    """Whether a release is built from the sources of the reported one, which is of another family."""
    (one, _, version), (other, _, others) = name.partition("-"), reported.lower().rpartition("-")
    major = others.partition(".")[0]
    if one in _ENTERPRISE_LINUX and other in (*_ENTERPRISE_LINUX, "scientific-linux"):
        return version == major and name != reported
    made = {"pop": f"ubuntu-{others}", "linux-mint": f"ubuntu-{_MINT.get(major)}", "raspbian": f"debian-{others}"}
    return name == made.get(other)


_MINT = {"19": "18.04", "20": "20.04", "21": "22.04", "22": "24.04"}
"""Linux Mint -> the Ubuntu that it is made from. Source: its release notes."""


def _distance(one: str, other: str) -> tuple[int, int]:
    """How far two releases are apart; of two as far away, the newer first."""
    a, b = ((*versions.order(text), 0, 0)[:2] for text in (one, other))
    return abs((a[0] - b[0]) * 12 + a[1] - b[1]), -a[0]


def _why(name: str, asked: Mapping[str, str], found: EnvironmentBlock, cells: Mapping[str, _Cell]) -> str:
    """How the system was chosen, where it is not the reported one; '' where it is."""
    reported = asked.get("os", "")
    if name == (own := release_of(reported)):
        return ""
    why = _UNNAMED
    if own:
        why = f"{reported} was reported, and {_listed(cells[own].dropped)}"
    elif reported:
        why = f"{reported} was reported, {'which is not available' if '-' in reported else 'without its release'}"
        why = why if reported.partition("-")[0] in FAMILIES else f"{reported} was reported, which is not available"
    elif found.system in ("windows", "macos"):
        why = f"the report is from {'Windows' if found.system == 'windows' else 'macOS'}, and a container runs Linux"
    if name == DEFAULT_OS and reported.partition("-")[0] != "debian":
        return f"{name} is the default: {why}"
    served = " and ".join(f"{axis} {value}" for axis, value in cells[name].values.items() if axis != "os")
    if _rebuilds(name, reported):
        return f"{name} is built from the same sources: {why}"
    words = "the nearest release" if own or name.startswith(reported.partition("-")[0] or " ") else "a release"
    return f"{name} is {words}{f' that has {served}' if served else ''}: {why}"


def _listed(dropped: Sequence[str]) -> str:
    return "; ".join(text.replace(" was reported and is left out: ", ": ") for text in dropped)


def _served(cell: Mapping[str, str], axis: str, text: str, only: Sequence[str] = ()) -> tuple[str, str, bool]:
    """(available value, why it differs, whether it is another version): two parts, or one with another minor.

    ``only``: the versions that may stand for one that is not available, where not all of them may.
    """
    parts = versions.parts(text)
    asked = ".".join(parts[: PARTS[axis]])
    reason = unavailable({**cell, axis: asked})
    if not reason:
        return asked, "", False
    # Before 5 the second number was that of a release of its own.
    if axis == "gcc" and versions.order(asked) >= (5,) and not unavailable({**cell, axis: parts[0]}):
        why = f"{axis} {text}: only another {parts[0]}.x is available on {cell['os']}" if parts[1:] else ""
        return parts[0], why, False
    # Only the cause: the alternatives are long, and validate lists them, too.
    reason = re.split(": its | [(]|; ", reason)[0]
    for value in only or _nearest(axis, asked, cell.get("cuda", "")):
        if not unavailable({**cell, axis: value}):
            return value, f"{axis} {text} was reported and is not available ({reason}): {value} is the nearest", True
    return "", f"{axis} {text} was reported and is left out: {reason}", False


@lru_cache(maxsize=4096)
def _nearest(axis: str, asked: str, cuda: str) -> tuple[str, ...]:
    """The versions near the one that is asked for, the nearest first; of two as near, the newer."""
    most = _NEAREST.get(axis)
    if most is None:
        return ()
    found = {
        ".".join(versions.parts(one)[: PARTS[axis]])
        for os in OURS.releases()
        for one in BY_NAME[axis].releases({"os": os, "cuda": cuda}, OURS)
    }
    near = {one: far for one in found if (far := _apart(one, asked))[0] <= most}
    return tuple(sorted(near, key=lambda one: (near[one], versions.order(one)[0] < versions.order(asked)[0], one)))


def _apart(one: str, other: str) -> tuple[int, int]:
    """How far two versions are apart: in their first numbers, and in the second ones from there on."""
    (a, b), (c, d) = ((*versions.order(text), 0, 0)[:2] for text in (one, other))
    return abs(a - c), abs(b - d) if a == c else b if a > c else 99 - b


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
        if release.codename and re.search(rf"\b{release.codename}\b", text, re.IGNORECASE):
            return name
    return ""


def _written(cells: Sequence[Mapping[str, str]]) -> dict[str, Any]:
    """``matrix`` for exactly these cells: axes, with ``exclude`` where that is short; else ``include``."""
    names = [
        name
        for name in dict.fromkeys((*ORDER, *(name for cell in cells for name in cell)))
        if any(name in c for c in cells)
    ]
    if any(set(cell) != set(names) for cell in cells):
        return {"include": [{name: cell[name] for name in names if name in cell} for cell in cells]}
    values = {name: sorted({cell[name] for cell in cells}, key=_order) for name in names}
    varying = [name for name in names if len(values[name]) > 1]
    have = {tuple(cell[name] for name in varying) for cell in cells}
    # A list of exceptions from such a large product would be too long.
    if math.prod(len(values[name]) for name in varying) > 10_000:
        return {"include": [{name: cell[name] for name in names} for cell in cells]}
    absent = [
        combination for combination in itertools.product(*(values[name] for name in varying)) if combination not in have
    ]
    if len(absent) > MOST_PARTIAL * len(cells):
        return {"include": [{name: cell[name] for name in names} for cell in cells]}
    data: dict[str, Any] = dict(values)
    if absent:
        data["exclude"] = [dict(zip(varying, combination, strict=True)) for combination in absent]
    return data


def _order(value: str) -> tuple[tuple[int, ...], str]:
    return versions.order(value), value


def _comment(result: DraftMatrix, environments: Sequence[EnvironmentBlock], os_notes: Iterable[str]) -> None:
    where = "; ".join(
        f"lines {found.first} to {found.last} ({found.kind})"
        if found.first != found.last
        else f"line {found.first} ({found.kind})"
        for found in environments[:_SHOWN]
    )
    where += f" and {len(environments) - _SHOWN} more" if len(environments) > _SHOWN else ""
    notes: list[str] = []
    if environments:
        many = len(environments) > 1
        notes.append(f"from the {'environments' if many else 'environment'} in {where}, cut to the precision of cases")
    notes += result.dropped
    if result.data.get("exclude"):
        result.notes[("matrix", "exclude")] = ("combinations that were not reported",)
    if result.data.get("include"):
        notes.append("only the combinations that were reported")
    place: tuple[str | int, ...] = ("matrix", "os") if "os" in result.data else ("matrix",)
    if place == ("matrix",):
        notes += os_notes
    else:
        result.notes[place] = tuple(os_notes)
    result.notes[("matrix",)] = tuple(notes)
    result.notes = {key: value for key, value in result.notes.items() if value}

"""Which values of an axis lie between two: a package's releases from its index, or the versions in reprokit's catalog.

A free axis is a package's version where an item of ``environment.pip`` pins it: ``numpy=={{ numpy }}``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Partial
from reprokit.case.templates import RenderError, inspect, render_text
from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.environment import versions
from reprokit.environment.axes import AXIS_NAMES, BY_NAME
from reprokit.environment.axes.operating_system import release_of
from reprokit.environment.catalog import OURS, Catalog
from reprokit.search.package_index import DistributionFile, files_of


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Which releases between two ends are tried; the ends themselves always are.

    ``pre``: pre-releases too. ``since`` and ``before``: dates (YYYY-MM-DD), the first day to include and the first
    to exclude; '' = no limit.
    """

    pre: bool = False
    since: str = ""
    before: str = ""


@dataclass(frozen=True, kw_only=True)
class Releases:
    """The values between two ends, both included, in order. ``of``: the package or axis; ``things``: their plural noun.

    ``dates``: value -> the day of its release, where it is known. ``left_out``: value -> why, in words. ``every``:
    ``values`` and those left out, in order. ``notes``: indexes that did not answer and may have more.
    """

    of: str
    values: tuple[str, ...]
    things: str = "releases"
    dates: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    every: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def between(
    file: CaseFile,
    cell: Partial,
    axis: str,
    low: str,
    high: str,
    policy: Policy | None = None,
    catalog: Catalog = OURS,
) -> Releases:
    """The values of ``axis`` from ``low`` to ``high`` in a cell with these other axes. Reads package indexes.

    Raises UsageError when the values in between are not known, when an end is not available, or when no index answers.
    """
    policy = policy or Policy()
    own = of_matrix(file, axis)
    if axis in AXIS_NAMES:
        return _known(axis, cell, low, high, own, catalog)
    # One of the ends may not be a version.
    projects = distributions(file, cell, axis, low) or distributions(file, cell, axis, high)
    if not projects:
        return _as_written(axis, low, high, own)
    found = [_of_project(name, file, cell, axis, (low, high), policy, own, catalog) for name in projects]
    first = found[0]
    for other in found[1:]:  # an axis that pins several packages moves them together
        missing = {value: f"{other.of} has no such release" for value in first.values if value not in other.values}
        first = Releases(
            of=f"{first.of} and {other.of}",
            values=tuple(value for value in first.values if value in other.values),
            dates=first.dates,
            left_out={**first.left_out, **missing, **other.left_out},
            every=first.every,
            notes=(*first.notes, *other.notes),
        )
    return first


def distributions(file: CaseFile, cell: Partial, axis: str, value: str) -> tuple[str, ...]:
    """The packages whose version is the value of ``axis``: those that an item of ``environment.pip`` pins to it."""
    found: list[str] = []
    for template in (text for step in file.case.environment.pip_steps for text in step.requirements):
        used = inspect(template)
        if axis not in used.names | used.guarded:
            continue
        try:
            requirement = Requirement(render_text(template, {**cell, axis: value}).strip())
        except (RenderError, InvalidRequirement):
            continue
        pins = [pin.version for pin in requirement.specifier if pin.operator in ("==", "===")]
        if len(pins) == 1 and _public(pins[0]) == _public(value) and not requirement.url:
            found.append(requirement.name)
    return tuple(dict.fromkeys(found))


def _public(value: str) -> str:
    return value.partition("+")[0]


def of_matrix(file: CaseFile, axis: str) -> tuple[str, ...]:
    """The values of an axis in the case's matrix (``include`` too), in the order of the matrix."""
    matrix = file.case.matrix
    return tuple(dict.fromkeys([*matrix.axes.get(axis, ()), *(cell[axis] for cell in matrix.include if axis in cell)]))


def _as_written(axis: str, low: str, high: str, own: Sequence[str]) -> Releases:
    """Values of an axis that is not a package's version: in the matrix's own order."""
    for value in (low, high):
        if value not in own:
            raise UsageError(
                f"--axis {axis}={low}..{high}: the values in between are not known: no item of environment.pip is "
                f"pinned by it ({axis}=={{{{ {axis} }}}}), and the matrix has no {value!r}"
                f"{near(value, own, prefix='; ')}"
            )
    places = sorted((own.index(low), own.index(high)))
    return Releases(of=axis, values=tuple(own[places[0] : places[1] + 1]), things="values")


def _known(axis: str, cell: Partial, low: str, high: str, own: Sequence[str], catalog: Catalog) -> Releases:
    """Values of a known axis: those of the catalog, cut to the precision of the ends, and those of the matrix."""
    low, high = sorted((low, high), key=versions.order)
    precise = max(len(versions.parts(low)), len(versions.parts(high)))
    if axis == "os":
        families = {value.partition("-")[0] for value in (low, high)}
        if len(families) != 1:
            raise UsageError(f"--axis os={low}..{high}: name two releases of the same distribution")
        values = {name for name in BY_NAME[axis].releases(cell, catalog) if name.partition("-")[0] in families}
    else:
        values = {".".join(versions.parts(value)[:precise]) for value in BY_NAME[axis].releases(cell, catalog)}
    for value in (low, high):
        if value not in values and value not in own:
            if axis != "os" and not versions.order(value):
                raise UsageError(f"--axis {axis}={low}..{high}: {value!r} is not a version")
            raise UsageError(
                f"--axis {axis}={low}..{high}: {axis} {value} is not known; there are: "
                + ", ".join(sorted(values, key=versions.order))
            )
    inside = {
        value for value in {*values, *own} if versions.order(low) <= versions.order(value) <= versions.order(high)
    }
    return Releases(of=axis, values=tuple(sorted(inside - {versions.NONE}, key=versions.order)))


def _of_project(
    name: str,
    file: CaseFile,
    cell: Partial,
    axis: str,
    ends: tuple[str, str],
    policy: Policy,
    own: Sequence[str],
    catalog: Catalog,
) -> Releases:
    at = f"--axis {axis}={ends[0]}..{ends[1]}"
    low, high = sorted(_version(at, value) for value in ends)
    asked = file.case.environment
    templates = [*asked.pip_options, *(text for step in asked.pip_steps for text in step.options)]
    options = [render_text(text, {**cell, axis: end}) for text in templates for end in ends]
    found = files_of(name, tuple(dict.fromkeys(options)))
    grouped = _by_version(found.files, name)
    unknown = () if grouped else (f"no index that was asked has {name}: only the values of the matrix are known",)
    # The spelling of the user or the case wins: 2.0 for what the index calls 2.0.0.
    spelt = {_version(at, value): value for value in (*_versions_of(own), *ends)}
    python = _python(cell, catalog)
    explicit = bool(file.case.environment.image)
    values: list[str] = []
    every: list[str] = []
    dates: dict[str, str] = {}
    left_out: dict[str, str] = {}
    for version in sorted({*grouped, *spelt}):
        if not low <= version <= high:
            continue
        text = spelt.get(version, str(version))
        files = grouped.get(version, [])
        if uploaded := min((one.uploaded for one in files if one.uploaded), default=""):
            dates[text] = uploaded[:10]
        why = "" if not files else _not_installable(files, python, "" if explicit else _glibc(cell, catalog))
        if text in ends:
            if why or (not files and text not in own):
                what = why or "no index that was asked has it"
                known = [spelt.get(one, str(one)) for one in grouped]
                raise UsageError(f"{at}: {name} {text} is not available: {what}{near(text, known, prefix='; ')}")
        else:
            why = why or (_unwanted(version, text, files, dates.get(text, ""), policy, spelt) if files else "")
        every.append(text)
        if why:
            left_out[text] = why
        else:
            values.append(text)
    return Releases(
        of=name,
        values=tuple(values),
        dates=dates,
        left_out=left_out,
        every=tuple(every),
        notes=(*found.notes, *unknown),
    )


def _version(at: str, value: str) -> Version:
    try:
        return Version(value)
    except ValueError:  # InvalidVersion, or numbers of thousands of digits
        raise UsageError(f"{at}: {value!r} is not a version of a Python package") from None


def _versions_of(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        try:
            Version(value)
        except ValueError:
            continue
        yield value


def _by_version(files: Iterable[DistributionFile], project: str) -> dict[Version, list[DistributionFile]]:
    grouped: dict[Version, list[DistributionFile]] = {}
    for file in files:
        try:
            parse = parse_wheel_filename if file.name.endswith(".whl") else parse_sdist_filename
            found, version = parse(file.name)[:2]
        except ValueError:
            continue  # an egg, an installer of Windows, numbers of thousands of digits
        if found == canonicalize_name(project):
            grouped.setdefault(version, []).append(file)
    return grouped


def _unwanted(
    version: Version,
    text: str,
    files: Sequence[DistributionFile],
    date: str,
    policy: Policy,
    spelt: Collection[Version],
) -> str:
    """Why a release between the ends is left out; '' when it is not."""
    if all(file.yanked is not None for file in files):
        why = next((file.yanked for file in files if file.yanked), "")
        return "yanked" + (f": {''.join(filter(str.isprintable, ' '.join(why.split())))}" if why else "")
    if version.local and version not in spelt:
        return "a local version, which nothing asks for"
    if version.is_prerelease and not policy.pre and version not in spelt:
        return "a pre-release"
    if policy.since or policy.before:
        if not date:
            return "its index does not say when it was released"
        if policy.since and date < policy.since:
            return f"released {date}, before {policy.since}"
        if policy.before and date >= policy.before:
            return f"released {date}, not before {policy.before}"
    return ""


def _not_installable(files: Sequence[DistributionFile], python: str, glibc: str) -> str:
    """Why no file of a release can be installed with a Python; '' when one can. ``python`` '' = unknown."""
    takes = [file for file in files if not python or _takes(file.requires_python, python)]
    if not takes:
        return f"needs Python {files[0].requires_python}"
    known = tags(python, glibc) if python else None
    for file in takes:
        if not file.name.endswith(".whl"):
            return ""
        offered = parse_wheel_filename(file.name)[3]
        if known & offered if known is not None else any(_on_linux(tag) for tag in offered):
            return ""
    return f"no wheel for Python {python or 'of any version'} on x86-64 Linux, and no source distribution"


def _takes(requires: str, python: str) -> bool:
    try:
        return SpecifierSet(requires).contains(python, prereleases=True)
    except ValueError:  # pip ignores a specifier that it cannot read, too
        return True


def _on_linux(tag: Tag) -> bool:
    return tag.platform == "any" or ("linux" in tag.platform and tag.platform.endswith("x86_64"))


def _python(cell: Partial, catalog: Catalog) -> str:
    """The full version of a cell's Python, as far as the catalog knows it; '' = unknown."""
    release = release_of(cell, catalog)
    asked = cell.get("python", "")
    own = release.pythons if release else ()
    if not asked:
        return own[0] if own else ""
    there: tuple[Callable[[], Iterable[str]], ...] = (
        lambda: own,
        lambda: catalog.python_images(release.name) if release else (),
        catalog.uv_pythons,
    )
    return next((version for has in there if (version := versions.newest(asked, has()))), asked)


def _glibc(cell: Partial, catalog: Catalog) -> str:
    release = release_of(cell, catalog)
    return release.glibc if release else ""


@lru_cache
def tags(python: str, glibc: str = "") -> frozenset[Tag]:
    """The tags of the wheels that a version of CPython accepts on x86-64 Linux with a glibc ('' = any).

    Source: PEP 425, 513, 571, 599 and 600; the ABI of CPython before 3.8 ends with m.
    """
    major, minor = [int(number) for number in re.findall(r"\d+", python)[:2]]
    newest = versions.order(glibc)[1] if glibc else 99
    old = {"manylinux1": 5, "manylinux2010": 12, "manylinux2014": 17}
    platforms = [f"manylinux_2_{number}_x86_64" for number in range(newest, 4, -1)]
    platforms += [f"{name}_x86_64" for name, least in old.items() if least <= newest] + ["linux_x86_64"]
    abi = f"cp{major}{minor}" + ("m" if (major, minor) < (3, 8) else "")
    return frozenset(
        [
            *cpython_tags((major, minor), [abi], platforms),
            *compatible_tags((major, minor), f"cp{major}{minor}", platforms),
        ]
    )

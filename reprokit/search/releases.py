"""Which values of an axis lie between two: a package's releases from its index, or the versions in reprokit's catalog.

A free axis is a package's version where ``environment.pip`` or ``environment.setup`` pins it: ``numpy=={{ numpy }}``.
Where only other templates use it, it is one if the index has a package of its name with these releases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Partial
from reprokit.case.model import TEMPLATED
from reprokit.case.templates import RenderError, inspect, render_text
from reprokit.core.errors import UsageError
from reprokit.core.near_match import near
from reprokit.environment import versions
from reprokit.environment.axes import AXIS_NAMES, BY_NAME
from reprokit.environment.axes.operating_system import release_of
from reprokit.environment.catalog import OURS, Catalog
from reprokit.search.installable import not_installable
from reprokit.search.package_index import DistributionFile, files_of

PRE_RELEASE = "a pre-release"
LOCAL = "a local version, which nothing asks for"


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
    ``values`` and those left out, in order. ``packages``: whose releases the values are. ``notes``: lines for the user.
    ``unknown``: why there may be values in between that are not among ``every``, in words.
    """

    of: str
    values: tuple[str, ...]
    things: str = "releases"
    dates: Mapping[str, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    every: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    def untried(self, low: str, high: str) -> Gap:
        """Why a change between two of its values need not be at the later one."""
        every = self.every or self.values
        if not {low, high} <= {*every}:
            return Gap(unknown=(f"not looked up: the values between {low} and {high}",))
        left = {value: self.left_out[value] for value in _inside(every, low, high) if value in self.left_out}
        return Gap(left_out=left, unknown=() if _consecutive(low, high) and not self.packages else self.unknown)


@dataclass(frozen=True, kw_only=True)
class Gap:
    """What lies between two neighbours of a line: ``left_out``: value -> why; ``unknown``: see :class:`Releases`."""

    left_out: Mapping[str, str] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the change may be at a value that was not tried. Pre-releases do not count: they are not releases."""
        untried: dict[str, list[str]] = {}
        for value, why in self.left_out.items():
            if why not in (PRE_RELEASE, LOCAL):
                untried.setdefault(why, []).append(value)
        return (*(f"not tried: {some(values)} ({why})" for why, values in untried.items()), *self.unknown)


FEW = 5
"""How many names a line lists."""


def some(values: Sequence[str]) -> str:
    """The first few values, and how many more there are."""
    rest = len(values) - FEW
    return ", ".join(values[:FEW]) + (f" and {rest} more" if rest > 0 else "")


def _inside(values: Sequence[str], one: str, other: str) -> Sequence[str]:
    low, high = sorted((values.index(one), values.index(other)))
    return values[low + 1 : high]


def _consecutive(one: str, other: str) -> bool:
    return one.isdecimal() and other.isdecimal() and abs(int(one) - int(other)) == 1


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
    own = file.case.matrix.columns().get(axis, ())
    if axis in AXIS_NAMES:
        return _known(axis, cell, low, high, own, catalog)
    # One of the ends may not be a version.
    projects = pinned(file, cell, axis, low) or pinned(file, cell, axis, high)
    if not projects:
        found, why = _by_name(file, cell, axis, (low, high), policy, own, catalog)
        return found or _as_written(axis, low, high, own, why)
    found_all = [_of_project(name, file, cell, axis, (low, high), policy, own, catalog) for name in projects]
    first = found_all[0]
    for other in found_all[1:]:  # an axis that pins several packages moves them together
        missing = {value: f"{other.of} has no such release" for value in first.values if value not in other.values}
        first = Releases(
            of=f"{first.of} and {other.of}",
            values=tuple(value for value in first.values if value in other.values),
            dates=first.dates,
            left_out={**first.left_out, **missing, **other.left_out},
            every=first.every,
            packages=projects,
            unknown=(*first.unknown, *other.unknown),
        )
    return first


def pinned(file: CaseFile, cell: Partial, axis: str, value: str) -> tuple[str, ...]:
    """The packages whose version is the value of ``axis``: what ``environment.pip`` or its ``setup`` pins to it."""
    asked = file.case.environment
    templates = [asked.setup, *(text for step in asked.pip_steps for text in step.requirements)]
    return _pins(templates, cell, axis, value)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _strings(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from _strings(inner)


def _pins(templates: Iterable[str], cell: Partial, axis: str, value: str) -> tuple[str, ...]:
    """The packages that templates pin to the value of an axis, as ``six=={{ six }}`` alone or within shell."""
    pin = re.compile(rf"(?<![\w.$/-])([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])? *===? *{re.escape(_public(value))}(?![\w.*])")
    found: dict[str, None] = {}
    for template in templates:
        used = inspect(template)
        if axis not in used.names | used.guarded:
            continue
        try:
            text = render_text(template, {**cell, axis: value})
        except RenderError:
            continue
        # What the template says itself is pinned whatever the axis is.
        found |= dict.fromkeys(match[1] for match in pin.finditer(text) if match[0] not in template)
    return tuple(found)


def _by_name(
    file: CaseFile,
    cell: Partial,
    axis: str,
    ends: tuple[str, str],
    policy: Policy,
    own: Sequence[str],
    catalog: Catalog,
) -> tuple[Releases | None, str]:
    """The releases of the package that another template pins by ``axis``, or that has its name; else None and why.

    The axis may well be something else, such as a number of threads: it is a package's version only where the index has
    both ends and all values of the matrix.
    """
    wanted = list(_versions_of((*ends, *own)))
    if axis not in file.names or len(wanted) < len((*ends, *own)):
        return None, ""
    templates = [text for section in TEMPLATED for text in _strings(file.case.model_dump(include={section}))]
    why = []
    for name in dict.fromkeys((*_pins(templates, cell, axis, ends[0]), axis)):
        try:
            files = files_of(name, _index_options(file, cell, axis, ends)).files
        except UsageError as error:
            return None, str(error)
        there = _by_version(files, name)
        missing = [value for value in dict.fromkeys(wanted) if Version(value) not in there]
        if not missing:
            found = _of_project(name, file, cell, axis, ends, policy, own, catalog)
            note = (
                f"the values of {axis} are taken for releases of the package {name}: its index has {' and '.join(ends)}"
            )
            return replace(found, notes=(*found.notes, note)), ""
        why.append(f"the index has no {name} {some(missing)}" if there else f"the index has no package {name}")
    return None, "; ".join(why)


def _index_options(file: CaseFile, cell: Partial, axis: str, ends: Sequence[str]) -> tuple[str, ...]:
    asked = file.case.environment
    templates = [*asked.pip_options, *(text for step in asked.pip_steps for text in step.options)]
    options = [render_text(text, {**cell, axis: end}) for text in templates for end in ends]
    return tuple(dict.fromkeys(options))


def _public(value: str) -> str:
    return value.partition("+")[0]


def _as_written(axis: str, low: str, high: str, own: Sequence[str], why: str) -> Releases:
    """Values of an axis that is not a package's version: in the matrix's own order. ``why`` it is not, in words."""
    for value in (low, high):
        if value not in own:
            raise UsageError(
                f"--axis {axis}={low}..{high}: the values in between are not known: "
                f"{why or f'nothing is pinned by it ({axis}=={{{{ {axis} }}}})'}, and the matrix has no {value!r}"
                f"{near(value, own, prefix='; ')}; --values A,B,C names them by hand"
            )
    places = sorted((own.index(low), own.index(high)))
    values = tuple(own[places[0] : places[1] + 1])
    unknown = f"only the values of the matrix are known{f' ({why})' if why else ''}; --values A,B,C names others"
    # Words have nothing between them but what the case lists; numbers and versions have.
    dense = len(list(_versions_of(values))) == len(values)
    return Releases(of=axis, values=values, things="values", unknown=(unknown,) if dense else ())


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
    found = files_of(name, _index_options(file, cell, axis, ends))
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
        why = "" if not files else not_installable(files, python, "" if explicit else _glibc(cell, catalog))
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
        packages=(name,),
        unknown=(*found.notes, *unknown),
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
        return LOCAL
    if version.is_prerelease and not policy.pre and version not in spelt:
        return PRE_RELEASE
    if policy.since or policy.before:
        if not date:
            return "its index does not say when it was released"
        if policy.since and date < policy.since:
            return f"released {date}, before {policy.since}"
        if policy.before and date >= policy.before:
            return f"released {date}, not before {policy.before}"
    return ""


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

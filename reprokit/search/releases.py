"""Which values of an axis lie between two: a package's releases from its index, or the versions in reprokit's catalog.

A free axis is a package's version where ``environment.pip`` or ``environment.setup`` pins it: ``numpy=={{ numpy }}``.
Where only other templates use it, it is one if the index has a package of its name with these releases.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Partial
from reprokit.case.model import TEMPLATED
from reprokit.case.templates import RenderError, inspect, render_text
from reprokit.core.errors import UsageError
from reprokit.core.json_record import JsonRecord
from reprokit.core.near_match import near
from reprokit.core.text import whole_number
from reprokit.environment import versions
from reprokit.environment.axes import AXIS_NAMES, BY_NAME
from reprokit.environment.axes.operating_system import release_of
from reprokit.environment.catalog import OURS, Catalog
from reprokit.search.package_index import DistributionFile, files_of, not_installable

PRE_RELEASE = "a pre-release"
LOCAL = "a local version, which nothing asks for"
FEW = 5
"""How many names a line lists."""


@dataclass(frozen=True, kw_only=True)
class Policy(JsonRecord):
    """Which releases between two ends are tried; the ends themselves always are."""

    pre: bool = False  # pre-releases too
    since: str = ""  # the first day to include (YYYY-MM-DD); '' = no limit
    before: str = ""  # the first day to exclude


@dataclass(frozen=True, kw_only=True)
class Releases(JsonRecord):
    """The values between two ends, both included, in order."""

    of: str  # the package or axis
    values: tuple[str, ...]
    things: str = "releases"  # the plural noun of the values
    dates: Mapping[str, str] = field(default_factory=dict)  # value -> the day of its release, where it is known
    left_out: Mapping[str, str] = field(default_factory=dict)  # value -> why, in words
    every: tuple[str, ...] = ()  # ``values`` and those left out, in order
    packages: tuple[str, ...] = ()  # whose releases the values are
    notes: tuple[str, ...] = ()  # lines for the user
    unknown: tuple[str, ...] = ()  # why there may be values in between that are not among ``every``

    def untried(self, low: str, high: str) -> Gap:
        """Why a change between two of its values need not be at the later one."""
        every = self.every or self.values
        if not {low, high} <= {*every}:
            return Gap(unknown=(f"not looked up: the values between {low} and {high}",))
        first, last = sorted((every.index(low), every.index(high)))
        left = {value: self.left_out[value] for value in every[first + 1 : last] if value in self.left_out}
        one, other = whole_number(low), whole_number(high)
        consecutive = one is not None and other is not None and abs(one - other) == 1
        return Gap(left_out=left, unknown=() if consecutive and not self.packages else self.unknown)


@dataclass(frozen=True, kw_only=True)
class Gap:
    """What lies between two neighbours of a line."""

    left_out: Mapping[str, str] = field(default_factory=dict)  # value -> why
    unknown: tuple[str, ...] = ()  # see :class:`Releases`

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why the change may be at a value that was not tried. Pre-releases do not count: they are not releases."""
        untried: dict[str, list[str]] = {}
        for value, why in self.left_out.items():
            if why not in (PRE_RELEASE, LOCAL):
                untried.setdefault(why, []).append(value)
        return (*(f"not tried: {some(values)} ({why})" for why, values in untried.items()), *self.unknown)


def some(values: Sequence[str]) -> str:
    """The first few values, and how many more there are."""
    rest = len(values) - FEW
    return ", ".join(values[:FEW]) + (f" and {rest} more" if rest > 0 else "")


@dataclass(frozen=True, kw_only=True)
class AxisRange:
    """A question for the values of an axis between two ends, in a cell with these other axes."""

    file: CaseFile
    cell: Partial
    axis: str
    low: str
    high: str
    policy: Policy = Policy()
    catalog: Catalog = OURS

    @property
    def own(self) -> Sequence[str]:
        """The values that the case's matrix has."""
        return self.file.case.matrix.columns().get(self.axis, ())

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends, as they were written."""
        return self.low, self.high

    @property
    def option(self) -> str:
        """What the user typed, for messages."""
        return f"--axis {self.axis}={self.low}..{self.high}"

    def version(self, value: str) -> Version:
        """A value as a version. Raises UsageError."""
        try:
            return Version(value)
        except ValueError:  # InvalidVersion, or numbers of thousands of digits
            raise UsageError(f"{self.option}: {value!r} is not a version of a Python package") from None

    def index_options(self) -> tuple[str, ...]:
        """The options of pip that the case gives, in cells of either end."""
        asked = self.file.case.environment
        templates = [*asked.pip_options, *(text for step in asked.pip_steps for text in step.options)]
        return tuple(dict.fromkeys(self._rendered(text, end) for text in templates for end in self.ends))

    def _rendered(self, template: str, value: str) -> str:
        return render_text(template, {**self.cell, self.axis: value})


def find_releases(asked: AxisRange) -> Releases:
    """The values of an axis from one end to the other. Reads package indexes.

    Raises UsageError when the values in between are not known, when an end is not available, or when no index answers.
    """
    if asked.axis in AXIS_NAMES:
        return _of_known_axis(asked)
    # One of the ends may not be a version.
    projects = next(filter(None, (find_pinned(asked.file, asked.cell, asked.axis, end) for end in asked.ends)), ())
    if not projects:
        found, why = _by_name(asked)
        return found or _as_written(asked, why)
    found_all = [_of_project(name, asked) for name in projects]
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


def find_pinned(file: CaseFile, cell: Partial, axis: str, value: str) -> tuple[str, ...]:
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
    public = re.escape(value.partition("+")[0])
    pin = re.compile(rf"(?<![\w.$/-])([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])? *===? *{public}(?![\w.*])")
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


def _by_name(asked: AxisRange) -> tuple[Releases | None, str]:
    """The releases of the package that another template pins by the axis, or that has its name; else None and why.

    The axis may well be something else, such as a number of threads: it is a package's version only where the index has
    both ends and all values of the matrix.
    """
    file, axis, low = asked.file, asked.axis, asked.low
    every = (*asked.ends, *asked.own)
    wanted = list(_versions_of(every))
    if axis not in file.names or len(wanted) < len(every):
        return None, ""
    templates = [text for section in TEMPLATED for text in _strings(file.case.model_dump(include={section}))]
    why = []
    for name in dict.fromkeys((*_pins(templates, asked.cell, axis, low), axis)):
        try:
            files, _ = files_of(name, asked.index_options(), asked.file.trust)
        except UsageError as error:
            return None, str(error)
        there = _by_version(files, name)
        missing = [value for value in dict.fromkeys(wanted) if Version(value) not in there]
        if not missing:
            found = _of_project(name, asked)
            both = " and ".join(asked.ends)
            note = f"the values of {axis} are taken for releases of the package {name}: its index has {both}"
            return replace(found, notes=(*found.notes, note)), ""
        why.append(f"the index has no {name} {some(missing)}" if there else f"the index has no package {name}")
    return None, "; ".join(why)


def _as_written(asked: AxisRange, why: str) -> Releases:
    """Values of an axis that is not a package's version: in the matrix's own order. ``why`` it is not, in words."""
    axis, own = asked.axis, asked.own
    for value in asked.ends:
        if value not in own:
            raise UsageError(
                f"{asked.option}: the values in between are not known: "
                f"{why or f'nothing is pinned by it ({axis}=={{{{ {axis} }}}})'}, and the matrix has no {value!r}"
                f"{near(value, own, prefix='; ')}; --values A,B,C names them by hand"
            )
    first, last = sorted(map(own.index, asked.ends))
    values = tuple(own[first : last + 1])
    unknown = f"only the values of the matrix are known{f' ({why})' if why else ''}; --values A,B,C names others"
    # Words have nothing between them but what the case lists; numbers and versions have.
    dense = len(list(_versions_of(values))) == len(values)
    return Releases(of=axis, values=values, things="values", unknown=(unknown,) if dense else ())


def _of_known_axis(asked: AxisRange) -> Releases:
    """Values of a known axis: those of the catalog, cut to the precision of the ends, and those of the matrix."""
    axis, own = asked.axis, asked.own
    low, high = sorted(asked.ends, key=versions.order)
    option = f"--axis {axis}={low}..{high}"
    values = set(BY_NAME[axis].releases(asked.cell, asked.catalog))
    if axis == "os":
        families = {value.partition("-")[0] for value in (low, high)}
        if len(families) != 1:
            raise UsageError(f"{option}: name two releases of the same distribution")
        values = {name for name in values if name.partition("-")[0] in families}
    else:
        precise = max(len(versions.parts(low)), len(versions.parts(high)))
        values = {".".join(versions.parts(value)[:precise]) for value in values}
    for value in (low, high):
        if value not in values and value not in own:
            if axis != "os" and not versions.order(value):
                raise UsageError(f"{option}: {value!r} is not a version")
            there = ", ".join(sorted(values, key=versions.order))
            raise UsageError(f"{option}: {axis} {value} is not known; there are: {there}")
    first, last = versions.order(low), versions.order(high)
    inside = {value for value in {*values, *own} if first <= versions.order(value) <= last} - {versions.NONE}
    return Releases(of=axis, values=tuple(sorted(inside, key=versions.order)))


def _of_project(name: str, asked: AxisRange) -> Releases:
    low, high = sorted(map(asked.version, asked.ends))
    files, notes = files_of(name, asked.index_options(), asked.file.trust)
    grouped = _by_version(files, name)
    unknown = () if grouped else (f"no index that was asked has {name}: only the values of the matrix are known",)
    # The spelling of the user or the case wins: 2.0 for what the index calls 2.0.0.
    spelt = {asked.version(value): value for value in (*_versions_of(asked.own), *asked.ends)}
    release = release_of(asked.cell, asked.catalog)
    python = _python(asked.cell, asked.catalog)
    glibc = release.glibc if release and not asked.file.case.environment.image else ""
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
        why = not_installable(files, python, glibc) if files else ""
        if text in asked.ends:
            if why or (not files and text not in asked.own):
                what = why or "no index that was asked has it"
                known = [spelt.get(one, str(one)) for one in grouped]
                raise UsageError(
                    f"{asked.option}: {name} {text} is not available: {what}{near(text, known, prefix='; ')}"
                )
        elif files and not why:
            why = _unwanted(version, files, dates.get(text, ""), asked.policy, named=version in spelt)
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
        unknown=(*notes, *unknown),
    )


@cache
def versions_of(project: str) -> frozenset[Version] | None:
    """The versions of a project that the indexes of the host's pip have; None where one of them does not answer."""
    try:
        files, notes = files_of(project)
    except UsageError:
        return None
    return None if notes else frozenset(_by_version(files, project))


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


def _unwanted(version: Version, files: Sequence[DistributionFile], date: str, policy: Policy, *, named: bool) -> str:
    """Why a release between the ends is left out; '' when it is not. ``named``: by the user or the case."""
    if all(file.yanked is not None for file in files):
        why = next((file.yanked for file in files if file.yanked), "")
        return "yanked" + (f": {''.join(filter(str.isprintable, ' '.join(why.split())))}" if why else "")
    if version.local and not named:
        return LOCAL
    if version.is_prerelease and not policy.pre and not named:
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

"""What an axis is: everything that the tool knows of one thing that an environment has in versions. No field has a
default, so that an axis which goes into an image but is not measured there cannot be written.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from reprokit.case.axes import AxisSyntax
from reprokit.case.cellspec import CellSpec
from reprokit.core.errors import Unsupported
from reprokit.environment import versions
from reprokit.environment.catalog import Catalog, Release
from reprokit.environment.model import Cuda, Environment, Part, Python

if TYPE_CHECKING:
    from reprokit.environment.host import Host
    from reprokit.environment.supply import Supply

CANNOT = "and a virtual environment cannot change that"
"""What is said of an axis that asks for something else than the host has."""


class FollowsFromRefused(Unsupported):
    """The axis that this one follows from is refused already: there is nothing to add to that."""


@dataclass(frozen=True, kw_only=True)
class AxisRequest:
    """What an axis of a cell is resolved from, for an image. ``asked``: its value, None where the cell leaves it open.

    ``found``: what serves the axes of :attr:`Axis.after`, by name; None for those that the image is to be without.
    """

    asked: str | None
    spec: CellSpec
    supply: Supply
    found: Mapping[str, Any]

    @property
    def catalog(self) -> Catalog:
        """The compatibility data."""
        return self.supply.catalog

    @property
    def release(self) -> Release:
        """The operating system's release; for axes that are resolved after ``os``."""
        release: Release = self.found["os"]
        return release

    @property
    def cuda(self) -> Cuda | None:
        """The CUDA of the image; for axes that are resolved after ``cuda``."""
        cuda: Cuda | None = self.found["cuda"]
        return cuda

    @property
    def python(self) -> Python | None:
        """The Python of the image; for axes that are resolved after ``python``."""
        python: Python | None = self.found["python"]
        return python


@dataclass(frozen=True, kw_only=True)
class HostRequest:
    """What an axis of a cell is resolved from, for a virtual environment of ``host``; see :class:`AxisRequest`."""

    asked: str | None
    spec: CellSpec
    host: Host
    catalog: Catalog
    found: Mapping[str, Any]

    @property
    def cuda(self) -> Cuda | None:
        """The CUDA of the cell. Raises FollowsFromRefused."""
        if "cuda" not in self.found:
            raise FollowsFromRefused("cuda is refused")
        cuda: Cuda | None = self.found["cuda"]
        return cuda


@dataclass(frozen=True, kw_only=True)
class Layer:
    """Lines of a Dockerfile, which the file ``template`` in ``dockerfiles/`` makes of the environment and ``part``.

    ``place``: ``stage`` (a stage of its own, before the base image), ``large`` (before packages of hundreds
    of megabytes) or ``small`` (after them, so that a change here repeats nothing large).
    """

    place: Literal["stage", "large", "small"]
    template: str
    part: Part | None = None


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """How a version is measured from inside an image.

    ``script``: POSIX shell that prints one or more sections, each begun by ``section NAME``; it runs in every image,
    so it must stay silent and succeed where the thing is missing. ``read``: section name -> text, as printed, to the
    version; None where there is none.
    """

    script: str
    read: Callable[[Mapping[str, str]], str | None]


@dataclass(frozen=True, kw_only=True)
class Wording:
    """How people write an axis in bug reports. ``keys``: what they call it, in small letters, without ``version``.

    ``read``: the version that a text says, as written; '' where it says none, or that of something else.
    ``incidental``: tools that collect environments list it whether or not it matters, so that only a case which has the
    axis already gets it from a report.
    ``mentioned``: text of a command, its output or a package that may depend on it: `reprokit new` asks for the axis
    where it finds any. The empty pattern is in every text.
    """

    keys: Collection[str]
    read: Callable[[str], str]
    incidental: bool
    mentioned: re.Pattern[str]


@dataclass(frozen=True, kw_only=True)
class HostPrograms:
    """Programs of a host that can serve an axis: the first of ``names`` says its version when called with ``version``.

    They are looked for as ``NAME`` and ``NAME-N`` in /usr/bin.
    """

    names: tuple[str, ...]
    version: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Wheels:
    """Packages of Python's index that bring an axis: what a cell asks pip for must not contradict its value.

    ``names``: theirs, normalized. ``exact``: whether their versions are the axis's own, rather than in the first two
    numbers alone.
    """

    names: re.Pattern[str]
    exact: bool


@dataclass(frozen=True, kw_only=True)
class Axis:
    """One axis. ``place``: its position among the axes in help, reports and documentation.

    ``title``: its name in sentences. ``syntax``: its name in cases and the values it takes. ``guide``: Markdown for
    the documentation: where it comes from, where it goes, what is measured.

    ``after``: the axes that must be resolved before it. ``resolve`` and ``on_host``: what serves a cell in an image and
    in a virtual environment of a host, None where the cell does not want any; both raise Unsupported, with the versions
    that are available. ``host_programs``: what to look for on a host, None where nothing of a host can serve it.
    ``wheels``: what pip can bring it by, None for nothing.
    ``layers``: what it puts into an image, in order. ``locked``: the requirements that are unpacked below
    /usr/local/cuda, which have a group of their own in locks; None where it never has any.

    ``measure``: how it is measured from inside. ``differs``: in words, how a measured environment is not what a value
    asks for; '' where it is.

    ``wording``: how reports write it. ``precision``: parts of a version that a cell gets from a report.
    ``matters``: axes with a smaller number are less likely to be why one cell fails and another passes.
    ``releases``: the versions that there are for a cell, for searches. ``series``: every series (3.11, gcc 12) from the
    oldest of them to the newest, whether or not it is available: a version between two that is in none does not exist.
    """

    place: int
    title: str
    syntax: AxisSyntax
    guide: str
    after: tuple[str, ...]
    resolve: Callable[[AxisRequest], Any]
    on_host: Callable[[HostRequest], Any]
    host_programs: HostPrograms | None
    wheels: Wheels | None
    layers: Callable[[Environment], Iterable[Layer]]
    locked: Callable[[Environment], tuple[str, ...]] | None
    measure: Measurement
    differs: Callable[[str, versions.MeasuredVersions, Catalog], str]
    wording: Wording
    precision: int
    matters: int
    releases: Callable[[Mapping[str, str], Catalog], Iterable[str]]
    series: Callable[[Catalog], Iterable[str]]

    @property
    def name(self) -> str:
        """Its name in cases and on the command line."""
        return self.syntax.name

    def asked(self, cell: Mapping[str, str]) -> str | None:
        """The value that a cell has for it; None where it has none, or one that is only a template variable."""
        value = cell.get(self.name)
        return None if value is None or self.syntax.why_free(value) else value


def version_differs(
    name: str, title: str, same: Callable[[str, str], bool] = versions.matches
) -> Callable[[str, versions.MeasuredVersions, Catalog], str]:
    """The comparison of an axis of versions. ``same``: whether a measured version is what a value asks for."""

    def differs(asked: str, measured: versions.MeasuredVersions, catalog: Catalog) -> str:
        have = measured[name]
        if versions.matches(asked, have) or (have is not None and asked != versions.NONE and same(asked, have)):
            return ""
        found = f"measures {title} {have}" if have else f"has no {title}"
        return f"the cell asks for {name} {asked}, the image {found}"

    return differs


@lru_cache(maxsize=256)
def every(
    releases: Callable[[Mapping[str, str], Catalog], Iterable[str]], catalog: Catalog, parts: int
) -> tuple[str, ...]:
    """The releases that there are for any cell, cut to so many ``parts``, in order."""
    found = {".".join(versions.parts(release)[:parts]) for release in _for_any_cell(releases, catalog)}
    return tuple(sorted(found, key=versions.order))


@lru_cache(maxsize=64)
def _for_any_cell(releases: Callable[[Mapping[str, str], Catalog], Iterable[str]], catalog: Catalog) -> frozenset[str]:
    majors = dict.fromkeys(versions.parts(release)[0] for release in catalog.cuda_wheels())
    cells = ({"os": os, "cuda": major} for os in catalog.known_os() for major in majors)
    return frozenset().union(*(releases(cell, catalog) for cell in cells))


def in_series(
    releases: Callable[[Mapping[str, str], Catalog], Iterable[str]], parts: int
) -> Callable[[Catalog], Iterable[str]]:
    """The series of an axis whose ``releases`` have all of them; ``parts``: how many numbers name one."""
    return lambda catalog: every(releases, catalog, parts)


def part_layers(name: str) -> Callable[[Environment], Iterator[Layer]]:
    """The layers of an axis whose :class:`~reprokit.environment.model.Part` says all that is installed."""

    def layers(environment: Environment) -> Iterator[Layer]:
        part = environment.parts.get(name)
        if part is not None and part.tree:
            yield Layer(place="large", template="part_tree.j2", part=part)
        if part is not None and part.wheels:
            yield Layer(place="small", template="part_wheels.j2", part=part)
        if part is not None and part.apt:
            yield Layer(place="small", template="part_apt.j2", part=part)

    return layers


def no_layers(environment: Environment) -> tuple[Layer, ...]:
    """For an axis that the base image and the layer of the system serve."""
    return ()

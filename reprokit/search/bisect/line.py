"""The line of cells that a bisection searches: the values of one axis, or the commits of a source, between two ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, label, no_axis
from reprokit.case.render import TemplateProblem, render
from reprokit.core.errors import Unsupported, UsageError
from reprokit.environment.axes import AXIS_NAMES, KNOWN
from reprokit.environment.resolving import resolve
from reprokit.run import sources
from reprokit.run.admitting import site_catalog, supply_of
from reprokit.run.plan import cells_of, check_values
from reprokit.run.request import Request
from reprokit.search import releases
from reprokit.search.bisect import commits


@dataclass(frozen=True, kw_only=True)
class BisectLine(releases.Releases):
    """Cells that differ in ``axis`` alone: ``rest`` with each of ``values``, in order from one end to the other.

    ``of``: the package, axis or source; ``things``: the plural noun of the values. ``details``: value -> its date, and
    a commit's subject. ``source`` and ``repository``: the source whose commits the values are, and its local
    repository; '' for an axis. ``merges``: which commits are merges.
    """

    axis: str
    rest: Cell
    details: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    repository: str = ""
    merges: tuple[str, ...] = ()

    def cell(self, value: str) -> Cell:
        """The cell with that value."""
        return {**self.rest, self.axis: value}

    def to_json(self) -> dict[str, Any]:
        """A JSON object that :meth:`from_json` reads."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BisectLine:
        """The inverse of :meth:`to_json`."""
        fields: Any = {name: tuple(value) if isinstance(value, list) else value for name, value in data.items()}
        return cls(**fields)


def along_axis(
    file: CaseFile,
    request: Request,
    axis: str,
    ends: Sequence[str],
    policy: releases.Policy,
    by_hand: Sequence[str] = (),
) -> BisectLine:
    """The values of an axis between two ends, with the other axes as the request selects them. Reads package indexes.

    ``by_hand``: the line as the user names it, instead of what lies between the ends. Raises UsageError where more than
    one cell remains for a value, and as :func:`reprokit.search.releases.between`.
    """
    rest = _rest(file, request, axis, ends)
    if axis not in rest and axis not in file.names and axis not in AXIS_NAMES:
        own = (*file.case.matrix.columns(), *sorted(file.names))
        raise UsageError(f"--axis {axis}=...: {no_axis(axis, own, KNOWN)}")
    if by_hand:
        check_values(file, {axis: by_hand}, request, "--values")
        return BisectLine(axis=axis, of=axis, things="values", rest=rest, values=tuple(by_hand))
    low, high = ends
    found = releases.between(file, rest, axis, low, high, policy, site_catalog())
    if policy != releases.Policy() and not found.packages:
        raise UsageError(
            f"--pre, --since and --before apply to a package's releases, and the values of {axis} are not releases"
        )
    unserved = _unserved(file, request, [{**rest, axis: value} for value in found.values[1:-1]], axis)
    return BisectLine(
        axis=axis,
        of=found.of,
        things=found.things,
        rest=rest,
        values=tuple(value for value in found.values if value not in unserved),
        details={value: f"released {day}" for value, day in found.dates.items()},
        left_out={**found.left_out, **unserved},
        every=found.every or found.values,
        packages=found.packages,
        notes=found.notes,
        unknown=found.unknown,
    )


def _unserved(file: CaseFile, request: Request, cells: Sequence[Cell], axis: str) -> dict[str, str]:
    """Value of ``axis`` -> why this host cannot serve such a cell, as far as that is known without building."""
    supply = supply_of(request)
    refused: dict[str, str] = {}
    for cell in cells if supply.host is None else ():
        try:
            resolve(render(file.case, cell), supply)
        except (Unsupported, TemplateProblem) as error:
            refused[cell[axis]] = str(error)
    return refused


def along_source(file: CaseFile, request: Request, name: str, ends: Sequence[str], *, tags_only: bool) -> BisectLine:
    """The commits of a source between two refs, with the axes as the request selects them. Fetches its history.

    ``tags_only``: only the ends and tagged commits. Raises UsageError, as :func:`along_axis` does, and SourceError.
    """
    axis = commits.axis_of(file, name)
    rest = _rest(file, request, axis, ends)
    low, high = ends
    try:
        spec = render(file.case, {**rest, axis: low}).sources[name]
    except TemplateProblem as error:
        raise UsageError(f"--source {name}=...: {error}") from error
    repository = sources.history(name, spec, file.trust, stand_in=request.sources_for(file.trust).get(name))
    own = file.case.matrix.columns().get(axis, ())
    found = commits.between(name, repository, low, high, spelt=own, tags_only=tags_only)
    return BisectLine(
        axis=axis,
        of=name,
        things="tags" if tags_only else "commits",
        rest=rest,
        values=tuple(commit.value for commit in found.commits),
        details={commit.value: commit.details for commit in found.commits},
        notes=(found.note,) if found.note else (),
        source=name,
        repository=str(repository),
        merges=tuple(commit.value for commit in found.commits if commit.merge),
    )


def _rest(file: CaseFile, request: Request, axis: str, ends: Sequence[str]) -> Cell:
    """The one cell that the selection leaves, apart from ``axis``. Raises UsageError where other axes differ too."""
    cells = [cell for _, cell in cells_of([file], request)]
    if not cells:
        raise UsageError("the selection is empty: --only, --skip, the axis options and exclude leave no cell")
    rests: dict[str, Cell] = {}
    having: dict[str, set[str]] = {}
    for cell in cells:
        others = {name: value for name, value in cell.items() if name != axis}
        rests.setdefault(label(others), dict(cell))
        having.setdefault(label(others), set()).add(cell.get(axis, ""))
    # Where the matrix ties the ends to values of other axes (an old release to an old Python), those are used.
    if tied := {name: rests[name] for name, values in having.items() if {*ends} <= values}:
        rests = tied
    if len(rests) > 1:
        values: dict[str, list[str]] = {}
        for cell in rests.values():
            for name, value in cell.items():
                if name != axis and value not in values.setdefault(name, []):
                    values[name].append(value)
        several = {name: some for name, some in values.items() if len(some) > 1}
        open_axes = "; ".join(f"{name} is {', '.join(some[:-1])} or {some[-1]}" for name, some in several.items())
        example = ",".join(f"{name}={some[0]}" for name, some in several.items())
        raise UsageError(
            f"a bisection searches one axis, but the selected cells differ in others too: {open_axes}; "
            f"choose one value of each, such as --only {example}"
        )
    return next(iter(rests.values()))

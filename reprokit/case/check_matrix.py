"""What the format demands of the matrix, and of the cells that ``expect.reproduces`` and ``fix.only`` name. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from reprokit.case.axes import KnownAxes
from reprokit.case.checks import axes_of, cells_of
from reprokit.case.matrix import expand, group_count, too_many
from reprokit.case.model import RESERVED, Case
from reprokit.case.structure import FormatProblem
from reprokit.case.templates import CONSTANTS
from reprokit.case.tree import Loc, dotted, listing
from reprokit.core.near_match import near, nearest

_NAME = re.compile(r"[^\W\d]\w*")


def check_matrix(data: Mapping[str, Any], known: KnownAxes) -> Iterator[FormatProblem]:
    """Axes, their values, and the cells of ``exclude``, ``include``, ``expect.reproduces`` and ``fix.only``."""
    matrix = data.get("matrix")
    axes = axes_of(data)
    for name, values in axes.items():
        loc: Loc = ("matrix", name)
        yield from _axis_name(loc, name)
        written = matrix[name] if isinstance(matrix, dict) else []
        if isinstance(written, list):
            yield from _axis_values(loc, name, values, len(written), known)
    for key in RESERVED:
        for loc, cell in cells_of(data, key):
            yield from _known_values(loc, cell, known)
    yield from _references(data, axes)
    if not isinstance(matrix, dict):
        return
    excluded = [cell for _, cell in cells_of(data, "exclude")]
    included = [cell for _, cell in cells_of(data, "include")]
    if too_large := too_many(axes, group_count(axes, excluded)):
        yield FormatProblem(loc=("matrix",), message=f"matrix: {too_large}", on_key=True)
        return
    whole = all(isinstance(matrix[name], list) and matrix[name] for name in axes)
    if axes and excluded and all(excluded) and whole and not expand(axes, excluded, included):
        yield FormatProblem(
            loc=("matrix", "exclude"),
            message="matrix: exclude leaves no cell",
            hint="exclude less, or include a cell",
            on_key=True,
        )


def _axis_name(loc: Loc, name: str) -> Iterator[FormatProblem]:
    if not _NAME.fullmatch(name):
        suggestion = re.sub(r"\W", "_", name)
        hint = f"did you mean {suggestion!r}?" if _NAME.fullmatch(suggestion) else "letters, digits and _"
        message = f"matrix: {name!r} cannot name an axis, because no template could use it"
        yield FormatProblem(loc=loc, message=message, hint=hint, on_key=True)
    elif name in CONSTANTS or name == "out":
        message = f"matrix: {name!r} means something else in templates, so it cannot name an axis"
        yield FormatProblem(loc=loc, message=message, hint="choose another name", on_key=True)


def _axis_values(loc: Loc, name: str, values: list[str], written: int, known: KnownAxes) -> Iterator[FormatProblem]:
    if not written:
        yield FormatProblem(
            loc=loc, message=f"{dotted(loc)}: the axis has no value", hint="give one, or leave the axis out"
        )
    if len(values) != written:
        return  # the models report what is not text, and indexes would not fit
    seen: set[str] = set()
    for index, value in enumerate(values):
        at: Loc = (*loc, index)
        if value in seen:
            yield FormatProblem(
                loc=at, message=f"{dotted(loc)}: the value {value!r} is listed twice", hint="leave one out"
            )
        elif not value.strip():
            yield FormatProblem(
                loc=at, message=f"{dotted(at)}: expected a value, found nothing", hint="write none, or leave it out"
            )
        else:
            yield from _known_value(at, name, value, known)
        seen.add(value)


def _known_values(loc: Loc, cell: Mapping[str, str], known: KnownAxes) -> Iterator[FormatProblem]:
    if loc[1] == "include":
        for name, value in cell.items():
            yield from _known_value((*loc, name), name, value, known)
        if not cell:
            yield FormatProblem(loc=loc, message=f"{dotted(loc)}: an empty cell", hint="give it a value for each axis")
    elif not cell:
        yield FormatProblem(
            loc=loc, message=f"{dotted(loc)}: an empty cell excludes everything", hint="name an axis and a value"
        )


def _known_value(loc: Loc, name: str, value: str, known: KnownAxes) -> Iterator[FormatProblem]:
    if wrong := known.wrong(name, value):
        yield FormatProblem(loc=loc, message=f"{dotted(loc)}: {wrong.words}", hint=wrong.hint)


def _references(data: Mapping[str, Any], axes: Mapping[str, list[str]]) -> Iterator[FormatProblem]:
    """Cells of ``exclude``, of ``expect`` and of ``fix.only`` that name an axis or a value that no cell has."""
    values: dict[str, dict[str, None]] = {name: dict.fromkeys(column) for name, column in axes.items()}
    product = {name: dict(column) for name, column in values.items()}
    for loc, cell in cells_of(data, "include"):
        for name, value in cell.items():
            if name not in product:
                yield from _axis_name((*loc, name), name)
            values.setdefault(name, {})[value] = None
    for loc, cell in cells_of(data, "exclude"):
        yield from _reference(loc, cell, product)
    for where, cells in _named_cells(data):
        for index, cell in enumerate(cells if isinstance(cells, list) else []):
            loc = (*where, index)
            if isinstance(cell, dict) and all(isinstance(value, str) for value in cell.values()):
                if not cell and where[0] == "expect":
                    yield FormatProblem(
                        loc=loc, message=f"{dotted(loc)}: an empty cell", hint=_EVERY.get(len(where), "")
                    )
                yield from _reference(loc, cell, values)


_EVERY = {2: "for every cell write: all", 4: "name an axis and a value"}


def _named_cells(data: Mapping[str, Any]) -> Iterator[tuple[Loc, Any]]:
    """Where lists of partial cells are outside of the matrix."""
    expect, fix = data.get("expect"), data.get("fix")
    if isinstance(expect, dict):
        yield ("expect", "reproduces"), expect.get("reproduces")
        known = expect.get("known")
        for index, entry in enumerate(known if isinstance(known, list) else []):
            if isinstance(entry, dict):
                yield ("expect", "known", index, "reproduces"), entry.get("reproduces")
    if isinstance(fix, dict):
        yield ("fix", "only"), fix.get("only")


def _reference(loc: Loc, cell: Mapping[str, str], values: Mapping[str, Mapping[str, None]]) -> Iterator[FormatProblem]:
    for name, value in cell.items():
        column = values.get(name)
        if column is None:
            hint = near(name, values) or (f"axes: {listing(values)}" if values else "the matrix has no axes")
            yield FormatProblem(
                loc=(*loc, name), message=f"{dotted(loc)}: the matrix has no axis {name!r}", hint=hint, on_key=True
            )
        elif column and value not in column:
            hint = near(value, column) or f"its values: {listing(column)}"
            yield FormatProblem(
                loc=(*loc, name), message=f"{dotted(loc)}: the axis {name!r} has no value {value!r}", hint=hint
            )


def axis_hints(case: Case, names: Collection[str], known: KnownAxes) -> Iterator[FormatProblem]:
    """What an author may have meant otherwise. ``names``: those that templates use, whose axes are meant as they are.

    None of it is an error: a known axis that is added must not make a case invalid that has one of a similar name.
    """
    own, syntax = case.matrix.axes, {axis.name: axis for axis in known}
    for name in own:
        yield from _hint(("matrix", name), name, [one for one in known.names if one not in own], names, known)
    for at, cell in enumerate(case.matrix.include):
        for name in (name for name in cell if name not in own):
            lacks = [one for one in (*own, *known.names) if one not in cell]
            yield from _hint(("matrix", "include", at, name), name, lacks, names, known)
    for name, values in case.matrix.columns().items():
        free = [value for value in values if name in syntax and syntax[name].why_free(value)]
        if free:
            words = (
                f"reprokit knows the axis {name!r} since {syntax[name].since}, and does not take {listing(free)} for it"
            )
            hint = "such a value stays a template variable, others decide the image: rename the axis to keep all alike"
            yield FormatProblem(loc=("matrix", name), message=f"matrix: {words}", hint=hint, on_key=True)


def _hint(
    loc: Loc, name: str, lacks: Iterable[str], names: Collection[str], known: KnownAxes
) -> Iterator[FormatProblem]:
    if name not in known.names and name not in names and (meant := nearest(name, lacks, cutoff=0.7)):
        message = f"{dotted(loc)}: no template uses the axis {name!r}, and reprokit does not know it"
        yield FormatProblem(loc=loc, message=message, hint=f"did you mean {meant!r}?", on_key=True)

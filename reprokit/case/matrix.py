"""Axes -> cells, and the selection of cells from the command line. Pure, and quick on a hundred thousand cells."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.case.axes import KnownAxes
from reprokit.core.errors import UsageError
from reprokit.core.near_match import near

Cell = dict[str, str]
"""One combination: axis name -> value, in the order of the axes. Treat as immutable."""

Partial = Mapping[str, str]
"""Some axes with a value each; a cell matches it when it has all of them."""


MAX_CELLS = 200_000
"""Most combinations of axes that are made, before excludes and selections leave some."""
MAX_COMPARED = 20_000_000
"""Most comparisons of a combination with the excludes of one set of axes."""


@dataclass(frozen=True, kw_only=True)
class Selection:
    """What the command line asks of a matrix.

    ``axes`` replaces (or, for known axes, adds) whole axes. ``only`` keeps cells that match any of its groups,
    ``skip`` drops cells that match any; a group maps an axis to the values accepted for it.
    """

    axes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    only: tuple[Mapping[str, tuple[str, ...]], ...] = ()
    skip: tuple[Mapping[str, tuple[str, ...]], ...] = ()


def matches(cell: Partial, partial: Partial) -> bool:
    """Whether ``cell`` has every axis of ``partial`` with the same value."""
    return all(cell.get(name) == value for name, value in partial.items())


def expand(
    axes: Mapping[str, Sequence[str]], exclude: Iterable[Partial] = (), include: Iterable[Partial] = ()
) -> list[Cell]:
    """All cells of a matrix: the product of the axes without what ``exclude`` matches, then ``include``'s whole cells.

    Order: the last axis varies fastest. A cell that ``include`` names again is not repeated. A matrix without
    axes has one empty cell, unless it only has ``include``.
    """
    names = tuple(axes)
    groups = _by_keys(exclude, names)
    if too_large := too_many(axes, len(groups)):
        raise UsageError(too_large)
    include = [dict(cell) for cell in include]
    cells: list[Cell] = []
    if names or not include:  # without either there is one cell, the empty one
        combinations: Iterable[tuple[str, ...]] = itertools.product(*axes.values())
        if groups:
            combinations = (values for values in combinations if not _is_excluded(values, groups))
        cells = [dict(zip(names, values, strict=True)) for values in combinations]
    seen = {tuple(sorted(cell.items())) for cell in cells} if include else set()
    for extra in include:
        key = tuple(sorted(extra.items()))
        if key not in seen:
            seen.add(key)
            cells.append({name: extra[name] for name in (*names, *extra) if name in extra})
    return cells


def count(axes: Mapping[str, Sequence[str]], exclude: Sequence[Partial] = (), include: Sequence[Partial] = ()) -> int:
    """How many cells :func:`expand` makes; without making them where the axes alone say it."""
    return len(expand(axes, exclude, include)) if exclude or include else math.prod(map(len, axes.values()))


_Groups = list[tuple[frozenset[tuple[str, ...]], tuple[int, ...]]]


def too_many(axes: Mapping[str, Sequence[str]], groups: int = 0) -> str:
    """Why a matrix is not expanded, in words; '' where it is. ``groups``: sets of axes that its excludes name."""
    product = math.prod(map(len, axes.values()))
    if product <= MAX_CELLS and product * groups <= MAX_COMPARED:
        return ""
    shown = f"{product:,}" if product < 10**15 else f"more than {10**15:,}"
    how = f" with excludes over {groups} sets of axes" if product <= MAX_CELLS else ""
    return (
        f"the axes make {shown} cells{how}, and at most {MAX_CELLS:,} can be looked through: leave out axes or values"
    )


def group_count(axes: Mapping[str, Sequence[str]], exclude: Iterable[Partial]) -> int:
    """How many sets of axes the excludes name."""
    return len(_by_keys(exclude, tuple(axes)))


def _by_keys(exclude: Iterable[Partial], names: tuple[str, ...]) -> _Groups:
    """Excludes grouped by the axes that they name: a cell costs one set look-up per group, not one per exclude."""
    grouped: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
    for partial in exclude:
        keys = tuple(name for name in names if name in partial)
        if len(keys) == len(partial):  # else it names an axis that no cell has
            grouped.setdefault(keys, set()).add(tuple(partial[name] for name in keys))
    return [(frozenset(values), tuple(names.index(key) for key in keys)) for keys, values in grouped.items()]


def _is_excluded(values: tuple[str, ...], groups: _Groups) -> bool:
    return any(tuple([values[i] for i in positions]) in wanted for wanted, positions in groups)


def select(
    axes: Mapping[str, Sequence[str]],
    exclude: Sequence[Partial],
    include: Sequence[Partial],
    selection: Selection,
    *,
    known: KnownAxes,
    used: Iterable[str] = (),
    strict: bool = True,
) -> list[Cell]:
    """The cells that ``selection`` asks for.

    ``known``: axes that an option may add. ``used``: names that the case's templates use beyond its axes, which
    ``--axis`` may therefore set.
    Raises UsageError for an axis or value that the case does not have, with a near match; not ``strict``, for one case
    among several, such a thing just matches nothing.
    """
    names = dict.fromkeys((*axes, *(name for cell in include for name in cell)))
    for name in selection.axes:
        if name not in names and name not in known.names and name not in used:
            if not strict:
                return []
            raise UsageError(f"--axis {name}: {no_axis(name, (*names, *used), known)}")
    replaced = {name: tuple(values) for name, values in axes.items()} | dict(selection.axes)
    kept = [chosen for cell in include for chosen in _chosen(cell, selection.axes)]
    # A matrix of include alone has no product that an option could vary.
    cells = expand(replaced, exclude, kept) if axes or not include else kept
    values = {name: set(column) for name, column in replaced.items()}
    for cell in kept:
        for name, value in cell.items():
            values.setdefault(name, set()).add(value)
    for option, groups in (("--only", selection.only), ("--skip", selection.skip)):
        for group in groups if strict else ():
            _check_group(option, group, values)
    if selection.only:
        cells = [cell for cell in cells if any(in_group(cell, group) for group in selection.only)]
    if selection.skip:
        cells = [cell for cell in cells if not any(in_group(cell, group) for group in selection.skip)]
    return cells


def no_axis(name: str, own: Iterable[str], known: KnownAxes) -> str:
    """That a case has no axis of a name, with those that it has (``own``), and those that any case may have."""
    own = list(dict.fromkeys(own))
    more = [axis for axis in known.names if axis not in own]
    return (
        f"the case has no axis {name!r}{near(name, (*own, *more), prefix='; ')}; "
        f"it has: {', '.join(own) or 'none'}; any case may have: {', '.join(more)}"
    )


def _chosen(cell: Partial, options: Mapping[str, tuple[str, ...]]) -> Iterator[Cell]:
    """An include's cell under the command line's axes: dropped, kept, or once per value of an axis it leaves open."""
    if all(cell[name] in values for name, values in options.items() if name in cell):
        open_axes = {name: values for name, values in options.items() if name not in cell}
        for values in itertools.product(*open_axes.values()):
            yield {**cell, **dict(zip(open_axes, values, strict=True))}


def in_group(cell: Partial, group: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether ``cell`` has, for every axis of ``group``, one of the values accepted."""
    return all(cell.get(name) in accepted for name, accepted in group.items())


def _check_group(option: str, group: Mapping[str, tuple[str, ...]], values: Mapping[str, set[str]]) -> None:
    for name, accepted in group.items():
        if name not in values:
            raise UsageError(f"{option} {name}=...: the case has no axis {name!r}{near(name, values, prefix='; ')}")
        for value in accepted:
            if value not in values[name]:
                has = ", ".join(sorted(values[name]))
                raise UsageError(
                    f"{option} {name}={value}: axis {name!r} has no such value"
                    f"{near(value, values[name], prefix='; ')}; it has: {has}"
                )


def is_own(cell: Partial, axes: Mapping[str, Sequence[str]], include: Sequence[Partial]) -> bool:
    """Whether a cell is one of the case's own, which ``expect`` speaks of, rather than brought in by an option."""
    if set(cell) == set(axes) and all(cell[name] in values for name, values in axes.items()):
        return True
    return any(dict(cell) == dict(extra) for extra in include)


def in_matrix(
    cell: Partial, axes: Mapping[str, Sequence[str]], exclude: Iterable[Partial], include: Sequence[Partial]
) -> bool:
    """Whether a cell is one that :func:`expand` makes of a matrix."""
    if any(dict(cell) == dict(extra) for extra in include):
        return True
    return is_own(cell, axes, include) and not any(matches(cell, partial) for partial in exclude)


def split_items(text: str) -> list[str]:
    """Items of a list of the command line, stripped. A comma within brackets belongs to its item: ``shape=(1,)``."""
    items, depth = [""], 0
    for character in text:
        if character == "," and depth == 0:
            items.append("")
            continue
        depth = max(0, depth + (character in "([{") - (character in ")]}"))
        items[-1] += character
    return [item.strip() for item in items]


def parse_group(text: str) -> dict[str, tuple[str, ...]]:
    """``cuda=11.8,gcc=12`` -> {"cuda": ("11.8",), "gcc": ("12",)}; a name given twice accepts either value.

    Raises UsageError when an item is not of the form ``axis=value``.
    """
    group: dict[str, tuple[str, ...]] = {}
    for item in split_items(text):
        name, equals, value = (part.strip() for part in item.partition("="))
        if not (equals and name and value):
            raise UsageError(f"{item!r} is not of the form axis=value (write cuda=11.8,gcc=12)")
        group[name] = (*group.get(name, ()), value)
    return group


def parse_values(text: str) -> tuple[str, ...]:
    """``11.8,12.0`` -> ("11.8", "12.0"), without repeats. Raises UsageError when it is empty."""
    values = tuple(dict.fromkeys(item for item in split_items(text) if item))
    if not values:
        raise UsageError("a list of values is empty (write 11.8,12.0)")
    return values


def as_group(cell: Partial) -> str:
    """A cell as :func:`parse_group` reads it, and as options take it: ``cuda=11.8,gcc=12``."""
    return ",".join(f"{name}={value}" for name, value in cell.items())


def label(cell: Partial) -> str:
    """A cell in one line, for people: ``cuda=11.8 gcc=12``."""
    return " ".join(f"{name}={value}" for name, value in cell.items()) or "(the only cell)"


_KEY = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode


def cell_key(cell: Mapping[str, str]) -> str:
    """Canonical text of a cell: the same for the same values, whatever their order."""
    return _KEY(dict(cell))

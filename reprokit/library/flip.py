"""Where a failure shows: which axes tell the cells that reproduce from those that do not, in words. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.case.model import Case
from reprokit.evidence.model import Verdict
from reprokit.evidence.verdict import expected
from reprokit.matrix import Cell

MAX_AXES = 4
"""Most axes that are tried for the fewest that decide."""
MAX_WORDS = 5
"""Most values of axes in a sentence that people can follow."""
_PLAIN = ("os", "python", "gcc", "cudnn", "cuda")  # those that tell least come first

Box = tuple[frozenset[str | None], ...]
"""Values accepted for each of some axes; None: the cell has no such axis."""


@dataclass(frozen=True, kw_only=True)
class Flip:
    """``where``: all | none | unknown | some. ``axes``: those that tell the cells apart, or that vary at all.

    ``failing``: boxes over ``axes`` that hold exactly the cells that reproduce; ``well``: values of a single axis with
    which it does not; ``alike``: further axes, of which several values fail.
    """

    where: str
    values: Mapping[str, tuple[str | None, ...]]
    axes: tuple[str, ...]
    failing: tuple[Box, ...] = ()
    well: tuple[str | None, ...] = ()
    alike: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)

    @property
    def named(self) -> frozenset[str]:
        """The axes that the words speak of."""
        return frozenset({*self.axes, *self.alike})

    def words(self, axis: Callable[[str], str] = str, value: Callable[[str], str] = str) -> str:
        """``torch 1.4.0; not 1.5.1``: where it fails, in words; ``axis`` and ``value`` mark up the names and values."""

        def listed(values: Sequence[str | None]) -> str:
            return ", ".join("without" if text is None else value(text or '""') for text in values)

        def one(name: str, values: Sequence[str | None]) -> str:
            return f"no {axis(name)}" if list(values) == [None] else f"{axis(name)} {listed(values)}"

        def box(accepted: Box) -> str:
            parts = zip(self.axes, accepted, strict=True)
            telling = ((name, some) for name, some in parts if len(some) < len(self.values[name]))
            return " with ".join(
                one(name, [text for text in self.values[name] if text in some]) for name, some in telling
            )

        if self.where != "some":
            tried = "; ".join(one(name, self.values[name]) for name in self.axes)
            none = f"nothing ({tried})" if tried else "nothing"
            return {"unknown": f"not known ({tried})" if tried else "not known", "none": none}.get(self.where, tried)
        boxes = [box(accepted) for accepted in self.failing]
        fails = ", or ".join(boxes)
        if sum(text.count(" with ") + 1 for text in boxes) > MAX_WORDS:
            fails = f"some combinations of {', '.join(map(axis, self.axes[:-1]))} and {axis(self.axes[-1])}"
        well = listed(self.well) if self.well else "otherwise"
        return "; ".join((fails, f"not {well}", *(f"{one(name, some)} alike" for name, some in self.alike.items())))


def flip(case: Case, cells: Sequence[Cell]) -> Flip:
    """Where the case says that its failure shows, among its own cells."""
    values, reproduces = _values(cells), case.expect.reproduces
    wanted = [expected(reproduces, cell, True) for cell in cells]
    if len(set(wanted)) <= 1:
        where = {"reproduced": "all", "not-reproduced": "none"}.get(str(wanted[0]), "unknown") if wanted else "none"
        return Flip(where=where, values=values, axes=_telling(cells) or tuple(n for n in values if n not in _PLAIN))
    bad = [cell for cell, verdict in zip(cells, wanted, strict=True) if verdict is Verdict.REPRODUCED]
    good = [cell for cell, verdict in zip(cells, wanted, strict=True) if verdict is not Verdict.REPRODUCED]
    named = {name for partial in reproduces if not isinstance(partial, str) for name in partial}
    axes = _separating(bad, good, values, named)
    return Flip(
        where="some",
        values=values,
        axes=axes,
        failing=_boxes(_seen(bad, axes)),
        well=tuple(value for (value,) in _seen(good, axes)) if len(axes) == 1 else (),
        alike={axis: _values(bad)[axis] for axis in _telling(bad, kept=axes) if axis not in axes},
    )


def _values(cells: Sequence[Cell]) -> dict[str, tuple[str | None, ...]]:
    """Every axis with its values, in the order in which they come; None where a cell is without it."""
    names = dict.fromkeys(name for cell in cells for name in cell)
    return {axis: tuple(dict.fromkeys(cell.get(axis) for cell in cells)) for axis in names}


def _separating(
    bad: Sequence[Cell], good: Sequence[Cell], values: Mapping[str, Sequence[str | None]], named: set[str]
) -> tuple[str, ...]:
    """The fewest axes that no failing cell shares with one that ends well; what the case names itself comes first."""
    varying = [axis for axis in values if len(values[axis]) > 1]
    order = sorted(varying, key=lambda axis: (axis not in named, axis in _PLAIN))
    for size in range(1, min(len(order), MAX_AXES) + 1):
        for axes in itertools.combinations(order, size):
            if set(_seen(bad, axes)).isdisjoint(_seen(good, axes)):
                return tuple(axis for axis in values if axis in axes)
    return tuple(varying)


def _telling(cells: Sequence[Cell], kept: Sequence[str] = ()) -> tuple[str, ...]:
    """The axes that vary and are worth naming: none whose value others decide, as a release does its system's."""
    found = [axis for axis, values in _values(cells).items() if len(values) > 1]
    for axis in sorted(found, key=lambda axis: _PLAIN.index(axis) if axis in _PLAIN else len(_PLAIN)):
        rest = tuple(other for other in found if other != axis)
        if axis not in kept and rest and len(_seen(cells, rest)) == len(_seen(cells, (*rest, axis))):
            found.remove(axis)
    return tuple(found)


def _seen(cells: Sequence[Cell], axes: Sequence[str]) -> list[tuple[str | None, ...]]:
    return list(dict.fromkeys(tuple(cell.get(axis) for axis in axes) for cell in cells))


def _boxes(tuples: Sequence[tuple[str | None, ...]]) -> tuple[Box, ...]:
    """The tuples as few boxes: two that differ in one axis alone become one, as long as there are such."""
    boxes = [tuple(frozenset([value]) for value in values) for values in tuples]
    merged = True
    while merged:
        merged = False
        for one, other in itertools.combinations(boxes, 2):
            apart = [index for index, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
            if len(apart) == 1:
                index = apart[0]
                boxes[boxes.index(one)] = (*one[:index], one[index] | other[index], *one[index + 1 :])
                boxes.remove(other)
                merged = True
                break
    return tuple(boxes)

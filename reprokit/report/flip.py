"""Where a failure shows: which axes tell the cells that reproduce from those that do not, in words. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.case.matrix import Cell
from reprokit.case.model import Case
from reprokit.evidence.model import Verdict
from reprokit.evidence.verdict import expect_verdict
from reprokit.search.conditions import Conditions
from reprokit.search.covering import PLAIN, separate
from reprokit.search.explain import is_a_list

MAX_WORDS = 5
"""Most values of axes in a sentence that people can follow."""


@dataclass(frozen=True, kw_only=True)
class Flip:
    """Where a failure shows."""

    where: str  # all | none | unknown | some
    values: Mapping[str, tuple[str | None, ...]]
    axes: tuple[str, ...]  # those that tell the cells apart, or that vary at all
    failing: Conditions = ()  # the conditions under which it shows, none where they are too many
    well: tuple[str | None, ...] = ()  # values of a single axis with which it does not
    alike: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)  # further axes: several values fail

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

        if self.where != "some":
            tried = "; ".join(one(name, self.values[name]) for name in self.axes)
            none = f"nothing ({tried})" if tried else "nothing"
            return {"unknown": f"not known ({tried})" if tried else "not known", "none": none}.get(self.where, tried)
        fails = ", or ".join(
            " with ".join(one(of.axis, [text for text in self.values[of.axis] if text in of.accepted]) for of in each)
            for each in self.failing
        )
        if not self.failing:
            fails = f"some combinations of {', '.join(map(axis, self.axes[:-1]))} and {axis(self.axes[-1])}"
        well = listed(self.well) if self.well else "otherwise"
        return "; ".join((fails, f"not {well}", *(f"{one(name, some)} alike" for name, some in self.alike.items())))


def flip(case: Case, cells: Sequence[Cell]) -> Flip:
    """Where the case says that its failure shows, among its own cells."""
    values, reproduces = _values(cells), case.expect.reproduces
    wanted = [expect_verdict(reproduces, cell, True) for cell in cells]
    if len(set(wanted)) <= 1:
        where = {"reproduced": "all", "not-reproduced": "none"}.get(str(wanted[0]), "unknown") if wanted else "none"
        return Flip(where=where, values=values, axes=_telling(cells) or tuple(n for n in values if n not in PLAIN))
    bad = [cell for cell, verdict in zip(cells, wanted, strict=True) if verdict is Verdict.REPRODUCED]
    good = [cell for cell, verdict in zip(cells, wanted, strict=True) if verdict is not Verdict.REPRODUCED]
    named = {name for partial in reproduces if not isinstance(partial, str) for name in partial}
    # Of several as short, the one that says least of combinations that the case does not have.
    failing: Conditions = min(separate(bad, good, named).answers, key=_combinations, default=())
    decide = {one.axis for each in failing for one in each} or set(_telling(cells))
    axes = tuple(axis for axis in values if axis in decide)
    if is_a_list(failing, len(bad)) or sum(map(len, failing)) > MAX_WORDS:
        failing = ()
    return Flip(
        where="some",
        values=values,
        axes=axes,
        failing=failing,
        well=tuple(dict.fromkeys(cell.get(axes[0]) for cell in good)) if len(axes) == 1 else (),
        alike={axis: _values(bad)[axis] for axis in _telling(bad, kept=axes) if axis not in axes},
    )


def _combinations(conditions: Conditions) -> int:
    return sum(math.prod(len(one.accepted) for one in each) for each in conditions)


def _values(cells: Sequence[Cell]) -> dict[str, tuple[str | None, ...]]:
    """Every axis with its values, in the order in which they come; None where a cell is without it."""
    names = dict.fromkeys(name for cell in cells for name in cell)
    return {axis: tuple(dict.fromkeys(cell.get(axis) for cell in cells)) for axis in names}


def _telling(cells: Sequence[Cell], kept: Sequence[str] = ()) -> tuple[str, ...]:
    """The axes that vary and are worth naming: none whose value others decide, as a release does its system's."""
    found = [axis for axis, values in _values(cells).items() if len(values) > 1]
    for axis in sorted(found, key=lambda axis: -PLAIN.index(axis) if axis in PLAIN else 1):
        rest = tuple(other for other in found if other != axis)
        if axis not in kept and rest and _different(cells, rest) == _different(cells, (*rest, axis)):
            found.remove(axis)
    return tuple(found)


def _different(cells: Sequence[Cell], axes: Sequence[str]) -> int:
    return len({tuple(cell.get(axis) for axis in axes) for cell in cells})

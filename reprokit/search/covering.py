"""The fewest values that have to be named to tell the cells that reproduce from those that do not. Pure.

A set of cells is an integer with a bit per cell. Conjunctions are found in the order of the number of values that they
name, and the cheapest of them that cover what reproduces are chosen by branch and bound. Both are given up after a
fixed amount of work, never of time, so that the same cells always lead to the same words.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.case.matrix import Cell
from reprokit.environment.axes import AXES
from reprokit.search.conditions import (
    MOST_VALUES,
    AxisCondition,
    Conditions,
    Conjunction,
    Value,
    of_axis,
    sort_all,
)

MOST_CONDITIONS = 8
"""Most conditions that people can make use of; beyond it there is no explanation."""
MOST_TERMS = 120_000
"""Conjunctions that are looked at before the search for shorter ones is given up; of many cells fewer."""
MOST_COVERS = 10_000
"""Choices of conjunctions that are looked at."""
MOST_USEFUL = 2_000
"""Conjunctions of which some are chosen."""
MOST_ALIKE = 200
"""Equally small answers that are kept."""
PLAIN = tuple(axis.name for axis in sorted(AXES, key=lambda axis: axis.matters))
"""Axes that follow from others more often than they matter, those that tell least last."""


@dataclass(frozen=True, kw_only=True)
class MinimalConditions:
    """The smallest conditions that tell the cells apart."""

    answers: tuple[Conditions, ...]  # and all others that name as few values, simplest first; maybe none
    minimal: bool  # nothing shorter can be said; otherwise only: nothing shorter was found


@dataclass(frozen=True)
class _Piece:
    """Conditions on single axes that the same cells fulfil, simplest first."""

    mask: int
    size: int
    conditions: tuple[AxisCondition, ...]
    axes: frozenset[str]


@dataclass(frozen=True)
class _Term:
    """A conjunction that no passing cell fulfils. ``mask``: the cells that reproduce and fulfil it."""

    mask: int
    size: int
    pieces: tuple[_Piece, ...]


def size_of(conditions: Conditions) -> int:
    """How many values conditions name: what is kept as small as possible."""
    return sum(one.size for conjunction in conditions for one in conjunction)


def separate(bad: Sequence[Cell], good: Sequence[Cell], first: Collection[str] = ()) -> MinimalConditions:
    """The smallest conditions that every cell of ``bad`` fulfils and none of ``good`` does; no cell is in both.

    Fewest values named, then fewest conjunctions, then fewest axes, then axes of ``first``, free ones and those of
    PLAIN in that order, then simpler comparisons. No answer where either is empty, or where it takes too many.
    """
    if not bad or not good:
        return MinimalConditions(answers=(), minimal=True)
    # The order of the cells must not matter, but that of values decides how sets are listed.
    values = _values([*bad, *good])
    cells = sorted({tuple(cell.get(axis) for axis in values) for cell in bad}, key=repr)
    count = len(cells)
    cells += sorted({tuple(cell.get(axis) for axis in values) for cell in good}, key=repr)
    failing = (1 << count) - 1
    passing = ((1 << len(cells)) - 1) & ~failing
    pieces, equals, missing = _pieces(values, cells, first, failing, passing)
    search = _Search(bad=failing, good=passing, pieces=pieces, equals=equals, axes=len(values))
    covers = search.run()
    answers = {one: None for cover in covers for one in itertools.islice(_answers(cover, [*values]), MOST_ALIKE)}
    ranked = sorted(answers, key=lambda one: _cost(one, list(values), first))
    minimal = search.complete and size_of(ranked[0] if ranked else ()) <= missing
    return MinimalConditions(answers=tuple(ranked[:MOST_ALIKE]), minimal=minimal)


def _values(cells: Sequence[Cell]) -> dict[str, list[Value]]:
    """The axes that vary, as the cells order them, with their values; independent of the order of the cells."""
    places: dict[str, int] = {}
    for cell in cells:
        for at, name in enumerate(cell):
            places[name] = min(at, places.get(name, at))
    axes = sorted(places, key=lambda name: (places[name], name))
    values = {axis: {cell.get(axis) for cell in cells} for axis in axes}
    return {axis: sort_all(axis, some) for axis, some in values.items() if 1 < len(some) <= MOST_VALUES}


def _pieces(
    values: Mapping[str, Sequence[Value]],
    cells: Sequence[tuple[Value, ...]],
    first: Collection[str],
    failing: int,
    passing: int,
) -> tuple[list[_Piece], list[_Piece], float]:
    """The pieces of which an answer can be made, the shortest first; one per value of an axis; the size of what lacks.

    What covers nothing that reproduces, or excludes nothing that passes, is a part of no answer; nor is what does not
    exclude all that passes, where no other axis does.
    """
    grouped: dict[int, list[AxisCondition]] = {}
    equals = []
    missing = math.inf
    for (axis, some), column in zip(values.items(), zip(*cells, strict=True), strict=True):
        with_value = _masks(column)
        alone = {value for value, mask in with_value.items() if mask & passing and len(values) == 1}
        conditions, not_made = of_axis(axis, some, without=alone)
        missing = min(missing, not_made)
        for condition in conditions:
            mask = 0
            for value in condition.accepted:
                mask |= with_value[value]
            grouped.setdefault(mask, []).append(condition)
            if condition.op == "=":
                equals.append(_Piece(mask, 1, (condition,), frozenset([axis])))
    pieces = []
    for mask, alike in grouped.items():
        if not mask & failing or mask & passing == passing:
            continue
        size = min(condition.size for condition in alike)
        short = sorted(
            (condition for condition in alike if condition.size == size),
            key=lambda one: (_plainness(one.axis, first), one.rank, one.axis),
        )
        pieces.append(_Piece(mask, size, tuple(short), frozenset(one.axis for one in short)))

    def order(piece: _Piece) -> tuple[object, ...]:
        return _cost((piece.conditions[:1],), list(values), first)

    return sorted(pieces, key=order), sorted(equals, key=order), missing


def _masks(column: Sequence[Value]) -> dict[Value, int]:
    """Each value with the cells that have it."""
    found: dict[Value, bytearray] = {}
    for at, value in enumerate(column):
        if value not in found:
            found[value] = bytearray(len(column) // 8 + 1)
        found[value][at // 8] |= 1 << at % 8
    return {value: int.from_bytes(bits, "little") for value, bits in found.items()}


def _plainness(axis: str, first: Collection[str]) -> int:
    return 0 if axis in first else 1 if axis not in PLAIN else 2 + PLAIN.index(axis)


def _cost(conditions: Conditions, axes: Sequence[str], first: Collection[str]) -> tuple[object, ...]:
    """What sorts conditions: the smaller is the better."""
    singles = [one for conjunction in conditions for one in conjunction]
    return (
        sum(one.size for one in singles),
        len(conditions),
        len(singles),
        sum(_plainness(one.axis, first) for one in singles),
        sum(one.rank for one in singles),
        [[(axes.index(one.axis), str(one)) for one in conjunction] for conjunction in conditions],
    )


@dataclass
class _Search:
    bad: int
    good: int
    pieces: list[_Piece]
    equals: list[_Piece]
    axes: int
    complete: bool = True
    budget: int = 0
    terms: dict[int, list[_Term]] = field(default_factory=dict)

    def run(self) -> list[tuple[_Term, ...]]:
        """All covers that name the fewest values; maybe not all, nor the fewest, where ``complete`` is false then."""
        self.budget = MOST_TERMS // (1 + (self.bad | self.good).bit_length() // 2000)
        best, covers = self._widened()
        longest: dict[str, int] = {}
        for piece in self.pieces:
            for axis in piece.axes:
                longest[axis] = max(piece.size, longest.get(axis, 0))
        most = sum(longest.values())  # values that a term can name
        best = min(best, MOST_CONDITIONS * most)
        limit = 0
        while limit < min(best, most) and self.complete:
            limit += 1
            self._find(limit)
            cheaper, found = self._covers(best)
            if found:
                best, covers = cheaper, found
        return covers

    def _find(self, limit: int) -> None:
        """Every term that names ``limit`` values and no fewer, until the work is too much."""

        def grow(start: int, mask: int, against: int, size: int, chosen: tuple[_Piece, ...]) -> None:
            for index in range(start, len(self.pieces)):
                piece = self.pieces[index]
                total = size + piece.size
                self.budget -= 1
                if self.budget < 0:
                    self.complete = False
                if total > limit or not self.complete:
                    return  # the pieces behind it name no fewer
                covered, left = mask & piece.mask, against & piece.mask
                if not covered or left == against or (chosen and not _of_several_axes((*chosen, piece))):
                    continue
                if left and total < limit and len(chosen) + 1 < self.axes:
                    grow(index + 1, covered, left, total, (*chosen, piece))
                elif not left and total == limit:
                    self._keep(_Term(covered, total, (*chosen, piece)))

        grow(0, self.bad, self.good, 0, ())

    def _keep(self, term: _Term) -> None:
        alike = self.terms.setdefault(term.mask, [])
        if alike and term.size < alike[0].size:
            alike.clear()
        if (not alike or alike[0].size == term.size) and len(alike) < MOST_ALIKE and term not in alike:
            alike.append(term)

    def _useful(self) -> list[_Term]:
        """One of every kind of term, without those that a shorter one covers."""
        every = sorted((terms[0] for terms in self.terms.values()), key=lambda one: (one.size, -one.mask.bit_count()))
        self.complete = self.complete and len(every) <= MOST_USEFUL
        useful: list[_Term] = []
        for term in every[:MOST_USEFUL]:
            if not any(not term.mask & ~other.mask for other in useful):
                useful.append(term)
        return useful

    def _covers(self, best: int) -> tuple[int, list[tuple[_Term, ...]]]:
        """The covers that name at most ``best`` values, and the fewest."""
        useful = self._useful()
        found: list[tuple[_Term, ...]] = []
        budget = MOST_COVERS
        covering: dict[int, list[_Term]] = {}

        def choose(uncovered: int, size: int, chosen: tuple[_Term, ...]) -> None:
            nonlocal best, budget
            if not uncovered:
                if size < best:
                    best = size
                    found.clear()
                if len(found) < MOST_ALIKE:
                    found.append(chosen)
                return
            if len(chosen) == MOST_CONDITIONS:
                return
            bit = uncovered & -uncovered
            if bit not in covering:
                covering[bit] = [term for term in useful if term.mask & bit]
            for term in covering[bit]:
                if size + term.size > best:
                    break
                budget -= 1
                if budget < 0:
                    self.complete = False
                    return
                choose(uncovered & ~term.mask, size + term.size, (*chosen, term))

        choose(self.bad, 0, ())
        return best, self._alike(found)

    def _alike(self, covers: Sequence[tuple[_Term, ...]]) -> list[tuple[_Term, ...]]:
        """These covers and those that a term of the same size makes of them, which may cover less, but simpler."""
        found = {frozenset(cover): cover for cover in covers}
        todo = list(found.values())
        while todo and len(found) < MOST_ALIKE:
            cover = todo.pop(0)
            for at, term in enumerate(cover):
                needed = self.bad
                for other in (*cover[:at], *cover[at + 1 :]):
                    needed &= ~other.mask
                for mask, terms in self.terms.items():
                    if needed & ~mask or terms[0].size != term.size:
                        continue
                    for other in terms:
                        made = (*cover[:at], other, *cover[at + 1 :])
                        if frozenset(made) not in found:
                            found[frozenset(made)] = made
                            todo.append(made)
        return list(found.values())

    def _widened(self) -> tuple[int, list[tuple[_Term, ...]]]:
        """Some cover: cells, each with as few of its values as exclude the passing cells. None where it takes too many,
        or where only axes of too many values tell the cells apart.
        """
        left = self.bad
        chosen: list[_Term] = []
        while left:
            term = self._widest(left & -left)
            if term is None or len(chosen) == MOST_CONDITIONS:
                return MOST_CONDITIONS * len(self.pieces), []
            chosen.append(term)
            self._keep(term)
            left &= ~term.mask
        return sum(term.size for term in chosen), [tuple(chosen)]

    def _widest(self, bit: int) -> _Term | None:
        """A term that covers this cell: all of its values, then each of them dropped, or widened, as far as may be."""
        chosen = [piece for piece in self.equals if piece.mask & bit]
        if self._all(chosen) & self.good:
            return None
        for piece in reversed(chosen):
            without = [other for other in chosen if other is not piece]
            if not self._all(without) & self.good:
                chosen = without
        for at, piece in enumerate(chosen):
            others = self._all([*chosen[:at], *chosen[at + 1 :]])
            wider = [
                other
                for other in self.pieces
                if other.size == 1
                and piece.axes == {other.conditions[0].axis}
                and not piece.mask & ~other.mask
                and not others & other.mask & self.good
            ]
            chosen[at] = max([piece, *wider], key=lambda other: (others & other.mask & self.bad).bit_count())
        mask = self._all(chosen) & self.bad
        return _Term(mask, sum(piece.size for piece in chosen), tuple(chosen))

    def _all(self, pieces: Sequence[_Piece]) -> int:
        mask = self.bad | self.good
        for piece in pieces:
            mask &= piece.mask
        return mask


def _of_several_axes(pieces: Sequence[_Piece]) -> bool:
    """Whether each can be in words of an axis of its own."""
    axes = frozenset().union(*(piece.axes for piece in pieces))
    pairs = itertools.combinations((piece.axes for piece in pieces), 2)
    return len(axes) >= len(pieces) and all(len(one | other) > 1 for one, other in pairs)


def _answers(cover: Sequence[_Term], axes: Sequence[str]) -> Iterator[Conditions]:
    """A cover in words: every choice among conditions that the same cells fulfil, the axes in their order."""
    pieces = list(dict.fromkeys(piece for term in cover for piece in term.pieces))
    for chosen in itertools.product(*(piece.conditions for piece in pieces)):
        of_piece = dict(zip(pieces, chosen, strict=True))
        every = [_sorted((of_piece[piece] for piece in term.pieces), axes) for term in cover]
        if all(len({one.axis for one in conjunction}) == len(conjunction) for conjunction in every):
            yield tuple(sorted(every, key=lambda one: [(axes.index(each.axis), str(each)) for each in one]))


def _sorted(conjunction: Iterable[AxisCondition], axes: Sequence[str]) -> Conjunction:
    return tuple(sorted(conjunction, key=lambda one: axes.index(one.axis)))

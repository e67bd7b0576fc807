"""Whether trials carry an explanation, and which cells to repeat until they do. Pure.

"Reproduces exactly when C" has as its rivals the weaker conditions that contain C, under which all their cells fail at
one rate, that of the cells which failed, and some passed by luck. Of each conjunction of C that is

- the conjunction that also accepts the values of a passing cell: every weaker condition contains a smallest such one,
  and its passing cells are the nearest that pass;
- the conjunction without one of its terms, which stands for every term that could have been found in its place;
- what several conjunctions have in common, which stands for all that their other terms could have been: of cells that
  fail at one rate, the few that passed are easily described by what they are not;
- no condition at all, which stands for every explanation that could have been found.

The statement is supported when trials exclude every rival, by :func:`reprokit.evidence.strength.excludes`, in which the
number of answers that could have been found in its place divides what counts as luck.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from reprokit.case.matrix import Cell
from reprokit.evidence.strength import Tally, excludes, passes_needed, total
from reprokit.search.explain.conditions import MOST_VALUES, AxisCondition, Conjunction, Value, of_axis
from reprokit.search.explain.explain import Explanation, Statement

MOST_TRIALS = 60
"""Trials of a cell after which it is not repeated."""
LEAST_BUDGET = 60.0
"""Seconds of trials that a case may always be repeated for, so that short ones of few cells can be confirmed."""
TRIES = 10
"""By how much each cell that both passed and failed multiplies the statements that may have been tried."""
MOST_MIXED = 100
"""Cells that count for that; more would leave what a number can hold."""


def budget(spent: float) -> float:
    """For how many seconds trials may be repeated, after the trials of a case that took ``spent`` seconds."""
    return max(spent, LEAST_BUDGET)


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """``cells``: the positions of cells to repeat, in this order, a cell once per trial, at the cost of ``seconds``.

    ``reaches``: with them the explanation would be supported, if every trial ends as those of its cell did so far.
    """

    cells: tuple[int, ...]
    seconds: float
    reaches: bool


@dataclass(frozen=True, kw_only=True)
class CellGroup:
    """Cells whose trials count together. ``room``: how many more they may have; ``cost``: seconds of the cheapest."""

    cells: tuple[int, ...]
    tally: Tally
    room: int
    cost: float

    def after(self, more: int) -> Tally:
        """The tally after more trials that fail as often as those so far."""
        failed = round(more * self.tally.failed / max(1, self.tally.of))
        return self.tally + Tally(failed=failed, passed=more - failed)


@dataclass(frozen=True)
class _Rival:
    """The passing cells that a weaker condition accepts, and how many conditions could have been found in its place."""

    cells: tuple[int, ...]
    chances: int


class Support:
    """What has to be shown for the statement of an explanation of ``cells``."""

    def __init__(self, explanation: Explanation, cells: Sequence[Cell]) -> None:
        exact = explanation.claim is Statement.EXACT
        self._failing = explanation.bad
        self._rivals = tuple(_rivals(explanation, cells)) if exact else ()

    def given(self, tallies: Sequence[Tally]) -> bool:
        """Whether trials exclude every rival. ``tallies``: those of each cell."""
        tries, failing = tries_of(tallies), _tally(self._failing, tallies)
        return bool(self._rivals) and all(
            excludes(failing, _tally(rival.cells, tallies), rival.chances * tries)
            for some in self._rivals
            for rival in some
            if rival.cells
        )

    def missing(self, tallies: Sequence[Tally], seconds: Sequence[float]) -> Repeats:
        """The cheapest trials that would exclude every rival; none where they do, or where nothing exact is claimed.

        ``seconds``: what a trial of each cell takes. Where no trials reach it, all that cells may be repeated.
        """
        known, chosen, reaches = list(tallies), list[tuple[int, float, int]](), True
        tries = tries_of(tallies)
        for rivals in self._rivals:
            sides = [_side(some, known, seconds) for some in (self._failing, *(rival.cells for rival in rivals))]
            numbers = cheapest(sides, [rival.chances * tries for rival in rivals])
            reaches = reaches and numbers is not None
            for side, number in zip(sides, numbers or [side.room for side in sides], strict=True):
                for _ in range(number):
                    at = _next(side.cells, known, seconds)
                    chosen.append((known[at].of, seconds[at], at))
                    known[at] += as_before(known[at])
        # Round by round: whatever they are stopped at, they were spread over all cells.
        order = tuple(at for *_, at in sorted(chosen))
        return Repeats(cells=order, seconds=sum(cost for _, cost, _ in chosen), reaches=reaches)


def tries_of(tallies: Iterable[Tally]) -> int:
    """How many statements may have been tried: a cell that passed and failed had been on another side before."""
    mixed = sum(bool(tally.failed and tally.passed) for tally in tallies)
    return int(TRIES ** min(mixed, MOST_MIXED))


def next_repeat(plan: Repeats, tallies: Sequence[Tally], seconds: Sequence[float], left: float) -> int | None:
    """The cell to repeat next with ``left`` seconds to spend; None: nothing more is worth it.

    Certain failures are repeated for as long as the budget lasts, which may show that they are not certain. Where one
    already passed, the rest of the budget is spent only if it may support the explanation.
    """
    if not plan.cells or seconds[plan.cells[0]] > left:
        return None
    flaky = any(tally.failed and tally.passed for tally in tallies)
    return None if flaky and (not plan.reaches or plan.seconds > left) else plan.cells[0]


def _rivals(explanation: Explanation, cells: Sequence[Cell]) -> Iterator[tuple[_Rival, ...]]:
    """The rivals in groups, the narrowest first: trials against these count against the wider, too."""
    good = explanation.good
    for one in explanation.conditions:
        yield tuple(_nearest(one.conjunction, good, cells))
    every = 1
    conjunctions = [one.conjunction for one in explanation.conditions]
    for one in explanation.conditions:
        for term in one.conjunction:
            others = tuple(other for other in one.conjunction if other is not term)
            accepted = tuple(at for at in good if all(other.holds(cells[at].get(other.axis)) for other in others))
            chances = _alike(term, explanation, cells, {other.axis for other in others})
            every *= chances
            yield (_Rival(accepted, chances),)
    for common in dict.fromkeys(_common(*pair) for pair in itertools.combinations(conjunctions, 2)):
        extra = [term for one in conjunctions if {*common} <= {*one} for term in one if term not in common]
        accepted = tuple(at for at in good if all(term.holds(cells[at].get(term.axis)) for term in common))
        axes = {term.axis for term in common}
        if common:
            yield (_Rival(accepted, math.prod(_alike(term, explanation, cells, axes) for term in extra)),)
    yield (_Rival(good, every),)


def _common(one: Conjunction, other: Conjunction) -> Conjunction:
    return tuple(term for term in one if term in other)


def _alike(term: AxisCondition, explanation: Explanation, cells: Sequence[Cell], taken: set[str]) -> int:
    """How many conditions on one axis are as short as ``term``, of all axes that are not ``taken``."""
    decided = [cells[at] for at in (*explanation.bad, *explanation.good)]
    found = 0
    for axis in dict.fromkeys(axis for cell in decided for axis in cell if axis not in taken):
        values = {cell.get(axis) for cell in decided}
        if 1 < len(values) <= MOST_VALUES:
            found += sum(one.size == term.size for one in of_axis(axis, sorted(values, key=str))[0])
    return max(found, 1)


def _nearest(conjunction: Conjunction, good: Sequence[int], cells: Sequence[Cell]) -> Iterator[_Rival]:
    """Passing cells in groups, by the values that a conjunction would have to accept as well; the fewest of these."""
    groups: dict[frozenset[tuple[str, Value]], list[int]] = {}
    for at in good:
        values = ((one.axis, cells[at].get(one.axis), one) for one in conjunction)
        groups.setdefault(frozenset((axis, value) for axis, value, one in values if not one.holds(value)), []).append(
            at
        )
    single = {item for added in groups if len(added) == 1 for item in added}
    several = [added for added in groups if len(added) > 1 and not added & single]
    accepted = {one.axis: len(one.accepted) for one in conjunction}
    for added, some in groups.items():
        if len(added) == 1 or (added in several and not any(other < added for other in several)):
            # Of the values that the wider one accepts, any could have been missing.
            yield _Rival(tuple(some), math.prod(accepted[axis] + 1 for axis, _ in added))


def _tally(cells: Iterable[int], tallies: Sequence[Tally]) -> Tally:
    return total(tallies[at] for at in cells)


def _side(cells: tuple[int, ...], tallies: Sequence[Tally], seconds: Sequence[float]) -> CellGroup:
    return CellGroup(
        cells=cells,
        tally=_tally(cells, tallies),
        room=sum(max(0, MOST_TRIALS - tallies[at].of) for at in cells),
        cost=min((seconds[at] for at in cells), default=0.0),
    )


def as_before(tally: Tally) -> Tally:
    """One more trial that ends as most of the cell's did."""
    return Tally(failed=1) if tally.failed >= tally.passed else Tally(passed=1)


def _next(cells: Sequence[int], tallies: Sequence[Tally], seconds: Sequence[float]) -> int:
    """Which of these cells is repeated: each gets about as much time as the others, so cheap ones get more trials."""
    free = [at for at in cells if tallies[at].of < MOST_TRIALS]
    return min(free, key=lambda at: (tallies[at].of * seconds[at], seconds[at], at))


def cheapest(sides: Sequence[CellGroup], chances: Sequence[int]) -> list[int] | None:
    """How many more trials each side gets to exclude every rival, the failing side first; None: no number does."""
    named, rivals = sides[0], list(zip(sides[1:], chances, strict=True))
    most = named.after(named.room)
    if any(_needed(most, *rival) is None for rival in rivals):
        return None
    best: list[int] | None = None
    least = math.inf
    for more in range(named.room + 1):
        if more * named.cost >= least:
            break
        needs = [_needed(named.after(more), *rival) for rival in rivals]
        if None in needs:
            continue
        numbers = [more, *(need or 0 for need in needs)]
        cost = sum(number * side.cost for number, side in zip(numbers, sides, strict=True))
        if cost < least:
            best, least = numbers, cost
    return best


def _needed(named: Tally, side: CellGroup, chances: int) -> int | None:
    """How many more passing trials of a side exclude its rival; None: more than it may have."""
    more = max(0, passes_needed(named, chances) - side.tally.passed) if side.cells else 0
    return more if more <= side.room else None

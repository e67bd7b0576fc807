"""Which difference matters: the conditions under which decided cells reproduce, and what would distinguish rivals.

Pure. A claim covers the decided cells, and says so. Unresolved cells count for neither side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reprokit.case.matrix import Cell
from reprokit.evidence.model import StrEnum
from reprokit.evidence.reading import Reading
from reprokit.evidence.strength import LEVEL, Tally, chance_of, total
from reprokit.search.conditions import MOST_VALUES, AxisCondition, Conditions, Conjunction, Value, holds, of_axis
from reprokit.search.covering import separate

FEW = 2
"""A list of up to so many cells is an explanation; a longer list is not."""
MOST_RIVALS = 20
"""Most other explanations that are kept."""
MOST_TELLING = 3
"""Most cells that are proposed to distinguish explanations."""


class Statement(StrEnum):
    """``exact``: one explanation fits the decided cells; ``one-of``: several do, equally small; ``none``: no claim."""

    EXACT = "exact"
    ONE_OF = "one-of"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Condition:
    """One alternative of an explanation, with the positions of the cells behind it."""

    conjunction: Conjunction
    reproducing: tuple[int, ...]  # the failing cells that fulfil it
    near: tuple[int, ...]  # the passing cells one axis away from one of these


@dataclass(frozen=True, kw_only=True)
class RateDifference:
    """That cells fail ``more`` often with a condition than elsewhere, where they fail ``less`` often or never."""

    condition: AxisCondition
    others: tuple[AxisCondition, ...]
    """conditions on other axes that hold in the same cells"""
    more: Tally
    less: Tally
    chance: float
    """of a difference as large where there is none, times the number of conditions that were looked at"""

    def __str__(self) -> str:
        return " or ".join(map(str, (self.condition, *self.others)))


@dataclass(frozen=True, kw_only=True)
class DiscriminatingCell:
    """A cell for which explanations predict different results."""

    cell: Cell
    at: int | None  # its position; None for a cell not given
    kept: tuple[int, ...]  # which explanations (0 is the first, then the rivals) remain if it reproduces


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why decided cells reproduce or do not. ``bad``, ``good``, ``undecided``: positions among the given cells."""

    claim: Statement
    bad: tuple[int, ...]  # failing
    good: tuple[int, ...]  # passing
    undecided: tuple[int, ...]
    why: str = ""  # why there is no claim, in words
    conditions: tuple[Condition, ...] = ()
    rivals: tuple[Conditions, ...] = ()
    more_rivals: int = 0
    tell_apart: tuple[DiscriminatingCell, ...] = ()
    predicted: Mapping[int, bool] | None = None  # an undecided position -> whether the conditions hold, if known
    minimal: bool = True  # there is no shorter explanation

    @property
    def decided(self) -> int:
        """How many cells the claim covers."""
        return len(self.bad) + len(self.good)

    @property
    def found(self) -> Conditions:
        """The conditions by themselves."""
        return tuple(one.conjunction for one in self.conditions)


def explain(
    cells: Sequence[Cell],
    readings: Sequence[Reading],
    *,
    first: Collection[str] = (),
    askable: Callable[[Cell], bool] = lambda cell: True,
) -> Explanation:
    """The smallest conditions that hold in the cells that reproduce and in no other decided cell.

    ``cells``: those that were run and those that could be, each once; ``readings``: one for each. ``first``: axes to
    prefer where several fit equally well. ``askable``: whether an undecided cell may be proposed to distinguish
    explanations.
    """
    of = {reading: tuple(at for at, each in enumerate(readings) if each is reading) for reading in Reading}
    bad, good, undecided = of[Reading.FAIL], of[Reading.PASS], of[Reading.UNRESOLVED]
    why = _no_difference(len(bad), len(good))
    if why:
        return Explanation(claim=Statement.NONE, why=why, bad=bad, good=good, undecided=undecided)
    failing, passing = [cells[at] for at in bad], [cells[at] for at in good]
    found = separate(failing, passing, first)
    if not found.answers or is_a_list(found.answers[0], len(bad)):
        why = f"no condition is shorter than a list of the {len(bad)} cells that reproduce"
        return Explanation(
            claim=Statement.NONE, why=why, bad=bad, good=good, undecided=undecided, minimal=found.minimal
        )
    decided = failing + passing
    axes = dict.fromkeys(axis for cell in decided for axis in cell)
    seen = {axis: frozenset(cell.get(axis) for cell in decided) for axis in axes}
    different = _different(found.answers, seen)
    answer, rivals = different[0], different[1 : MOST_RIVALS + 1]
    predictions = ((at, holds(answer, cells[at])) for at in undecided)
    return Explanation(
        claim=Statement.ONE_OF if rivals else Statement.EXACT,
        bad=bad,
        good=good,
        undecided=undecided,
        conditions=tuple(_condition(one, cells, bad, good) for one in answer),
        rivals=tuple(rivals),
        more_rivals=len(different) - 1 - len(rivals),
        tell_apart=tuple(_discriminating((answer, *rivals), cells, failing, undecided, seen, askable))
        if rivals
        else (),
        predicted={at: prediction for at, prediction in predictions if prediction is not None},
        minimal=found.minimal,
    )


def difference(cells: Sequence[Cell], tallies: Sequence[Tally]) -> RateDifference | None:
    """The one value or threshold of an axis by which failure rates differ most; None where that may be chance.

    It is about the runs of all cells on either side together: single cells of a side may have other rates.
    """
    tried = [(cell, tally) for cell, tally in zip(cells, tallies, strict=True) if tally.of]
    axes = {axis: {cell.get(axis) for cell, _ in tried} for cell, _ in tried for axis in cell}
    conditions = [
        condition
        for axis, values in axes.items()
        if len(values) <= MOST_VALUES
        for condition in of_axis(axis, sorted(values, key=str))[0]
        if condition.size == 1
    ]
    sides: dict[tuple[bool, ...], list[AxisCondition]] = {}
    for condition in conditions:
        inside = tuple(cell.get(condition.axis) in condition.accepted for cell, _ in tried)
        sides.setdefault(inside, []).append(condition)
    best: RateDifference | None = None
    for inside, (first, *others) in sides.items():
        more = total(tally for (_, tally), holding in zip(tried, inside, strict=True) if holding)
        less = total(tally for _, tally in tried) - more
        chance = chance_of(more, less) * len(conditions)
        if chance <= LEVEL and (best is None or (chance, first.rank) < (best.chance, best.condition.rank)):
            best = RateDifference(condition=first, others=tuple(others), more=more, less=less, chance=chance)
    return best


def _no_difference(bad: int, good: int) -> str:
    """Why there is nothing to explain; '' where there is."""
    if bad + good == 0:
        return "no cell is decided"
    if bad + good == 1:
        return "only one cell is decided: there is no other to compare it with"
    if not good:
        return f"{'both' if bad == 2 else f'all {bad}'} cells decided reproduce"
    return "" if bad else f"none of the {good} cells decided reproduces"


def is_a_list(conditions: Conditions, bad: int) -> bool:
    """Whether conditions are no shorter than a list of the ``bad`` failing cells. A set counts once per value."""
    alternatives = (math.prod(one.size for one in each if one.op == "in") for each in conditions)
    return bad > FEW and sum(alternatives) >= bad


def _different(answers: Sequence[Conditions], seen: Mapping[str, frozenset[Value]]) -> list[Conditions]:
    """The answers without those that accept the same combinations of the values seen as an earlier one."""
    kept: list[Conditions] = []
    for answer in answers:
        pairs = [((answer, other), (other, answer)) for other in kept]
        if all(any(next(_apart(*pair, seen), None) for pair in both) for both in pairs):
            kept.append(answer)
    return kept


Box = Mapping[str, frozenset[Value]]


def _apart(one: Conditions, other: Conditions, seen: Box) -> Iterator[Box]:
    """Boxes (a set of values per axis) in which every combination fulfils ``one`` and not ``other``."""
    for conjunction in one:
        yield from _outside({**seen, **{each.axis: each.accepted for each in conjunction}}, other)


def _outside(box: Box, conditions: Conditions) -> Iterator[Box]:
    if not conditions:
        yield box
        return
    for each in conditions[0]:
        cut, inside = box[each.axis] - each.accepted, box[each.axis] & each.accepted
        if cut:
            yield from _outside({**box, each.axis: cut}, conditions[1:])
        if not inside:
            return
        box = {**box, each.axis: inside}


def _condition(conjunction: Conjunction, cells: Sequence[Cell], bad: Sequence[int], good: Sequence[int]) -> Condition:
    reproducing = tuple(at for at in bad if holds((conjunction,), cells[at]))
    beside: dict[str, set[frozenset[tuple[str, str]]]] = {
        one.axis: {_without(cells[at], one.axis) for at in reproducing} for one in conjunction
    }
    near = []
    for at in good:
        failed = [one.axis for one in conjunction if not one.holds(cells[at].get(one.axis))]
        if len(failed) == 1 and _without(cells[at], failed[0]) in beside[failed[0]]:
            near.append(at)
    return Condition(conjunction=conjunction, reproducing=reproducing, near=tuple(near))


def _without(cell: Cell, axis: str) -> frozenset[tuple[str, str]]:
    return frozenset(item for item in cell.items() if item[0] != axis)


def _discriminating(
    answers: Sequence[Conditions],
    cells: Sequence[Cell],
    bad: Sequence[Cell],
    undecided: Sequence[int],
    seen: Box,
    askable: Callable[[Cell], bool],
) -> Iterator[DiscriminatingCell]:
    """A few cells whose results would distinguish as many answers as possible; given cells first, then new ones."""
    own = [(cells[at], at) for at in undecided if askable(cells[at])]
    groups = [frozenset(range(len(answers)))]
    pool: Iterable[tuple[Cell, int | None]] = own
    for _ in range(MOST_TELLING):
        best = _most_discriminating(pool, answers, groups)
        if best is None and pool is own:
            pool = [(cell, None) for cell in _new_cells(answers, cells, bad, seen) if askable(cell)]
            best = _most_discriminating(pool, answers, groups)
        if best is None:
            return
        yield best
        kept = frozenset(best.kept)
        groups = [part for group in groups for part in (group & kept, group - kept) if len(part) > 1]


def _most_discriminating(
    pool: Iterable[tuple[Cell, int | None]], answers: Sequence[Conditions], groups: Sequence[frozenset[int]]
) -> DiscriminatingCell | None:
    """The first of the cells that split the groups most evenly: either result rules out as many answers as possible."""
    best, most = None, 0
    for cell, at in pool:
        predictions = [holds(answer, cell) for answer in answers]
        if None in predictions:
            continue
        kept = frozenset(index for index, each in enumerate(predictions) if each)
        pairs = sum(len(group & kept) * len(group - kept) for group in groups)
        if pairs > most:
            best, most = DiscriminatingCell(cell=cell, at=at, kept=tuple(sorted(kept))), pairs
    return best


def _new_cells(answers: Sequence[Conditions], cells: Sequence[Cell], bad: Sequence[Cell], seen: Box) -> list[Cell]:
    """Cells for which the first answer and another predict different results, the closest to a failing cell first.

    Among equals, first those whose values were seen together: not every compiler is available on every system.
    """
    known = {frozenset(cell.items()) for cell in cells}
    together = {pair for cell in cells for pair in itertools.combinations(sorted(cell.items()), 2)}
    found: dict[frozenset[tuple[str, str]], tuple[int, int, Cell]] = {}
    pairs = [pair for other in answers[1:] for pair in ((answers[0], other), (other, answers[0]))]
    for one, other in pairs:
        for box in itertools.islice(_apart(one, other, seen), MOST_RIVALS):
            for base in bad[:MOST_RIVALS]:
                changes, cell = _nearest(base, box)
                if cell is not None and frozenset(cell.items()) not in known:
                    new = sum(pair not in together for pair in itertools.combinations(sorted(cell.items()), 2))
                    found.setdefault(frozenset(cell.items()), (changes, new, cell))
    return [cell for *_, cell in sorted(found.values(), key=lambda each: (*each[:2], list(each[2].items())))]


def _nearest(cell: Cell, box: Box) -> tuple[int, Cell | None]:
    """How many axes must change to bring the cell into the box, and the changed cell; None where it lacks an axis."""
    changed = {axis: min(filter(None, some), default=None) for axis, some in box.items() if cell.get(axis) not in some}
    if None in changed.values():
        return 0, None
    return len(changed), {**cell, **{axis: value for axis, value in changed.items() if value is not None}}

"""Which difference matters: the conditions under which decided cells reproduce, and what would tell rivals apart. Pure.

A claim is about the cells that were decided, and says so. Cells that nothing was decided about count for neither side.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from reprokit.case.matrix import Cell
from reprokit.evidence.model import StrEnum
from reprokit.evidence.reading import Reading
from reprokit.search.explain.conditions import Conditions, Conjunction, Value, holds
from reprokit.search.explain.covering import separate

FEW = 2
"""As many cells are an explanation by themselves; of more, a list is none."""
MOST_RIVALS = 20
"""Most other explanations that are kept."""
MOST_TELLING = 3
"""Most cells that are named to tell explanations apart."""


class Claim(StrEnum):
    """``exact``: one explanation fits the decided cells; ``one-of``: several do, equally small; ``none``: no claim."""

    EXACT = "exact"
    ONE_OF = "one-of"
    NONE = "none"


@dataclass(frozen=True, kw_only=True)
class Condition:
    """``reproducing``: the cells that fulfil it; ``near``: those without the failure, one axis away from one of them.

    Both are positions among the cells that were explained.
    """

    conjunction: Conjunction
    reproducing: tuple[int, ...]
    near: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Telling:
    """A cell about which explanations differ. ``at``: its position, None where it is none of the given ones.

    ``kept``: which explanations (0 is the first, then the rivals) stand if it reproduces.
    """

    cell: Cell
    at: int | None
    kept: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why decided cells reproduce or do not. ``why``: in words, where there is no claim.

    ``bad``, ``good`` and ``undecided`` are positions among the given cells; ``predicted`` says of undecided ones
    whether the conditions hold there, where that can be said. ``minimal``: nothing shorter could be said.
    """

    claim: Claim
    bad: tuple[int, ...]
    good: tuple[int, ...]
    undecided: tuple[int, ...]
    why: str = ""
    conditions: tuple[Condition, ...] = ()
    rivals: tuple[Conditions, ...] = ()
    more_rivals: int = 0
    tell_apart: tuple[Telling, ...] = ()
    predicted: Mapping[int, bool] | None = None
    minimal: bool = True

    @property
    def decided(self) -> int:
        """How many cells the claim is about."""
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
    """The smallest conditions that hold in the cells that reproduce and in no other decided one.

    ``cells``: those that were run and those that could be, each once. ``first``: axes to prefer where several serve.
    ``askable``: whether a cell that is none of them may be named to tell explanations apart.
    """
    of = {reading: tuple(at for at, each in enumerate(readings) if each is reading) for reading in Reading}
    bad, good, undecided = of[Reading.BAD], of[Reading.GOOD], of[Reading.UNKNOWN]
    why = _no_difference(len(bad), len(good))
    if why:
        return Explanation(claim=Claim.NONE, why=why, bad=bad, good=good, undecided=undecided)
    failing, well = [cells[at] for at in bad], [cells[at] for at in good]
    found = separate(failing, well, first)
    if not found.answers or is_a_list(found.answers[0], len(bad)):
        why = f"no condition is shorter than a list of the {len(bad)} cells that reproduce"
        return Explanation(claim=Claim.NONE, why=why, bad=bad, good=good, undecided=undecided, minimal=found.minimal)
    seen = _seen(failing + well)
    different = _different(found.answers, seen)
    answer, rivals = different[0], different[1 : MOST_RIVALS + 1]
    predictions = ((at, holds(answer, cells[at])) for at in undecided)
    return Explanation(
        claim=Claim.ONE_OF if rivals else Claim.EXACT,
        bad=bad,
        good=good,
        undecided=undecided,
        conditions=tuple(_condition(one, cells, bad, good) for one in answer),
        rivals=tuple(rivals),
        more_rivals=len(different) - 1 - len(rivals),
        tell_apart=tuple(_telling((answer, *rivals), cells, failing, undecided, seen, askable)) if rivals else (),
        predicted={at: said for at, said in predictions if said is not None},
        minimal=found.minimal,
    )


def _no_difference(bad: int, good: int) -> str:
    """Why there is nothing to explain; '' where there is."""
    if bad + good == 0:
        return "no cell is decided"
    if bad + good == 1:
        return "one cell is decided, and none to compare it with"
    if not good:
        return f"{'both' if bad == 2 else f'all {bad}'} cells decided reproduce: no difference between them matters"
    return "" if bad else f"none of the {good} cells decided reproduces"


def is_a_list(conditions: Conditions, bad: int) -> bool:
    """Whether conditions say no more than a list of the ``bad`` cells would. A set counts once per value."""
    alternatives = (math.prod(one.size for one in each if one.op == "in") for each in conditions)
    return bad > FEW and sum(alternatives) >= bad


def _seen(cells: Sequence[Cell]) -> dict[str, frozenset[Value]]:
    axes = dict.fromkeys(axis for cell in cells for axis in cell)
    return {axis: frozenset(cell.get(axis) for cell in cells) for axis in axes}


def _different(answers: Sequence[Conditions], seen: Mapping[str, frozenset[Value]]) -> list[Conditions]:
    """The answers that differ about some combination of the values seen; others are the same in other words."""
    kept: list[Conditions] = []
    for answer in answers:
        if not any(_same(answer, other, seen) for other in kept):
            kept.append(answer)
    return kept


def _same(one: Conditions, other: Conditions, seen: Mapping[str, frozenset[Value]]) -> bool:
    return next(_apart(one, other, seen), None) is None and next(_apart(other, one, seen), None) is None


Box = Mapping[str, frozenset[Value]]


def _apart(one: Conditions, other: Conditions, seen: Box) -> Iterator[Box]:
    """Values per axis, of which every combination fulfils ``one`` and not ``other``."""
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


def _telling(
    answers: Sequence[Conditions],
    cells: Sequence[Cell],
    bad: Sequence[Cell],
    undecided: Sequence[int],
    seen: Box,
    askable: Callable[[Cell], bool],
) -> Iterator[Telling]:
    """Few cells that tell as many of the answers apart as cells can; given ones come before those to be made up."""
    own = [(cells[at], at) for at in undecided]
    groups = [frozenset(range(len(answers)))]
    pool: Iterable[tuple[Cell, int | None]] = own
    for _ in range(MOST_TELLING):
        best = _most_telling(pool, answers, groups)
        if best is None and pool is own:
            pool = [(cell, None) for cell in _made_up(answers, cells, bad, seen) if askable(cell)]
            best = _most_telling(pool, answers, groups)
        if best is None:
            return
        yield best
        kept = frozenset(best.kept)
        groups = [part for group in groups for part in (group & kept, group - kept) if len(part) > 1]


def _most_telling(
    pool: Iterable[tuple[Cell, int | None]], answers: Sequence[Conditions], groups: Sequence[frozenset[int]]
) -> Telling | None:
    """The first of the cells that split the groups most evenly: of any answer of them, as many as can be are gone."""
    best, most = None, 0
    for cell, at in pool:
        said = [holds(answer, cell) for answer in answers]
        if None in said:
            continue
        kept = frozenset(index for index, each in enumerate(said) if each)
        pairs = sum(len(group & kept) * len(group - kept) for group in groups)
        if pairs > most:
            best, most = Telling(cell=cell, at=at, kept=tuple(sorted(kept))), pairs
    return best


def _made_up(answers: Sequence[Conditions], cells: Sequence[Cell], bad: Sequence[Cell], seen: Box) -> list[Cell]:
    """Cells about which the first answer and another differ, those first that are most like one that reproduces.

    Then those whose values were met together: not every compiler is to be had in every system.
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
    """The cell with as few axes changed as puts it into the box, and how many; None where it would lack an axis."""
    changed = {axis: min(filter(None, some), default=None) for axis, some in box.items() if cell.get(axis) not in some}
    if None in changed.values():
        return 0, None
    return len(changed), {**cell, **{axis: value for axis, value in changed.items() if value is not None}}

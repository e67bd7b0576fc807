"""Whether trials carry a statement, and which cells to repeat until they do: of a run, and of a search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from reprokit.case.matrix import Cell
from reprokit.evidence.model import Verdict
from reprokit.evidence.reading import Reading, reading
from reprokit.evidence.records import CellRecord
from reprokit.evidence.strength import EXACT_TRIALS, Tally, excludes, lowest, passes_needed, total
from reprokit.search.conditions import MOST_VALUES, AxisCondition, Conjunction, Value, of_axis
from reprokit.search.explain import Explanation, Statement, explain
from reprokit.search.queries import Candidate, Query, Search

MOST_TRIALS = 60
"""Trials of a cell after which it is not repeated."""
LEAST_BUDGET = 60.0
"""Seconds of trials that a case may always be repeated for, so that short ones of few cells can be confirmed."""
OF_SEARCH = 2
"""Times its trials for which a search may repeat them: to confirm takes twice the steps of a bisection."""
TRIES = 10
"""By how much each cell that both passed and failed multiplies the statements that may have been tried."""
EACH = 0.2
"""What alike cells that always failed have to show by themselves, as the number of statements that were tried."""
MOST_MIXED = 100
"""Cells that count for that; more would leave what a number can hold."""


def budget(spent: float) -> float:
    """For how many seconds trials may be repeated, after the trials of a case that took ``spent`` seconds."""
    return max(spent, LEAST_BUDGET)


@dataclass(frozen=True, kw_only=True)
class Repeats:
    """Cells to repeat, by position, in this order, a cell once per trial."""

    cells: tuple[int, ...]
    seconds: float
    reaches: bool  # the explanation would be supported, if every trial ends as those of its cell did so far


@dataclass(frozen=True, kw_only=True)
class CellGroup:
    """Cells whose trials count together."""

    cells: tuple[int, ...]
    tally: Tally
    room: int  # how many more trials they may have
    cost: float  # seconds of the cheapest

    def after(self, more: int) -> Tally:
        """The tally after more trials that fail as often as those so far."""
        failed = round(more * self.tally.failed / max(1, self.tally.of))
        return self.tally + Tally(failed=failed, passed=more - failed)


@dataclass(frozen=True)
class _Rival:
    """The passing cells that a weaker condition accepts, and how many conditions could have been found in its place."""

    cells: tuple[int, ...]
    chances: float


class Support:
    """What has to be shown for the statement of an explanation of ``cells``; ``exact``: for the word "exactly", too."""

    def __init__(self, explanation: Explanation, cells: Sequence[Cell], *, exact: bool = False) -> None:
        one = explanation.claim is Statement.EXACT
        self._failing, self._passing = explanation.bad, explanation.good
        self._rivals = tuple(_rivals(explanation, cells)) if one else ()
        self._near = tuple(_alike_failing(explanation, cells, self._rivals)) if one else ()
        self._exact = exact and one

    def given(self, tallies: Sequence[Tally]) -> bool:
        """Whether trials exclude every rival. ``tallies``: those of each cell."""
        return bool(self._rivals) and all(
            excludes(total(tallies[at] for at in named), total(tallies[at] for at in rival.cells), rival.chances)
            for named, rivals in self._tests(tallies)
            for rival in rivals
            if rival.cells
        )

    def exact(self, tallies: Sequence[Tally]) -> bool:
        """Whether each passing cell excludes, by itself, that it fails at a low rate."""
        return self.given(tallies) and all(tallies[at].passed >= EXACT_TRIALS for at in self._passing)

    def missing(self, tallies: Sequence[Tally], seconds: Sequence[float]) -> Repeats:
        """The cheapest trials that would exclude every rival; none where they do, or where nothing exact is claimed.

        ``seconds``: what a trial of each cell takes. Where no trials reach it, all that cells may be repeated. What the
        failing cells show together comes first: that one fails more seldom than others may turn out to be chance.
        """
        plan = self._missing(tallies, seconds, together=True)
        return plan if plan.cells else self._missing(tallies, seconds, together=False)

    def _missing(self, tallies: Sequence[Tally], seconds: Sequence[float], *, together: bool) -> Repeats:
        known, chosen, reaches = list(tallies), list[tuple[int, float, int]](), True
        for named, rivals in self._tests(tallies, together=together):
            sides = [_side(some, some, known, seconds) for some in (named, *(one.cells for one in rivals))]
            numbers = cheapest(sides, [rival.chances for rival in rivals])
            reaches = reaches and numbers is not None
            for side, number in zip(sides, numbers or [side.room for side in sides], strict=True):
                for _ in range(number):
                    at = _next(side.cells, known, seconds)
                    chosen.append((known[at].of, seconds[at], at))
                    known[at] += as_before(known[at])
        if self._exact and reaches and not together:
            for at in self._passing:
                chosen += [(number, seconds[at], at) for number in range(known[at].of, EXACT_TRIALS)]
        # Round by round: whatever they are stopped at, they were spread over all cells.
        order = tuple(at for *_, at in sorted(chosen))
        return Repeats(cells=order, seconds=sum(cost for _, cost, _ in chosen), reaches=reaches)

    def _tests(
        self, tallies: Sequence[Tally], *, together: bool = False
    ) -> Iterator[tuple[tuple[int, ...], tuple[_Rival, ...]]]:
        """Failing cells, and the rivals that say of passing ones that they fail at the rate of these.

        Of groups that fail at different rates the lowest counts, unless all are taken ``together``. A group that always
        failed is also held against the cells near it: a failure or two may have been luck.
        """
        groups = list(dict.fromkeys(cells for cells, _ in self._near))
        least = None if together else lowest([total(tallies[at] for at in cells) for cells in groups])
        named = self._failing if least is None else groups[least]
        tries = tries_of(tallies)
        for rivals in self._rivals:
            yield named, tuple(replace(rival, chances=rival.chances * tries) for rival in rivals)
        yield from ((cells, near) for cells, near in self._near if not total(tallies[at] for at in cells).passed)


def tries_of(tallies: Iterable[Tally]) -> int:
    """How many statements may have been tried: a cell that passed and failed had been on another side before."""
    return int(TRIES ** min(sum(map(_is_mixed, tallies)), MOST_MIXED))


def _is_mixed(tally: Tally) -> bool:
    return bool(tally.failed and tally.passed)


def next_repeat(plan: Repeats, tallies: Sequence[Tally], seconds: Sequence[float], left: float) -> int | None:
    """The cell to repeat next with ``left`` seconds to spend; None: nothing more is worth it.

    Certain failures are repeated for as long as the budget lasts, which may show that they are not certain. Where one
    already passed, the rest of the budget is spent only if it may support the explanation.
    """
    if not plan.cells or seconds[plan.cells[0]] > left:
        return None
    flaky = any(map(_is_mixed, tallies))
    return None if flaky and (not plan.reaches or plan.seconds > left) else plan.cells[0]


def _alike_failing(
    explanation: Explanation, cells: Sequence[Cell], rivals: Sequence[tuple[_Rival, ...]]
) -> Iterator[tuple[tuple[int, ...], tuple[_Rival, ...]]]:
    """The failing cells in groups, by their values of the axes that are named, with the nearest rivals of each."""
    axes = dict.fromkeys(term.axis for one in explanation.conditions for term in one.conjunction)
    for one, near in zip(explanation.conditions, rivals, strict=False):
        groups: dict[tuple[Value, ...], list[int]] = {}
        for at in one.reproducing:
            groups.setdefault(tuple(cells[at].get(axis) for axis in axes), []).append(at)
        for some in groups.values():
            yield tuple(some), tuple(replace(rival, chances=EACH) for rival in near)


def _rivals(explanation: Explanation, cells: Sequence[Cell]) -> Iterator[tuple[_Rival, ...]]:
    """The rivals in groups, the narrowest first: trials against these count against the wider, too.

    A rival is a weaker condition that contains the explanation, under which all cells fail at one rate and some passed
    by luck. Of each conjunction that is: itself, accepting the values of a passing cell as well; itself without one of
    its terms; what several conjunctions have in common; and no condition at all. Each stands for all that could have
    been found in its place, and their number divides what counts as luck.
    """
    good = explanation.good
    for one in explanation.conditions:
        yield tuple(_nearest_passing(one.conjunction, good, cells))
    every = 1
    conjunctions = [one.conjunction for one in explanation.conditions]
    for one in explanation.conditions:
        for term in one.conjunction:
            others = tuple(other for other in one.conjunction if other is not term)
            accepted = tuple(at for at in good if all(other.holds(cells[at].get(other.axis)) for other in others))
            chances = _alike(term, explanation, cells, {other.axis for other in others})
            every *= chances
            yield (_Rival(accepted, chances),)
    pairs = itertools.combinations(conjunctions, 2)
    for common in dict.fromkeys(tuple(term for term in one if term in other) for one, other in pairs):
        extra = [term for one in conjunctions if {*common} <= {*one} for term in one if term not in common]
        accepted = tuple(at for at in good if all(term.holds(cells[at].get(term.axis)) for term in common))
        axes = {term.axis for term in common}
        if common:
            yield (_Rival(accepted, math.prod(_alike(term, explanation, cells, axes) for term in extra)),)
    yield (_Rival(good, every),)


def _alike(term: AxisCondition, explanation: Explanation, cells: Sequence[Cell], taken: set[str]) -> int:
    """How many conditions on one axis are as short as ``term``, of all axes that are not ``taken``."""
    decided = [cells[at] for at in (*explanation.bad, *explanation.good)]
    found = 0
    for axis in dict.fromkeys(axis for cell in decided for axis in cell if axis not in taken):
        values = {cell.get(axis) for cell in decided}
        if 1 < len(values) <= MOST_VALUES:
            found += sum(one.size == term.size for one in of_axis(axis, sorted(values, key=str))[0])
    return max(found, 1)


def _nearest_passing(conjunction: Conjunction, good: Sequence[int], cells: Sequence[Cell]) -> Iterator[_Rival]:
    """Passing cells in groups, by the values that a conjunction would have to accept as well; the fewest of these."""
    groups: dict[frozenset[tuple[str, Value]], list[int]] = {}
    for at in good:
        values = ((one, cells[at].get(one.axis)) for one in conjunction)
        added = frozenset((one.axis, value) for one, value in values if not one.holds(value))
        groups.setdefault(added, []).append(at)
    single = {item for added in groups if len(added) == 1 for item in added}
    several = [added for added in groups if len(added) > 1 and not added & single]
    accepted = {one.axis: len(one.accepted) for one in conjunction}
    for added, some in groups.items():
        if len(added) == 1 or (added in several and not any(other < added for other in several)):
            # Of the values that the wider one accepts, any could have been missing.
            yield _Rival(tuple(some), math.prod(accepted[axis] + 1 for axis, _ in added))


def _side(
    cells: tuple[int, ...], repeated: Sequence[int], tallies: Sequence[Tally], seconds: Sequence[float]
) -> CellGroup:
    """Cells whose trials count together, some of which may be ``repeated``."""
    return CellGroup(
        cells=cells,
        tally=total(tallies[at] for at in cells),
        room=sum(max(0, MOST_TRIALS - tallies[at].of) for at in repeated),
        cost=min((seconds[at] for at in repeated), default=0.0),
    )


def as_before(tally: Tally) -> Tally:
    """One more trial that ends as most of the cell's did."""
    return Tally(failed=1) if tally.failed >= tally.passed else Tally(passed=1)


def _next(cells: Sequence[int], tallies: Sequence[Tally], seconds: Sequence[float]) -> int:
    """Which of these cells is repeated: each gets about as much time as the others, so cheap ones get more trials."""
    free = [at for at in cells if tallies[at].of < MOST_TRIALS]
    return min(free, key=lambda at: (tallies[at].of * seconds[at], seconds[at], at))


def cheapest(sides: Sequence[CellGroup], chances: Sequence[float]) -> list[int] | None:
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


def _needed(named: Tally, side: CellGroup, chances: float) -> int | None:
    """How many more passing trials of a side exclude its rival; None: more than it may have."""
    more = max(0, passes_needed(named, chances) - side.tally.passed) if side.cells else 0
    return more if more <= side.room else None


SHORTEST = 0.5
"""Seconds that a trial counts at least: below that, how long one took is mostly chance."""


def planner(confirm: str) -> Confirmation | None:
    """What ``--confirm`` asks for: ``auto``, ``always``, ``exact`` or ``never``."""
    return None if confirm == "never" else Confirmation(limited=confirm == "auto", exact=confirm == "exact")


class Confirmation:
    """Implements :class:`reprokit.run.confirming.Planner`. ``limited``: within a :func:`budget` of trial seconds.

    ``exact``: until the word "exactly" holds.
    """

    def __init__(self, *, limited: bool, exact: bool = False) -> None:
        self._limited = limited
        self._exact = exact
        self._known: dict[tuple[str, tuple[Reading, ...]], Support] = {}

    def __call__(self, records: Sequence[CellRecord], running: Collection[int]) -> int | None:
        """The number of the cell to repeat next; None where nothing more is worth it, or what is ``running`` may do."""
        support = self._support_for(records)
        tallies, seconds = list(map(tally_of, records)), [seconds_of(record) for record in records]
        left = _budget_left(records) if self._limited else math.inf
        for at, record in enumerate(records):
            if record.number in running:
                tallies[at] += as_before(tallies[at])
                left -= seconds[at]
        plan = support.missing(tallies, seconds)
        plan = replace(plan, cells=tuple(at for at in plan.cells if records[at].number not in running))
        chosen = next_repeat(plan, tallies, seconds, left)
        return None if chosen is None else records[chosen].number

    def _support_for(self, records: Sequence[CellRecord]) -> Support:
        readings = tuple(reading(record.verdict) for record in records)
        key = records[0].case_digest if records else "", readings
        if key not in self._known:
            cells = [dict(record.cell) for record in records]
            self._known[key] = Support(explain(cells, readings), cells, exact=self._exact)
        return self._known[key]


def _budget_left(records: Collection[CellRecord], times: int = 1) -> float:
    """For how many seconds more trials of these may be repeated: so many ``times`` what they took before."""
    again = sum(seconds_of(one) * one.details.repeats for one in records)
    return budget(times * sum(seconds_of(one) * (len(one.trials) - one.details.repeats) for one in records)) - again


def tally_of(record: CellRecord) -> Tally:
    """What the trials of a recorded cell count for; of a record that was read without them, by its figures."""
    shown, measured = record.details.trials, record.details.ratio
    if measured is not None and not measured.reference and record.verdict is Verdict.NOT_REPRODUCED:
        return Tally(passed=EXACT_TRIALS)  # the reference: it passes by definition, and no chance is in that
    if record.trials or shown is None:
        return Tally.count([trial.outcome for trial in record.trials])
    others = shown.of - shown.reproduced
    passes = record.verdict in (Verdict.NOT_REPRODUCED, Verdict.FLAKY)
    return Tally(failed=shown.reproduced, passed=others if passes else 0)


def trials_of(record: CellRecord) -> int:
    """How many trials a recorded cell had, at least one; also of a record that was read without them."""
    shown = record.details.trials
    return len(record.trials) or (shown.of if shown else 1)


def seconds_of(record: CellRecord) -> float:
    """What a trial of a cell takes, with its container."""
    spent = record.seconds or sum(trial.seconds for trial in record.trials)
    return max(spent / max(1, len(record.trials)), SHORTEST)


@dataclass(frozen=True, kw_only=True)
class KnownTrials:
    """What is known of the trials of decided candidates."""

    tally: Callable[[Candidate], Tally]
    seconds: Callable[[Candidate], float]  # what one takes
    left: Callable[[], float]  # for how many seconds some may be repeated


def known_trials(
    record_of: Callable[[Candidate], CellRecord], records: Collection[CellRecord], confirm: str
) -> KnownTrials:
    """The trials of recorded cells. ``records``: all of a search so far; ``confirm``: that of :func:`planner`."""

    def left() -> float:
        return _budget_left(records, OF_SEARCH) if confirm == "auto" else 0.0 if confirm == "never" else math.inf

    return KnownTrials(
        tally=lambda one: tally_of(record_of(one)), seconds=lambda one: seconds_of(record_of(one)), left=left
    )


@dataclass(frozen=True, kw_only=True)
class Separation:
    """That the cells of ``denied``, which pass, do not fail at the rate of those of ``named``."""

    named: tuple[Candidate, ...]  # the first is the one that is repeated
    denied: tuple[Candidate, ...]
    chances: int  # how many statements like this one the search could have come to

    def shown(self, trials: KnownTrials) -> bool:
        """Whether the trials exclude the rival."""
        named, denied = (total(map(trials.tally, some)) for some in (self.named, self.denied))
        return excludes(named, denied, self._chances(trials))

    def missing(self, trials: KnownTrials) -> tuple[tuple[Candidate, ...], float]:
        """Which candidates to repeat next, and the seconds until the rival is excluded (inf: it cannot be)."""
        every = (*self.named, *self.denied)
        tallies, seconds = list(map(trials.tally, every)), list(map(trials.seconds, every))
        free = [at for at, tally in enumerate(tallies) if tally.of < MOST_TRIALS]
        count = len(self.named)
        named, denied = [at for at in free if at < count][:1], [at for at in free if at >= count]
        places = tuple(range(count)), tuple(range(count, len(every)))
        sides = [_side(*some, tallies, seconds) for some in zip(places, (named, denied), strict=True)]
        numbers = cheapest(sides, [self._chances(trials)])
        if numbers is None:  # nothing reaches it; a flake may still show
            repeated, cost = [denied] if denied else [], math.inf
        else:
            repeated = [some for some, number in zip((named, denied), numbers, strict=True) if number]
            cost = sum(number * side.cost for number, side in zip(numbers, sides, strict=True))
        return tuple(every[min(some, key=lambda at: (tallies[at].of, seconds[at]))] for some in repeated), cost

    def _chances(self, trials: KnownTrials) -> int:
        """A cell that both passed and failed had made another statement before."""
        return self.chances * tries_of({id(one): trials.tally(one) for one in self.named}.values())


def confirm(separations: Sequence[Separation], trials: KnownTrials) -> Search[bool]:
    """Repeat cells until every separation is shown, a reading changes, or nothing more is worth it.

    Returns whether a reading changed. Certain failures are repeated for as long as the budget lasts; where one already
    passed, only if the rest of the budget may suffice.
    """
    for one in separations:
        while not one.shown(trials):
            again, cost = one.missing(trials)
            left = trials.left()
            flaky = any(trials.tally(each).passed for each in one.named)
            if not again or sum(map(trials.seconds, again)) > left or (flaky and cost > left):
                return False
            before = [Reading.FAIL if trials.tally(each).failed else Reading.PASS for each in again]
            readings = yield Query(candidates=again, again=True)
            if list(readings) != before:
                return True
    return False

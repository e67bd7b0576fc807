"""Which differences between a failing and a passing cell are the cause: delta debugging over axes. Pure.

The differences are numbered from 0; a mix is a bit mask of those in which it is as the failing cell. An explanation
says which sets of differences are each enough for the failure: a tuple of masks, none within another. More of a
difference never heals (an explanation is monotone): where one end fails and the other passes, that holds for nearly all
real causes; where it does not, no explanation is left, which is reported and never hidden.

A second implementation. Library: picire.
Why not: its outcomes are PASS and FAIL alone, and a cell can be unresolved or flaky.
Owner of ours: the room ``search``.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from operator import itemgetter

from reprokit.case.matrix import Cell
from reprokit.evidence.reading import Reading
from reprokit.search.bisection import Bisection, bisect
from reprokit.search.queries import AxisDifference, Candidate, Query, Search
from reprokit.search.repeating import KnownTrials, Separation, confirm

Hypothesis = tuple[int, ...]

ALL_MIXES = 8
"""Most differences of which every mix is weighed; of more, the small and large mixes and a sample."""
SAMPLE = 150
THOUGHT = 800
"""Most explanations, the likeliest, that are weighed for what to ask for next."""
DEEP = 7
"""Most differences of which sets of every size are thought of; of more, those of four."""
FURTHER_SET = 0.25
"""How likely a second set of differences is, each enough for the failure, against one that names as many."""


def explanations(count: int) -> dict[Hypothesis, float]:
    """Every explanation that is thought of for so many differences, with its weight before anything was run.

    One set of any size, two of at most two differences each, or of one and three, or three single ones. Each difference
    that is named, and each further set, makes an explanation less likely.
    """
    sizes = count if count <= DEEP else 4
    sets = [_mask(chosen) for size in range(1, sizes + 1) for chosen in itertools.combinations(range(count), size)]
    pairs = [
        (one, other)
        for one, other in itertools.combinations(sets, 2)
        if one & other not in (one, other)
        and (max(one.bit_count(), other.bit_count()) <= 2 or (one.bit_count(), other.bit_count()) == (1, 3))
    ]
    threes = itertools.combinations(sets[:count], 3)
    return {
        one: float(count) ** -sum(enough.bit_count() for enough in one) * FURTHER_SET ** (len(one) - 1)
        for one in (*((one,) for one in sets), *pairs, *threes)
    }


def fails(explanation: Hypothesis, mix: int) -> bool:
    """Whether a mix fails if the explanation holds."""
    return any(enough & mix == enough for enough in explanation)


def consistent(weights: Mapping[Hypothesis, float], mix: int, seen: Reading) -> dict[Hypothesis, float]:
    """The explanations that a reading leaves; all of them where it is unknown."""
    if seen is Reading.UNRESOLVED:
        return dict(weights)
    return {one: weight for one, weight in weights.items() if fails(one, mix) is (seen is Reading.FAIL)}


def mixes(count: int) -> list[int]:
    """The mixes that may be asked for, in a fixed order."""
    if count <= ALL_MIXES:
        return list(range(1 << count))
    whole = (1 << count) - 1
    few = [_mask(chosen) for size in range(3) for chosen in itertools.combinations(range(count), size)]
    some = random.Random(count)  # the same for each search: it has to go the same way when it is resumed
    return sorted({*few, *(whole ^ mask for mask in few), *(some.randrange(whole) for _ in range(SAMPLE))})


def splits(weights: Mapping[Hypothesis, float], candidates: Iterable[int]) -> dict[int, float]:
    """Candidate -> bits that its reading tells on average; without those that tell nothing."""
    thought = weights.items() if len(weights) <= THOUGHT else nlargest(THOUGHT, weights.items(), key=itemgetter(1))
    total = sum(weight for _, weight in thought)
    found = {}
    for mix in candidates:
        bad = sum(weight for one, weight in thought if any(enough & mix == enough for enough in one))
        share = bad / total
        # Neither sum is exact: what all explanations agree on tells nothing, however the weights add up.
        if 1e-12 < share < 1 - 1e-12:
            found[mix] = -share * math.log2(share) - (1 - share) * math.log2(1 - share)
    return found


def inconclusive_risk(mix: int, count: int, readings: Mapping[int, Reading]) -> float:
    """How likely a mix is to be inconclusive: as often as those that share two values with it, whichever two those are.

    Two versions that do not go together make many cells inconclusive, and leave the others.
    """
    unknown = [other for other, seen in readings.items() if seen is Reading.UNRESOLVED]
    if not unknown:
        return 0.05
    known = [other for other, seen in readings.items() if seen is not Reading.UNRESOLVED]
    worst = 0.05
    for pair in itertools.combinations_with_replacement(range(count), 2):
        both = 1 << pair[0] | 1 << pair[1]
        alike = sum(not (mix ^ other) & both for other in unknown)
        if alike:
            share = alike / (alike + 1.5 + 3 * sum(not (mix ^ other) & both for other in known))
            worst = max(worst, share)
    return worst


HOPELESS = 0.72
"""The risk from which on a mix is not asked for: four shared two values with it, and all four were inconclusive."""
CLOSE = 0.75
"""What tells this part of what the best tells is weighed by its cost, too."""


def best(
    weights: Mapping[Hypothesis, float],
    readings: Mapping[int, Reading],
    count: int,
    candidates: Sequence[int],
    cost: Callable[[int], int],
) -> int | None:
    """The mix to ask for next: what tells most for what it costs; None when no candidate tells anything."""
    gains = splits(weights, (mix for mix in candidates if mix not in readings))
    risks = {mix: inconclusive_risk(mix, count, readings) for mix in gains}
    worth = {mix: bits * (1 - risks[mix]) for mix, bits in gains.items() if risks[mix] < HOPELESS}
    if not worth:
        return None
    top = max(worth.values())
    close = sorted((mix for mix in worth if worth[mix] >= CLOSE * top), key=lambda mix: (-round(worth[mix], 9), mix))
    return max(close[:16], key=lambda mix: (round(worth[mix] / effort(cost(mix)), 9), -mix))


def effort(cost: int) -> float:
    """A cost (see :mod:`reprokit.search.search_session`) in runs of a cell whose image exists."""
    return 1.0 if cost == 0 else 1.3 + min(cost, 200) / 50


def certificate(explanation: Hypothesis, count: int) -> tuple[list[int], list[int]]:
    """The mixes that prove a monotone explanation: the least that fail, and the largest that pass."""
    whole = (1 << count) - 1
    bits = [[1 << bit for bit in _bits(enough)] for enough in explanation]
    reverted = {union(chosen) for chosen in itertools.product(*bits)}
    least = [one for one in reverted if not any(other != one and other & one == other for other in reverted)]
    return list(explanation), sorted((whole ^ one for one in least), reverse=True)


def _mask(chosen: Iterable[int]) -> int:
    return union(1 << bit for bit in chosen)


def union(masks: Iterable[int]) -> int:
    """The differences that are in any of some masks."""
    found = 0
    for mask in masks:
        found |= mask
    return found


RIVALS = 6
"""Most rival explanations that are reported."""
SETTLED = 0.98
"""Once one explanation has this share of all weight, only cells that confirm or refute it are run."""


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """The boundary along one axis."""

    axis: str
    values: tuple[str, ...]  # from the good one to the bad one
    line: tuple[Cell, ...]  # a cell for each of ``values``
    found: Bisection


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """What was found between two cells."""

    good: Cell
    bad: Cell
    changes: tuple[AxisDifference, ...]
    readings: Mapping[int, Reading]  # of every mix that was run
    explanations: tuple[Hypothesis, ...] = ()  # those that are left, the most likely first by ``weights``
    weights: Mapping[Hypothesis, float] = field(default_factory=dict)
    undistinguished: tuple[int, ...] = ()  # would distinguish the rivals, but are unresolved or ``excluded``
    excluded: frozenset[int] = frozenset()  # mixes that the case excludes
    pair: tuple[int, int] | None = None  # the closest, one within the other: the smaller passes, the larger fails
    boundaries: tuple[Boundary, ...] = ()
    stopped: bool = False  # the limit on cells was reached
    confirmed: bool = False  # the trials exclude that the failure is a flake which depends on no change

    @property
    def plausible(self) -> tuple[Hypothesis, ...]:
        """The most likely explanation, and the rivals that are likely enough and add no axis without need."""
        least = PLAUSIBLE * self.weights[self.explanations[0]] if self.explanations else 0.0
        likely = [one for one in self.explanations if self.weights[one] >= least]
        named = [union(one) for one in likely]
        core = union(tuple(one for one in named if not any(other != one and other & one == other for other in named)))
        return tuple(one for one, axes in zip(likely, named, strict=True) if axes & core == axes)

    @property
    def ends_hold(self) -> bool:
        """Whether the bad cell fails and the good cell passes."""
        whole = (1 << len(self.changes)) - 1
        return self.readings[whole] is Reading.FAIL and self.readings[0] is Reading.PASS

    def cell(self, mix: int) -> Cell:
        """The cell of a mix."""
        return mix_cells(self.good, self.bad, self.changes, mix)

    def named(self, mix: int) -> tuple[AxisDifference, ...]:
        """The changes of a mix."""
        return tuple(change for bit, change in enumerate(self.changes) if mix >> bit & 1)


PLAUSIBLE = 0.004
"""The least weight, as a share of the most likely one's, of a rival that is reported."""
FURTHER = 5
"""Most further cells that are run where an explanation is nearly settled but a cell that confirms it is unresolved."""


def changes_between(good: Cell, bad: Cell) -> tuple[AxisDifference, ...]:
    """The axes in which two cells differ, in the order of the bad cell's axes."""
    names = dict.fromkeys((*bad, *good))
    return tuple(
        AxisDifference(axis=name, good=good.get(name), bad=bad.get(name))
        for name in names
        if good.get(name) != bad.get(name)
    )


def mix_cells(good: Cell, bad: Cell, changes: Sequence[AxisDifference], mix: int) -> Cell:
    """The good cell with the changes of a mix applied."""
    values: dict[str, str | None] = {**bad, **good}
    values |= {change.axis: change.bad if mix >> bit & 1 else change.good for bit, change in enumerate(changes)}
    return {name: value for name in dict.fromkeys((*bad, *good)) if (value := values[name]) is not None}


@dataclass(kw_only=True)
class _State:
    good: Cell
    bad: Cell
    changes: tuple[AxisDifference, ...]
    possible: Callable[[Cell], bool]
    cost: Callable[[Candidate], int]
    limit: int
    trials: KnownTrials | None
    readings: dict[int, Reading] = field(default_factory=dict)
    weights: dict[Hypothesis, float] = field(default_factory=dict)

    def candidate(self, mix: int) -> Candidate:
        return Candidate(cell=mix_cells(self.good, self.bad, self.changes, mix))

    def price(self, mix: int) -> int:
        return self.cost(self.candidate(mix))

    def learn(self, mix: int, seen: Reading) -> None:
        self.readings[mix] = seen
        self.weights = consistent(self.weights, mix, seen)

    def relearn(self) -> bool:
        """Whether a mix that passed has failed since; what is possible is then weighed again."""
        failed = [
            mix
            for mix, seen in self.readings.items()
            if seen is Reading.PASS and self.trials is not None and self.trials.tally(self.candidate(mix)).failed
        ]
        if failed:
            self.weights = explanations(len(self.changes))
            for mix, seen in {**self.readings, **dict.fromkeys(failed, Reading.FAIL)}.items():
                self.learn(mix, seen)
        return bool(failed)

    def next(
        self, readings: Mapping[int, Reading], weights: Mapping[Hypothesis, float], usable: Sequence[int]
    ) -> int | None:
        return best(weights, readings, len(self.changes), usable, self.price)

    def is_hidden(self, mix: int) -> bool:
        """Whether a mix is unresolved, or likely to be, since similar mixes are."""
        if mix in self.readings:
            return self.readings[mix] is Reading.UNRESOLVED
        return inconclusive_risk(mix, len(self.changes), self.readings) >= HOPELESS

    @property
    def whole(self) -> int:
        return (1 << len(self.changes)) - 1


def isolate(
    good: Cell,
    bad: Cell,
    *,
    possible: Callable[[Cell], bool] = lambda cell: True,
    cost: Callable[[Candidate], int] = lambda candidate: 0,
    between: Callable[[str, Cell], Sequence[str]] = lambda axis, cell: (),
    limit: int = 1000,
    ahead: bool = True,
    trials: KnownTrials | None = None,
) -> Search[Isolation]:
    """Find which changes from ``good`` to ``bad`` cause the failure. The two cells must differ, and are run first.

    Then mixes of the two are run, each time the one that gives most information on which explanation holds, until one
    is left and confirmed: its changes alone make the good cell fail, and without them the bad cell passes. Last, a
    bisection finds the boundary along axes that have values in between. What the answer rests on is repeated until a
    flake is excluded; a mix that passed and then fails changes what is possible, and the search goes on.

    ``possible``: whether a cell may be run at all. ``cost``: see ``SearchSession.cost``. ``between``: (axis, failing
    cell) -> the axis' values between those of the two cells, from the good one to the bad one. ``limit``: most cells,
    not counting those of the boundary. ``ahead``: name likely next candidates. ``trials``: those of the candidates.
    """
    changes = changes_between(good, bad)
    state = _State(good=good, bad=bad, changes=changes, possible=possible, cost=cost, limit=limit, trials=trials)
    state.weights = explanations(len(changes))
    usable = [mix for mix in mixes(len(changes)) if mix in (0, state.whole) or possible(state.candidate(mix).cell)]
    yield from _ask(state, [state.whole, 0])
    boundaries: list[Boundary] = []
    again = True
    while again:
        if state.readings[state.whole] is not Reading.FAIL or state.readings[0] is not Reading.PASS:
            return _result(state)
        yield from _tell_apart(state, usable, ahead)
        yield from _confirm(state)
        again, boundaries = state.relearn(), []
        if len(state.weights) == 1 and not again:
            for bit in _bits(union(next(iter(state.weights)))):
                boundary = yield from _boundary(state, bit, between)
                boundaries += [boundary] if boundary else []
            again = state.relearn()
    if not state.weights:
        yield from _narrow(state, usable)
    return _result(state, usable, tuple(boundaries))


def _confirm(state: _State) -> Search[None]:
    """Repeat the mixes that the one explanation rests on."""
    if state.trials is not None and len(state.weights) == 1:
        yield from confirm(_separations(state), state.trials)


def _separations(state: _State) -> list[Separation]:
    """That each change of the explanation is needed: the mixes that have the others of its set pass.

    Any change could have been found in its place, hence the chances; the simulation asks for the factor.
    """
    [explanation] = state.weights
    failing = [mix for mix, seen in state.readings.items() if seen is Reading.FAIL]
    named = sorted(failing, key=lambda mix: (mix not in explanation, mix.bit_count(), mix))
    found = []
    for enough in explanation:
        for bit in _bits(enough):
            rest = enough ^ 1 << bit
            denied = [mix for mix, seen in state.readings.items() if seen is Reading.PASS and mix & rest == rest]
            found.append(
                Separation(
                    named=tuple(map(state.candidate, named)),
                    denied=tuple(map(state.candidate, denied)),
                    chances=4 * len(state.changes),
                )
            )
    return found


def _ask(state: _State, wanted: Sequence[int], soon: Sequence[int | None] = ()) -> Search[None]:
    later = [state.candidate(mix) for mix in dict.fromkeys(soon) if mix is not None]
    answers = yield Query(candidates=tuple(state.candidate(mix) for mix in wanted), soon=tuple(later))
    for mix, seen in zip(wanted, answers, strict=True):
        state.learn(mix, seen)


def _tell_apart(state: _State, usable: Sequence[int], ahead: bool) -> Search[None]:
    """Run mixes until one explanation is left and confirmed, or none is left, or no further mix helps."""
    further = 0
    while state.weights and len(state.readings) < state.limit:
        likeliest = min(state.weights, key=lambda one: (-state.weights[one], one))
        if state.weights[likeliest] >= SETTLED * sum(state.weights.values()):
            proof = itertools.chain(*certificate(likeliest, len(state.changes)))
            open_ones = [mix for mix in proof if mix in usable and mix not in state.readings]
            if open_ones:
                yield from _ask(state, open_ones[: state.limit - len(state.readings)])
                continue
            if len(state.weights) == 1 or further == FURTHER:
                return
            further += 1
        mix = state.next(state.readings, state.weights, usable)
        if mix is None:
            return
        soon = [
            state.next({**state.readings, mix: seen}, consistent(state.weights, mix, seen), usable)
            for seen in (Reading.FAIL, Reading.PASS)
            if ahead
        ]
        yield from _ask(state, [mix], soon)


def _narrow(state: _State, usable: Sequence[int]) -> Search[None]:
    """No explanation fits: reduce the difference between a passing and a failing mix as far as possible."""
    while len(state.readings) < state.limit:
        low, high = _closest(state.readings)
        inside = [mix for mix in usable if low & mix == low and mix & high == mix and mix not in state.readings]
        if not inside:
            return
        half = (low.bit_count() + high.bit_count()) / 2
        yield from _ask(state, [min(inside, key=lambda mix: (abs(mix.bit_count() - half), state.price(mix), mix))])


def _closest(readings: Mapping[int, Reading]) -> tuple[int, int]:
    good = [mix for mix, seen in readings.items() if seen is Reading.PASS]
    bad = [mix for mix, seen in readings.items() if seen is Reading.FAIL]
    pairs = [(low, high) for low in good for high in bad if low & high == low]
    return min(pairs, key=lambda pair: ((pair[0] ^ pair[1]).bit_count(), pair))


def _boundary(state: _State, bit: int, between: Callable[[str, Cell], Sequence[str]]) -> Search[Boundary | None]:
    """The boundary along the axis of a change, between a passing and a failing mix that differ only in that."""
    change = state.changes[bit]
    turning = [
        mix | 1 << bit
        for mix, seen in state.readings.items()
        if not mix >> bit & 1 and seen is Reading.PASS and state.readings.get(mix | 1 << bit) is Reading.FAIL
    ]
    if not turning or change.good is None or change.bad is None:
        return None
    base = state.candidate(max(turning)).cell
    inner = [value for value in between(change.axis, base) if state.possible({**base, change.axis: value})]
    if not inner:
        return None
    values = (change.good, *inner, change.bad)
    line = tuple({**base, change.axis: value} for value in values)
    found = yield from bisect([Candidate(cell=cell) for cell in line], trials=state.trials)
    return Boundary(axis=change.axis, values=values, line=line, found=found)


def _result(state: _State, usable: Sequence[int] = (), boundaries: tuple[Boundary, ...] = ()) -> Isolation:
    left = sorted(state.weights, key=lambda one: (-state.weights[one], one))
    every = mixes(len(state.changes))
    excluded = frozenset(every).difference(usable) if usable else frozenset()
    hidden = [mix for mix in every if mix in excluded or state.is_hidden(mix)]
    information = splits({one: state.weights[one] for one in left[:RIVALS]}, hidden) if usable and len(left) > 1 else {}
    seen = set(state.readings.values())
    return Isolation(
        good=state.good,
        bad=state.bad,
        changes=state.changes,
        readings=dict(state.readings),
        explanations=tuple(left) if usable else (),
        weights=dict(state.weights),
        undistinguished=tuple(sorted(information, key=lambda mix: (-information[mix], mix))),
        excluded=excluded,
        pair=_closest(state.readings) if usable and seen >= {Reading.PASS, Reading.FAIL} else None,
        boundaries=boundaries,
        stopped=len(state.readings) >= state.limit,
        confirmed=len(left) == 1
        and state.trials is not None
        and all(one.shown(state.trials) for one in _separations(state)),
    )


def _bits(mask: int) -> Iterator[int]:
    return (bit for bit in range(mask.bit_length()) if mask >> bit & 1)

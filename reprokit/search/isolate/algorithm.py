"""Which differences between a failing and a passing cell are the cause: delta debugging over axes. Pure.

Both cells are run first. Then mixes of the two are run, each time the one that gives most information on which sets of
differences are enough for the failure (:mod:`reprokit.search.isolate.explanations`), until one explanation is left and
confirmed: its changes alone make the good cell fail, and without them the bad cell passes. Last, a bisection finds the
boundary along axes that have values in between. What the answer rests on is repeated until a flake is excluded; a mix
that passed and then fails changes what is possible, and the search goes on.

A second implementation. Library: picire.
Why not: its outcomes are PASS and FAIL alone, and a cell can be unresolved or flaky.
Owner of ours: the room ``search``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.case.matrix import Cell
from reprokit.evidence.reading import Reading
from reprokit.search.bisect.algorithm import Bisection, bisect
from reprokit.search.confirming import KnownTrials, Separation, confirm
from reprokit.search.isolate.explanations import (
    HOPELESS,
    Hypothesis,
    best,
    certificate,
    consistent,
    explanations,
    inconclusive_risk,
    mixes,
    splits,
    union,
)
from reprokit.search.queries import Candidate, Query, Search

RIVALS = 6
"""Most rival explanations that are reported."""
SETTLED = 0.98
"""Once one explanation has this share of all weight, only cells that confirm or refute it are run."""


@dataclass(frozen=True, kw_only=True)
class AxisDifference:
    """An axis in which the two cells differ, with its value in either; None where a cell does not have the axis."""

    axis: str
    good: str | None
    bad: str | None


@dataclass(frozen=True, kw_only=True)
class Boundary:
    """The boundary along one axis. ``line``: a cell for each of ``values``, from the good value to the bad one."""

    axis: str
    values: tuple[str, ...]
    line: tuple[Cell, ...]
    found: Bisection


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """What was found between two cells. A mix is a bit mask of ``changes``: those that have their bad value.

    ``explanations``: the one that is left, or rivals that could not be distinguished (the most likely first, by
    ``weights``), or none where the results contradict every one; each is a tuple of sets of changes, each of which is
    enough. ``readings``: of every mix that was run. ``undistinguished``: mixes that would distinguish the rivals but
    are unresolved or ``excluded`` by the case. ``pair``: the closest two mixes, one a subset of the other, of which the
    smaller passes and the larger fails. ``stopped``: the limit on cells was reached. ``confirmed``: the trials exclude
    that the failure is a flake which does not depend on the changes of the explanation.
    """

    good: Cell
    bad: Cell
    changes: tuple[AxisDifference, ...]
    readings: Mapping[int, Reading]
    explanations: tuple[Hypothesis, ...] = ()
    weights: Mapping[Hypothesis, float] = field(default_factory=dict)
    undistinguished: tuple[int, ...] = ()
    excluded: frozenset[int] = frozenset()
    pair: tuple[int, int] | None = None
    boundaries: tuple[Boundary, ...] = ()
    stopped: bool = False
    confirmed: bool = False

    @property
    def plausible(self) -> tuple[Hypothesis, ...]:
        """The most likely explanation, and the rivals that are likely enough and add no axis without need."""
        likely = [
            one for one in self.explanations if self.weights[one] >= PLAUSIBLE * self.weights[self.explanations[0]]
        ]
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
        return mixed(self.good, self.bad, self.changes, mix)

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


def mixed(good: Cell, bad: Cell, changes: Sequence[AxisDifference], mix: int) -> Cell:
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
        return Candidate(cell=mixed(self.good, self.bad, self.changes, mix))

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

    def hidden(self, mix: int) -> bool:
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
    """Find which changes from ``good`` to ``bad`` cause the failure. The two cells must differ.

    ``possible``: whether a cell may be run at all. ``cost``: see ``SearchSession.cost``. ``between``: (axis, failing
    cell) -> the axis' values between those of the two cells, from the good one to the bad one. ``limit``: most cells,
    not counting those of the boundary. ``ahead``: name likely next candidates, so that their images can be built.
    ``trials``: those of the candidates, by which the answer is confirmed; None: it is not.
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
    ask = Query(candidates=tuple(state.candidate(mix) for mix in wanted), soon=tuple(later))
    answers = yield ask
    for mix, seen in zip(wanted, answers, strict=True):
        state.learn(mix, seen)


def _tell_apart(state: _State, usable: Sequence[int], ahead: bool) -> Search[None]:
    """Run mixes until one explanation is left and confirmed, or none is left, or no further mix helps."""
    further = 0
    while state.weights and len(state.readings) < state.limit:
        likeliest = min(state.weights, key=lambda one: (-state.weights[one], one))
        if state.weights[likeliest] >= SETTLED * sum(state.weights.values()):
            open_ones = [mix for mix in _proof(state, likeliest) if mix in usable and mix not in state.readings]
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


def _proof(state: _State, explanation: Hypothesis) -> list[int]:
    """The mixes that confirm an explanation."""
    least, largest = certificate(explanation, len(state.changes))
    return [*least, *largest]


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
    hidden = [mix for mix in every if mix in excluded or state.hidden(mix)]
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

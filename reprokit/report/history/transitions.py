"""When what a cell shows has changed: a constant rate is excluded, and the next result or a sequential test agrees.

Every result may be the first of another rate. A change at a result counts where the likelihood ratio of a rate before
it and another since, against the best constant rate, is at least :data:`ENOUGH`. Under a constant rate, whatever it is,
this ratio is at most a martingale that begins at 1 (universal inference; Wasserman, Ramdas, Balakrishnan, PNAS 2020).
So it ever reaches ENOUGH for a result with a probability of at most 1 / ENOUGH (Ville's inequality), however often and
however long one looks: 30 results make at most 30 / 3000 = 1 %. ``python -m tests.bench changes`` measures it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from reprokit.evidence.model import StrEnum, Verdict
from reprokit.evidence.strength import log_likelihood

ENOUGH = 30 / 0.01
"""The likelihood ratio from which a change counts: of 30 results without a change, at most 1 % hold a false one."""
ENOUGH_NIGHTS = 200
"""That of nights, each as one trial: by a simulation, at most 1 % of months hold a false change."""
NEWEST = 60
"""Of how many results, the newest, each is tried as the first of another rate; and the first that is as the newest."""
HINT = 0.05
"""The chance below which a change of a flaky cell that does not count yet is reported."""


class State(StrEnum):
    """What a conclusive verdict says of the bug. Another failure hides it: neither there nor gone."""

    REPRODUCING = "reproducing"
    NOT_REPRODUCING = "not-reproducing"
    OTHER_FAILURE = "other-failure"


_STATES = {
    Verdict.REPRODUCED: State.REPRODUCING,
    Verdict.FLAKY: State.REPRODUCING,
    Verdict.NOT_REPRODUCED: State.NOT_REPRODUCING,
    Verdict.DIFFERENT_FAILURE: State.OTHER_FAILURE,
}


def state_of(verdict: Verdict | None) -> State | None:
    """The state that a verdict stands for; None where it is inconclusive or not there yet."""
    return _STATES.get(verdict) if verdict else None


FailedOf = tuple[int, int]
"""Of the trials of some results: how many failed, and how many there were."""


class Counts(NamedTuple):
    """Of the trials of a result: how many matched the signature, how many failed otherwise, and how many there were."""

    matched: int
    others: int
    trials: int


@dataclass(frozen=True, kw_only=True)
class Transition:
    """One change of a cell's state. ``before``, ``after``, ``latest`` and ``settled`` are positions in its results."""

    old: State | None  # None: the cell is new
    new: State  # as ``old`` where only the rate changed
    before: int | None  # the last result of the old state
    after: int  # the first of the new state
    latest: int  # the newest that says so; the one that settled it, if one did
    settled: int | None  # the result that made it count; None: it does not count yet
    seen: int = 1  # how many results say so
    known: bool = False  # the bug was reproduced in this cell before
    earlier: FailedOf = (0, 0)  # trials of the old state that failed; otherwise, if a state is that
    since: FailedOf = (0, 0)  # the same of the trials since, up to what settled it
    chance: float | None = None  # at most so likely at one constant rate; None: the cell is new

    @property
    def confirmed(self) -> bool:
        """Whether it counts: a constant rate is excluded, and two results say so or a sequential test decided one."""
        return self.settled is not None

    @property
    def words(self) -> str:
        """``reproducing -> gone``, ``gone -> back``, ``new -> reproducing``, ``reproducing -> more often``."""
        return f"{self._word(self.old) if self.old else 'new'} -> {self.now.removeprefix('reproducing ')}"

    @property
    def now(self) -> str:
        """The new state in words: what was there before is ``gone``, or ``back``."""
        if self.old is self.new:
            more = self.since[0] * self.earlier[1] > self.earlier[0] * self.since[1]
            return f"reproducing {'more' if more else 'less'} often"
        return "back" if self.known and self.new is State.REPRODUCING else self._word(self.new)

    def _word(self, state: State) -> str:
        return "gone" if self.known and state is State.NOT_REPRODUCING else state.value.replace("-", " ")


def describe_trials(earlier: FailedOf, since: FailedOf, chance: float | None) -> str:
    """The trials before and since, and how likely they are at most if nothing changed; '' for a new cell."""
    if chance is None:
        return ""
    likely = f"{100 * chance:.2g} %" if chance > 1e-4 else "less than 0.01 %"
    counts = f"{earlier[0]} of {earlier[1]} trials failed before, {since[0]} of {since[1]} since"
    return f"{counts}: at one constant rate at most {likely} likely"


def transitions(
    states: Sequence[State | None],
    decided: Callable[[int], bool] = lambda _: False,
    counts: Callable[[int], Counts | None] = lambda _: None,
) -> list[Transition]:
    """The transitions of one cell, from its states in the order of time (None: inconclusive).

    The first comes from no state: the cell is new. The last does not count yet when the newest results differ from
    what was there before, but not enough. ``decided``: whether a sequential test decided the result at a position.
    ``counts``: the trials of the result at a position; None: one that says what the state does.
    """
    seen = [(at, state) for at, state in enumerate(states) if state is not None]
    if not seen:
        return []
    alone = {state: Counts(state is State.REPRODUCING, state is State.OTHER_FAILURE, 1) for state in State}
    course = _Stretches([state for _, state in seen], [counts(at) or alone[state] for at, state in seen])
    at, state = seen[0]
    found = [Transition(old=None, new=state, before=None, after=at, latest=at, settled=at if decided(at) else None)]

    def transition(start: int, split: int, here: int, chance: float) -> Transition:
        old, new = course.state(start, split), course.state(split, here + 1)
        otherwise = State.OTHER_FAILURE in (old, new)
        return Transition(
            old=old,
            new=new,
            before=seen[split - 1][0],
            after=seen[split][0],
            latest=seen[here][0],
            settled=None,
            seen=here - split + 1,
            known=course.failed(0, split, otherwise=False)[0] > 0,
            earlier=course.failed(start, split, otherwise=otherwise),
            since=course.failed(split, here + 1, otherwise=otherwise),
            chance=chance,
        )

    places = [0]  # where each of ``found`` begins
    start = first = 0  # of the results at one rate, as far as is known; of the newest that are alike
    for here, (at, state) in enumerate(seen):
        first = first if state is seen[first][1] else here
        if first == 0 < here and not found[0].confirmed:
            found[0] = replace(found[0], settled=at, latest=at, seen=here + 1)
        swings = len(places) > 2 and here - places[-2] <= NEWEST  # it changed, and changed again
        splits = (one for one in course.splits(start, first, here) if one < here or decided(at))
        some = ((chance, -one) for one in splits if (chance := course.chance(start, one, here)) <= 1 / ENOUGH)
        counted = [one for one in some if course.holds_by_night(start, -one[1], here, swings=swings)]
        if counted:
            chance, split = min(counted)
            start = -split
            found.append(replace(transition(places[-1], start, here, chance), settled=at))
            places.append(start)
    if first > start and course.state(start, first) is not seen[first][1]:
        one = transition(start, first, len(seen) - 1, course.chance(start, first, len(seen) - 1))
        if one.earlier[0] in (0, one.earlier[1]) or (one.chance or 0.0) < HINT:
            found.append(one)
    return found


class _Stretches:
    """Sums over any stretch of results, from the first to before the second position."""

    def __init__(self, states: Sequence[State], counts: Sequence[Counts]) -> None:
        self._states = states
        self._matched = [0, *accumulate(one.matched for one in counts)]
        self._others = [0, *accumulate(one.others for one in counts)]
        self._trials = [0, *accumulate(one.trials for one in counts)]
        self._shown = [0, *accumulate(one.trials - one.others for one in counts)]
        plain = [(one.matched, one.trials - one.others) for one in counts]
        self._nights = [_by_night(some) for some in (plain, [(one.others, one.trials) for one in counts])]
        self._reproducing = [0, *accumulate(one is State.REPRODUCING for one in states)]
        self._otherwise = [0, *accumulate(one is State.OTHER_FAILURE for one in states)]

    def state(self, begin: int, end: int) -> State:
        """The state of a stretch: it reproduces where any result does, else it is what most results are."""
        if self._reproducing[end] > self._reproducing[begin]:
            return State.REPRODUCING
        otherwise = 2 * (self._otherwise[end] - self._otherwise[begin]) > end - begin
        return State.OTHER_FAILURE if otherwise else State.NOT_REPRODUCING

    def failed(self, begin: int, end: int, *, otherwise: bool) -> FailedOf:
        """The trials that failed with the signature, of those that no other failure hid; ``otherwise``: differently."""
        failed, trials = (self._others, self._trials) if otherwise else (self._matched, self._shown)
        return failed[end] - failed[begin], trials[end] - trials[begin]

    def splits(self, start: int, first: int, here: int) -> Iterator[int]:
        """The results that may be the first of another rate. ``first``: since when all are as the newest.

        Left out are those where Pearson's chi-squared of the two rates is too small: no logarithm of a likelihood ratio
        is larger, and it takes a few multiplications.
        """
        recent = max(start + 1, here - NEWEST + 1)
        places = (*([first] if start < first < recent else []), *range(recent, here + 1))
        for failed, trials in ((self._matched, self._shown), (self._others, self._trials)):
            failed_before, trials_before = failed[start], trials[start]
            all_failed, all_trials = failed[here + 1] - failed_before, trials[here + 1] - trials_before
            least = math.log(ENOUGH) * all_failed * (all_trials - all_failed)
            for split in places if least else ():
                of_one = trials[split] - trials_before
                difference = (failed[split] - failed_before) * all_trials - all_failed * of_one
                if difference and difference * difference * all_trials >= least * of_one * (all_trials - of_one):
                    yield split

    def chance(self, start: int, split: int, here: int) -> float:
        """How likely it is at most that a constant rate ever looks as if it had changed at ``split``."""
        old, new = self.state(start, split), self.state(split, here + 1)
        hidden = State.OTHER_FAILURE in (old, new)
        if hidden and (old is new or self._states[split] is not new):
            return 1.0
        if not hidden and State.OTHER_FAILURE in (self._states[split], self._states[here]):
            return 1.0
        before, after = self.failed(start, split, otherwise=hidden), self.failed(split, here + 1, otherwise=hidden)
        constant = log_likelihood(before[0] + after[0], before[1] + after[1])
        return math.exp(min(0.0, constant - _any(*before) - _any(*after)))

    def holds_by_night(self, start: int, split: int, here: int, *, swings: bool) -> bool:
        """Whether a change counts even if all trials of a night are alike, so that each night is one trial.

        That is not asked where nights before and since have nothing in common, unless the cell ``swings``.
        """
        hidden = State.OTHER_FAILURE in (self.state(start, split), self.state(split, here + 1))
        nights, *kinds = self._nights[hidden]
        before, after = nights[split] - nights[start], nights[here + 1] - nights[split]
        ratios = []
        for sums in kinds:
            earlier, since = sums[split] - sums[start], sums[here + 1] - sums[split]
            if not swings and (earlier, since) in ((0, after), (before, 0)):
                return True
            ratios.append(_any(earlier, before) + _any(since, after) - log_likelihood(earlier + since, before + after))
        return sum(math.exp(min(ratio, 100.0)) for ratio in ratios) >= ENOUGH_NIGHTS * len(ratios)


def _by_night(counts: Sequence[FailedOf]) -> list[list[int]]:
    """Sums up to each night: of the nights with a trial, of those that fail at all, and of those that always do."""
    kinds = zip(*((trials > 0, failed > 0, failed == trials > 0) for failed, trials in counts), strict=True)
    return [[0, *accumulate(kind)] for kind in kinds]


def _any(failed: int, trials: int) -> float:
    """The log-likelihood of trials that never fail, always do, or do at a rate of Jeffreys' prior: a third each."""
    passed = trials - failed
    mixed = math.lgamma(failed + 0.5) + math.lgamma(passed + 0.5) - math.lgamma(trials + 1) - math.log(math.pi)
    if failed and passed:
        return mixed - math.log(3)
    return math.log((math.exp(mixed) + (not failed) + (not passed)) / 3)

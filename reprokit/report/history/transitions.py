"""When what a cell shows has changed: a change counts once the next result, or a sequential test, says the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from reprokit.evidence.model import StrEnum, Verdict


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
"""Of the trials of some results: how many matched the signature, and how many there were."""


@dataclass(frozen=True, kw_only=True)
class Transition:
    """One change of a cell's state. ``before``, ``after``, ``latest`` and ``settled`` are positions in its results."""

    old: State | None  # None: the cell is new
    new: State
    before: int | None  # the last result of the old state
    after: int  # the first of the new state
    latest: int  # the newest that says so; the one that settled it, if one did
    settled: int | None  # the result that made it count; None: it does not count yet
    seen: int = 1  # how many results in a row say so
    known: bool = False  # the bug was reproduced in this cell before
    rate: FailedOf | None = None  # where a failure that did not always show is gone, how often it did before
    clean: int = 0  # the trials since, up to what settled it

    @property
    def confirmed(self) -> bool:
        """Whether it counts: enough consecutive results, or one that a sequential test decided."""
        return self.settled is not None

    @property
    def chance(self) -> float | None:
        """How likely so many clean trials in a row are if nothing changed, where the failure did not always show."""
        return _chance(self.rate, self.clean) if self.rate else None

    @property
    def words(self) -> str:
        """``reproducing -> gone``, ``gone -> back``, ``new -> reproducing``, ``gone -> other failure``."""
        return f"{self._word(self.old) if self.old else 'new'} -> {self.now}"

    @property
    def now(self) -> str:
        """The new state in words: what was there before is ``gone``, or ``back``."""
        return "back" if self.known and self.new is State.REPRODUCING else self._word(self.new)

    def _word(self, state: State) -> str:
        return "gone" if self.known and state is State.NOT_REPRODUCING else state.value.replace("-", " ")


_SAYS: Mapping[State, FailedOf] = {State.REPRODUCING: (1, 1), State.NOT_REPRODUCING: (0, 1)}
"""What a result counts for whose trials are not known. Another failure hides the one that is counted."""


RARE = 0.01
"""The chance below which a failure that did not always show is gone. Every night is another look: 0.05 is too many."""


def _chance(rate: FailedOf, clean: int) -> float:
    """How likely the next ``clean`` trials all are, after ``rate``: Laplace's rule of succession, trial by trial."""
    matched, total = rate
    clear = total - matched + 1
    ways = math.lgamma(clear + clean) - math.lgamma(clear) + math.lgamma(total + 2) - math.lgamma(total + 2 + clean)
    return math.exp(ways)


def transitions(
    states: Sequence[State | None],
    decided: Callable[[int], bool] = lambda _: False,
    tally: Callable[[int], FailedOf | None] = lambda _: None,
) -> list[Transition]:
    """The transitions of one cell, from its states in the order of time (None: inconclusive).

    The first comes from no state: the cell is new. The last does not count yet when the newest results differ from
    what was there before, but not enough. ``decided``: whether a sequential test decided the result at a position.
    ``tally``: the trials of the result at a position; None: one that says what the state does.
    """
    seen = [(at, state) for at, state in enumerate(states) if state is not None]
    sums = _Sums([(0, 0) if state is State.OTHER_FAILURE else tally(at) or _SAYS[state] for at, state in seen])
    found: list[Transition] = []
    start = last = first = 0  # of the current state: its first and its latest; of the row of equals: its first
    for here, (at, state) in enumerate(seen):
        if here and state is not seen[here - 1][1]:
            first = here
        if not here:
            settled = at if decided(at) else None
            found.append(Transition(old=None, new=state, before=None, after=at, latest=at, settled=settled))
        elif state is found[-1].new:
            if first < here and not found[-1].confirmed:
                found[-1] = replace(found[-1], settled=at, latest=at, seen=here - first + 1)
            last = here
        else:
            rate = None
            if found[-1].new is State.REPRODUCING and state is State.NOT_REPRODUCING:
                rate = _rate(sums.count(start, last), sums.count(0, last))
            one = Transition(
                old=found[-1].new,
                new=state,
                before=seen[last][0],
                after=seen[first][0],
                latest=at,
                settled=None,
                seen=here - first + 1,
                known=any(each.new is State.REPRODUCING for each in found),
                rate=rate,
                clean=sums.count(last + 1, here)[1] if rate else 0,
            )
            if (decided(at) or first < here) and (one.chance is None or one.chance < RARE):
                found.append(replace(one, settled=at))
                start, last = first, here
            elif here == len(seen) - 1:
                found.append(one)
    return found


class _Sums:
    """The trials of any stretch of results, its ends included."""

    def __init__(self, tallies: Sequence[FailedOf]) -> None:
        self._matched = [0, *accumulate(matched for matched, _ in tallies)]
        self._total = [0, *accumulate(total for _, total in tallies)]

    def count(self, first: int, last: int) -> FailedOf:
        return self._matched[last + 1] - self._matched[first], self._total[last + 1] - self._total[first]


def _rate(stretch: FailedOf, all_before: FailedOf) -> FailedOf | None:
    """How often a failure showed that did not always; None for one that did. Of the two rates the lower one holds."""
    if stretch[0] == stretch[1]:
        return None
    return min(stretch, all_before, key=lambda one: one[0] / one[1])

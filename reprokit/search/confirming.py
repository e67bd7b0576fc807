"""Repeats cells of a search until their trials carry its answer. Pure.

An answer rests on cells that fail and on cells that pass. Its rival says that both fail at one rate, and that the
passes were luck, see :mod:`reprokit.evidence.strength`. A passing cell that fails when it is repeated refutes the
answer, and the search goes on with what it knows by then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from reprokit.evidence.reading import Reading
from reprokit.evidence.records import CellRecord
from reprokit.evidence.strength import Tally, excludes, total
from reprokit.search.explain.repeating import seconds_of, tally_of
from reprokit.search.explain.support import MOST_TRIALS, CellGroup, budget, cheapest, tries_of
from reprokit.search.queries import Candidate, Query, Search


@dataclass(frozen=True, kw_only=True)
class KnownTrials:
    """What is known of the trials of decided candidates.

    ``tally``: those of a candidate; ``seconds``: what one takes; ``left``: for how many seconds some may be repeated.
    """

    tally: Callable[[Candidate], Tally]
    seconds: Callable[[Candidate], float]
    left: Callable[[], float]


def known_trials(
    record_of: Callable[[Candidate], CellRecord], records: Collection[CellRecord], confirm: str
) -> KnownTrials:
    """The trials of recorded cells. ``records``: all of a search so far; ``confirm``: auto | always | never."""

    def left() -> float:
        if confirm != "auto":
            return math.inf if confirm == "always" else 0.0
        again = sum(seconds_of(one) * one.details.repeats for one in records)
        return budget(sum(seconds_of(one) * len(one.trials) for one in records) - again) - again

    return KnownTrials(
        tally=lambda one: tally_of(record_of(one)), seconds=lambda one: seconds_of(record_of(one)), left=left
    )


@dataclass(frozen=True, kw_only=True)
class Separation:
    """That the cells of ``denied``, which pass, do not fail at the rate of those of ``named``.

    The first of ``named`` is the one that is repeated. ``chances``: how many statements like this one the search could
    have come to.
    """

    named: tuple[Candidate, ...]
    denied: tuple[Candidate, ...]
    chances: int

    def shown(self, trials: KnownTrials) -> bool:
        """Whether the trials exclude the rival."""
        named, denied = (total(map(trials.tally, some)) for some in (self.named, self.denied))
        return excludes(named, denied, self._chances(trials))

    def missing(self, trials: KnownTrials) -> tuple[tuple[Candidate, ...], float]:
        """Which candidates to repeat next, and the seconds until the rival is excluded (inf: it cannot be)."""
        named, denied = _open(self.named, trials)[:1], _open(self.denied, trials)
        sides = [_side(self.named, named, trials), _side(self.denied, denied, trials)]
        numbers = cheapest(sides, [self._chances(trials)])
        if numbers is None:  # nothing reaches it; a flake may still show
            repeated, cost = [denied] if denied else [], math.inf
        else:
            repeated = [some for some, number in zip((named, denied), numbers, strict=True) if number]
            cost = sum(number * side.cost for number, side in zip(numbers, sides, strict=True))
        return tuple(min(some, key=lambda one: (trials.tally(one).of, trials.seconds(one))) for some in repeated), cost

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
            before = [_reading(trials.tally(each)) for each in again]
            readings = yield Query(candidates=again, again=True)
            if list(readings) != before:
                return True
    return False


def _open(candidates: Sequence[Candidate], trials: KnownTrials) -> list[Candidate]:
    return [one for one in candidates if trials.tally(one).of < MOST_TRIALS]


def _side(candidates: Sequence[Candidate], repeated: Sequence[Candidate], trials: KnownTrials) -> CellGroup:
    """Candidates whose trials count together, some of which may be ``repeated``."""
    return CellGroup(
        cells=tuple(range(len(candidates))),
        tally=total(map(trials.tally, candidates)),
        room=sum(MOST_TRIALS - trials.tally(one).of for one in repeated),
        cost=min(map(trials.seconds, repeated), default=0.0),
    )


def _reading(tally: Tally) -> Reading:
    return Reading.FAIL if tally.failed else Reading.PASS

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
from reprokit.evidence.strength import Tally, excludes, passes_needed, total
from reprokit.search.explain.repeating import seconds_of, tally_of
from reprokit.search.explain.support import MOST_TRIALS, TRIES, budget
from reprokit.search.queries import Candidate, Query, Search


@dataclass(frozen=True, kw_only=True)
class Trials:
    """What is known of the trials of decided candidates.

    ``tally``: those of a candidate; ``seconds``: what one takes; ``left``: for how many seconds some may be repeated.
    """

    tally: Callable[[Candidate], Tally]
    seconds: Callable[[Candidate], float]
    left: Callable[[], float]


TRIAL_SECONDS = 0.5
"""What a trial is taken to cost at least: one that is measured shorter still makes and removes a container."""


def known_trials(record_of: Callable[[Candidate], CellRecord], records: Collection[CellRecord], confirm: str) -> Trials:
    """The trials of recorded cells. ``records``: all of a search so far; ``confirm``: auto | always | never."""

    def seconds(record: CellRecord) -> float:
        return max(seconds_of(record), TRIAL_SECONDS)

    def left() -> float:
        if confirm != "auto":
            return math.inf if confirm == "always" else 0.0
        again = sum(seconds(one) * one.details.repeats for one in records)
        return budget(sum(seconds(one) * len(one.trials) for one in records) - again) - again

    return Trials(tally=lambda one: tally_of(record_of(one)), seconds=lambda one: seconds(record_of(one)), left=left)


@dataclass(frozen=True, kw_only=True)
class Separation:
    """That the cells of ``denied``, which pass, do not fail at the rate of those of ``named``.

    The first of ``named`` is the one that is repeated. ``chances``: how many statements like this one the search could
    have come to.
    """

    named: tuple[Candidate, ...]
    denied: tuple[Candidate, ...]
    chances: int

    def shown(self, trials: Trials) -> bool:
        """Whether the trials exclude the rival."""
        return excludes(self._sum(self.named, trials), self._sum(self.denied, trials), self._chances(trials))

    def missing(self, trials: Trials) -> tuple[tuple[Candidate, ...], float]:
        """Which candidates to repeat next, and the seconds until the rival is excluded (inf: it cannot be)."""
        named, denied = _open(self.named, trials)[:1], _open(self.denied, trials)
        failed, passed = self._sum(self.named, trials), self._sum(self.denied, trials)
        best: tuple[float, int, int] = (math.inf, 0, 0)
        costs = [min(map(trials.seconds, some), default=math.inf) for some in (named, denied)]
        rooms = [sum(MOST_TRIALS - trials.tally(one).of for one in some) for some in (named, denied)]
        for more in range(rooms[0] + 1):
            if more and more * costs[0] >= best[0]:
                break
            needed = max(0, passes_needed(_after(failed, more), self._chances(trials)) - passed.passed)
            cost = (more * costs[0] if more else 0.0) + (needed * costs[1] if needed else 0.0)
            if needed <= rooms[1] and cost < best[0]:
                best = (cost, more, needed)
        repeated = [some for some, number in zip((named, denied), best[1:], strict=True) if number]
        if best[0] == math.inf:  # nothing reaches it; a flake may still show
            repeated = [denied] if denied else []
        return tuple(min(some, key=lambda one: (trials.tally(one).of, trials.seconds(one))) for some in repeated), best[
            0
        ]

    def _chances(self, trials: Trials) -> int:
        """A cell that both passed and failed had made another statement before."""
        return int(self.chances * TRIES ** len({id(one) for one in self.named if trials.tally(one).passed}))

    @staticmethod
    def _sum(candidates: Sequence[Candidate], trials: Trials) -> Tally:
        return total(map(trials.tally, candidates))


def confirm(separations: Sequence[Separation], trials: Trials) -> Search[bool]:
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


def _open(candidates: Sequence[Candidate], trials: Trials) -> list[Candidate]:
    return [one for one in candidates if trials.tally(one).of < MOST_TRIALS]


def _after(tally: Tally, more: int) -> Tally:
    """The tally after more trials that fail as often as those so far."""
    failed = round(more * tally.failed / max(1, tally.of))
    return tally + Tally(failed=failed, passed=more - failed)


def _reading(tally: Tally) -> Reading:
    return Reading.FAIL if tally.failed else Reading.PASS

"""How strongly trials separate cells that fail from cells that pass, or that fail more seldom. Pure.

The rival of a statement says that both groups fail at one rate, and that the passes were luck; a likelihood ratio, each
at the rate that suits it best, says how much. Whether two groups fail at different rates is Fisher's exact test.

A second implementation. Library: scipy.stats.fisher_exact.
Why not: numpy and scipy are 100 MB for ten lines of ``math``.
Owner of ours: the room ``evidence``.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from reprokit.core.text import pluralize
from reprokit.evidence.model import Outcome
from reprokit.evidence.sequential import failure_rate_bound

LUCK = 0.003
"""The largest likelihood ratio that excludes a rival: f^f s^s / (f+s)^(f+s) for f trials that failed and s that passed.
By a simulation (``python -m tests.bench claims``), a random failure of any one rate is then called dependent on an axis
in at most 1 % of runs."""

LEVEL = 0.01
"""The share of runs in which a difference of rates may be stated by chance, or "exactly" with a rate of 5 %."""

UNEVEN = 0.2
"""The chance below which some failing cells fail more seldom than the others, so that they count by themselves."""

EXACT_TRIALS = math.ceil(math.log(LEVEL) / math.log(0.95))
"""Passing trials of each other cell behind the word "exactly": 90, which a rate of 5 % survives in 1 % of runs."""

MANY = 1_000_000
"""More trials than anyone runs."""


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Trials of one cell or of several together: how many ``failed`` with the signature, and how many ``passed``.

    Trials that failed otherwise, or that were stopped, say nothing about the signature and count for neither.
    """

    failed: int = 0
    passed: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(failed=self.failed + other.failed, passed=self.passed + other.passed)

    def __sub__(self, other: Tally) -> Tally:
        return Tally(failed=self.failed - other.failed, passed=self.passed - other.passed)

    @property
    def of(self) -> int:
        """How many trials count."""
        return self.failed + self.passed

    @classmethod
    def count(cls, outcomes: Sequence[Outcome]) -> Tally:
        """The tally of a cell's trials."""
        return cls(failed=outcomes.count(Outcome.REPRODUCED), passed=outcomes.count(Outcome.PASSED))


def total(tallies: Iterable[Tally]) -> Tally:
    """The trials of several cells together."""
    return sum(tallies, Tally())


def bound(counts: Iterable[int], cells: int) -> float:
    """The failure rate that passing cells do not exclude, to a percent. ``counts``: their trials; ``cells``: all
    that are decided.

    It is the bound of the one with the fewest, and holds for each of the ``cells``, whichever of them passed: it is
    false in :data:`LEVEL` of runs at most.
    """
    return math.ceil(100 * failure_rate_bound(min(counts), 1 - LEVEL / cells)) / 100


def not_excluded(counts: Iterable[int], cells: int, what: str = "a failure") -> str:
    """:func:`bound` in words. ``what``: did not happen."""
    most = bound(counts, cells)
    if most >= 0.99:
        return f"{what} in nearly every run is not excluded"
    return f"{what} in up to {100 * most:.0f} % of runs is not excluded at {100 * (1 - LEVEL):g} % confidence"


def never_failed(counts: Iterable[int], cells: int) -> str:
    """``0 of 3 or more each, a failure in up to 83 % of runs is not excluded ...``; see :func:`bound`."""
    fewest, *more = sorted(counts)
    each = f"{fewest}{' or more' * (fewest < max(more, default=fewest))}{' each' * bool(more)}"
    return f"0 of {each}, {not_excluded([fewest], cells)}"


def excludes(named: Tally, denied: Tally, chances: float = 1) -> bool:
    """Whether trials exclude that the cells in ``denied`` fail at the rate of those in ``named``, and passed by luck.

    ``chances``: how many statements like this one could have been found in the same trials; of two cells, 2.
    """
    return not denied.failed and denied.passed >= passes_needed(named, chances)


@cache
def passes_needed(named: Tally, chances: float = 1) -> int:
    """How many passing trials of other cells exclude that these fail at the rate of ``named``; see :func:`excludes`."""
    failed, trials = named.failed, named.of
    if not failed:
        return MANY
    limit = math.log(LUCK / chances) + log_likelihood(failed, trials)
    return bisect.bisect_left(range(MANY), True, key=lambda more: log_likelihood(failed, trials + more) <= limit)


def chance_of(more: Tally, less: Tally) -> float:
    """Fisher's exact test, one-sided: how likely ``more`` has at least its failures if both fail at one rate."""
    failed, trials = more.failed + less.failed, more.of + less.of
    ways = math.comb(trials, failed)
    counts = range(more.failed, min(failed, more.of) + 1)
    return sum(math.comb(more.of, count) * math.comb(less.of, failed - count) for count in counts) / ways


def chance_apart(one: Tally, other: Tally) -> float:
    """The same, two-sided: how likely two are as far apart, in either direction, if both fail at one rate."""
    return 2 * min(chance_of(one, other), chance_of(other, one))


def lowest(tallies: Sequence[Tally]) -> int | None:
    """The position of the tally that fails more seldom than all others together; None where all may be alike."""
    every = total(tallies)
    if not every.passed or len(tallies) < 2:
        return None
    at = min(range(len(tallies)), key=lambda one: (tallies[one].failed / max(1, tallies[one].of), -tallies[one].of))
    return at if chance_of(every - tallies[at], tallies[at]) <= UNEVEN else None


def log_likelihood(failed: float, of: float) -> float:
    """That of ``failed`` in ``of`` trials at the rate that suits them best."""
    passed = of - failed
    return (failed * math.log(failed / of) if failed else 0.0) + (passed * math.log(passed / of) if passed else 0.0)


def trials_each(counts: Iterable[int]) -> str:
    """How many trials cells had, in words: ``in one trial each``, ``in 3 trials each``, ``in 1 to 3 trials each``."""
    numbers = sorted({max(1, count) for count in counts})  # a decided cell had one, known or not
    if numbers[0] < numbers[-1]:
        return f"in {numbers[0]} to {numbers[-1]} trials each"
    return "in one trial each" if numbers == [1] else f"in {pluralize(numbers[0], 'trial')} each"

"""Slower, bigger, leaking: is the typical value of some numbers above a limit, or below it? By Wilcoxon's signed-rank
test, which needs no model of the noise; the interval inverts it (Hodges and Lehmann 1963). Pure.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from reprokit.core.json_record import JsonRecord

ERROR = 0.01
"""The chance of a wrong "above", and that of a wrong "below", at most."""

LOOKS = {8: 0.004, 12: 0.002, 20: 0.002, 32: 0.002}
"""Pairs of trials after which a ratio is looked at -> the chance of an error, to either side, of that look. They add up
to :data:`ERROR`, so that looking often calls no more comparisons a finding."""

STRETCHES = 8
"""Stretches into which the iterations of a trial are cut; the fewest of which the test says anything at 1 %."""

WARM_UP = 0.2
"""The share of the iterations, at the beginning, that does not count: caches fill, modules are imported."""

FEWEST = 20
"""Iterations that a trial must have marked."""

ABOVE, BELOW = "above", "below"


@dataclass(frozen=True, kw_only=True)
class Estimate(JsonRecord):
    """A typical ``value`` with its interval from ``low`` to ``high``."""

    value: float
    low: float
    high: float

    def side(self, limit: float) -> str | None:
        """:data:`ABOVE` or :data:`BELOW` ``limit``; None: open."""
        return ABOVE if self.low > limit else BELOW if self.high < limit else None


def estimate(values: Sequence[float], error: float) -> Estimate:
    """The typical value of some numbers (Hodges and Lehmann), and an interval that each side exceeds with ``error``."""
    means = sorted((one + other) / 2 for one, other in itertools.combinations_with_replacement(values, 2))
    left_out = _left_out(len(values), error)
    if left_out == 0:
        return Estimate(value=statistics.median(means), low=-math.inf, high=math.inf)
    return Estimate(value=statistics.median(means), low=means[left_out - 1], high=means[-left_out])


@cache
def _left_out(count: int, error: float) -> int:
    """How many of the smallest means are left out: the largest k with P(W <= k - 1) <= error, W of Wilcoxon's test."""
    ways = [1]
    for rank in range(1, count + 1):
        ways = [
            (ways[at] if at < len(ways) else 0) + (ways[at - rank] if at >= rank else 0)
            for at in range(len(ways) + rank)
        ]
    below = itertools.accumulate(ways)
    return sum(1 for total in itertools.takewhile(lambda total: total <= error * 2**count, below))


def ratio(own: Sequence[float], reference: Sequence[float], error: float) -> Estimate:
    """How many times ``own`` is ``reference``, pair by pair; all above 0."""
    found = estimate([math.log(one / other) for one, other in zip(own, reference, strict=True)], error)
    return Estimate(value=math.exp(found.value), low=math.exp(found.low), high=math.exp(found.high))


def growth(iterations: Sequence[tuple[int, int]]) -> Estimate | None:
    """Bytes by which the memory grows per iteration, after the warm-up; None where too few were marked.

    The samples are cut into stretches; of two neighbours the medians are compared, by the iterations between them.
    """
    kept = iterations[math.ceil(WARM_UP * len(iterations)) :]
    if len(iterations) < FEWEST or kept[-1][0] - kept[0][0] < FEWEST // 2:
        return None
    cuts = [len(kept) * at // (STRETCHES + 1) for at in range(STRETCHES + 2)]
    middles = [_middle(kept[start:end]) for start, end in itertools.pairwise(cuts)]
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.pairwise(middles) if b[0] > a[0]]
    return estimate(slopes, ERROR)


def _middle(samples: Sequence[tuple[int, int]]) -> tuple[float, float]:
    return statistics.median(number for number, _ in samples), statistics.median(memory for _, memory in samples)

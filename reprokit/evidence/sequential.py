"""When the trials of a cell have shown enough: the policy, the test that stops them, and their figures. Pure.

A second implementation. Library: scipy, statsmodels.
Why not: neither has a sequential test of a rate; the rest is a page of ``math``.
Owner of ours: the room ``evidence``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reprokit.core.json_record import ABSENT, JsonRecord
from reprokit.evidence.model import Outcome

CONFIDENCE = 0.95

RELIABLE = 0.45
"""The rate at which ClusterFuzz's 5 of 10 are as likely as not (to two digits): below, it would call a crash flaky."""

ODDS = 8.0
"""How far apart, as a ratio of odds, two rates are that ClusterFuzz's 5 of 10 tell apart with errors of 5 %."""

STOPPING = (Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY)
"""Outcomes after which further trials of the cell would only cost time."""

AT_LEAST = "at-least"
BELOW = "below"


@dataclass(frozen=True, kw_only=True)
class Trials:
    """How many trials a cell gets: ``max`` at most, or, where they are ``fixed`` or ``rate`` is None, just as many.

    No trial matched yet: n of them refute a rate p with a confidence of 1 - (1 - p)**n, which is Wald's sequential test
    (Sequential Analysis, 1947, chapter 5) against 0. Some matched: the cell is flaky, and Wald's test of ``rate``
    against :func:`lower_rate` decides, with errors of 1 - ``confidence``. All matched: they stop where rates up to
    :data:`RELIABLE` are excluded, so that what is called reproduced is seldom flaky. The reference is ClusterFuzz's
    ``test_reproduce_reliability``; ``python -m tests.bench trials`` prints both.

    ``rate``: the share of trials (above 0, below 1) that must match for the cell to reproduce; ``confidence`` (at least
    0.5, below 1) is how sure the decision, and each interval, is to be.
    """

    max: int = 20
    confidence: float = CONFIDENCE
    rate: float | None = 0.1
    fixed: bool = False

    @classmethod
    def of(cls, value: int | Mapping[str, float] | Trials) -> Trials:
        """A policy from what a case or a request says: a plain number is a fixed number of trials."""
        if isinstance(value, Trials):
            return value
        return cls(max=value, rate=None) if isinstance(value, int) else cls(**value)  # type: ignore[arg-type]

    def to_json(self) -> int | dict[str, Any]:
        """What :meth:`of` reads: a plain number, as earlier versions wrote it, where no rate is asked for."""
        return self.max if self.rate is None else {"max": self.max, "confidence": self.confidence, "rate": self.rate}

    def finished(self, outcomes: Sequence[Outcome]) -> bool:
        """Whether the trials so far, in their order, are all that the cell needs."""
        if outcomes and outcomes[-1] in STOPPING:
            return True
        otherwise = outcomes.count(Outcome.DIFFERENT_FAILURE)
        return self.enough(len(outcomes), outcomes.count(Outcome.REPRODUCED), otherwise)

    def enough(self, count: int, matched: int, otherwise: int = 0) -> bool:
        """Whether ``count`` trials are, of which ``matched`` failed with the signature and others ``otherwise``."""
        if count >= self.max:
            return True
        if self.rate is None or self.fixed or not count:
            return False
        if otherwise == count:
            return count >= self._run(RELIABLE)
        reliable = matched < count or count >= self._run(RELIABLE)
        return reliable and self.decide(count, matched) is not None

    def over(self, own: Trials) -> Trials:
        """This policy where a case has its ``own``: a plain number is run to its end, and judged by the case's rate."""
        return replace(own, max=self.max, fixed=True) if self.rate is None and own.rate is not None else self

    def decide(self, count: int, matched: int) -> str | None:
        """:data:`AT_LEAST` or :data:`BELOW` ``rate``, after ``count`` trials of which ``matched`` did; None: open."""
        if self.rate is None or not count:
            return None
        if not matched:
            return BELOW if count >= self.needed() else None
        low, bound = lower_rate(self.rate), math.log(self.confidence / (1 - self.confidence))
        evidence = matched * math.log(self.rate / low) + (count - matched) * math.log((1 - self.rate) / (1 - low))
        return AT_LEAST if evidence >= bound else BELOW if evidence <= -bound else None

    def needed(self) -> int:
        """How many trials without a match exclude ``rate``, which must be given."""
        assert self.rate is not None
        return self._run(1 - self.rate)

    def _run(self, chance: float) -> int:
        """How many trials in a row, that each go so with ``chance``, are rarer than the confidence allows."""
        return math.ceil(math.log(1 - self.confidence) / math.log(chance) - 1e-9)


def lower_rate(rate: float) -> float:
    """The rate that counts as "not at ``rate``" in a flaky cell: :data:`ODDS` lower, as ClusterFuzz tells rates apart.

    0.7 -> 0.23, 0.1 -> 0.014.
    """
    odds = rate / (1 - rate) / ODDS
    return odds / (1 + odds)


def interval(matched: int, count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """The exact two-sided interval of a rate (Clopper and Pearson 1934) for ``matched`` of ``count`` trials, 0 to 1.

    It is that of a number of trials fixed beforehand; where they stop early, it still holds the rate in 97 % of cells
    at 0.95 and ``max`` 20, and in 94.8 % at ``max`` 100 (``python -m tests.bench trials``).
    """
    tail = (1 - confidence) / 2
    return 1 - _highest(count - matched, count, tail), _highest(matched, count, tail)


def _highest(matched: int, count: int, tail: float) -> float:
    """The rate at which at most ``matched`` of ``count`` trials match with the probability ``tail``."""
    if matched >= count:
        return 1.0
    return _root(lambda rate: _at_most(matched, count, rate) - tail)


def _root(falling: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return (low + high) / 2


def _at_most(matched: int, count: int, rate: float) -> float:
    """P(X <= matched) of a binomial X, 0 < rate < 1; by logarithms, so that no number of trials is too large."""
    yes, no, all_ways = math.log(rate), math.log1p(-rate), math.lgamma(count + 1)
    return math.fsum(
        math.exp(all_ways - math.lgamma(k + 1) - math.lgamma(count - k + 1) + k * yes + (count - k) * no)
        for k in range(matched + 1)
    )


def failure_rate_bound(trials: int, confidence: float = CONFIDENCE) -> float:
    """Upper bound of the failure rate after ``trials`` that all passed (exact binomial, one-sided).

    A rate p leaves ``trials`` clean runs with probability (1 - p) ** trials; the bound is where that is 1 - confidence.
    """
    if trials < 1:
        return 1.0
    return float(1.0 - (1.0 - confidence) ** (1.0 / trials))


@dataclass(frozen=True, kw_only=True)
class TrialPolicy(JsonRecord):
    """The policy that a cell's trials were run by: ``max``, ``confidence`` and ``rate`` of :class:`Trials`."""

    max: int
    confidence: float = CONFIDENCE
    rate: float | None = None


@dataclass(frozen=True, kw_only=True)
class TrialFigures(JsonRecord):
    """What a record says of a cell's trials.

    ``reproduced`` of ``of`` trials matched: the ``rate``, with its ``interval`` at ``confidence``; ``decided`` is
    ``at-least`` or ``below`` the policy's rate, None where that is open or not asked. Where all trials passed,
    ``possible`` is the rate that is still possible, one-sided. Where none matched, and some did not pass, neither is
    said: what stopped those may have hidden the failure.
    """

    policy: TrialPolicy
    reproduced: int
    of: int
    rate: float
    interval: tuple[float, float]
    confidence: float
    decided: str | None = None
    possible: float | None = field(default=None, metadata=ABSENT)


def figures(outcomes: Sequence[Outcome], trials: Trials) -> TrialFigures:
    """The figures of a cell's trials, at least one, which were run by the policy ``trials``."""
    count, matched = len(outcomes), outcomes.count(Outcome.REPRODUCED)
    clean = outcomes.count(Outcome.PASSED) == count
    low, high = interval(matched, count, trials.confidence)
    return TrialFigures(
        policy=TrialPolicy(max=trials.max, confidence=trials.confidence, rate=trials.rate),
        reproduced=matched,
        of=count,
        rate=round(matched / count, 6),
        interval=(round(low, 6), round(high, 6)),
        confidence=trials.confidence,
        decided=trials.decide(count, matched) if matched or clean else None,
        possible=round(failure_rate_bound(count, trials.confidence), 6) if clean else None,
    )

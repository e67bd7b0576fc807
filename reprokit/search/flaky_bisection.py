"""Where a change along a line lies if failures are flaky: how likely it is at each place, and what to try next. Pure.

A second implementation. Library: none of those that bisect repeats a step, or knows of two rates.
Why ours: the rates before and after the change are unknown, and each trial has its price.
Owner of ours: the room ``search``.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from reprokit.evidence.strength import Tally

LOW_RATES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.35)
HIGH_RATES = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 1.0)
PAIRS = tuple((low, high) for low in LOW_RATES for high in HIGH_RATES if high >= 2 * low and high - low > 0.04)
"""Rates on the two sides of a change, one of which is about right: rates of 2 and 5 % are taken for one."""
ONE_RATE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.99, 1.0)
"""Rates of a failure that does not change along the line."""
SURE = 0.995
"""How likely a change has to be at a place to be confirmed there: 1 % of those may be wrong."""
NEW = 0.6
"""What a trial of a place that was not tried before counts, beside one of a place whose image is there."""


@dataclass(frozen=True, kw_only=True)
class Side:
    """The hypotheses that the change lies in one gap, and in one direction."""

    gap: int  # between the places of that number and the next of those tried
    rises: bool  # the failure is more frequent behind the change
    chance: float
    before: float  # the mean rate before the change
    after: float


@dataclass(frozen=True, kw_only=True)
class Belief:
    """What the trials of some places of a line say of one change of the rate. ``tallies``: by place, at least two.

    Beforehand no change is as likely as one, every place as likely as any other, both directions are alike, and so are
    failures that show on one side alone and on both.
    """

    tallies: Mapping[int, Tally]

    @cached_property
    def places(self) -> tuple[int, ...]:
        """The places that were tried, in order."""
        return tuple(sorted(self.tallies))

    @cached_property
    def _weighed(self) -> tuple[tuple[Side, ...], Side]:
        """Every side, and what stands for no change at all, with chances that add up to 1."""
        likely: dict[tuple[int, bool], list[tuple[float, float, float]]] = {}
        same = [(math.log(0.5 / len(ONE_RATE)) + sums[-1], rate, rate) for rate, sums in self._sums(ONE_RATE)]
        low, high = dict(self._sums(LOW_RATES)), dict(self._sums(HIGH_RATES))
        line = self.places[-1] - self.places[0]
        certain = sum(not rate for rate, _ in PAIRS)  # pairs of which one side never fails
        for one, other in PAIRS:
            prior = math.log(0.5 * 0.5 * 0.5 / line / (len(PAIRS) - certain if one else certain))
            for gap, (place, behind) in enumerate(zip(self.places, self.places[1:], strict=False)):
                for rises in (True, False):
                    (before, left), (after, right) = (one, low[one]), (other, high[other])
                    if not rises:
                        (before, left), (after, right) = (after, right), (before, left)
                    weight = prior + math.log(behind - place) + left[gap + 1] + right[-1] - right[gap + 1]
                    likely.setdefault((gap, rises), []).append((weight, before, after))
        weights = [weight for some in (*likely.values(), same) for weight, *_ in some]
        top = max(weights)
        whole = top + math.log(sum(math.exp(weight - top) for weight in weights))
        sides = (_side(gap, rises, some, whole) for (gap, rises), some in likely.items())
        return tuple(side for side in sides if side.chance), _side(-1, True, same, whole)

    def _sums(self, rates: Collection[float]) -> Iterator[tuple[float, list[float]]]:
        """Each rate with the log-likelihood of the first 0, 1, 2 ... places at it."""
        for rate in rates:
            sums = [0.0]
            for place in self.places:
                sums.append(sums[-1] + _log_likelihood(self.tallies[place], rate))
            yield rate, sums

    @property
    def likeliest(self) -> Side:
        """The side on which the change is most likely."""
        return max(self._weighed[0], key=lambda one: one.chance)

    @cached_property
    def open_places(self) -> int:
        """At how many places the change may lie, if there is one: those that it is surely at."""
        rest, found = SURE * (1 - self.none), set[int]()
        for one in sorted(self._weighed[0], key=lambda one: one.chance, reverse=True):
            if rest > 0:
                found.add(one.gap)
                rest -= one.chance
        return sum(self.places[gap + 1] - self.places[gap] for gap in found)

    @property
    def none(self) -> float:
        """How likely the rate stays the same along the line."""
        return self._weighed[1].chance

    def choose(self, repeatable: Collection[int], new: Collection[int]) -> int | None:
        """The place, of those that may be tried again and those not tried yet, whose trial tells most of the change."""
        middles = (self._middle(gap, new) for gap in range(len(self.places) - 1))
        known = {place: self._information(place) for place in repeatable}
        known |= {place: NEW * self._information(place) for place in middles if place is not None}
        return max(known, key=known.__getitem__, default=None)

    def _middle(self, gap: int, new: Collection[int]) -> int | None:
        """The place in a gap that is nearest to its middle."""
        low, high = self.places[gap], self.places[gap + 1]
        inside = [place for place in range(low + 1, high) if place in new]
        return min(inside, key=lambda place: abs(2 * place - low - high), default=None)

    def _information(self, place: int) -> float:
        """How much a trial there tells, in nats: the uncertainty of its outcome that stays if the change is known."""
        sides, none = self._weighed
        fails, known = none.chance * none.before, none.chance * _entropy(none.before)
        for one in sides:
            low, high = self.places[one.gap], self.places[one.gap + 1]
            behind = min(max((place - low) / (high - low), 0.0), 1.0)  # the share of the gap's places up to this one
            fails += one.chance * (behind * one.after + (1 - behind) * one.before)
            known += one.chance * (behind * _entropy(one.after) + (1 - behind) * _entropy(one.before))
        return _entropy(fails) - known


def _side(gap: int, rises: bool, weighed: Sequence[tuple[float, float, float]], whole: float) -> Side:
    """Hypotheses, each with the logarithm of its weight and its two rates, as one; ``whole``: of all weights."""
    chances = [(math.exp(weight - whole), before, after) for weight, before, after in weighed]
    chance = sum(each for each, *_ in chances)
    before, after = (sum(one[0] * one[at] for one in chances) / chance if chance else 0.0 for at in (1, 2))
    return Side(gap=gap, rises=rises, chance=chance, before=before, after=after)


IMPOSSIBLE = -1e6
"""The logarithm of a chance of nothing, of which differences can be taken."""


def _log_likelihood(tally: Tally, rate: float) -> float:
    failed = tally.failed * (math.log(rate) if rate else IMPOSSIBLE)
    return failed + tally.passed * (math.log(1 - rate) if rate < 1 else IMPOSSIBLE)


def _entropy(chance: float) -> float:
    return -chance * math.log(chance) - (1 - chance) * math.log(1 - chance) if 0 < chance < 1 else 0.0

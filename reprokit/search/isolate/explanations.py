"""Which differences between two cells, one that passes and one that fails, can explain what mixes of them showed.

Pure. The differences are numbered from 0; a mix is a bit mask of those in which it is as the failing cell. An
explanation says which sets of differences are each enough for the failure: a tuple of masks, none within another. More
of a difference never heals (an explanation is monotone). Where one end fails and the other passes, that holds for
nearly all real causes; where it does not, no explanation is left, which is reported and never hidden.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest
from operator import itemgetter

from reprokit.evidence.reading import Reading

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
        if _apart((one, other))
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

    Two versions that do not go together, or one that is not available, make many cells inconclusive and leave the
    others.
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
    """A cost (see :mod:`reprokit.search.costs`) in runs of a cell whose image exists."""
    return 1.0 if cost == 0 else 1.3 + min(cost, 200) / 50


def certificate(explanation: Hypothesis, count: int) -> tuple[list[int], list[int]]:
    """The mixes that prove a monotone explanation: the least that fail, and the largest that pass."""
    whole = (1 << count) - 1
    bits = [[1 << bit for bit in range(count) if enough >> bit & 1] for enough in explanation]
    held_back = {union(chosen) for chosen in itertools.product(*bits)}
    least = [one for one in held_back if not any(other != one and other & one == other for other in held_back)]
    return list(explanation), sorted((whole ^ one for one in least), reverse=True)


def _mask(chosen: Iterable[int]) -> int:
    return union(1 << bit for bit in chosen)


def union(masks: Iterable[int]) -> int:
    """The differences that are in any of some masks."""
    found = 0
    for mask in masks:
        found |= mask
    return found


def _apart(pair: Sequence[int]) -> bool:
    one, other = pair
    return one & other not in (one, other)

"""``python -m tests.bench changes``: how many months of nights hold a change, and how soon a real one counts."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from statistics import mean, quantiles

from reprokit.report.history.transitions import Counts, State, Transition, transitions

SEED = 7
MONTH = 30
RATES = (0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99)
TRIALS = (1, 3, 10)
ALIKE = (0.05, 0.1, 0.3, 0.6, 1.0)
CHANGES = ((0.0, 1.0), (1.0, 0.0), (0.2, 1.0), (0.5, 0.0), (0.0, 0.5), (0.2, 0.0))
NEVER = 999


def followed(rates: Sequence[float], trials: int, luck: random.Random, alike: float = 0.0) -> list[Transition]:
    """The transitions of a cell whose trials fail at a rate that each night has. ``alike``: see :func:`of_night`."""
    rates = [of_night(rate, alike, luck) for rate in rates]
    nights = [Counts(sum(luck.random() < rate for _ in range(trials)), 0, trials) for rate in rates]
    states = [State.REPRODUCING if night.matched else State.NOT_REPRODUCING for night in nights]
    return [one for one in transitions(states, counts=nights.__getitem__) if one.old and one.confirmed]


def of_night(rate: float, alike: float, luck: random.Random) -> float:
    """The rate of one night (beta-binomial). ``alike``: the correlation of its trials; 1: all fail or all pass."""
    if alike == 1:
        return float(luck.random() < rate)
    more = (1 - alike) / alike if alike else 0.0
    return luck.betavariate(rate * more, (1 - rate) * more) if more else rate


def false_changes(rate: float, trials: int, months: int, alike: float = 0.0, after: int = 0) -> float:
    """Of unchanged months, in percent, those with a change; ``after`` so many nights."""
    luck = random.Random(f"{SEED} {rate} {trials} {alike}")
    nights = [rate] * (after + MONTH)
    found = (followed(nights, trials, luck, alike) for _ in range(months))
    return 100 * mean(any(one.latest >= after for one in each) for each in found)


def nights_until(change: tuple[float, float], trials: int, months: int) -> tuple[int, int]:
    """Nights until a change after an unchanged month counts: the median, and that of nine in ten; 60 at most."""
    luck = random.Random(f"{SEED} {change} {trials}")
    found = []
    for _ in range(months):
        counted = followed([change[0]] * MONTH + [change[1]] * 2 * MONTH, trials, luck)
        found.append(next((one.latest - MONTH + 1 for one in counted if one.latest >= MONTH), NEVER))
    deciles = quantiles(found, n=10)
    return round(deciles[4]), round(deciles[8])


def report(months: int = 1000) -> Iterator[str]:
    """Two tables, a row for each rate and for each change."""
    with ProcessPoolExecutor() as pool:
        yield f"months of {MONTH} unchanged nights with a change, %, by trials a night {TRIALS}, {months} of each"
        asked = itertools.product(RATES, TRIALS)
        found = iter(list(pool.map(false_changes, *zip(*asked, strict=True), itertools.repeat(months))))
        for rate in RATES:
            yield f"{100 * rate:3.0f} %       " + "  ".join(f"{next(found):9.1f}" for _ in TRIALS)
        yield "the same of a first and of a later month with 10 trials a night, which are alike (1: all of a night)"
        both = [(rate, 10, months // 5, alike, after) for alike in ALIKE for rate in RATES for after in (0, MONTH)]
        found = iter(list(pool.map(false_changes, *zip(*both, strict=True))))
        for alike in ALIKE:
            yield f"{alike:3} " + "  ".join(f"{next(found):5.1f}/{next(found):3.1f}" for _ in RATES)
        yield f"nights until a change counts, after {MONTH} unchanged ones: median/nine in ten ({NEVER}: more than 60)"
        changes = itertools.product(CHANGES, TRIALS)
        counted = iter(list(pool.map(nights_until, *zip(*changes, strict=True), itertools.repeat(months // 10))))
        for before, after in CHANGES:
            rows = "  ".join("{:>4}/{:<4}".format(*next(counted)) for _ in TRIALS)
            yield f"{100 * before:3.0f} -> {100 * after:3.0f} %  {rows}"

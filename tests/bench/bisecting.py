"""Simulated bisections: planted boundaries, stretches that cannot be judged, failures that do not always show.

``python -m tests.bench.bisecting`` prints the figures; seeds are fixed. ``python -m tests.bench.bisecting confirm``
prints how often a boundary is called confirmed, rightly and falsely, where failures are flakes of one rate.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from reprokit.evidence.reading import Reading
from reprokit.evidence.strength import Tally
from reprokit.search.bisection import bisect
from reprokit.search.queries import Candidate, Query, drive
from reprokit.search.repeating import KnownTrials, budget


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Of ``runs`` bisections: how many were ``right``, and how many were ``within`` ceil(log2 n) + 3 + skips asks.

    ``asks`` and ``skips``: means. ``narrow``: those that named one place, rather than a range that cannot be judged.
    """

    runs: int
    right: int
    within: int
    narrow: int
    asks: float
    skips: float


def simulate(*, size: int, clusters: int, flaky: float, trials: int, runs: int, seed: int) -> Figures:
    """Bisect lines of ``size`` places. ``clusters``: stretches of up to a fifth of the line that cannot be judged.

    ``flaky``: how often a bad place does not show its failure in one of its ``trials``.
    """
    chance = random.Random(seed)
    right = within = narrow = asks = skips = 0
    for _ in range(runs):
        boundary = chance.randrange(1, size)
        broken: set[int] = set()
        for _ in range(clusters):
            start = chance.randrange(1, size - 1)
            broken |= set(range(start, min(size - 1, start + chance.randint(1, max(1, size // 5)))))
        asked: list[int] = []

        def answer(ask: Query, boundary: int = boundary, broken: set[int] = broken, asked: list[int] = asked):  # type: ignore[no-untyped-def]
            readings = []
            for place in (int(one.cell["at"]) for one in ask.candidates):
                asked.append(place)
                shows = place >= boundary and any(chance.random() >= flaky for _ in range(trials))
                readings.append(Reading.UNRESOLVED if place in broken else Reading.FAIL if shows else Reading.PASS)
            return tuple(readings)

        found = drive(bisect([Candidate(cell={"at": str(place)}) for place in range(size)]), answer)
        right += found.found and found.last < boundary <= found.next
        narrow += found.found and not found.unclear
        within += len(asked) <= math.ceil(math.log2(size)) + 3 + len(found.skipped)
        asks += len(asked)
        skips += len(found.skipped)
    return Figures(runs=runs, right=right, within=within, narrow=narrow, asks=asks / runs, skips=skips / runs)


RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
SIZES = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, kw_only=True)
class Confirmed:
    """Shares of bisections whose boundary was confirmed, ``rightly`` or ``falsely``; ``extra``: repeats, mean."""

    rightly: float
    falsely: float
    extra: float


def confirmed(*, size: int, rate: float, planted: bool, runs: int, seed: int) -> Confirmed:
    """Bisect lines of ``size`` releases as ``--confirm auto`` does. ``planted``: there is a boundary, in either
    direction; else the failure has its ``rate`` in all of them."""
    chance = random.Random(seed)
    rightly = falsely = extra = 0
    for _ in range(runs):
        boundary = chance.randrange(1, size) if planted else 0
        late = chance.random() < 0.5 or not planted
        tallies: dict[int, Tally] = {}
        again = [0]

        def answer(
            ask: Query,
            boundary: int = boundary,
            late: bool = late,
            tallies: dict[int, Tally] = tallies,
            again: list[int] = again,
        ):  # type: ignore[no-untyped-def]
            for place in (int(one.cell["at"]) for one in ask.candidates):
                if ask.again or place not in tallies:
                    again[0] += ask.again
                    fails = (place >= boundary) is late and chance.random() < rate
                    tallies[place] = tallies.get(place, Tally()) + Tally(failed=int(fails), passed=int(not fails))
            places = (int(one.cell["at"]) for one in ask.candidates)
            return tuple(Reading.FAIL if tallies[place].failed else Reading.PASS for place in places)

        def left(tallies: dict[int, Tally] = tallies, again: list[int] = again) -> float:
            return budget(sum(tally.of for tally in tallies.values()) - again[0]) - again[0]

        trials = KnownTrials(
            tally=lambda one, tallies=tallies: tallies[int(one.cell["at"])],  # type: ignore[misc]
            seconds=lambda one: 1.0,
            left=left,
        )
        found = drive(bisect([Candidate(cell={"at": str(place)}) for place in range(size)], trials=trials), answer)
        right = planted and found.next == boundary and found.broken_since is late
        rightly += found.confirmed and right
        falsely += found.confirmed and not right
        extra += again[0]
    return Confirmed(rightly=rightly / runs, falsely=falsely / runs, extra=extra / runs)


def main(words: Sequence[str] = tuple(sys.argv[1:])) -> None:
    """Print a table."""
    runs = 1000
    if "confirm" in words:
        heads = ("places", "rate", "right", "false", "extra", "none: false", "extra")
        print(*(f"{head:>11}" for head in heads))
        for size in SIZES:
            for rate in RATES:
                one, none = (confirmed(size=size, rate=rate, planted=each, runs=runs, seed=5) for each in (True, False))
                shares = (f"{share:11.1%}" for share in (one.rightly, one.falsely))
                print(f"{size:11} {rate:11}", *shares, f"{one.extra:11.1f} {none.falsely:11.1%} {none.extra:11.1f}")
        return
    print(
        f"{'places':>7} {'stretches':>9} {'flaky':>6} {'trials':>6} {'right':>7} {'exact':>7} {'asks':>6} {'skips':>5}"
    )
    for size in (14, 54, 500):
        for clusters, flaky, trials in ((0, 0.0, 1), (1, 0.0, 1), (3, 0.0, 1), (0, 0.3, 1), (0, 0.3, 3), (0, 0.3, 5)):
            got = simulate(size=size, clusters=clusters, flaky=flaky, trials=trials, runs=runs, seed=5)
            print(
                f"{size:7} {clusters:9} {flaky:6} {trials:6} {got.right / runs:7.1%} {got.narrow / runs:7.1%} "
                f"{got.asks:6.2f} {got.skips:5.2f}  {got.within / runs:.1%}"
            )


if __name__ == "__main__":
    main()

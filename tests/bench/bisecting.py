"""Simulated bisections: planted boundaries, stretches that cannot be judged, failures that do not always show.

``python -m tests.bench.bisecting`` prints the figures; seeds are fixed.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from reprokit.evidence.reading import Reading
from reprokit.search.bisect.algorithm import bisect
from reprokit.search.queries import Candidate, Query, drive


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


def main() -> None:
    """Print a table."""
    runs = 1000
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

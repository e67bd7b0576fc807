"""Simulated bisections: planted boundaries, stretches that cannot be judged, failures that do not always show.

``python -m tests.bench.bisecting`` prints the figures; seeds are fixed. ``python -m tests.bench.bisecting confirm``
prints how often a boundary is called confirmed, rightly and falsely, where failures are flakes of one rate; with
``flaky`` how many trials a change of the rate takes; with ``changes`` how often one of several is missed.
"""

from __future__ import annotations

import itertools
import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from reprokit.evidence.reading import Reading
from reprokit.evidence.strength import Tally
from reprokit.search.bisection import Bisection, bisect
from reprokit.search.queries import Candidate, Query, drive
from reprokit.search.repeating import OF_SEARCH, KnownTrials, budget


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


def bisect_flakes(*, rates: tuple[float, float], most: int, runs: int, seed: int, size: int = 256) -> tuple[float, ...]:
    """Shares of bisections that are right, confirmed and right, confirmed and wrong; trials and places, means.

    ``rates``: how often places fail that pass and that fail; ``most``: trials.
    """
    chance = random.Random(seed)
    found = []
    for _ in range(runs):
        boundary, late = chance.randrange(1, size), chance.random() < 0.5
        one, tallies = bisect_by_chance(rates, boundary=boundary, late=late, most=most, chance=chance, size=size)
        right = one.found and (one.last, one.next) == (boundary - 1, boundary) and one.broken_since is late
        trials = sum(tally.of for tally in tallies.values())
        found.append((right, one.confirmed and right, one.confirmed and not right, trials, len(tallies)))
    return tuple(sum(column) / runs for column in zip(*found, strict=True))


def bisect_by_chance(
    rates: tuple[float, float], *, boundary: int, late: bool, most: int, chance: random.Random, size: int = 256
) -> tuple[Bisection, dict[int, Tally]]:
    """Bisect a line whose places fail at two rates, with at most so many trials; the trials of each place, too."""
    tallies: dict[int, Tally] = {}

    def answer(ask: Query) -> tuple[Reading, ...]:
        places = [int(one.cell["at"]) for one in ask.candidates]
        for place in places:
            if ask.again or place not in tallies:
                failed = chance.random() < rates[(place >= boundary) is late]
                tallies[place] = tallies.get(place, Tally()) + Tally(failed=int(failed), passed=int(not failed))
        return tuple(Reading.FAIL if tallies[place].failed else Reading.PASS for place in places)

    trials = KnownTrials(
        tally=lambda one: tallies[int(one.cell["at"])],
        seconds=lambda one: 1.0,
        left=lambda: float(max(0, most - sum(one.of for one in tallies.values()))),
    )
    line = [Candidate(cell={"at": str(place)}) for place in range(size)]
    return drive(bisect(line, trials=trials), answer), tallies


@dataclass(frozen=True, kw_only=True)
class Several:
    """Shares of bisections: that named the last change or said that there are more; ``asks``: places run, mean.

    ``missed_wider``: that missed one of more places than they said; ``confirmed_wrong``: whose boundary is not one.
    """

    last_or_more: float
    missed_wider: float
    confirmed_wrong: float
    asks: float


def bisect_changes(*, changes: int, size: int, runs: int, seed: int) -> Several:
    """Bisect lines with so many certain changes, an odd number, at random places."""
    chance = random.Random(seed)
    found = []
    for _ in range(runs):
        at = sorted(chance.sample(range(1, size), changes))
        tallies: dict[int, Tally] = {}

        def answer(ask: Query, at: list[int] = at, tallies: dict[int, Tally] = tallies) -> tuple[Reading, ...]:
            places = [int(one.cell["at"]) for one in ask.candidates]
            for place in places:
                failed = sum(place >= one for one in at) % 2
                if ask.again or place not in tallies:
                    tallies[place] = tallies.get(place, Tally()) + Tally(failed=failed, passed=1 - failed)
            return tuple(Reading.FAIL if tallies[place].failed else Reading.PASS for place in places)

        trials = KnownTrials(
            tally=lambda one, tallies=tallies: tallies[int(one.cell["at"])],  # type: ignore[misc]
            seconds=lambda one: 1.0,
            left=lambda: 60.0,
        )
        one = drive(bisect([Candidate(cell={"at": str(place)}) for place in range(size)], trials=trials), answer)
        said = one.next == at[-1] or bool(one.others)
        stretches = [after - before for before, after in itertools.pairwise(at)]
        found.append(
            (said, not said and min(stretches) > one.widest, one.confirmed and one.next not in at, len(tallies))
        )
    said, wider, wrong, asks = (sum(column) / runs for column in zip(*found, strict=True))
    return Several(last_or_more=said, missed_wider=wider, confirmed_wrong=wrong, asks=asks)


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
            return budget(OF_SEARCH * (sum(tally.of for tally in tallies.values()) - again[0])) - again[0]

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
    if "flaky" in words:
        print(
            *(f"{head:>10}" for head in ("before", "after", "trials", "right", "confirmed", "wrong", "used", "places"))
        )
        for low, high, most in ((0, 1, 60), (0, 0.8, 80), (0, 0.5, 80), (0, 0.2, 150), (0.05, 1, 60), (0.05, 0.5, 150)):
            right, sure, wrong, used, places = bisect_flakes(rates=(low, high), most=most, runs=runs // 5, seed=5)
            shares = (f"{share:10.1%}" for share in (right, sure, wrong))
            print(f"{low:10} {high:10} {most:10}", *shares, f"{used:10.1f} {places:10.1f}", flush=True)
        return
    if "changes" in words:
        print(*(f"{head:>12}" for head in ("places", "changes", "last or more", "missed wider", "wrong", "asks")))
        for size in (9, 16, 64, 256):
            for changes in (1, 3):
                some = bisect_changes(changes=changes, size=size, runs=runs, seed=5)
                shares = (some.last_or_more, some.missed_wider, some.confirmed_wrong)
                print(f"{size:12} {changes:12}", *(f"{share:12.1%}" for share in shares), f"{some.asks:12.1f}")
        return
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

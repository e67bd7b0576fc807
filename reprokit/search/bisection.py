"""Bisection of an ordered line of candidates: after which one the failure appears or disappears. Pure.

A second implementation. Library: git bisect.
Why not: it knows commits alone, not releases and ordered axes, and takes no answer back when it was a flake.
Owner of ours: the room ``search``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reprokit.evidence.reading import Reading
from reprokit.evidence.strength import Tally
from reprokit.search.flaky_bisection import SURE, Belief
from reprokit.search.queries import Candidate, Query, Search
from reprokit.search.repeating import MOST_TRIALS, KnownTrials, Separation, confirm

OnProgress = Callable[[Sequence[int], Mapping[int, Reading], int], None]
"""Called with the places just decided, all readings so far, and how many places the boundary may still be at."""


FEW = 3
"""Places side by side that cannot be judged, from which on they are taken for a stretch, whose edges are searched."""
PARTS = 8
"""Of such a stretch that are looked at, in case it is not one."""
ENDS = 10
"""Trials of two ends that pass, after which the failure is taken to show at neither."""
MANY = 4
"""Times the steps of a bisection: places of a flaky line that are tried, unless the user says how many."""
TWICE = 3
"""Trials of two ends that fail, after which the failure is taken to show at both."""


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """What was found, by place in the line: ``last`` has the reading of the first end, ``next`` that of the last end.

    Only unresolved places lie between them and such that were not run, unless it ``stopped``. Where the ends have the
    same reading, or one is unresolved, ``last`` and ``next`` are the ends. Where failures are flaky on both sides, the
    places are read by the side on which they lie.
    """

    last: int
    next: int
    readings: Mapping[int, Reading]  # of every place that was run
    confirmed: bool = False  # the trials exclude that the failure is a flake which is on both sides of the boundary
    stopped: bool = False  # the limit on candidates was reached before the boundary

    @property
    def found(self) -> bool:
        """Whether there is a boundary: one end passes and the other fails."""
        return {self.readings[self.last], self.readings[self.next]} == {Reading.PASS, Reading.FAIL}

    @property
    def broken_since(self) -> bool:
        """Whether the failure appears at the boundary rather than disappears. Only meaningful where :attr:`found`."""
        return self.readings[self.next] is Reading.FAIL

    @property
    def skipped(self) -> tuple[int, ...]:
        """The unresolved places."""
        return tuple(sorted(place for place, reading in self.readings.items() if reading is Reading.UNRESOLVED))

    @property
    def unclear(self) -> tuple[int, ...]:
        """The unresolved places at which the boundary may lie."""
        return tuple(place for place in self.skipped if self.last < place < self.next)

    @property
    def not_run(self) -> tuple[int, ...]:
        """The places among the unresolved ones at which the boundary may lie that were not run."""
        inside = range(self.last + 1, self.next)
        return () if self.stopped else tuple(place for place in inside if place not in self.readings)


def bisect(
    candidates: Sequence[Candidate],
    *,
    ahead: bool = True,
    every: bool = False,
    limit: int = 0,
    progress: OnProgress | None = None,
    trials: KnownTrials | None = None,
) -> Search[Bisection]:
    """Find one boundary along at least two candidates in few runs: about log2 of their number, plus the skips.

    Both ends are run first; from one that is unresolved, the search walks in. Unresolved candidates are skipped, as
    ``git bisect skip`` does; of a stretch of them the edges are searched, unless ``every`` one is to be run. Last, the
    boundary is repeated until a flake is excluded. Where a candidate both passed and failed, the next trial is always
    the one that tells most of where the rate changes. ``ahead``: name the likely next candidates. ``limit``: most
    candidates, 0 for all. ``trials``: those of the candidates, by which the boundary is confirmed; None: it is not.
    """
    line = _Line(candidates, ahead=ahead, every=every, limit=limit)
    readings, last = line.readings, len(candidates) - 1
    yield from line.run((0, last), (line.choose(0, last),))
    low, high = yield from line.walk_in()
    if trials is not None and readings[low] is readings[high]:
        yield from line.repeat_ends(low, high, trials)
    if {readings[low], readings[high]} == {Reading.PASS, Reading.FAIL} and high - low > 1 and progress:
        progress((low, high), readings, high - low)
    while {readings[low], readings[high]} == {Reading.PASS, Reading.FAIL} and not line.is_flaky(trials):
        while (place := line.choose(low, high)) is not None:
            if line.is_full():
                return Bisection(last=low, next=high, readings=readings, stopped=True)
            yield from line.run((place,), (line.choose(low, place), line.choose(place, high)))
            if readings[place] is readings[low]:
                low = place
            elif readings[place] is readings[high]:
                high = place
            if high - low > 1 and progress:
                progress((place,), readings, high - low)
        if trials is None:
            return Bisection(last=low, next=high, readings=readings)
        passing, failing = (low, high) if readings[high] is Reading.FAIL else (high, low)
        others = [place for place, seen in readings.items() if seen is Reading.FAIL and place != failing]
        named = tuple(candidates[place] for place in (failing, *others))
        separation = Separation(named=named, denied=(candidates[passing],), chances=len(candidates))
        yield from confirm([separation], trials)
        if not line.is_flaky(trials):
            return Bisection(last=low, next=high, readings=readings, confirmed=separation.shown(trials))
    if trials is not None and line.is_flaky(trials):
        return (yield from line.weigh(trials))
    return Bisection(last=low, next=high, readings=readings)


class _Line:
    """A line of candidates that is bisected, with the ``readings`` of those that were run, by place."""

    def __init__(self, candidates: Sequence[Candidate], *, ahead: bool, every: bool, limit: int) -> None:
        self.readings: dict[int, Reading] = {}
        self._candidates = candidates
        self._ahead = ahead
        self._every = every
        self._limit = limit

    def is_full(self) -> bool:
        """Whether the limit on candidates is reached."""
        return len(self.readings) == self._limit

    def is_flaky(self, trials: KnownTrials | None) -> bool:
        """Whether a place both passed and failed."""
        return trials is not None and any(one.failed and one.passed for one in self._tallies(trials).values())

    def _tallies(self, trials: KnownTrials) -> dict[int, Tally]:
        judged = (place for place, seen in self.readings.items() if seen is not Reading.UNRESOLVED)
        return {place: trials.tally(self._candidates[place]) for place in judged}

    def run(self, places: Sequence[int], soon: Sequence[int | None] = ()) -> Search[None]:
        """Run places; ``soon``: which may be next."""
        later = dict.fromkeys(place for place in soon if place is not None and place not in places)
        query = Query(
            candidates=tuple(self._candidates[place] for place in places),
            soon=tuple(self._candidates[place] for place in later) if self._ahead else (),
        )
        self.readings |= zip(places, (yield query), strict=True)

    def repeat(self, places: Sequence[int]) -> Search[None]:
        """One more trial of each place."""
        found = yield Query(candidates=tuple(self._candidates[place] for place in places), again=True)
        self.readings |= zip(places, found, strict=True)

    def walk_in(self) -> Search[tuple[int, int]]:
        """The ends; from one that is unresolved, the nearest place that is not, of those 1, 2, 4 ... places inwards."""
        ends = [0, len(self._candidates) - 1]
        for end, way in enumerate((1, -1)):
            start, step = ends[end], 1
            while self.readings[ends[end]] is Reading.UNRESOLVED and not self.is_full():
                place = start + way * step
                if not 0 <= place < len(self._candidates) or place in self.readings:
                    return 0, len(self._candidates) - 1
                yield from self.run((place,))
                ends[end], step = place, step * 2
        return ends[0], ends[1]

    def repeat_ends(self, low: int, high: int, trials: KnownTrials) -> Search[None]:
        """Repeat ends that read alike, as a flake may, until they do not, or more would cost more than it may."""
        alike, most = self.readings[low], ENDS if self.readings[low] is Reading.PASS else TWICE
        while (
            alike is not Reading.UNRESOLVED and self.readings[low] is self.readings[high] and not self.is_flaky(trials)
        ):
            again = [end for end in (low, high) if trials.tally(self._candidates[end]).of < most]
            if not again or sum(trials.seconds(self._candidates[end]) for end in again) > trials.left():
                return
            yield from self.repeat(again)

    def choose(self, low: int, high: int) -> int | None:
        """The place between two to run next; None when none is left that would narrow it.

        The middle of the places not run yet. Unresolved places often have neighbours with the same problem (a build
        that failed for a while): after two or more, the choice moves 1, 3, 7 ... places off the middle, by a quarter at
        most. More than a few are a stretch: what lies on either side of it is halved, and inside it what is long.
        """
        inside = range(low + 1, high)
        places = [place for place in inside if place not in self.readings]
        unresolved = [place for place in inside if place in self.readings]  # resolved ones are no longer between
        if not places:
            return None
        skips = len(unresolved)
        if skips <= FEW or self._every:
            off = min(2 ** min(skips // 2, 30) - 1, len(places) // 4) if skips > 1 else 0
            return places[(len(places) - 1) // 2 + (off if skips % 2 else -off)]
        sides = [range(low + 1, unresolved[0]), range(unresolved[-1] + 1, high)]
        if any(sides):
            return _middle(max(sides, key=len))
        gaps = [range(one + 1, other) for one, other in itertools.pairwise(unresolved)]
        longest = max(gaps, key=len)
        return _middle(longest) if len(longest) > (unresolved[-1] - unresolved[0]) // PARTS else None

    def weigh(self, trials: KnownTrials) -> Search[Bisection]:
        """Where the rate changes: always the trial that tells most, until a place is sure or the budget is spent."""
        most_places = self._limit or MANY * math.ceil(math.log2(len(self._candidates)))
        while True:
            tallies = self._tallies(trials)
            belief = Belief(tallies=tallies)
            side = belief.likeliest
            low, high = belief.places[side.gap : side.gap + 2]
            new = [place for place in range(belief.places[0], belief.places[-1]) if place not in self.readings]
            inside = [place for place in new if low < place < high]
            sure = side.chance >= SURE and not inside
            left = trials.left()
            again = [
                place
                for place, tally in tallies.items()
                if tally.of < MOST_TRIALS and trials.seconds(self._candidates[place]) <= left
            ]
            untried = () if len(self.readings) >= most_places else new if again else inside
            place = None if sure or belief.none >= SURE else belief.choose(again, untried)
            if place is None:
                break
            yield from self.repeat((place,)) if place in self.readings else self.run((place,))
        if belief.none > side.chance:
            self.readings |= dict.fromkeys(tallies, Reading.FAIL)
            return Bisection(last=belief.places[0], next=belief.places[-1], readings=self.readings)
        for place in tallies:
            self.readings[place] = Reading.FAIL if (place >= high) is side.rises else Reading.PASS
        stopped = self.is_full() and bool(inside)
        return Bisection(last=low, next=high, readings=self.readings, confirmed=sure, stopped=stopped)


def _middle(places: range) -> int:
    return places[len(places) // 2]

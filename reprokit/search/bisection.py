"""Bisection of an ordered line of candidates: after which one the failure appears or disappears. Pure.

A second implementation. Library: git bisect.
Why not: it knows commits alone, not releases and ordered axes, and takes no answer back when it was a flake.
Owner of ours: the room ``search``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.evidence.reading import Reading
from reprokit.evidence.strength import Tally
from reprokit.search.flaky_bisection import SURE, Belief
from reprokit.search.queries import Candidate, Query, Search
from reprokit.search.repeating import MOST_TRIALS, KnownTrials, Separation, confirm

OnProgress = Callable[[Sequence[int], Mapping[int, Reading], int], None]
"""Called with the places just decided, all readings so far, and how many places the boundary may still be at.

0 while an end is looked for.
"""


FEW = 3
"""Places side by side that cannot be judged, from which on they are taken for a stretch, whose edges are searched."""
PARTS = 8
"""Of such a stretch that are looked at, in case it is not one; and of a line, in case it has more than one change."""
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
    stopped: bool = False  # the limit on candidates or time was reached before the boundary

    @property
    def found(self) -> bool:
        """Whether there is a boundary: one end passes and the other fails."""
        return {self.readings[self.last], self.readings[self.next]} == {Reading.PASS, Reading.FAIL}

    @property
    def broken_since(self) -> bool:
        """Whether the failure appears at the boundary rather than disappears. Only meaningful where :attr:`found`."""
        return self.readings[self.next] is Reading.FAIL

    @property
    def others(self) -> tuple[int, ...]:
        """The places before ``last`` that read as those behind the boundary: it is the last of several changes."""
        before = (place for place in sorted(self.readings) if place < self.last) if self.found else ()
        return tuple(place for place in before if self.readings[place] is self.readings[self.next])

    @property
    def widest(self) -> int:
        """How many places side by side, none of them at the boundary, were not judged: a change in them is missed."""
        judged = [place for place, seen in sorted(self.readings.items()) if seen is not Reading.UNRESOLVED]
        pairs = ((one, other) for one, other in itertools.pairwise(judged) if not self.last <= one < self.next)
        return max((other - one - 1 for one, other in pairs), default=0)

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
    is_late: Callable[[], bool] = lambda: False,
    progress: OnProgress = lambda *_: None,
    trials: KnownTrials | None = None,
) -> Search[Bisection]:
    """Find the last boundary along at least two candidates in few runs: about log2 of their number, plus the skips.

    Both ends are run first; from one that is unresolved, the search walks in. Unresolved candidates are skipped, as
    ``git bisect skip`` does; of a stretch of them the edges are searched, unless ``every`` one is to be run. Then the
    middle of each eighth of the line that was not looked at is run, as far as repeating may cost, in case there is more
    than one change. Last, the boundary is repeated until a flake is excluded. Where a candidate both passed and failed,
    the next trial is always the one that tells most of where the rate changes. ``ahead``: name the likely next
    candidates. ``limit``: most candidates, 0 for all. ``is_late``: whether no more may be run. ``trials``: those of the
    candidates, by which the boundary is confirmed; None: it is not.
    """
    line = _Line(candidates=candidates, ahead=ahead, every=every, limit=limit, is_late=is_late)
    readings, last = line.readings, len(candidates) - 1
    yield from line.run((0, last), (line.choose(0, last),))
    low, high = yield from line.walk_in(progress)
    if trials is not None and readings[low] is readings[high]:
        yield from line.repeat_ends(low, high, trials)
    while {readings[low], readings[high]} == {Reading.PASS, Reading.FAIL} and not line.is_flaky(trials):
        low, high = yield from line.halve(low, high, progress)
        if line.choose(low, high) is not None:
            return Bisection(last=low, next=high, readings=readings, stopped=True)
        if trials is None:
            return Bisection(last=low, next=high, readings=readings)
        if (place := line.spot(low, high, trials)) is not None:
            yield from line.run((place,))
            low, high = line.find_last_change()
            continue
        separations = line.separate(low, high)
        yield from confirm(separations, trials)
        if not line.is_flaky(trials):
            sure = all(one.shown(trials) for one in separations[:2])
            return Bisection(last=low, next=high, readings=readings, confirmed=sure)
    if trials is not None and line.is_flaky(trials):
        return (yield from line.weigh(trials, progress))
    return Bisection(last=low, next=high, readings=readings)


@dataclass(kw_only=True)
class _Line:
    """A line of candidates that is bisected, with the ``readings`` of those that were run, by place."""

    candidates: Sequence[Candidate]
    ahead: bool
    every: bool
    limit: int
    is_late: Callable[[], bool]
    readings: dict[int, Reading] = field(default_factory=dict)

    def is_full(self) -> bool:
        """Whether the limit on candidates or time is reached."""
        return len(self.readings) == self.limit or self.is_late()

    def is_flaky(self, trials: KnownTrials | None) -> bool:
        """Whether a place both passed and failed."""
        return trials is not None and any(one.failed and one.passed for one in self._tallies(trials).values())

    def _tallies(self, trials: KnownTrials) -> dict[int, Tally]:
        judged = (place for place, seen in self.readings.items() if seen is not Reading.UNRESOLVED)
        return {place: trials.tally(self.candidates[place]) for place in judged}

    def run(self, places: Sequence[int], soon: Sequence[int | None] = ()) -> Search[None]:
        """Run places; ``soon``: which may be next."""
        later = dict.fromkeys(place for place in soon if place is not None and place not in places)
        query = Query(
            candidates=tuple(self.candidates[place] for place in places),
            soon=tuple(self.candidates[place] for place in later) if self.ahead else (),
        )
        self.readings |= zip(places, (yield query), strict=True)

    def repeat(self, places: Sequence[int]) -> Search[None]:
        """One more trial of each place."""
        found = yield Query(candidates=tuple(self.candidates[place] for place in places), again=True)
        self.readings |= zip(places, found, strict=True)

    def walk_in(self, progress: OnProgress) -> Search[tuple[int, int]]:
        """The ends; from one that is unresolved, the nearest place that is not, of those 1, 2, 4 ... places inwards."""
        ends = [0, len(self.candidates) - 1]
        for end, way in enumerate((1, -1)):
            start, step = ends[end], 1
            while self.readings[ends[end]] is Reading.UNRESOLVED and not self.is_full():
                progress((ends[end],), self.readings, 0)
                place = start + way * step
                if not 0 <= place < len(self.candidates) or place in self.readings:
                    return 0, len(self.candidates) - 1
                yield from self.run((place,))
                ends[end], step = place, step * 2
        return ends[0], ends[1]

    def halve(self, low: int, high: int, progress: OnProgress) -> Search[tuple[int, int]]:
        """Narrow the range of a boundary until nothing would, or no more may be run."""
        if self.choose(low, high) is not None:
            progress((low, high), self.readings, high - low)
        while (place := self.choose(low, high)) is not None and not self.is_full():
            yield from self.run((place,), (self.choose(low, place), self.choose(place, high)))
            if self.readings[place] is self.readings[low]:
                low = place
            elif self.readings[place] is self.readings[high]:
                high = place
            if high - low > 1:
                progress((place,), self.readings, high - low)
        return low, high

    def spot(self, low: int, high: int, trials: KnownTrials) -> int | None:
        """Where another change would show most likely: the middle of the widest gap outside of ``low`` to ``high``.

        None where no gap is wider than an eighth of the line, or a trial would cost more than it may.
        """
        ends = [place for place, seen in self.readings.items() if seen is not Reading.UNRESOLVED]
        places = sorted(place for place in self.readings if min(ends) <= place <= max(ends))
        gaps = [range(one + 1, other) for one, other in itertools.pairwise(places) if not low <= one < high]
        widest = max(gaps, key=lambda gap: (len(gap), gap.start), default=range(0))
        dear = trials.seconds(self.candidates[high]) > trials.left()
        return None if len(widest) <= len(self.candidates) / PARTS or self.is_full() or dear else _middle(widest)

    def find_last_change(self) -> tuple[int, int]:
        """The last two places, of those that were judged, side by side, that read differently."""
        judged = [place for place, seen in sorted(self.readings.items()) if seen is not Reading.UNRESOLVED]
        pairs = itertools.pairwise(judged)
        return [(one, other) for one, other in pairs if self.readings[one] is not self.readings[other]][-1]

    def separate(self, low: int, high: int) -> list[Separation]:
        """What the trials have to show of the boundary and, if there is one, of the change before it."""
        failing, passing = (low, high) if self.readings[low] is Reading.FAIL else (high, low)
        sides = [
            [one, *(place for place in self.readings if self.readings[place] is seen and place != one)]
            for one, seen in ((failing, Reading.FAIL), (passing, Reading.PASS))
        ]
        # That the pass was not luck, and that the failure is not one that shows now and then on the passing side, too.
        pairs = [(sides[0], [passing]), ([failing], sides[1])]
        for before in Bisection(last=low, next=high, readings=self.readings).others[-1:]:
            pairs.append(([before], [low]) if failing == high else ([low], [before]))
        named = (tuple(tuple(self.candidates[place] for place in some) for some in pair) for pair in pairs)
        return [Separation(named=some, denied=rest, chances=len(self.candidates)) for some, rest in named]

    def repeat_ends(self, low: int, high: int, trials: KnownTrials) -> Search[None]:
        """Repeat ends that read alike, as a flake may, until they do not, or more would cost more than it may."""
        alike, most = self.readings[low], ENDS if self.readings[low] is Reading.PASS else TWICE
        while (
            alike is not Reading.UNRESOLVED and self.readings[low] is self.readings[high] and not self.is_flaky(trials)
        ):
            again = [end for end in (low, high) if trials.tally(self.candidates[end]).of < most]
            if not again or sum(trials.seconds(self.candidates[end]) for end in again) > trials.left():
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
        if skips <= FEW or self.every:
            off = min(2 ** min(skips // 2, 30) - 1, len(places) // 4) if skips > 1 else 0
            return places[(len(places) - 1) // 2 + (off if skips % 2 else -off)]
        sides = [range(low + 1, unresolved[0]), range(unresolved[-1] + 1, high)]
        if any(sides):
            return _middle(max(sides, key=len))
        gaps = [range(one + 1, other) for one, other in itertools.pairwise(unresolved)]
        longest = max(gaps, key=len)
        return _middle(longest) if len(longest) > (unresolved[-1] - unresolved[0]) // PARTS else None

    def weigh(self, trials: KnownTrials, progress: OnProgress) -> Search[Bisection]:
        """Where the rate changes: always the trial that tells most, until a place is sure or the budget is spent."""
        most_places = self.limit or MANY * math.ceil(math.log2(len(self.candidates)))
        place, shown = None, 0
        while True:
            tallies = self._tallies(trials)
            belief = Belief(tallies=tallies)
            if place is not None and shown != belief.open_places:
                progress((place,), self.readings, shown := belief.open_places)
            side = belief.likeliest
            low, high = belief.places[side.gap : side.gap + 2]
            new = [place for place in range(belief.places[0], belief.places[-1]) if place not in self.readings]
            inside = [place for place in new if low < place < high]
            sure = side.chance >= SURE and not inside
            left = trials.left()
            again = [
                place
                for place, tally in tallies.items()
                if tally.of < MOST_TRIALS and trials.seconds(self.candidates[place]) <= left
            ]
            full = self.is_full() or len(self.readings) >= most_places
            untried = () if full else new if again else inside
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

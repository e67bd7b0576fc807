"""Bisection of an ordered line of candidates: after which one the failure appears or disappears. Pure.

A second implementation. Library: git bisect.
Why not: it knows commits alone, not releases and ordered axes, and takes no answer back when it was a flake.
Owner of ours: the room ``search``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reprokit.evidence.reading import Reading
from reprokit.search.queries import Candidate, Query, Search
from reprokit.search.repeating import KnownTrials, Separation, confirm

OnProgress = Callable[[Sequence[int], Mapping[int, Reading], int], None]
"""Called with the places just decided, all readings so far, and how many places the boundary may still be at."""


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """What was found, by place in the line: ``last`` has the reading of the first end, ``next`` that of the last end.

    Only unresolved places lie between them, unless it ``stopped``. Where the ends have the same reading, or one is
    unresolved, ``last`` and ``next`` are the ends.
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


def bisect(
    candidates: Sequence[Candidate],
    *,
    ahead: bool = True,
    limit: int = 0,
    progress: OnProgress | None = None,
    trials: KnownTrials | None = None,
) -> Search[Bisection]:
    """Find one boundary along at least two candidates in few runs: about log2 of their number, plus the skips.

    Both ends are run first. Unresolved candidates are skipped, as ``git bisect skip`` does. Last, the boundary is
    repeated until a flake is excluded; a place that passed and then fails moves it. ``ahead``: name the likely next
    candidates. ``limit``: most candidates, 0 for all. ``trials``: those of the candidates, by which the boundary is
    confirmed; None: it is not.
    """
    progress = progress or (lambda places, readings, left: None)
    readings: dict[int, Reading] = {}
    low, high = 0, len(candidates) - 1

    def ask(places: Sequence[int], soon: Sequence[int | None]) -> Query:
        later = dict.fromkeys(place for place in soon if place is not None and place not in places)
        return Query(
            candidates=tuple(candidates[place] for place in places),
            soon=tuple(candidates[place] for place in later) if ahead else (),
        )

    answers = yield ask((low, high), (choose(low, high, readings),))
    readings[low], readings[high] = answers
    fails_late = readings[high] is Reading.FAIL
    while {readings[0], readings[len(candidates) - 1]} == {Reading.PASS, Reading.FAIL}:
        if high - low > 1 and len(readings) == 2:
            progress((low, high), readings, high - low)
        while (place := choose(low, high, readings)) is not None:
            if len(readings) == limit:
                return Bisection(last=low, next=high, readings=readings, stopped=True)
            (answer,) = yield ask((place,), (choose(low, place, readings), choose(place, high, readings)))
            readings[place] = answer
            if answer is readings[low]:
                low = place
            elif answer is readings[high]:
                high = place
            if high - low > 1:
                progress((place,), readings, high - low)
        if trials is None:
            return Bisection(last=low, next=high, readings=readings)
        passing, failing = (low, high) if fails_late else (high, low)
        others = [place for place, seen in readings.items() if seen is Reading.FAIL and place != failing]
        named = tuple(candidates[place] for place in (failing, *others))
        separation = Separation(named=named, denied=(candidates[passing],), chances=len(candidates))
        if not (yield from confirm([separation], trials)):
            return Bisection(last=low, next=high, readings=readings, confirmed=separation.shown(trials))
        readings |= {place: Reading.FAIL for place in readings if trials.tally(candidates[place]).failed}
        low, high = _innermost(readings, fails_late=fails_late)
    return Bisection(last=0, next=len(candidates) - 1, readings=readings)


def _innermost(readings: Mapping[int, Reading], *, fails_late: bool) -> tuple[int, int]:
    """The nearest places on both sides of the boundary. A failure is certain, and a pass beyond one was luck."""
    failing = [place for place, seen in readings.items() if seen is Reading.FAIL]
    passing = [place for place, seen in readings.items() if seen is Reading.PASS]
    if fails_late:
        return max((place for place in passing if place < min(failing)), default=0), min(failing)
    return max(failing), min((place for place in passing if place > max(failing)), default=max(readings))


def choose(low: int, high: int, readings: Mapping[int, Reading]) -> int | None:
    """The place between two to run next; None when all of them have been run.

    The middle of the places not run yet. Unresolved places often have neighbours with the same problem (a build that
    failed for a while): after two or more, the choice moves 1, 3, 7 ... places off the middle, by a quarter at most.
    """
    inside = range(low + 1, high)
    places = [place for place in inside if place not in readings]
    if not places:
        return None
    skips = len(inside) - len(places)  # resolved places are no longer between the two
    off = min(2 ** min(skips // 2, 30) - 1, len(places) // 4) if skips > 1 else 0
    return places[(len(places) - 1) // 2 + (off if skips % 2 else -off)]

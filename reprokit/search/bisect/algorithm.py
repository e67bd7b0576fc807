"""Bisection of an ordered line of candidates: after which one the failure comes, or goes. Pure.

Both ends are judged first. What cannot be judged is stepped around, as ``git bisect skip`` does; where such candidates
lie at the boundary, the answer is the range between the nearest ones that could be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from reprokit.evidence.reading import Reading
from reprokit.search.asking import Ask, Candidate, Search

Tell = Callable[[Sequence[int], Mapping[int, Reading], int], None]


@dataclass(frozen=True, kw_only=True)
class Bisection:
    """What was found, by place in the line: ``last`` reads as the first end does and ``next`` as the last end does.

    Between them lie only places that could not be judged (``skipped`` has all of those, elsewhere too). Where the ends
    read alike, or one cannot be judged, ``last`` and ``next`` are those ends. ``readings``: of every place asked.
    """

    last: int
    next: int
    readings: Mapping[int, Reading]

    @property
    def found(self) -> bool:
        """Whether there is a boundary; the ends then read differently, and both could be judged."""
        return {self.readings[self.last], self.readings[self.next]} == {Reading.GOOD, Reading.BAD}

    @property
    def broken_since(self) -> bool:
        """The failure comes there; if not, it goes. Only of use where :attr:`found`."""
        return self.readings[self.next] is Reading.BAD

    @property
    def skipped(self) -> tuple[int, ...]:
        """The places that could not be judged."""
        return tuple(sorted(place for place, reading in self.readings.items() if reading is Reading.UNKNOWN))

    @property
    def unclear(self) -> tuple[int, ...]:
        """Those of them at which the boundary may lie."""
        return tuple(place for place in self.skipped if self.last < place < self.next)


def bisect(candidates: Sequence[Candidate], *, ahead: bool = True, tell: Tell | None = None) -> Search[Bisection]:
    """Find one boundary along at least two candidates with few asks: about log2 of their number, and the skips.

    If there are several boundaries, it is one of them. ``ahead``: name what may be asked for next, in either case.
    ``tell``: is told, after each answer but the last, what was judged and how many places the boundary may still be at.
    """
    tell = tell or (lambda places, readings, left: None)
    readings: dict[int, Reading] = {}
    low, high = 0, len(candidates) - 1

    def ask(places: Sequence[int], soon: Sequence[int | None]) -> Ask:
        later = dict.fromkeys(place for place in soon if place is not None and place not in places)
        return Ask(
            candidates=tuple(candidates[place] for place in places),
            soon=tuple(candidates[place] for place in later) if ahead else (),
        )

    answers = yield ask((low, high), (choose(low, high, readings),))
    readings[low], readings[high] = answers
    if {readings[low], readings[high]} != {Reading.GOOD, Reading.BAD}:
        return Bisection(last=low, next=high, readings=readings)
    if high - low > 1:
        tell((low, high), readings, high - low)
    while (place := choose(low, high, readings)) is not None:
        (answer,) = yield ask((place,), (choose(low, place, readings), choose(place, high, readings)))
        readings[place] = answer
        if answer is readings[low]:
            low = place
        elif answer is readings[high]:
            high = place
        if high - low > 1:
            tell((place,), readings, high - low)
    return Bisection(last=low, next=high, readings=readings)


def choose(low: int, high: int, readings: Mapping[int, Reading]) -> int | None:
    """The place between two that is asked for next; None when all there are judged, or cannot be.

    The middle of what is open. Neighbours often share what broke (a build that failed for a while): where two places
    or more could not be judged, it lies off the middle by 1, 3, 7 ... places, by a quarter of what is open at most.
    """
    inside = range(low + 1, high)
    places = [place for place in inside if place not in readings]
    if not places:
        return None
    skips = len(inside) - len(places)  # what was judged is no longer between the two
    off = min(2 ** min(skips // 2, 30) - 1, len(places) // 4) if skips > 1 else 0
    return places[(len(places) - 1) // 2 + (off if skips % 2 else -off)]

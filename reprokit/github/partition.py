"""Work on images, cut into jobs so that few layers are made twice. Pure.

Every job starts on a bare machine: a layer that two jobs need is made twice. Work is put in the order of the layers
that it is built on, which brings together what shares most, and cut where that costs least.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Work that stays together: on which ``layers``, how many ``seconds`` it runs, how many ``characters`` name it.

    ``order``: sorts pieces that share many layers next to each other. ``work``: what the caller knows it by.
    """

    order: tuple[str, ...]
    layers: frozenset[str]
    seconds: float
    characters: int = 0
    work: Any = None


@dataclass(frozen=True, kw_only=True)
class Layer:
    """What making a layer costs."""

    seconds: float
    size: float


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a job may take: ``seconds`` and bytes of ``disk`` are wishes, and ``characters`` of its entry are a limit.

    ``start``: seconds that a job takes before it does anything, so that none is started for less than it is worth.
    """

    seconds: float
    disk: float
    characters: int
    start: float


def cut(pieces: Sequence[Piece], layers: Mapping[str, Layer], bounds: Bounds, most: int) -> list[list[Piece]]:
    """At most ``most`` jobs, all pieces in them, each once; the wishes give way where there would be more jobs.

    Of all ways to cut the ordered pieces within the bounds, the one that takes the least time in sum. Raises ValueError
    when the limit of an entry does not permit so few jobs.
    """
    ordered = sorted(pieces, key=lambda piece: piece.order)
    wish = bounds
    while True:
        jobs = _cut(ordered, layers, wish)
        if len(jobs) <= most:
            return jobs
        if wish.seconds == inf:
            raise ValueError(f"{len(jobs)} jobs are needed to name the cells")
        factor = 1.25 if wish.seconds < 1000 * bounds.seconds else inf
        wish = Bounds(
            seconds=wish.seconds * factor, disk=wish.disk * factor, characters=wish.characters, start=wish.start
        )


def _cut(ordered: Sequence[Piece], layers: Mapping[str, Layer], bounds: Bounds) -> list[list[Piece]]:
    best: list[tuple[float, int]] = [(0.0, 0)]  # up to each place: the least time in sum, and where the last job starts
    for end in range(1, len(ordered) + 1):
        found = (inf, end - 1)
        made: set[str] = set()
        seconds, size, characters = bounds.start, 0.0, 0
        for start in range(end - 1, -1, -1):
            piece = ordered[start]
            new = piece.layers - made
            made |= new
            seconds += piece.seconds + sum(layers[layer].seconds for layer in sorted(new))
            size += sum(layers[layer].size for layer in sorted(new))
            characters += piece.characters
            # What is too much by itself is a job by itself.
            over = seconds - bounds.start > bounds.seconds or size > bounds.disk or characters > bounds.characters
            if over and start < end - 1:
                break
            found = min(found, (best[start][0] + seconds, start))
        best.append(found)
    jobs: list[list[Piece]] = []
    end = len(ordered)
    while end:
        start = best[end][1]
        jobs.append(list(ordered[start:end]))
        end = start
    return jobs[::-1]

"""Work on images, cut into jobs so that few layers are made twice. Pure.

Every job starts on a bare machine: a layer that two jobs need is made twice. Work is put in the order of the layers
that it is built on, which brings together what shares most, and one job after the other is filled with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Any


@dataclass(frozen=True, kw_only=True)
class WorkUnit:
    """Work that stays together: on which ``layers``, how many ``seconds`` it runs, how many ``characters`` name it.

    ``order``: sorts pieces that share many layers next to each other. ``work``: what the caller knows it by.
    """

    order: tuple[str, ...]
    layers: frozenset[str]
    seconds: float
    characters: int = 0
    work: Any = None


@dataclass(frozen=True, kw_only=True)
class ImageLayer:
    """What making a layer costs."""

    seconds: float
    size: float


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a job may take: ``seconds`` and bytes of ``disk`` are wishes, ``characters`` of its entry are a limit."""

    seconds: float
    disk: float
    characters: int


def cut(
    pieces: Sequence[WorkUnit], layers: Mapping[str, ImageLayer], bounds: Bounds, most: int
) -> list[list[WorkUnit]]:
    """At most ``most`` jobs, all pieces in them, each once; the wishes give way where there would be more jobs.

    The pieces are put in order and jobs are filled one after the other. Raises ValueError when the limit of an entry
    does not permit so few jobs.
    """
    ordered = sorted(pieces, key=lambda piece: piece.order)
    wish = bounds
    while True:
        jobs = _fill(ordered, layers, wish)
        if len(jobs) <= most:
            return jobs
        if wish.seconds == inf:
            raise ValueError(f"{len(jobs)} jobs are needed to name the cells")
        factor = 1.25 if wish.seconds < 1000 * bounds.seconds else inf
        wish = replace(wish, seconds=wish.seconds * factor, disk=wish.disk * factor)


def _fill(ordered: Sequence[WorkUnit], layers: Mapping[str, ImageLayer], bounds: Bounds) -> list[list[WorkUnit]]:
    jobs: list[list[WorkUnit]] = []
    made: set[str] = set()
    seconds = size = characters = 0.0
    for piece in ordered:
        new = piece.layers - made
        seconds += piece.seconds + sum(layers[layer].seconds for layer in sorted(new))
        size += sum(layers[layer].size for layer in sorted(new))
        characters += piece.characters
        if not jobs or seconds > bounds.seconds or size > bounds.disk or characters > bounds.characters:
            jobs.append([])
            made = set()
            seconds = piece.seconds + sum(layers[layer].seconds for layer in sorted(piece.layers))
            size = sum(layers[layer].size for layer in sorted(piece.layers))
            characters = piece.characters
        jobs[-1].append(piece)
        made |= piece.layers
    return jobs

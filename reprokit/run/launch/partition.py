"""Which cells go together: into the jobs of a launcher, and of a matrix of GitHub Actions. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from reprokit.case.matrix import cell_key
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.dockerfile import build_reads_files
from reprokit.run.task import Task


@dataclass(frozen=True, kw_only=True)
class WorkUnit:
    """Work that stays together."""

    order: tuple[str, ...]  # sorts pieces that share many layers next to each other
    layers: frozenset[str]
    seconds: float
    characters: int = 0  # that name it
    work: Any = None  # what the caller knows it by


@dataclass(frozen=True, kw_only=True)
class ImageLayer:
    """What making a layer costs."""

    seconds: float
    size: float


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What a job may take: ``seconds`` and bytes of ``disk`` are wishes, ``characters`` of its entry are a limit."""

    seconds: float
    disk: float = math.inf
    characters: float = math.inf


def cut(
    pieces: Sequence[WorkUnit], layers: Mapping[str, ImageLayer], bounds: Bounds, most: float
) -> list[list[WorkUnit]]:
    """At most ``most`` jobs, all pieces in them, each once; the wishes give way where there would be more jobs.

    The pieces are put in order and jobs are filled one after the other. Raises ValueError when the limit of an entry
    does not permit so few jobs.
    """
    ordered = sorted(pieces, key=lambda piece: piece.order)
    wish = bounds
    while True:
        jobs = _fill(ordered, layers, repeat(wish))
        if len(jobs) <= most:
            return jobs
        if wish.seconds == math.inf:
            raise ValueError(f"{len(jobs)} jobs are needed to name the cells")
        factor = 1.25 if wish.seconds < 1000 * bounds.seconds else math.inf
        wish = replace(wish, seconds=wish.seconds * factor, disk=wish.disk * factor)


def _fill(
    ordered: Sequence[WorkUnit], layers: Mapping[str, ImageLayer], each: Iterator[Bounds]
) -> list[list[WorkUnit]]:
    """Jobs, filled one after the other. ``each``: the bounds of each."""
    jobs: list[list[WorkUnit]] = []
    bounds = next(each)
    made: set[str] = set()
    seconds = size = characters = 0.0
    for piece in ordered:
        new = piece.layers - made
        seconds += piece.seconds + sum(layers[layer].seconds for layer in sorted(new))
        size += sum(layers[layer].size for layer in sorted(new))
        characters += piece.characters
        if not jobs or seconds > bounds.seconds or size > bounds.disk or characters > bounds.characters:
            bounds = next(each) if jobs else bounds
            jobs.append([])
            made = set()
            seconds = piece.seconds + sum(layers[layer].seconds for layer in sorted(piece.layers))
            size = sum(layers[layer].size for layer in sorted(piece.layers))
            characters = piece.characters
        jobs[-1].append(piece)
        made |= piece.layers
    return jobs


SHORTEST, LONGEST = 60.0, 1800.0
"""Seconds that a job is to take, by what is known: below, starting it weighs; above, one that is lost costs much."""
WAVE = 0.75
"""Of the work that is left, what the next jobs take, one for each that runs at a time. The last are short, so that all
end at about the same time, and there are few, for each costs a start."""
IMAGE, TRIAL = 30.0, 5.0
"""Seconds of an image, and of a trial without a recorded time: guesses, by which jobs are cut and nothing is judged."""


def units_of(tasks: Sequence[Task]) -> list[list[Task]]:
    """Tasks that stay together: the variants of a cell, and all of a case that compares its cells with each other."""
    found: dict[tuple[str, str], list[Task]] = {}
    for task in tasks:
        found.setdefault((task.file.digest, "" if task.case.expect.compare else cell_key(task.cell)), []).append(task)
    return list(found.values())


def image_key(task: Task) -> str:
    """Equal for tasks that most probably share an image: a guess."""
    spec = task.spec
    files = sorted(spec.files.items()) if build_reads_files(spec, task.datasets) else ()
    axes = {name: task.cell.get(name) for name in AXIS_NAMES}
    held = task.held and task.held.entry
    inside = (spec.environment, sorted(spec.sources.items()), files, axes, spec.workdir, sorted(task.datasets), held)
    return repr((inside, task.file.trust))


def parts(tasks: Sequence[Task], known: Callable[[Task], float], slots: int) -> list[list[Task]]:
    """The tasks as jobs, the longest first and those with GPUs before others. ``known``: seconds of a cell, infinite
    where they are not; ``slots``: jobs at a time.
    """
    pieces: dict[int, list[WorkUnit]] = {}
    for unit in units_of(tasks):
        keys = [image_key(task) for task in unit]
        gpus = max(task.spec.limits.gpus for task in unit)
        seconds = sum(_seconds(task, known) for task in unit)
        piece = WorkUnit(order=(keys[0],), layers=frozenset(keys), seconds=seconds, work=unit)
        pieces.setdefault(gpus, []).append(piece)
    found = []
    for gpus, some in pieces.items():
        layers = {key: ImageLayer(seconds=IMAGE, size=0.0) for one in some for key in one.layers}
        total = sum(one.seconds for one in some) + IMAGE * max(len(layers) - slots, 0)
        for job in _fill(sorted(some, key=lambda one: one.order), layers, _waves(total, slots)):
            found.append((-gpus, -sum(one.seconds for one in job), [task for one in job for task in one.work]))
    return [tasks for *_, tasks in sorted(found, key=lambda one: one[:2])]


def _waves(total: float, slots: int) -> Iterator[Bounds]:
    """What each job may take: an image, and its share of ``total``, where each of the ``slots`` makes one."""
    while True:
        seconds = min(max(WAVE * total / slots, min(SHORTEST, total / slots + 1)), LONGEST)
        yield from repeat(Bounds(seconds=IMAGE + seconds), slots)
        total = max(total - seconds * slots, SHORTEST)


def _seconds(task: Task, known: Callable[[Task], float]) -> float:
    found = known(task)
    return found if found < math.inf else TRIAL * min(task.trials.max, 5)


def expected_seconds(tasks: Sequence[Task], known: Callable[[Task], float]) -> float:
    """What a job of these tasks may take, by what is known."""
    return sum(_seconds(task, known) for task in tasks) + IMAGE * len({image_key(task) for task in tasks})

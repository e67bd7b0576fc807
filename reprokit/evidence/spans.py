"""Where the time of a run went: spans of what was done for its cells and images, sums, and the critical path. Pure."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

KEY = "timings"
"""The beginning of the keys under which a run's findings hold its timings: one for each time that it was resumed."""
KINDS = {
    "preparing": "opening the engine, resolving cells, fetching sources",
    "waiting": "for a worker, a program's turn, a GPU, or room on the disk",
    "base": "finding or making the image that a build starts from",
    "fetch": "looking for the image in the registry, and fetching it",
    "build": "building an image; its steps and downloads are parts of it",
    "step": "one step of a build; steps of several stages run side by side",
    "download": "a file that a build fetched, and that this host did not have",
    "measuring": "measuring a new image from inside",
    "start": "making and starting a container",
    "program": "the program of a trial",
    "removal": "removing a container",
    "judging": "reading the log of a trial against the signature",
    "recording": "writing the decided cell to the store",
}
PARTS = ("step", "download")
"""Kinds that are parts of another, and count in no sum."""
LONGEST = 1e9
"""Seconds that no run takes."""
NEAR = 0.005
"""Seconds between the end of one span and the start of the next that followed from it."""


MOST = 200_000
"""Spans that are kept of a run: what comes later is counted nowhere."""


class Span(NamedTuple):
    """What was done from ``start`` on, for ``seconds``: both since the run began.

    ``cell``: the number of its cell, 0 where it is about no cell alone; ``image``: a position in
    :attr:`Timings.images`, -1 where it is about none; ``worker``: the thread; ``name``: of a step, a file, or what was
    waited for.
    """

    kind: str
    start: float
    seconds: float
    cell: int = 0
    trial: int = 0
    image: int = -1
    name: str = ""
    worker: str = ""

    @property
    def end(self) -> float:
        """When it was over."""
        return self.start + self.seconds


@dataclass(frozen=True, kw_only=True)
class Timings:
    """The spans of a run. ``began``: RFC 3339; ``images``: of each, the numbers of its cells."""

    began: str
    seconds: float
    images: tuple[tuple[int, ...], ...] = ()
    spans: tuple[Span, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For the store: columns, times in milliseconds, and each name once."""
        names = list(dict.fromkeys(text for one in self.spans for text in (one.kind, one.name, one.worker)))
        at = {name: position for position, name in enumerate(names)}
        return {
            "began": self.began,
            "seconds": round(self.seconds, 3),
            "images": [list(numbers) for numbers in self.images],
            "names": names,
            "spans": [
                [
                    at[one.kind],
                    round(1000 * one.start),
                    round(1000 * one.seconds),
                    one.cell,
                    one.trial,
                    one.image,
                    at[one.name],
                    at[one.worker],
                ]
                for one in self.spans
            ],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Timings:
        """The reverse of ``to_json``. Raises ValueError for what is not its result: a store may be someone else's."""
        try:
            names = [str(name) for name in data["names"]]
            spans = tuple(
                Span(
                    kind=names[kind],
                    start=start / 1000,
                    seconds=seconds / 1000,
                    cell=int(cell),
                    trial=int(trial),
                    image=int(image),
                    name=names[name],
                    worker=names[worker],
                )
                for kind, start, seconds, cell, trial, image, name, worker in data["spans"]
            )
            images = tuple(tuple(int(number) for number in numbers) for numbers in data["images"])
            found = cls(began=str(data["began"]), seconds=float(data["seconds"]), images=images, spans=spans)
        except (KeyError, IndexError, TypeError, OverflowError) as error:
            raise ValueError(f"these are not timings: {error!r}") from error
        times = [found.seconds, *(time for one in spans for time in (one.start, one.seconds))]
        if not all(0 <= time < LONGEST for time in times):  # no infinity, and no NaN either
            raise ValueError("these are not timings: no run took so long")
        if any(one.kind not in KINDS or one.image >= len(images) for one in spans):
            raise ValueError("these are not timings: a span is of no known kind, or of no image")
        return found


def read_timings(findings: Mapping[str, Any]) -> tuple[Timings, ...]:
    """The timings that a run's findings hold: one for each time that it was begun or resumed, the oldest first."""
    found = []
    for key in sorted(findings):
        if key.partition(" ")[0] == KEY:
            try:
                found.append(Timings.from_json(findings[key]))
            except ValueError:  # of a newer reprokit
                continue
    return tuple(found)


def sums(spans: Iterable[Span]) -> dict[str, float]:
    """Seconds by kind, in the order of :data:`KINDS`; a kind that was not done is missing."""
    found: dict[str, float] = {}
    for one in spans:
        found[one.kind] = found.get(one.kind, 0.0) + one.seconds
    return {kind: found[kind] for kind in KINDS if kind in found}


def group_by_image(timings: Timings) -> list[list[Span]]:
    """The spans of each image, in their order."""
    found: list[list[Span]] = [[] for _ in timings.images]
    for one in timings.spans:
        if one.image >= 0:
            found[one.image].append(one)
    return found


def sum_by_cell(timings: Timings) -> dict[int, dict[str, float]]:
    """Seconds by kind of each cell, by its number; those of its image count for each of the cells that share it."""
    of_image = [sums(spans) for spans in group_by_image(timings)]
    own: dict[int, list[Span]] = {}
    for one in timings.spans:
        if one.cell:
            own.setdefault(one.cell, []).append(one)
    image_of = {number: at for at, numbers in enumerate(timings.images) for number in numbers}
    found = {}
    for number in sorted({*own, *image_of}):
        parts = [sums(own.get(number, ())), of_image[image_of[number]] if number in image_of else {}]
        kinds = [kind for kind in KINDS if any(kind in part for part in parts)]
        found[number] = {kind: sum(part.get(kind, 0.0) for part in parts) for kind in kinds}
    return found


def critical_path(timings: Timings) -> tuple[Span, ...]:
    """What would have to get faster for the run to end earlier, in order: from its end back, what each waited for.

    That is what the same cell or image did right before, else whatever ended last before it began, such as the program
    whose place it took. Waiting itself is not on it.
    """
    work = sorted(
        (one for one in timings.spans if one.kind != "waiting" and one.kind not in PARTS), key=lambda one: one.end
    )
    if not work:
        return ()
    ends = [one.end for one in work]
    of_cells = [frozenset(numbers) for numbers in timings.images]
    path = [work[-1]]
    while (before := _before(path[-1], work, ends, of_cells)) is not None:
        path.append(before)
    return tuple(reversed(path))


def _before(span: Span, work: Sequence[Span], ends: Sequence[float], of_cells: Sequence[frozenset[int]]) -> Span | None:
    """The span that ``span`` began after; None for the first. ``work``: in the order of their ``ends``."""
    last: Span | None = None
    for at in range(bisect.bisect_right(ends, span.start + NEAR) - 1, -1, -1):
        one = work[at]
        if (one.start, one.end) >= (span.start, span.end):  # as short as the clock can tell
            continue
        if last is not None and last.end - one.end > NEAR:
            break
        if _is_of(span, one, of_cells):
            return one
        last = last or one
    return last


def _is_of(span: Span, before: Span, of_cells: Sequence[frozenset[int]]) -> bool:
    """Whether two spans are of the same cell or image."""
    if span.cell and before.cell:
        return span.cell == before.cell
    image = max(span.image, before.image)
    if image < 0:
        return False
    return span.image == before.image or (span.cell or before.cell) in of_cells[image]

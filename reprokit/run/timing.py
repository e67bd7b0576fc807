"""Takes the times of a run, from any thread: see :mod:`reprokit.evidence.spans`."""

from __future__ import annotations

import itertools
import math
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path

from reprokit.case.matrix import cell_key
from reprokit.engine.protocol import Progress
from reprokit.environment.steps import SHORT_STEP, short_step
from reprokit.evidence.spans import MOST, Span, Timings
from reprokit.run.task import Task
from reprokit.store.sqlite_file import last_seconds

FEW = 3
"""Cells up to which their order is not looked up."""


class Timer:
    """Collects spans. Safe to share between threads, and as quick as a clock."""

    def __init__(self) -> None:
        self._zero = time.monotonic()
        self._began = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._spans: list[Span] = []
        self._images: list[tuple[int, ...]] = []
        self._queued: dict[int, float] = {}
        self._lock = threading.Lock()

    def image(self, numbers: Sequence[int]) -> int:
        """The position of a new image, which these cells share."""
        with self._lock:
            self._images.append(tuple(numbers))
            return len(self._images) - 1

    def add(
        self, kind: str, began: float, seconds: float, *, cell: int = 0, trial: int = 0, image: int = -1, name: str = ""
    ) -> None:
        """Keep a span that began at ``began``, by the monotonic clock."""
        if len(self._spans) < MOST:
            worker = threading.current_thread().name
            self._spans.append(Span(kind, began - self._zero, max(seconds, 0.0), cell, trial, image, name, worker))

    @contextmanager
    def span(self, kind: str, *, cell: int = 0, trial: int = 0, image: int = -1, name: str = "") -> Iterator[None]:
        """Keep how long the block takes, however it ends."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.add(kind, began, time.monotonic() - began, cell=cell, trial=trial, image=image, name=name)

    def queued(self, cell: int) -> None:
        """A cell waits for a worker from now on."""
        self._queued[cell] = time.monotonic()

    def taken(self, cell: int) -> None:
        """A worker has taken the cell: until now, it waited."""
        if (since := self._queued.pop(cell, None)) is not None:
            self.add("waiting", since, time.monotonic() - since, cell=cell, name="for a worker")

    def merge(self, other: Timings, worker: str) -> None:
        """Keep the spans of a run of another process, which ends now; ``worker``: who ran it."""
        shift = time.monotonic() - self._zero - other.seconds
        images = [self.image(numbers) for numbers in other.images]
        for one in other.spans[: max(0, MOST - len(self._spans))]:
            image = images[one.image] if one.image >= 0 else -1
            self._spans.append(one._replace(start=max(0.0, one.start + shift), image=image, worker=worker))

    def timings(self) -> Timings:
        """All that was kept so far."""
        return Timings(
            began=self._began,
            seconds=time.monotonic() - self._zero,
            images=tuple(self._images),
            spans=tuple(sorted(self._spans, key=lambda one: one.start)),
        )


class ImageTimer:
    """Takes the times of one image: of its parts, of the steps of its build, and of the files that those fetched.

    An engine that runs one step after the other says when each begins; one that runs several at a time says when each
    ends, and then that alone counts.
    """

    def __init__(self, timer: Timer, image: int = -1) -> None:
        self._timer, self._image = timer, image
        self._begun: list[tuple[str, float]] = []
        self._ends_said = False

    def add(self, kind: str, began: float, name: str = "", until: float | None = None) -> None:
        """Keep what began at ``began``, by the monotonic clock, and ended ``until`` (None: now)."""
        until = time.monotonic() if until is None else until
        self._timer.add(kind, began, until - began, image=self._image, name=name)

    @contextmanager
    def span(self, kind: str) -> Iterator[None]:
        """Keep how long the block takes, however it ends, and the steps that were begun in it."""
        try:
            with self._timer.span(kind, image=self._image):
                yield
        finally:
            for (name, began), (_, end) in itertools.pairwise([*self._begun, ("", time.monotonic())]):
                if name and not self._ends_said:
                    self.add("step", began, name, end)
            self._begun.clear()

    def see(self, progress: Progress) -> None:
        """Take one piece of progress."""
        name = _name(progress)
        if progress.took is not None:
            self._ends_said = self._ends_said or not progress.download
            began = time.monotonic() - progress.took if progress.began is None else progress.began
            self.add("download" if progress.download else "step", began, name, began + progress.took)
        elif progress.cached:
            self._begun[-1:] = [("", time.monotonic())]
        elif not progress.log and [name] != [begun for begun, _ in self._begun[-1:]]:
            self._begun.append((name, time.monotonic()))


def _name(progress: Progress) -> str:
    if progress.download:  # one word, such as a wheel
        return progress.name if len(progress.name) <= SHORT_STEP else f"{progress.name[: SHORT_STEP - 3]}..."
    where = f"{progress.number}/{progress.total} " if progress.total else ""
    return where + short_step(progress.name)


class KnownSeconds:
    """How long cells took in the newest run of their case in a store; without end for those that did not run in it."""

    def __init__(self, known: Mapping[tuple[str, str, str], float]) -> None:
        self._known = known

    @classmethod
    def of(cls, folder: Path, tasks: Iterable[Task]) -> KnownSeconds:
        """What the store in ``folder`` knows of the cells of a run; nothing of a run of few."""
        tasks = list(tasks)
        return cls(last_seconds(folder, {task.file.key for task in tasks}) if len(tasks) > FEW else {})

    def __call__(self, task: Task) -> float:
        """Seconds of a cell."""
        return self._known.get((task.file.key, cell_key(task.cell), task.variant), math.inf)

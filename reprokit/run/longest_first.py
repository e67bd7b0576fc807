"""What is known to take longest starts first, so that no long cell runs alone at the end of a run."""

from __future__ import annotations

import heapq
import itertools
import math
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType

from reprokit.case.matrix import cell_key
from reprokit.run.stopping import Workers
from reprokit.run.task import Task
from reprokit.store.sqlite_file import last_seconds

FEW = 3
"""Cells up to which their order is not looked up."""


class KnownSeconds:
    """How long cells took in the newest run of their case in a store; without end for those that did not run in it."""

    def __init__(self, known: Mapping[tuple[str, str, str], float]) -> None:
        self._known = known

    @classmethod
    def of(cls, folder: Path, tasks: Iterable[Task]) -> KnownSeconds:
        """What the store in ``folder`` knows of the cells of a run; nothing of a run of few."""
        tasks = list(tasks)
        return cls(last_seconds(folder, {task.case.id for task in tasks}) if len(tasks) > FEW else {})

    def __call__(self, task: Task) -> float:
        """Seconds of a cell."""
        return self._known.get((task.case.id, cell_key(task.cell), task.variant), math.inf)


class TrialWorkers(Workers):
    """Threads that take the longest first of what waits for them, and else what came first."""

    def __init__(self, count: int, name: str, seconds: Callable[[Task], float]) -> None:
        super().__init__(count, name)
        self._seconds = seconds
        self._order = itertools.count()
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, int, Callable[[], None], Future[None]]] = []

    def start(self, task: Task, run: Callable[[], None]) -> Future[None]:
        """Call ``run`` when it is the task's turn. The future is done then, and can be cancelled before."""
        done: Future[None] = Future()
        with self._lock:
            heapq.heappush(self._waiting, (-self._seconds(task), next(self._order), run, done))
        self.submit(self._next)
        return done

    def _next(self) -> None:
        with self._lock:
            _, _, run, done = heapq.heappop(self._waiting)
        if not done.set_running_or_notify_cancel():
            return
        try:
            run()
        except BaseException as error:  # for whoever waits for it
            done.set_exception(error)
        else:
            done.set_result(None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            with self._lock:
                waiting = list(self._waiting)
            for *_, done in waiting:
                done.cancel()
        super().__exit__(kind, error, trace)

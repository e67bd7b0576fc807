"""The threads of a run: workers, whose turn it is, and how they stop. Knows nothing of cells."""

from __future__ import annotations

import heapq
import itertools
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType
from typing import Any

from reprokit.core import interrupts
from reprokit.core.interrupts import GaveUp
from reprokit.run.images import ImageSpec
from reprokit.run.task import Task


class Workers(ThreadPoolExecutor):
    """Threads for whose work the end of the block waits, unless it was given up."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shutdown(wait=not isinstance(error, GaveUp), cancel_futures=error is not None)


def stop(futures: Callable[[], Iterable[Future[None]]], note: Callable[[str], None]) -> None:
    """Wait until everything that was started and cancelled has ended, as long as any of it ends.

    ``futures``: all that there are; those that run may add more. Another interrupt lessens the patience. Raises GaveUp
    where nothing ended for so long: an engine that does not answer, say. ``note`` gets what is then left behind.
    """
    patience, pressed = interrupts.WAIT_FOR, False
    note("interrupted: stopping what runs")
    while True:
        try:
            pending = {future for future in futures() if not future.cancel() and not future.done()}
            if not pending:
                return
            if not wait(pending, timeout=patience, return_when=FIRST_COMPLETED).done:
                break
        except KeyboardInterrupt:
            if not pressed:
                note("still removing containers; press Ctrl-C again to leave at once")
            patience, pressed = interrupts.WAIT_HURRIED, True
    note("what runs did not stop in time: it is not waited for")
    for name, how in interrupts.left().items():
        note(f"left behind: {name}; {how}")
    raise GaveUp


class PrioritySemaphore:
    """A semaphore of ``count`` slots, one for each program that may run at a time; urgent callers go first.

    The caller that is about to take a GPU is the urgent one: no GPU is held while another program is waited for.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._urgent = 0
        self._changed = threading.Condition()

    def acquire(self, *, urgent: bool = False, timeout: float | None = None) -> bool:
        """Wait at most ``timeout`` seconds for a slot and take it; returns whether there was one."""
        with self._changed:
            self._urgent += urgent
            taken = self._changed.wait_for(lambda: self._free > 0 and (urgent or not self._urgent), timeout)
            self._urgent -= urgent
            self._free -= taken
            self._changed.notify_all()
            return taken

    def release(self) -> None:
        """Give a slot back to the waiter that is next."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()


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


class Builds:
    """Prepares images in threads: those that have to be built wait behind all that are there, whose trials can begin.

    ``at_once``: whether an image needs no build.
    """

    def __init__(self, workers: Workers, prepare: Callable[..., None], at_once: Callable[[ImageSpec], bool]) -> None:
        self._workers = workers
        self._prepare = prepare
        self._at_once = at_once
        self.started: list[Future[None]] = []
        self._lock = threading.Lock()
        self._later: list[tuple[Any, ...]] | None = []  # to be built, while others may follow that are there

    def start(self, image: ImageSpec, *more: Any) -> None:
        """Call ``prepare`` with these arguments when it is the image's turn."""
        self.started.append(self._workers.submit(self._look, image, *more))

    def wait(self) -> None:
        """Wait until all are prepared; none is started any more."""
        with self._lock:
            later, self._later = self._later or [], None
        for arguments in later:
            self._build(*arguments)
        for one in self.started:  # to which those that run may add
            wait([one])

    def _look(self, image: ImageSpec, *more: Any) -> None:
        if self._at_once(image):
            self._prepare(image, *more)
            return
        with self._lock:
            if self._later is not None:
                self._later.append((image, *more))
                return
        self._build(image, *more)

    def _build(self, *arguments: Any) -> None:
        self.started.append(self._workers.submit(self._prepare, *arguments))

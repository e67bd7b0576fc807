"""The threads of a run: workers, whose turn it is, and how they stop. Knows nothing of cells or images.

No other module of this room starts a thread. Threads suffice, since all that they do is wait for the engine.
"""

from __future__ import annotations

import heapq
import itertools
import resource
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

from reprokit.core import interrupts
from reprokit.core.errors import UsageError
from reprokit.core.interrupts import GaveUp

Work = Callable[[], None]


def check_open_files(jobs: int) -> None:
    """Allow this process the files and connections of so many programs at a time. Raises UsageError where it may not.

    Each has two threads with up to six of them, and a build three.
    """
    needed = 40 + 16 * jobs
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UsageError(
            f"this process may open {hard} files, and {jobs} programs at a time need {needed}: raise the limit by "
            "`ulimit -n 1024`, or choose fewer with --jobs"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class Workers(ThreadPoolExecutor):
    """Threads for whose work the end of the block waits, unless it was given up."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.shutdown(wait=not isinstance(error, GaveUp), cancel_futures=error is not None)


class PriorityWorkers(Workers):
    """Threads that take what waits for them by its priority, and else in the order in which it came."""

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, name)
        self._order = itertools.count()
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, int, Work, Future[None]]] = []

    def start(self, work: Work, priority: float) -> Future[None]:
        """Call ``work`` when it is its turn, what has the highest ``priority`` first. Can be cancelled before."""
        done: Future[None] = Future()
        with self._lock:
            heapq.heappush(self._waiting, (-priority, next(self._order), work, done))
        self.submit(self._next)
        return done

    def _next(self) -> None:
        with self._lock:
            _, _, work, done = heapq.heappop(self._waiting)
        if not done.set_running_or_notify_cancel():
            return
        try:
            work()
        except BaseException as error:  # for whoever waits for it
            done.set_exception(error)
        else:
            done.set_result(None)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            with self._lock:
                waiting = list(self._waiting)
            for *_, done in waiting:
                done.cancel()
        super().__exit__(kind, error, trace)


class Builds:
    """Prepares things in threads: those that take long wait behind all that are there, whose work can begin."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.started: list[Future[None]] = []
        self._lock = threading.Lock()
        self._later: list[Work] | None = []  # what takes long, while others may follow that are there

    def start(self, prepare: Work, is_there: Callable[[], bool]) -> None:
        """Call ``prepare`` in a thread: at once if ``is_there``, which is called there, too, and else later."""

        def look() -> None:
            if is_there():
                prepare()
                return
            with self._lock:
                if self._later is not None:
                    self._later.append(prepare)
                    return
            self.started.append(self._workers.submit(prepare))

        self.started.append(self._workers.submit(look))

    def wait(self) -> None:
        """Wait until all are prepared; none is started any more."""
        with self._lock:
            later, self._later = self._later or [], None
            for prepare in later:  # before those that are looked for from now on
                self.started.append(self._workers.submit(prepare))
        for one in self.started:  # to which those that run may add
            wait([one])


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


def start_beside(work: Work, name: str) -> threading.Thread:
    """Start a thread that the end of the process does not wait for."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def call_after(futures: Sequence[Future[None]], call: Work) -> None:
    """Call when all are done, at once where there is none."""
    done = itertools.count(1)

    def count(_: Future[None]) -> None:
        if next(done) == len(futures):
            call()

    for future in futures:
        future.add_done_callback(count)
    if not futures:
        call()


def start_one_by_one(starts: Mapping[int, Callable[[], Future[None]]]) -> None:
    """Start each once the one before has ended, by number."""
    for number in sorted(starts):
        wait([starts[number]()])


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

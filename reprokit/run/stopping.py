"""The end of a run that is interrupted: its threads stop in time, or are given up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from types import TracebackType

from reprokit.core import interrupts
from reprokit.core.interrupts import GaveUp


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

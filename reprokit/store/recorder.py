"""Writes a run's record from a thread of its own, so that no container waits for the database.

What is decided is written in the order in which it was decided, each cell at once and whole.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from reprokit.errors import ReprokitError

if TYPE_CHECKING:
    from reprokit.store.database import Store


class RecordError(ReprokitError):
    """The database does not take what it is given: a full disk, say."""

    exit_status = 3


Write = Callable[["Store"], None]


class Recorder:
    """Takes writes from any thread; ``close`` waits for the last and raises what went wrong with any of them."""

    def __init__(self, open_store: Callable[[], Store]) -> None:
        self._open = open_store
        self._writes: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="recorder")
        self._started = False
        self._error: BaseException | None = None

    def start(self) -> None:
        """Begin to write; until then writes are kept in memory."""
        if not self._started:
            self._started = True
            self._thread.start()

    def put(self, write: Write) -> None:
        """Queue a write."""
        self._writes.put(write)

    def close(self) -> None:
        """Write everything that is queued and stop. Raises the first error of any write."""
        self.start()
        self._writes.put(None)
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _work(self) -> None:
        try:
            store = self._open()
            while (write := self._writes.get()) is not None:
                write(store)
            store.close()
        except Exception as error:
            known = isinstance(error, ReprokitError)
            self._error = error if known else RecordError(f"the run cannot be recorded: {error}")

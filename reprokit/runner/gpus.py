"""Which trial holds which GPU of this host."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from reprokit.errors import Cancelled


class GpuPool:
    """Lends whole GPUs to trials of this process; a trial waits until as many as it needs are free."""

    def __init__(self, devices: Sequence[str]) -> None:
        self._free = list(devices)
        self._changed = threading.Condition()

    @contextmanager
    def lease(self, count: int, cancel: threading.Event) -> Iterator[tuple[str, ...]]:
        """``count`` device ids for as long as the block runs. Raises Cancelled when ``cancel`` is set meanwhile."""
        if not count:
            yield ()
            return
        with self._changed:
            while len(self._free) < count:
                if cancel.is_set():
                    raise Cancelled("stopped while it waited for a GPU")
                self._changed.wait(0.2)
            held, self._free = tuple(self._free[:count]), self._free[count:]
        try:
            yield held
        finally:
            with self._changed:
                self._free.extend(held)
                self._changed.notify_all()

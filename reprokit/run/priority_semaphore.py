"""How many programs may run at a time."""

from __future__ import annotations

import threading


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

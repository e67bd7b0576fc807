"""How many programs may run at a time."""

from __future__ import annotations

import threading


class Places:
    """One place for each program that may run at a time; who is about to take a GPU goes before the others."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._free = count
        self._urgent = 0
        self._changed = threading.Condition()

    def take(self, *, urgent: bool = False, timeout: float | None = None) -> bool:
        """Wait for a place, at most ``timeout`` seconds, and take it; whether there was one."""
        with self._changed:
            self._urgent += urgent
            taken = self._changed.wait_for(lambda: self._free > 0 and (urgent or not self._urgent), timeout)
            self._urgent -= urgent
            self._free -= taken
            self._changed.notify_all()
            return taken

    def give_back(self) -> None:
        """Leave a place to the next."""
        with self._changed:
            self._free += 1
            self._changed.notify_all()

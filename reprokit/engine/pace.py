"""The time limit of a trial whose output may come faster than it is read. Pure: moments are given, in seconds.

A program that writes to a full pipe waits for its reader. That wait is the reader's, not the program's, and must not
count against the time limit: a slow disk, a costly pattern or a busy host would make ``timed-out`` out of nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from reprokit.core.errors import EngineError

FULL = 16 * 1024
"""Bytes in one reading that say that the writer may have had to wait: a record of TLS holds no more."""
AWAY = 0.2
"""Seconds without reading after which no one knows what the program could have done meanwhile."""
TAIL = 512 * 1024
"""Bytes that are kept of the end of output that is not passed on."""


class Pace:
    """Says when a program has had its ``limit``, and passes its output on to ``sink`` meanwhile.

    Time in which the program may have waited for the reader does not count, for up to as much again as the limit.
    After that the output is read and not passed on, so that the program waits for no one: only its end is kept.
    """

    def __init__(self, limit: float, started: float, sink: Callable[[bytes], None]) -> None:
        """``limit``: infinite where there is none. ``started``: see :meth:`start`."""
        self._limit = limit
        self._sink = sink
        self._draining = False
        self._tail: deque[bytes] = deque()
        self._tail_size = 0
        self._skipped = self._skipped_lines = 0
        self.start(started)

    def start(self, now: float) -> None:
        """The program starts now, or did so before."""
        self._up = now + self._limit
        self._drain_at = self._up + self._limit
        self._last_look = now

    def looked(self, size: int, now: float, *, late: bool) -> None:
        """So many bytes were read, maybe none. ``late``: they, or the end, were there before the reader came."""
        away, self._last_look = now - self._last_look, now
        if self._draining:
            return
        if size >= FULL or (late and away >= AWAY):
            self._up += away
        self._draining = self._drain_at <= now < self._up

    def left(self, now: float) -> float:
        """Seconds that the program still has."""
        return self._up - now

    def pass_on(self, data: bytes) -> None:
        """Take the next output."""
        if not self._draining:
            self._sink(data)
            return
        self._tail.append(data)
        self._tail_size += len(data)
        while self._tail_size - len(self._tail[0]) >= TAIL:
            gone = self._tail.popleft()
            self._tail_size -= len(gone)
            self._skipped += len(gone)
            self._skipped_lines += gone.count(b"\n")

    def close(self) -> None:
        """Pass on the end of what was not passed on, below a line that says how much is missing."""
        if self._skipped:
            self._sink(f"\n[reprokit: {self._skipped} bytes ({self._skipped_lines} lines) cut]\n".encode())
        for piece in self._tail:
            self._sink(piece)

    def check(self, *, timed_out: bool) -> None:
        """Raise EngineError if the program ended by itself and a part of its output was not looked at."""
        if self._skipped and not timed_out:
            raise EngineError(
                f"{self._skipped} bytes of the output were not read: at twice its time limit the program had waited "
                f"for its reader most of the time; raise resources.timeout, or let it print less"
            )

"""Limits around what hostile input must not stop: wall time by an alarm, and the growth of memory."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def within(*, seconds: float, megabytes: int | None = None) -> Iterator[None]:
    """Raise TimeoutError after so many seconds, and fail where the process grew by more than ``megabytes``.

    It is no measurement: the seconds are many times what linear code takes, and never enough for other code.
    """

    def late(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) // 1024
    assert megabytes is None or grown <= megabytes, f"{grown} MB more"

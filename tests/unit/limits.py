"""Limits around what hostile input must not stop: processor time and the growth of memory."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import hypothesis


@contextmanager
def within(*, seconds: float, megabytes: int | None = None, wall: float | None = None) -> Iterator[None]:
    """Raise TimeoutError after so many seconds of processor time, and fail where memory grew by ``megabytes``.

    This is not a measurement: the seconds are many times what linear code takes, and never enough for other code. The
    clock on the wall counts only for what waits (``wall``, 20 times the seconds): a busy machine fails no test.
    """

    def late(*_: object) -> None:
        raise TimeoutError(f"not done after {seconds} s")

    timers = {signal.SIGALRM: signal.ITIMER_REAL, signal.SIGPROF: signal.ITIMER_PROF}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    before = {number: signal.signal(number, late) for number in timers}
    try:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        signal.setitimer(signal.ITIMER_REAL, 20 * seconds if wall is None else wall)
        yield
    finally:
        for number, timer in timers.items():
            signal.setitimer(timer, 0)
            signal.signal(number, before[number])
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) // 1024
    assert megabytes is None or grown <= megabytes, f"{grown} MB more"


def examples(count: int) -> int:
    """So many examples of a property, and in ``make unit`` the share of them that its profile takes of 100."""
    return max(10, count * hypothesis.settings().max_examples // 100)

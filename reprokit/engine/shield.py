"""Work that an interrupt must not cut in half, unless it does not end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from reprokit.core import interrupts

T = TypeVar("T")


def shielded(work: Callable[[], T]) -> T:
    """Do ``work`` to its end even if the user presses Ctrl-C meanwhile; the interrupt is raised afterwards.

    After the interrupt it may take :data:`reprokit.core.interrupts.CALL_WITHIN` seconds, less after another.

    Python raises KeyboardInterrupt in the main thread only, so elsewhere nothing needs to be done.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome: list[T] = []
    trouble: list[BaseException] = []

    def act() -> None:
        if not begun.acquire(blocking=False):
            return
        try:
            outcome.append(work())
        except BaseException as error:
            trouble.append(error)
        finally:
            done.set()

    # Not Thread.join: interrupted, it takes a running thread for a finished one (CPython before 3.13).
    done = threading.Event()
    begun = threading.Lock()
    interrupt: KeyboardInterrupt | None = None
    patience: float | None = None
    while True:
        try:
            if not begun.locked():  # an interrupt may come while a thread starts: the first one that runs does the work
                threading.Thread(target=act, name="shielded", daemon=True).start()
            done.wait(patience)
            break
        except KeyboardInterrupt as pressed:
            patience = interrupts.WAIT_HURRIED if interrupt else interrupts.CALL_WITHIN
            interrupt = pressed
    if interrupt is not None:
        raise interrupt
    if trouble:
        raise trouble[0]
    return outcome[0]

"""Work that an interrupt must not cut in half."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def shielded(work: Callable[[], T]) -> T:
    """Do ``work`` to its end even if the user presses Ctrl-C meanwhile; the interrupt is raised afterwards.

    Python raises KeyboardInterrupt in the main thread only, so elsewhere nothing needs to be done.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    outcome: list[T] = []
    trouble: list[BaseException] = []

    def act() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            trouble.append(error)

    worker = threading.Thread(target=act, name="shielded")
    interrupt: KeyboardInterrupt | None = None
    worker.start()
    while worker.is_alive():
        try:
            worker.join()
        except KeyboardInterrupt as pressed:
            interrupt = pressed
    if interrupt is not None:
        raise interrupt
    if trouble:
        raise trouble[0]
    return outcome[0]

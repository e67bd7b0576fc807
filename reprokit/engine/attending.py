"""A container with the user's terminal before it, in place of a log."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress

from reprokit.core.errors import Cancelled, EngineError
from reprokit.core.tty import Terminal, relay
from reprokit.engine.wire import Hijacked, Wire


def attend(
    wire: Wire,
    name: str,
    attached: Hijacked,
    terminal: Terminal,
    cancel: threading.Event,
    check: Callable[[], None],
) -> None:
    """Connect the terminal with the container's until its program ends. ``check``: called meanwhile, may raise.

    Raises Cancelled, and what ``check`` raises.
    """

    def resize(size: os.terminal_size) -> None:
        with suppress(EngineError), wire.errors():  # it has ended meanwhile
            wire.client().resize(name, size.lines, size.columns)

    def tick() -> None:
        if cancel.is_set():
            raise Cancelled("cancelled while the terminal was attached")
        check()

    relay(terminal, attached.socket, resize, tick)

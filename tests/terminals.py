"""A user at a terminal, for tests: a pseudo-terminal whose other end types and reads. Nothing here waits by the clock
but for an end that never comes.
"""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from reprokit.core.tty import Terminal

PATIENCE = 240.0
"""Seconds after which a test fails that waits for something to be shown."""


class User:
    """Types into ``master`` and reads from it."""

    def __init__(self, master: int) -> None:
        self.master = master
        self.seen = b""

    def types(self, text: bytes) -> None:
        """Press these keys."""
        os.write(self.master, text)

    def sees(self, text: bytes) -> bytes:
        """Wait for a text, and take all up to it as seen; returns what came before it."""
        while text not in self.seen:
            ready, _, _ = select.select([self.master], [], [], PATIENCE)
            assert ready, f"{text!r} was not shown; what was: {self.seen!r}"
            data = b""
            with suppress(OSError):  # the last process that had it open has ended
                data = os.read(self.master, 65536)
            assert data, f"{text!r} was not shown before the end; what was: {self.seen!r}"
            self.seen += data
        before, _, self.seen = self.seen.partition(text)
        return before


class TerminalUser(User):
    """With the ``terminal`` that a program of ours is given, and ``changed``, to which a change of size is written."""

    def __init__(self, master: int, slave: int, resized: int, changed: int) -> None:
        super().__init__(master)
        self.terminal = Terminal(reads=slave, writes=slave, resized=resized)
        self.changed = changed

    def modes(self) -> list[Any]:
        """The modes of the terminal."""
        return termios.tcgetattr(self.terminal.reads)


@contextmanager
def users_terminal() -> Iterator[TerminalUser]:
    """A terminal in this process."""
    master, slave = os.openpty()
    resized, changed = os.pipe()
    try:
        yield TerminalUser(master, slave, resized, changed)
    finally:
        for descriptor in (master, slave, resized, changed):
            with suppress(OSError):
                os.close(descriptor)

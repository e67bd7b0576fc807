"""A user at a terminal, for tests: a pseudo-terminal whose other end types and reads. Nothing here waits by the clock
but for an end that never comes.
"""

from __future__ import annotations

import errno
import fcntl
import os
import select
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
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


class Master:
    """The master of a pseudo-terminal as a :class:`reprokit.core.tty.Peer`."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Its descriptor."""
        return self._descriptor

    def recv(self, size: int, /) -> bytes:
        """What the program wrote; nothing once no process has the terminal open."""
        try:
            return os.read(self._descriptor, size)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return b""

    def send(self, data: bytes, /) -> int:
        """Type something."""
        return os.write(self._descriptor, data)

    def resize(self, size: os.terminal_size) -> None:
        """Tell the program's side its size."""
        fcntl.ioctl(self._descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", size.lines, size.columns, 0, 0))


class ProgramUser(User):
    """Has started reprokit at a terminal of its own, with these arguments."""

    def __init__(self, *arguments: str, folder: Path, environ: Mapping[str, str] | None = None) -> None:
        master, slave = os.openpty()
        super().__init__(master)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "reprokit", *arguments], cwd=folder, stdin=slave, stdout=slave, stderr=slave,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), "TERM": "dumb", **(environ or {})},
            start_new_session=True,
        )  # fmt: skip
        os.close(slave)

    def answers(self, question: str, answer: str) -> str:
        """Wait for a question, and answer it; returns what was shown before it."""
        before = self.sees(question.encode()).decode()
        self.types(f"{answer}\n".encode())
        return before

    def ends(self) -> tuple[int, str]:
        """Wait for the end of the program; its exit status, and what it showed before."""
        with suppress(OSError):
            while data := os.read(self.master, 65536):
                self.seen += data
        os.close(self.master)
        return self.process.wait(60), self.seen.decode()


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

"""Writes to a terminal, pipe or file without ever waiting for it: a reader that pauses must not pause a run."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from typing import TextIO

from reprokit.core.terminal import visible

BACKLOG = 4 * 1024 * 1024
"""Characters that may wait for the reader before output of programs and builds is left out."""
PATIENCE = 2.0
"""Seconds for which an interrupted command still waits for its reader."""


class Output:
    """A text stream that is written by a thread of its own, so that nothing but :meth:`drain` waits for its reader.

    A closed pipe, a full disk or an encoding that lacks a character stops no run: nothing here raises. A stream that is
    not a file of the system, as in tests, is written at once. Also a file for Rich, whose writes are offers.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._descriptor = _descriptor(stream)
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._size = 0
        self._missed = 0
        self._until: float | None = None
        self._writer: threading.Thread | None = None

    def line(self, text: str) -> None:
        """Show a line, however many wait."""
        with self._changed:
            self._put(f"{visible(text)}\n")

    def offer(self, text: str, lines: int) -> None:
        """Show so many whole ``lines``, or leave them out and say so later while more than ``BACKLOG`` waits."""
        self._offer(visible(text), lines)

    def write(self, text: str) -> int:
        """Show a picture of Rich's, from :func:`.console.console`; one that is left out is followed by the next."""
        self._offer(text, 0)
        return len(text)

    def _offer(self, text: str, lines: int) -> None:
        with self._changed:
            if self._size > BACKLOG:
                self._missed += lines
            else:
                self._put(text)

    def flush(self) -> None:
        """Nothing: the thread writes at once."""

    def isatty(self) -> bool:
        """Whether a terminal reads this."""
        return self._stream.isatty()

    def fileno(self) -> int:
        """The stream's, from which Rich reads the size of the terminal."""
        return self._stream.fileno()

    @property
    def encoding(self) -> str:
        """The stream's, by which Rich chooses its characters."""
        return self._stream.encoding

    def hurry(self) -> None:
        """From now on wait for the reader for ``PATIENCE`` in all: the user wants this to end."""
        self._until = self._until or time.monotonic() + PATIENCE

    def drain(self) -> None:
        """Wait until all is written; an interrupt ends the waiting."""
        with self._changed:
            self._put("")
            while self._size and (self._until is None or time.monotonic() < self._until):
                self._changed.wait(0.1)  # in slices: a change of ``_until``, or of the clock, is seen

    def _put(self, text: str) -> None:
        if self._missed:
            missed, self._missed = self._missed, 0
            lines = "1 line" if missed == 1 else f"{missed:,} lines"
            text = (
                f"... {lines} not shown: the terminal or pipe was slower than the program; "
                f"the logs of trials have them\n{text}"
            )
        if self._descriptor is None:
            self._emit(text)
        elif text:
            self._waiting.append(text)
            self._size += len(text)
            if self._writer is None:
                # A daemon: a reader that has stopped for ever must not keep the process.
                self._writer = threading.Thread(target=self._run, name="display", daemon=True)
                self._writer.start()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                text = self._waiting.popleft()
            self._emit(text)
            with self._changed:
                self._size -= len(text)
                self._changed.notify_all()

    def _emit(self, text: str) -> None:
        encoding = self._stream.encoding or "utf-8"
        data = memoryview(text.encode(encoding, "backslashreplace"))
        with contextlib.suppress(OSError, ValueError):  # closed, or a full disk; the run is recorded all the same
            if self._descriptor is None:
                self._stream.write(str(data, encoding))
                self._stream.flush()
            # Not by the stream: one that cannot write holds the lock of its buffer, for which the exit would wait.
            while self._descriptor is not None and data:
                data = data[os.write(self._descriptor, data) :]


def _descriptor(stream: TextIO) -> int | None:
    """The descriptor below a stream, whose own buffer is empty then; None where there is none."""
    with contextlib.suppress(OSError, ValueError):
        stream.flush()
    with contextlib.suppress(OSError, ValueError):
        return stream.fileno()
    return None

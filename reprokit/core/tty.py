"""The user's terminal: its size, its raw mode, and the relay between it and the terminal that a program has.

A second implementation. Library: pexpect, ptyprocess.
Why not: they start the program themselves, and ours runs behind a socket of an engine.
Owner of ours: the room ``core``.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from reprokit.core.errors import Cancelled, UsageError

_TICK = 0.2  # how often a silent terminal looks whether it is to end
_PIECE = 4096  # bytes that a descriptor which is ready takes without waiting


@dataclass(frozen=True, kw_only=True)
class Terminal:
    """Where the user types and reads, as descriptors. ``resized``: has something to read when the size has changed."""

    reads: int
    writes: int
    resized: int

    def size(self) -> os.terminal_size:
        """Columns and lines; 80 and 24 where the terminal does not say."""
        with suppress(OSError):
            return os.get_terminal_size(self.writes)
        return os.terminal_size((80, 24))

    @contextmanager
    def raw(self) -> Iterator[None]:
        """Pass every key on, Ctrl-C too, while the block runs."""
        before = termios.tcgetattr(self.reads)
        tty.setraw(self.reads, termios.TCSADRAIN)  # what was typed before is for the program
        try:
            yield
        finally:
            with suppress(termios.error):  # it was hung up
                termios.tcsetattr(self.reads, termios.TCSADRAIN, before)


class Peer(Protocol):
    """The other end: a connection to a program's terminal, as a socket is."""

    def fileno(self) -> int:
        """Its descriptor."""

    def recv(self, size: int, /) -> bytes:
        """What the program wrote; nothing at its end."""

    def send(self, data: bytes, /) -> int:
        """Type something; returns how many bytes were taken."""


@contextmanager
def at_hand() -> Iterator[Terminal]:
    """The terminal of this process, from its main thread. Raises UsageError where it has none."""
    for stream, name in ((sys.stdin, "input"), (sys.stdout, "output")):
        if stream is None or not stream.isatty():
            raise UsageError(
                f"standard {name} is not a terminal, which a shell needs; for one command there is: "
                "reprokit exec CASE CELL -- COMMAND"
            )
    resized, changed = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def note(*_: object) -> None:
        with suppress(BlockingIOError):  # it is noted already
            os.write(changed, b"0")

    before = signal.signal(signal.SIGWINCH, note)
    try:
        yield Terminal(reads=sys.stdin.fileno(), writes=sys.stdout.fileno(), resized=resized)
    finally:
        signal.signal(signal.SIGWINCH, before)
        os.close(resized)
        os.close(changed)


def relay(terminal: Terminal, peer: Peer, resize: Callable[[os.terminal_size], None], tick: Callable[[], None]) -> None:
    """Pass keys to the program and its output to the user, in raw mode, until the program's end.

    ``resize``: gets the size now and whenever it changes. ``tick``: called a few times a second; ends it by raising.
    Neither side can hold up the other: what one does not take waits, and no more is read meanwhile. Raises Cancelled
    where the terminal went away.
    """
    typed = shown = b""
    over = False
    with terminal.raw():
        resize(terminal.size())
        while shown or not over:
            tick()
            waiting = bool(not shown and not over and getattr(peer, "pending", int)())
            readers: list[int | Peer] = [
                terminal.resized,
                *([] if typed else [terminal.reads]),
                *([] if shown or over else [peer]),
            ]
            writers: list[int | Peer] = [*([terminal.writes] if shown else []), *([peer] if typed and not over else [])]
            ready, able, _ = select.select(readers, writers, [], 0 if waiting else _TICK)
            if terminal.resized in ready:
                os.read(terminal.resized, _PIECE)
                resize(terminal.size())
            if terminal.reads in ready:
                typed = _typed(terminal.reads)
            if peer in able:
                typed = typed[peer.send(typed[:_PIECE]) :]
            if terminal.writes in able:
                shown = shown[os.write(terminal.writes, shown[:_PIECE]) :]
            if waiting or peer in ready:
                shown = peer.recv(_PIECE)
                over = not shown


def _typed(descriptor: int) -> bytes:
    typed = b""
    with suppress(OSError):
        typed = os.read(descriptor, _PIECE)
    if not typed:
        raise Cancelled("the terminal went away")
    return typed

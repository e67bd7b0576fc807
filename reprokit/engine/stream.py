"""What a trial prints, in time: frames taken apart, two streams merged without breaking lines, and its limit. Pure.

docker-py reads the same frames (``docker.utils.socket``), one whole frame at a time and from a blocking socket; a frame
may be larger than memory, and the time limit needs to know when the reader was late. Who owns `engine` owns this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from reprokit.core.errors import EngineError

_HEADER = 8


class Demux:
    """Docker's attach format: frames of ``stream, 0, 0, 0, length (big-endian uint32)`` and payload.

    Payload is passed on as it arrives, whole frame or not: a frame may be larger than what one would like to hold.
    """

    def __init__(self) -> None:
        self._header = b""
        self._stream = 0
        self._left = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield (stream, payload) for what ``data`` completes; stream is 1 (stdout) or 2 (stderr)."""
        at, end = 0, len(data)
        while at < end:
            if not self._left:
                taken = data[at : at + _HEADER - len(self._header)]
                self._header += taken
                at += len(taken)
                if len(self._header) < _HEADER:
                    return
                self._stream = self._header[0]
                self._left = int.from_bytes(self._header[4:], "big")
                self._header = b""
                continue
            stop = min(at + self._left, end)
            yield self._stream, data[at:stop]
            self._left -= stop - at
            at = stop


class Turns:
    """Lets each of two streams finish what it is saying before the other goes on.

    The engine reads a container's stdout and stderr side by side, so that a traceback on stderr arrives in the middle
    of what a dying program still had in its buffer for stdout. One stream has the turn; the other is held until the
    first has been ``quiet`` (seconds), or until more than ``limit`` bytes are held, or for ``patience`` seconds once
    the held stream itself has paused. Nothing is added or left out, and each stream keeps its order.
    """

    def __init__(self, quiet: float = 0.25, patience: float = 1.0, limit: int = 256 * 1024) -> None:
        self._quiet, self._patience, self._limit = quiet, patience, limit
        self._turn: int | None = None
        self._heard: dict[int, float] = {}
        self._held: list[tuple[int, bytes]] = []
        self._size = 0
        self._since = 0.0

    def feed(self, stream: int, data: bytes, now: float) -> list[tuple[int, bytes]]:
        """Take a piece of one stream; returns the pieces that may go out now."""
        if self._turn is None:
            self._turn = stream
        self._heard[stream] = now
        if stream == self._turn:
            return [(stream, data), *self.due(now)]
        if not self._held:
            self._since = now
        self._held.append((stream, data))
        self._size += len(data)
        return self.due(now)

    def due(self, now: float) -> list[tuple[int, bytes]]:
        """What may go out because time has passed."""
        left = self.wait(now)
        return self.flush() if left is not None and left <= 0 else []

    def wait(self, now: float) -> float | None:
        """Seconds until something held may go out; None when nothing is held."""
        if not self._held:
            return None
        if self._size > self._limit:
            return 0.0
        assert self._turn is not None
        speaker_pauses = self._heard[self._turn] + self._quiet
        patience_ends = max(self._since + self._patience, self._heard[self._held[0][0]] + self._quiet)
        return min(speaker_pauses, patience_ends) - now

    def flush(self) -> list[tuple[int, bytes]]:
        """Everything held; the turn goes with it."""
        held, self._held, self._size = self._held, [], 0
        if held:
            self._turn = held[0][0]
        return held


class LineMerger:
    """Merges stdout and stderr so that a line of one is never split by the other.

    An unfinished line waits for its end, for ``limit`` bytes, or for :meth:`flush` (the caller's patience). When an
    unfinished line had to go out and the other stream speaks next, a line break is put between: a traceback then still
    begins at the start of a line. Nothing else is added, and nothing is left out.
    """

    def __init__(self, limit: int = 64 * 1024) -> None:
        self._limit = limit
        self._carry: dict[int, bytes] = {}
        self._open: int | None = None

    @property
    def pending(self) -> bool:
        """Whether an unfinished line waits."""
        return bool(self._carry)

    def feed(self, stream: int, data: bytes) -> bytes:
        """Take a piece of one stream; returns what may go out now."""
        cut = data.rfind(b"\n") + 1
        held = self._carry.pop(stream, b"")
        if not cut:
            held += data
            if len(held) > self._limit:
                return self._give(stream, held)
            self._carry[stream] = held
            return b""
        if cut < len(data):
            self._carry[stream] = data[cut:]
            data = data[:cut]
        return self._give(stream, held + data if held else data)

    def flush(self) -> bytes:
        """Everything that waits, the stream that waited longest first."""
        out = b"".join(self._give(stream, held) for stream, held in self._carry.items())
        self._carry.clear()
        return out

    def _give(self, stream: int, piece: bytes) -> bytes:
        broken = self._open is not None and self._open != stream
        self._open = None if piece.endswith(b"\n") else stream
        return b"\n" + piece if broken else piece


class Joined:
    """Two streams as one text, given to ``sink``: :class:`Turns`, then :class:`LineMerger`, with our patience.

    ``patience``: seconds after which an unfinished line goes out.
    """

    def __init__(self, sink: Callable[[bytes], None], patience: float = 0.2) -> None:
        self._sink = sink
        self._patience = patience
        self._turns = Turns()
        self._merger = LineMerger()
        self._waiting_since: float | None = None

    def feed(self, pieces: Iterable[tuple[int, bytes]], now: float) -> None:
        """Take what was read at ``now``, maybe nothing; gives out what may go."""
        if self._waiting_since is not None and now - self._waiting_since >= self._patience:
            self._sink(self._merger.flush())
            self._waiting_since = None
        given = [one for stream, data in pieces for one in self._turns.feed(stream, data, now)]
        whole = self._merged([*given, *self._turns.due(now)])
        if whole:
            self._sink(whole)
        if not self._merger.pending:
            self._waiting_since = None
        elif whole or self._waiting_since is None:
            self._waiting_since = now

    def wait(self, now: float) -> float | None:
        """Seconds until something that is held may go out; None when nothing is held."""
        return self._turns.wait(now)

    def close(self) -> None:
        """Give out the rest."""
        if rest := self._merged(self._turns.flush()) + self._merger.flush():
            self._sink(rest)

    def _merged(self, pieces: Iterable[tuple[int, bytes]]) -> bytes:
        return b"".join(self._merger.feed(stream, piece) for stream, piece in pieces)


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

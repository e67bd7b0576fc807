"""A trial's output on its way to the log file: kept whole while it is small, else its head, what rules find in the
rest, and its tail. Memory and disk stay bounded: decisions are made per block with plain text searches, never per
line.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from io import RawIOBase
from typing import TYPE_CHECKING

from reprokit.core.patterns import PatternError, is_regex
from reprokit.evidence import crashes
from reprokit.evidence.parsers import parsers
from reprokit.evidence.text import clean, clean_bytes, find

if TYPE_CHECKING:
    from reprokit.case.model import Failure


OVERLAP = 8 * 1024
"""Bytes of the previous block that are seen again: a match may span lines, but not more than this."""
LONG_LINES = 2 * OVERLAP
"""Bytes of the lines of a match of which only what is around the match is kept."""
MATCHES = 16
"""Matches after which the search stops: one is enough to judge."""


class Watch:
    """Looks for a pattern in consecutive blocks of bytes; remembers how often it was found."""

    def __init__(self, pattern: str | None) -> None:
        self._pattern = _usable(pattern)
        plain = "" if self._pattern is None or is_regex(self._pattern) else self._pattern.strip("\n")
        self._literal = plain.encode(errors="surrogatepass")
        self._before = b""
        self._dull = b""
        self._found = 0

    def look(self, block: bytes) -> list[tuple[int, int]]:
        """Return the lines of ``block`` (start and end in bytes) that take part in a match.

        A start below 0 lies that many bytes before the block.
        """
        if self._pattern is None or self._found >= MATCHES:
            return []
        joined, lead = self._before + block, len(self._before)
        self._before = joined[joined.find(b"\n", max(0, len(joined) - OVERLAP)) + 1 :][-OVERLAP:]
        if joined == self._dull or not self._possible(joined):
            return []
        spans = []
        for start, end in self._matches(joined):
            if end > lead:
                spans.append((start - lead, end - lead))
                self._found += 1
        self._dull = b"" if spans else joined
        return spans

    def _possible(self, data: bytes) -> bool:
        """Whether ``data`` holds the plain text that is looked for: asking for that costs next to nothing."""
        return not self._literal or self._literal in clean_bytes(data)

    def _matches(self, data: bytes) -> list[tuple[int, int]]:
        assert self._pattern is not None
        text = clean(data.decode("utf-8", "replace"))
        found: list[tuple[int, int]] = []
        at = 0
        while len(found) < MATCHES and (span := find(self._pattern, text[at:])):
            start, end = at + span[0], at + span[1]
            lines = _lines(data, text.count("\n", 0, start), text.count("\n", 0, end))
            if lines[1] - lines[0] > LONG_LINES:  # about where it is: control sequences may precede it
                offset = len(text[:start].encode())
                lines = max(lines[0], offset - OVERLAP), min(lines[1], offset + 4 * (end - start) + OVERLAP)
            found.append(lines)
            line_end = text.find("\n", max(end, start + 1))
            if line_end < 0:
                break
            at = line_end + 1
        return found


def _lines(data: bytes, first: int, last: int) -> tuple[int, int]:
    """Start and end in bytes of the lines ``first`` to ``last``, counted from 0."""
    start = 0
    for _ in range(first):
        start = data.find(b"\n", start) + 1
    end = start
    for _ in range(last - first + 1):
        end = data.find(b"\n", end) + 1
        if end == 0:
            return start, len(data)
    return start, end


def _usable(pattern: str | None) -> str | None:
    if pattern is None:
        return None
    try:
        find(pattern, "")
    except PatternError:
        return None
    return pattern


MIB = 1024 * 1024
BLOCK = 256 * 1024
"""Bytes that are decided on at once."""
PIECE = 64 * 1024
"""Excerpts are stored in pieces of at most about this size, so that a budget can drop the oldest."""
LINES_BEFORE, LINES_AFTER = 3, 45
"""Lines kept around a find: before it is who printed it, after it the message and the chain's next link."""
BYTES_AFTER = 32 * 1024
_LINE_SLACK = 64 * 1024
_NEAR = 256
_EXCEPTIONS = tuple(parser.exceptions for parser in parsers() if parser.exceptions)
_TRACEBACK = re.compile("|".join(form.kept for form in _EXCEPTIONS).encode(), re.MULTILINE)
_TRACEBACK_TEXTS = tuple(needle.encode() for form in _EXCEPTIONS for needle in form.kept_needles)
_AT_START = tuple(text[1:] for text in _TRACEBACK_TEXTS if text.startswith(b"\n"))
_COARSE = tuple((text.encode(), text) for text in crashes.coarse_texts())
_INDENTED = re.compile(rb"(?:[ \t][^\n]*\n)*")


@dataclass(frozen=True, kw_only=True)
class Trimmed:
    """What became of the output: bytes that came, and bytes and lines of them that are not in the file."""

    seen: int
    cut: int
    cut_lines: int


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """An excerpt: where it stood in the stream (bytes and line ends before it), and whether it must be kept."""

    start: int
    line: int
    data: bytes
    pinned: bool


class LogTrimmer:
    """Write a trial's output to ``file``, bounded by ``head`` + ``kept`` + ``tail`` bytes and a little.

    ``file``: new, open for writing and reading without a buffer; it is closed at the end. ``failure`` says which
    ``output`` lines the signature asks for; they survive any cut. ``echo`` receives every chunk as it comes. One writer
    at a time; use as a context manager, or call ``close``. Raises OSError when the file cannot be written.
    """

    def __init__(
        self,
        file: RawIOBase,
        failure: Failure,
        *,
        head: int = 8 * MIB,
        kept: int = 8 * MIB,
        tail: int = MIB,
        echo: Callable[[bytes], None] | None = None,
    ) -> None:
        self._file = file
        self._echo = echo
        self._head = head
        self._in_head = True
        self._seen = 0
        self._ends_line = True
        self._ring = bytearray()
        self._ring_size = tail + BLOCK
        self._scan = _Scanner(failure.output)
        self._store = _Store(self._file.write, kept)
        self._result: Trimmed | None = None

    def __enter__(self) -> LogTrimmer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def feed(self, chunk: bytes) -> None:
        """Take the next piece of output; how the stream is divided into pieces makes no difference to the file."""
        if self._echo is not None:
            self._echo(chunk)
        rest = memoryview(chunk)
        if self._in_head and chunk:
            rest = rest[self._feed_head(chunk) :]
        while rest:
            taken = min(len(rest), self._ring_size - len(self._ring))
            self._ring += rest[:taken]
            rest = rest[taken:]
            if len(self._ring) == self._ring_size:
                self._decide(self._ring.rfind(b"\n", 0, BLOCK) + 1 or BLOCK)
        self._seen += len(chunk)

    def _feed_head(self, chunk: bytes) -> int:
        """Write what belongs to the head, which ends with a line; returns the number of bytes taken."""
        taken = min(len(chunk), max(0, self._head - self._seen))
        if self._seen + taken >= self._head:
            whole = chunk[taken - 1 : taken] == b"\n" if taken else self._ends_line
            if not whole:
                limit = min(len(chunk), taken + self._head + _LINE_SLACK - self._seen - taken)
                end = chunk.find(b"\n", taken, limit)
                taken = end + 1 if end >= 0 else limit
                whole = end >= 0
            self._in_head = not (whole or self._seen + taken >= self._head + _LINE_SLACK)
        self._file.write(chunk[:taken])
        self._ends_line = chunk[taken - 1 : taken] == b"\n" if taken else self._ends_line
        if not self._in_head:
            self._end_head(self._seen + taken)
        return taken

    def _end_head(self, size: int) -> None:
        """Read the head once more: what it left open goes on in the rest, what it answered need not be looked for."""
        self._file.seek(0)
        lines = 0
        block = b""
        while block := self._file.read(BLOCK):
            lines += block.count(b"\n")
            for _ in self._scan.excerpts(block):
                pass
        self._store.begin(size, lines, ends_line=self._ends_line)
        self._scan.begin(size, lines)

    def _decide(self, size: int) -> None:
        """Take the oldest ``size`` bytes that the tail does not need any more and keep what matters of them."""
        block = bytes(memoryview(self._ring)[:size])
        del self._ring[:size]
        for piece in self._scan.excerpts(block):
            self._store.add(piece)

    def close(self) -> Trimmed:
        """Write the tail, close the file and say how much was cut. Calling it again returns the same."""
        if self._result is not None:
            return self._result
        if not self._in_head:
            if not self._scan.at_line_start and (end := self._ring.find(b"\n") + 1):
                self._decide(end)
            tail = _Piece(start=self._scan.offset, line=self._scan.lines, data=bytes(self._ring), pinned=True)
            for piece in self._scan.excerpts(tail.data):  # what begins in the tail may need the lines above it
                if piece.start < tail.start:
                    self._store.add(replace(piece, data=piece.data[: tail.start - piece.start]))
            self._store.finish(tail)
        self._file.close()
        self._ring.clear()
        self._result = Trimmed(seen=self._seen, cut=self._store.cut, cut_lines=self._store.cut_lines)
        return self._result


class _Scanner:
    """Finds in consecutive blocks what must not be lost. ``offset`` and ``lines`` say where the next block starts."""

    def __init__(self, output: str | None) -> None:
        self._watch = Watch(output)
        self._open = (0, 0)
        self._before = b""
        self._kept_until = 0
        self._dull = b""
        self.offset = 0
        self.lines = 0
        self.at_line_start = True

    def begin(self, offset: int, lines: int) -> None:
        """What came so far was kept whole: it is context, and nothing of it is to be kept again."""
        self.offset, self.lines, self._kept_until = offset, lines, offset

    def excerpts(self, block: bytes) -> Iterator[_Piece]:
        """Yield what to keep of ``block``, in order."""
        pinned = [(start, end, True) for start, end in self._watch.look(block)]
        found = pinned or self._open[0] or block != self._dull
        ranges = self._merged([*pinned, *((*each, False) for each in self._ranges(block))]) if found else []
        if not ranges:
            self._dull = block
        joined, lead = self._before + block, len(self._before)
        counted, line = 0, self.lines - self._before.count(b"\n")
        for start, end, keep in ranges:
            begin = max(start + lead, self._kept_until - self.offset + lead, 0)
            line += joined.count(b"\n", counted, begin)
            counted = begin
            for at, stop in _pieces(joined, begin, end + lead):
                line += joined.count(b"\n", counted, at)
                counted = at
                yield _Piece(start=self.offset + at - lead, line=line, data=joined[at:stop], pinned=keep)
            self._kept_until = max(self._kept_until, self.offset + end)
        self.lines += block.count(b"\n")
        self.offset += len(block)
        self.at_line_start = block.endswith(b"\n")
        self._before = joined[-8 * 1024 :]

    def _ranges(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Start and end of each stretch to keep, in order of their starts within each kind."""
        (lines, size), self._open = self._open, (0, 0)
        if lines:
            yield 0, self._extend(block, 0, lines, size)
        if any(text in block for text in _TRACEBACK_TEXTS) or block.startswith(_AT_START):
            yield from self._around(block, ((hit.start(), hit.end()) for hit in _TRACEBACK.finditer(block)))
        for coarse, name in _COARSE:
            if coarse in block:
                yield from self._around(block, iter(sorted(crashes.spans(block, name))))

    def _around(self, block: bytes, hits: Iterator[tuple[int, int]]) -> Iterator[tuple[int, int]]:
        first = last = -1
        for start, end in hits:
            if first < 0:
                first = start
            elif start - last > _NEAR:
                stop = self._extend(block, last, LINES_AFTER, BYTES_AFTER)
                if start > stop:
                    yield self._line_before(block, first), stop
                    first = start
            last = max(last, end)
        if first >= 0:
            yield self._line_before(block, first), self._extend(block, last, LINES_AFTER, BYTES_AFTER)

    def _line_before(self, block: bytes, at: int) -> int:
        """Start of the line ``LINES_BEFORE`` lines above ``at``, which may lie in the block before (below 0)."""
        start = block.rfind(b"\n", 0, at)
        for _ in range(LINES_BEFORE):
            if start < 0:
                break
            start = block.rfind(b"\n", max(0, at - 4096), start)
        if start >= 0 or at > 4096:
            return max(start + 1, at - 4096)
        start = len(self._before) - 1
        for _ in range(LINES_BEFORE + 1):
            start = self._before.rfind(b"\n", 0, max(start, 0))
        return start + 1 - len(self._before)

    def _extend(self, block: bytes, at: int, lines: int, size: int) -> int:
        """End of the stretch that goes ``lines`` lines or ``size`` bytes on, then over indented lines.

        What the block's end interrupts goes on in the next.
        """
        end = at
        limit = at + size
        for done in range(lines):
            following = block.find(b"\n", end, limit) + 1
            if not following:
                if limit >= len(block):
                    self._open = max(self._open, (lines - done, size - (len(block) - at)))
                return min(limit, len(block))
            end = following
        indented = _INDENTED.match(block, end, end + size)
        return indented.end() if indented else end

    @staticmethod
    def _merged(ranges: list[tuple[int, int, bool]]) -> list[tuple[int, int, bool]]:
        merged: list[tuple[int, int, bool]] = []
        for start, end, pinned in sorted(ranges):
            if merged and start <= merged[-1][1]:
                before = merged[-1]
                merged[-1] = (before[0], max(before[1], end), before[2] or pinned)
            elif end > start:
                merged.append((start, end, pinned))
        return merged


def _pieces(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Divide a stretch at line ends into parts of at most about ``PIECE`` bytes."""
    while start < end:
        stop = end if end - start <= PIECE else data.rfind(b"\n", start, start + PIECE) + 1 or start + PIECE
        yield start, stop
        start = stop


class _Store:
    """Excerpts under a budget: the first half is written as it comes, of the rest the newest are held until the end."""

    def __init__(self, write: Callable[[bytes], int | None], budget: int) -> None:
        self._write = write
        self._early = budget // 2
        self._late = budget - budget // 2
        self._held: deque[_Piece] = deque()
        self._held_size = 0
        self._offset = 0
        self._line = 0
        self._ends_line = True
        self.cut = 0
        self.cut_lines = 0

    def begin(self, offset: int, lines: int, *, ends_line: bool) -> None:
        """The file holds the first ``offset`` bytes, which have ``lines`` line ends, and whether one is the last."""
        self._offset, self._line, self._ends_line = offset, lines, ends_line

    def add(self, piece: _Piece) -> None:
        """Take an excerpt that stood later in the stream than those before."""
        if self._early and len(piece.data) <= self._early:
            self._early -= len(piece.data)
            self._put(piece)
            return
        self._early = 0
        self._held.append(piece)
        self._held_size += len(piece.data)
        while self._held_size > self._late:
            oldest = self._held.popleft()
            self._held_size -= len(oldest.data)
            if oldest.pinned:
                self._put(oldest)

    def finish(self, tail: _Piece) -> None:
        """Write what is held, then the end of the stream."""
        for piece in (*self._held, tail):
            self._put(piece)
        self._held.clear()

    def _put(self, piece: _Piece) -> None:
        missing, lines = piece.start - self._offset, piece.line - self._line
        if missing:
            # The end of a line that the file holds the start of is a part of that line, not a line that is missing.
            lead, gone = (b"", lines) if self._ends_line else (b"\n", lines - 1)
            what = f"({gone} lines)" if gone >= 0 else "of a line"
            self._write(lead + f"[reprokit: {missing} bytes {what} cut]\n".encode())
            self.cut += missing
            self.cut_lines += lines
        self._write(piece.data)
        self._ends_line = piece.data.endswith(b"\n") if piece.data else self._ends_line
        self._offset = piece.start + len(piece.data)
        self._line = piece.line + piece.data.count(b"\n")

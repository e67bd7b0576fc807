"""The signature's ``output`` pattern, asked of a stream while it passes, so that a cut log still answers it."""

from __future__ import annotations

from reprokit.core.patterns import PatternError, is_regex
from reprokit.evidence.text import clean, clean_bytes, find

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

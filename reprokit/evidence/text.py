"""Log text made fit for reading by rules, and the contract's two kinds of pattern: plain text and ``/regex/``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_CONTROL = re.compile(
    "\x1b(?:"  # a plain first character lets the search skip what cannot begin one
    r"\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles and links
    r"|[@-Z\\^_=>])"
)
_CONTROL_BYTES = re.compile(_CONTROL.pattern.encode())
CUT_MARK = re.compile(r"^\[reprokit: \d+ bytes (?:\((\d+) lines\)|of a line) cut\]$", re.MULTILINE)
"""The line of a log file where output is missing: so many whole lines, or a part of the line around it."""
LONG_LINE = 16 * 1024
"""Characters after which a line is broken before a regular expression sees it: ``.*`` takes quadratic time."""


class LineNumbers:
    """The lines of a log file (from 1) by their numbers in the whole output, of which the file may lack parts."""

    def __init__(self, text: str) -> None:
        """``text``: the file's."""
        self.cuts: list[tuple[int, int]] = []
        """Lines that say that something was cut, each with what is to be added to the numbers of the lines below it."""
        if "[reprokit: " in text:
            cleaned = clean(text)
            at, line, added = 0, 1, 0
            for mark in CUT_MARK.finditer(cleaned):
                line += cleaned.count("\n", at, mark.start())
                at = mark.start()
                added += int(mark[1]) - 1 if mark[1] else -2
                self.cuts.append((line, added))

    def whole(self, line: int) -> int:
        """The number in the whole output of a line of the file."""
        return line + next((added for cut, added in reversed(self.cuts) if cut < line), 0)


def clean(text: str) -> str:
    """Return ``text`` without terminal control sequences, NUL bytes and carriage returns before line ends.

    No line end is added or removed, so line numbers stay true.
    """
    if "\r\n" in text:
        # Line by line: a regular expression takes quadratic time over carriage returns that no line end follows.
        *lines, rest = text.split("\n")
        text = "\n".join([*(line.rstrip("\r") for line in lines), rest])
    if "\x1b" in text:
        text = _CONTROL.sub("", text)
    return text.replace("\x00", "")  # a dying DataLoader worker prints NUL bytes in the middle of its last words


def clean_bytes(data: bytes) -> bytes:
    """:func:`clean` for text that is not decoded yet."""
    if b"\r\n" in data:
        *lines, rest = data.split(b"\n")
        data = b"\n".join([*(line.rstrip(b"\r") for line in lines), rest])
    if b"\x1b" in data:
        data = _CONTROL_BYTES.sub(b"", data)
    return data.replace(b"\0", b"")


_ANY_START = re.compile(r"\^?\.\*\??(?![*+?{|])(?=.)", re.DOTALL)


@lru_cache(maxsize=64)
def _compiled(pattern: str) -> re.Pattern[str]:
    # A leading ".*" changes nothing about whether a search succeeds, but makes it quadratic in a line's length.
    plain = _ANY_START.match(pattern)
    return re.compile(pattern[plain.end() :] if plain else pattern, re.MULTILINE)


def is_regex(pattern: str) -> bool:
    """Whether ``pattern`` is written ``/like this/``, the contract's form of a regular expression."""
    return len(pattern) > 2 and pattern.startswith("/") and pattern.endswith("/")


def find(pattern: str, text: str) -> tuple[int, int] | None:
    """Return start and end of the first place where ``pattern`` matches in cleaned ``text``, or None.

    Plain text is a substring. ``/.../`` is searched with ``re.MULTILINE`` and nothing else: ``^`` and ``$`` match at
    line borders, ``.`` stops at a line's end (write ``(?s)`` or ``\\s`` to cross it). Raises ``re.error`` for a broken
    regular expression, which a case file is checked for when it is loaded.
    """
    if is_regex(pattern):
        hit = _compiled(pattern[1:-1]).search(text)
        return hit.span() if hit else None
    wanted = pattern.strip("\n")
    start = text.find(wanted)
    return (start, start + len(wanted)) if start >= 0 else None


def bounded(text: str) -> str:
    """Return ``text`` with lines of more than ``LONG_LINE`` characters broken, so that any regex stays affordable."""
    if len(text) <= LONG_LINE or not any(len(line) > LONG_LINE for line in _lines(text)):
        return text
    broken = (line[i : i + LONG_LINE] for line in _lines(text) for i in range(0, max(len(line), 1), LONG_LINE))
    return "\n".join(broken)


def line_at(text: str, at: int) -> int:
    """Return the number, from 1, of the line of ``text`` that holds place ``at`` of ``bounded(text)``."""
    passed = 0
    for number, line in enumerate(_lines(text), 1):
        passed += len(line) + max(1, -(-len(line) // LONG_LINE))  # each piece ends with a line end
        if at < passed:
            return number
    return text.count("\n") + 1


def _lines(text: str) -> Iterator[str]:
    start = 0
    while (end := text.find("\n", start)) >= 0:
        yield text[start:end]
        start = end + 1
    yield text[start:]

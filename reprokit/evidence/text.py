"""Log text made fit for reading by rules, and the contract's two kinds of pattern: plain text and ``/regex/``."""

from __future__ import annotations

import re
import unicodedata

from reprokit.core.patterns import compiled, is_regex

_CONTROL = re.compile(
    "\x1b(?:"  # a plain first character lets the search skip what cannot begin one
    r"\[[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\][^\x07\x1b\n]*(?:\x07|\x1b\\)"  # titles and links
    r"|[@-Z\\^_=>])"
)
_CONTROL_BYTES = re.compile(_CONTROL.pattern.encode())
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
CUT_MARK = re.compile(r"^\[reprokit: \d+ bytes (?:\(([0-9]{1,9}) lines\)|of a line) cut\]$", re.MULTILINE)
"""The line of a log file where output is missing: so many whole lines, or a part of the line around it."""


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


def clean(text: str, *, colours: bool = False) -> str:
    """Return ``text`` without terminal control sequences, NUL bytes and carriage returns before line ends.

    No line end is added or removed, so line numbers stay true. ``colours``: sequences that choose a colour stay.
    """
    if "\r\n" in text:
        # Line by line: a regular expression takes quadratic time over carriage returns that no line end follows.
        *lines, rest = text.split("\n")
        text = "\n".join([*(line.rstrip("\r") for line in lines), rest])
    if "\x1b" in text:
        text = _CONTROL.sub(_colour if colours else "", text)
    return text.replace("\x00", "")  # a dying DataLoader worker prints NUL bytes in the middle of its last words


def _colour(sequence: re.Match[str]) -> str:
    return sequence[0] if _COLOUR.fullmatch(sequence[0]) else ""


def clean_bytes(data: bytes) -> bytes:
    """:func:`clean` for text that is not decoded yet."""
    if b"\r\n" in data:
        *lines, rest = data.split(b"\n")
        data = b"\n".join([*(line.rstrip(b"\r") for line in lines), rest])
    if b"\x1b" in data:
        data = _CONTROL_BYTES.sub(b"", data)
    return data.replace(b"\0", b"")


def find(pattern: str, text: str) -> tuple[int, int] | None:
    """Return start and end of the first place where ``pattern`` matches in cleaned ``text``, or None.

    Plain text is a substring. Of ``/.../``, ``^`` and ``$`` match at line borders, and ``.`` stops at a line's end
    (write ``(?s)`` or ``\\s`` to cross it). Raises PatternError for a broken regular expression, which a case file is
    checked for when it is loaded. A letter with an accent is one, however it is composed (Unicode's NFC and NFD).
    """
    for form in dict.fromkeys((pattern, *(unicodedata.normalize(form, pattern) for form in ("NFC", "NFD")))):
        if is_regex(form):
            found = compiled(form[1:-1]).search(text)
        else:
            wanted = form.strip("\n")
            start = text.find(wanted)
            found = (start, start + len(wanted)) if start >= 0 else None
        if found is not None:
            return found
    return None

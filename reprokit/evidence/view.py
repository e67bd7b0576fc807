"""A block of log lines seen through its prefix, read only as far as it is asked for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_FOREIGN_RUN = 500
"""Lines without the prefix after which the block counts as over: another process may print a lot in between."""


def shape(text: str) -> str:
    """Return ``text`` with all digits made equal, so that a logger's running time counts as the same prefix."""
    return re.sub(r"\d", "0", text)


@dataclass(frozen=True)
class Prefix:
    """What each line of a block starts with: this very text, or one that is ``alike`` (other digits)."""

    text: str = ""
    alike: bool = False

    def fits(self, line: str) -> bool:
        """Whether a line starts with it."""
        start = line[: len(self.text)]
        return start == self.text or (self.alike and shape(start) == shape(self.text))

    def fits_blank(self, line: str) -> bool:
        """Whether a line is an empty one of the block, its prefix without the blanks at its end."""
        bare = self.text.rstrip()
        return line == bare or (self.alike and shape(line) == shape(bare))


class View:
    """The lines after ``start`` of ``items`` that carry ``prefix``, without it, with their positions in ``items``."""

    def __init__(self, items: Sequence[tuple[int, str]], start: int, prefix: Prefix) -> None:
        self._items = items
        self._next = start + 1
        self._prefix = prefix
        self._foreign = 0
        self._seen: list[tuple[int, str]] = []

    def has(self, at: int) -> bool:
        """Whether the block has a line number ``at`` (from 0)."""
        while len(self._seen) <= at:
            if self._next >= len(self._items) or self._foreign > _FOREIGN_RUN:
                return False
            self._read()
        return True

    def at(self, at: int) -> tuple[int, str]:
        """Position in the items and text without prefix of line ``at``; call ``has`` first."""
        return self._seen[at]

    def ahead(self, at: int, count: int) -> list[tuple[int, str]]:
        """Up to ``count`` lines from ``at`` on."""
        self.has(at + count - 1)
        return self._seen[at : at + count]

    def _read(self) -> None:
        position, line = self._next, self._items[self._next][1]
        self._next += 1
        if self._prefix.fits(line):
            self._foreign = 0
            self._seen.append((position, line[len(self._prefix.text) :]))
        elif self._prefix.fits_blank(line):
            self._foreign = 0
            self._seen.append((position, ""))
        else:
            self._foreign += 1

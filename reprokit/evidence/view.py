"""A block of log lines seen through its prefix, read only as far as somebody asks."""

from __future__ import annotations

import re
from collections.abc import Sequence

_FOREIGN_RUN = 500
"""Lines without the prefix after which the block counts as over: another process may print a lot in between."""


def shape(text: str) -> str:
    """Return ``text`` with all digits made equal, so that a logger's running time counts as the same prefix."""
    return re.sub(r"\d", "0", text)


class View:
    """The lines after ``start`` of ``items`` that carry ``prefix``, without it, with their positions in ``items``."""

    def __init__(self, items: Sequence[tuple[int, str]], start: int, prefix: str) -> None:
        self._items = items
        self._next = start + 1
        self._width = len(prefix)
        self._shape = shape(prefix)
        self._bare = self._shape.rstrip()
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
        if not self._width:
            self._seen.append((position, line))
        elif shape(line[: self._width]) == self._shape:
            self._foreign = 0
            self._seen.append((position, line[self._width :]))
        elif len(line) < self._width and shape(line).rstrip() == self._bare:
            self._foreign = 0
            self._seen.append((position, ""))
        else:
            self._foreign += 1

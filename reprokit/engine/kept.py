"""What is kept on disk and can be removed: one description for images, caches, sources and logs alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

IMAGE, BASE, BUILD_CACHE = "image", "base image", "build cache"
OTHER_CACHE = "build cache that may be another program's"
"""What no image uses, and what may not be ours: removed only where the user asks for it."""
ENVIRONMENT, INTERPRETER, DOWNLOADS = "environment", "interpreter", "downloads"


@dataclass(frozen=True, kw_only=True)
class Kept:
    """One thing that is kept on disk.

    ``key``: its identity; for what runs use it is the key under which they mark it as in use. ``name``: for messages.
    ``parts``: id -> bytes of what it consists of; what several share, such as layers, is named alike by all of them.
    ``used``: when it was used last, seconds since 1970; ``times``: how often, as far as that is known. ``seconds``: how
    long it takes to make it again, None where that is not known. ``needs``: keys of what it is made on, which cannot be
    removed before it. ``stays``: why it must not be removed, or ''. ``also``: further keys under which it is used.
    ``cases``: ids of the cases that it is of.
    """

    kind: str
    key: str
    name: str
    parts: Mapping[str, int]
    used: float
    times: int = 1
    seconds: float | None = None
    needs: frozenset[str] = frozenset()
    stays: str = ""
    also: frozenset[str] = frozenset()
    cases: frozenset[str] = frozenset()

    @property
    def bytes(self) -> int:
        """Bytes of all its parts, shared ones included."""
        return sum(self.parts.values())

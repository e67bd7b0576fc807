"""What a version asks for: ``12`` accepts any 12.x, ``12.2`` only 12.2.x, ``none`` means that there must be none.

A second implementation. Library: packaging.version.
Why not: it reads PEP 440 alone, and compilers, CUDA and distributions have other versions (``8.x``).
Owner of ours: the room ``environment``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

NONE = "none"

MeasuredVersions = Mapping[str, "str | None"]
"""Name of an axis, or ``cuda_build`` -> its version; None where an image has none."""


_kept = lru_cache(maxsize=4096)  # a matrix of thousands of cells asks for the same few


@_kept
def parts(version: str) -> tuple[str, ...]:
    """The dotted parts of a version; ``8.x`` and ``8.*`` are other ways to write ``8``."""
    pieces = version.strip().split(".")
    while len(pieces) > 1 and pieces[-1] in {"x", "*"}:
        pieces.pop()
    return tuple(pieces)


@_kept
def matches(asked: str, have: str | None) -> bool:
    """Whether ``have`` (None = there is none) is what ``asked`` asks for.

    A local part, as in ``2.13.0+cpu``, counts only where ``asked`` names one.
    """
    if asked == NONE or have is None:
        return asked == NONE and have is None
    release, _, local = asked.partition("+")
    found, _, own = have.partition("+")
    wanted = parts(release)
    return parts(found)[: len(wanted)] == wanted and local in ("", own)


@_kept
def order(version: str) -> tuple[int, ...]:
    """A key that sorts versions by their numbers."""
    return tuple(int(number) for number in re.findall("[0-9]{1,18}", version))


def newest(asked: str, available: Iterable[str]) -> str | None:
    """The newest available version that is what ``asked`` asks for, or None."""
    return max((version for version in available if matches(asked, version)), key=order, default=None)


def span(available: Iterable[str]) -> str:
    """The available versions, by major.minor: what an axis would name."""
    return ", ".join(dict.fromkeys(".".join(parts(version)[:2]) for version in available))

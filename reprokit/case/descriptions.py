"""Short descriptions of values, for messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def listing(names: Iterable[str], *, limit: int = 12) -> str:
    """The names on one line, cut after ``limit``."""
    names = list(names)
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def found(value: Any, *, empty: bool = False) -> str:
    """What a value of the case is, in words. ``empty``: a plain value that has no text at all."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if empty or value is None:
        return "nothing"
    text = str(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def dotted(loc: Iterable[str | int]) -> str:
    """``resources.shm_size``, ``matrix.cuda[0]``."""
    out = ""
    for part in loc:
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out

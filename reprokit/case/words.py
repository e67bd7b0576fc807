"""Near matches and short descriptions of values, for messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


def nearest(word: str, among: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The member of ``among`` that is spelt most like ``word``, or ''. Letter case and ``-``/``_`` do not matter."""
    folded = {_fold(name): name for name in among}
    found = difflib.get_close_matches(_fold(word), list(folded), n=1, cutoff=cutoff)
    return folded[found[0]] if found else ""


def near(word: str, among: Iterable[str], *, prefix: str = "", cutoff: float = 0.6) -> str:
    """``did you mean 'x'?`` after ``prefix``, or '' when nothing is near."""
    found = nearest(word, among, cutoff=cutoff)
    return f"{prefix}did you mean {found!r}?" if found else ""


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


def _fold(word: str) -> str:
    return word.lower().replace("-", "_")

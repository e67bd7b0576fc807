"""What a misspelt word may have meant, and how things are counted, for messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST, LONGEST = 200, 100
"""Names that a word is compared with, and characters of a word: comparing takes time for both."""


def nearest(word: str, among: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The member of ``among`` that is spelt most like ``word``, or ''. Letter case and ``-``/``_`` do not matter."""
    folded = {_fold(name): name for name in among}
    if len(folded) > MOST or len(word) > LONGEST:
        return ""
    found = difflib.get_close_matches(_fold(word), list(folded), n=1, cutoff=cutoff)
    return folded[found[0]] if found else ""


def near(word: str, among: Iterable[str], *, prefix: str = "", cutoff: float = 0.6) -> str:
    """``did you mean 'x'?`` after ``prefix``, or '' when nothing is near."""
    found = nearest(word, among, cutoff=cutoff)
    return f"{prefix}did you mean {found!r}?" if found else ""


def _fold(word: str) -> str:
    return word.lower().replace("-", "_")

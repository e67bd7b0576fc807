"""A text as a reader sees it (without colours and characters without width, full-width letters as plain ones,
percent- encoding decoded), beside the characters that it is written with, in which what rules find is replaced. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_WIDE = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)} | {0x3000: 0x20, 0xA0: 0x20}
_WIDE_OR_NOT = re.compile("[\uff01-\uff5e\u3000\xa0]")
_UNSEEN = (
    r"[\0\xad\u180e\u200b-\u200f\u2060-\u2064\ufeff]|\x1b\[[0-?]{0,40}[ -/]{0,4}[@-~]"
    r"|\x1b\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\)"
)
_PERCENT = "%[2-7][0-9A-Fa-f]"
_FIRST = {False: re.compile(_UNSEEN), True: re.compile(f"{_UNSEEN}|{_PERCENT}")}
_UNIT = {
    False: re.compile(f"(?:{_UNSEEN})*.", re.DOTALL),
    True: re.compile(f"(?:{_UNSEEN})*(?:{_PERCENT}|.)", re.DOTALL),
}
ENCODED = re.compile(_PERCENT)


@dataclass(frozen=True)
class SeenText:
    """``seen``: what rules look at. ``raw``: what each character of it is written as, in a list, or in a text where
    each is written as one character.
    """

    seen: str
    raw: str | Sequence[str]

    @property
    def text(self) -> str:
        """The text as it is written."""
        return self.raw if isinstance(self.raw, str) else "".join(self.raw)


def of(text: str, *, percent: bool = False) -> SeenText:
    """The view of a text; ``percent``: with percent-encoded characters decoded."""
    if not _FIRST[percent].search(text):
        return SeenText(text.translate(_WIDE) if _WIDE_OR_NOT.search(text) else text, text)
    raw = _UNIT[percent].findall(text + "\n")
    seen = "".join(map(_seen, raw))
    raw[-1] = raw[-1][:-1]  # what is unseen at the end has a character of its own
    return SeenText(seen.translate(_WIDE) if _WIDE_OR_NOT.search(seen) else seen, raw)


def _seen(unit: str) -> str:
    return unit[-1] if len(unit) < 3 or unit[-3] != "%" else chr(int(unit[-2:], 16))

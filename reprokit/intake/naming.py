"""The title and the id of a drafted case. Pure."""

from __future__ import annotations

import re

UNTITLED = "A bug without a title"
LONGEST = 60
"""Most characters of an id."""
TITLE = 200
"""Most characters of a title."""

_LABEL = re.compile(
    r"^\s*(?:\[?(?:bug|issue|question|help)\]?\s*[:：]\s*|\[(?:bug|issue|question|help)\]\s+)", re.IGNORECASE
)
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
"""Characters that are invisible in a title, or change its writing direction."""
_CUT = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]")


def title(text: str) -> str:
    """``text`` as a title in one line, without a label such as ``[Bug]:`` before it; '' where nothing is left."""
    return shortened(re.sub(r"\s+", " ", _LABEL.sub("", _UNSEEN.sub(" ", text))).strip(), TITLE, " ")


def slug(*texts: str) -> str:
    """The texts joined as an id of lower-case letters, digits and hyphens, cut between words; '' for nothing."""
    parts = [re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") for text in texts]
    return shortened("-".join(dict.fromkeys(part for part in parts if part)), LONGEST, "-")


def shortened(text: str, most: int, between: str) -> str:
    """At most the first ``most`` characters of a text, cut at the separator ``between`` rather than within a word."""
    if len(text) <= most:
        return text
    whole = text[: most + 1].rpartition(between)[0].rstrip(between)
    return whole if len(whole) > most // 2 else text[:most].rstrip(between)


def foreign(text: str) -> bool:
    """Whether an id made of a text would lose most of it, such as Chinese."""
    return len(slug(text)) < 4 or bool(_CUT.search(text))

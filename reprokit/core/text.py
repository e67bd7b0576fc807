"""Small helpers for text in messages. Pure."""

from __future__ import annotations

import re

_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0e\uffa0\U000e0100-\U000e01ef]")
"""Characters that Unicode takes for letters and marks, and that show nothing (Default_Ignorable_Code_Point)."""


def is_visible(character: str) -> bool:
    """Whether a character is visible to a reader, or is a space."""
    return character.isprintable() and not _BLANK.match(character)


def whole_number(text: str) -> int | None:
    """The number that a text of at most 18 ASCII digits is, or None: ``str.isdigit`` holds for ``²``, which ``int``
    refuses, as it does thousands of digits."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def pluralize(count: int, word: str, plural: str = "") -> str:
    """``1 case``, ``2 cases``; ``plural`` where an s is not enough."""
    return f"{count} {word if count == 1 else plural or word + 's'}"


def seconds(value: float | None) -> str:
    """``0.6 s``, ``2 min 05 s``; nothing for None."""
    if value is None:
        return ""
    if value < 60:
        return f"{value:.2f} s" if value < 1 else f"{value:.1f} s"
    return f"{int(value) // 60} min {int(value) % 60:02d} s"


def build_times(built: int, took: float, reused: int) -> str:
    """``built 3 images in 2 min 10 s, reused 5``; '' for no image. ``took``: seconds by the clock, not of each."""
    parts = [f"built {pluralize(built, 'image')} in {seconds(took)}"] if built else []
    parts += [f"reused {reused}" if built else f"reused {pluralize(reused, 'image')}"] if reused else []
    return ", ".join(parts)


def first_line(text: str) -> str:
    """The first line of a text that may have several."""
    return text.strip().splitlines()[0] if text.strip() else ""


def one_line(text: str, limit: int = 200) -> str:
    """Return the first line of ``text`` that says something, shortened to ``limit`` characters."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def size(count: float) -> str:
    """``1.2 GB``, ``35 MB``: decimal units, as the docker client shows them."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}" if count < 10 * factor else f"{count / factor:.0f} {unit}"
    return f"{count:.0f} B"

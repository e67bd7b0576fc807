"""Markdown for the catalogue: texts that must not be markup, links, and the anchors that headings get. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from urllib.parse import quote

_SPECIAL = re.compile(r"([\\*<>\[\]~$&]|(?<!\w)_|_(?!\w))")


def inline(text: str) -> str:
    """One line of text in a paragraph or a table: code between backticks stays code, nothing else is markup."""
    text = " ".join(text.split())
    parts = re.split(r"(`[^`]+`)", text)
    escaped = [part if index % 2 else _SPECIAL.sub(r"\\\1", part) for index, part in enumerate(parts)]
    return "".join(escaped).replace("|", r"\|")


def link(text: str, target: str) -> str:
    """A link; ``text`` is Markdown already, ``target`` a path or an anchor as it is."""
    return f"[{text}]({quote(target, safe='/#-._~')})"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table whose cells are Markdown already."""
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(cell or " " for cell in line) + " |" for line in lines]


def size(value: int | None) -> str:
    """``1.2 GB``, ``240 MB``; nothing for None."""
    if not value:
        return ""
    return f"{value / 1e9:.1f} GB" if value >= 0.95e9 else f"{max(1, round(value / 1e6))} MB"


class HeadingAnchors:
    """The anchors that GitHub, GitLab and others make from headings, in the order of the page."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def of(self, heading: str) -> str:
        """The anchor of the next heading; call it once for each, in order."""
        slug = re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
        number = self._taken[slug]
        self._taken[slug] += 1
        return f"#{slug}-{number}" if number else f"#{slug}"

"""Strangers' texts in Markdown, so that they stay texts: no mention, no link, no HTML, no way out. Pure."""

from __future__ import annotations

import re

from reprokit.trust import printable

SHOWN = 240
"""Characters of a stranger's text on one line."""


def code(text: str, most: int = SHOWN) -> str:
    """A text on one line as a code span, which also fits a cell of a table."""
    line = printable(text, most).strip()
    if not line:
        return "–"
    # A span ends at a run of as many backticks as it began with; a cell at a bar, even within a span.
    ticks = "`" * (1 + max((len(run) for run in re.findall("`+", line)), default=0))
    pad = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{ticks}{pad}{line}{pad}{ticks}".replace("|", "\\|")


def block(text: str, kind: str = "") -> str:
    """A text of several lines as a fenced block, whose fence is longer than any in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    shown = "".join(c if c.isprintable() or c in "\n\t" else f"\\u{ord(c):04x}" for c in text)
    return f"{fence}{kind}\n{shown.rstrip(chr(10))}\n{fence}"

"""Where exactly in the file a template goes wrong: the line and column of a name or of a tag within a value. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprokit.case.tree import CaseTree, Loc, line_column

_OPENING = re.compile(r"\{\{|\{%")
_CLOSING = {"{{": "}}", "{%": "%}"}


def name_in(tree: CaseTree, loc: Loc, name: str) -> tuple[int, int] | None:
    """Line and column (from 1 within the text) of the first use of ``name`` in a template at ``loc``."""
    place = tree.places.get(loc)
    if place is None:
        return None
    word = re.compile(rf"(?<![\w.\"']){re.escape(name)}(?![\w\"'])")
    for start, end in _tags(tree.text, place.start, place.end):
        use = word.search(tree.text, start, end)
        if use:
            return line_column(tree.text, use.start())
    return None


def _tags(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of what is inside each tag, in linear time: no end is looked for again after there was none."""
    unclosed: set[str] = set()
    for opening in _OPENING.finditer(text, start, end):
        if opening.start() < start or opening[0] in unclosed:
            continue
        closing = text.find(_CLOSING[opening[0]], opening.end(), end)
        if closing < 0:
            unclosed.add(opening[0])
        else:
            yield opening.end(), closing
            start = closing + 2


def line_in(tree: CaseTree, loc: Loc, number: int) -> tuple[int, int] | None:
    """Line and column of the first tag on line ``number`` (from 1) of the value at ``loc``.

    Only a literal block (``|``) keeps its lines; of other values it is the first tag, whatever the line.
    """
    place = tree.places.get(loc)
    if place is None:
        return None
    start, end = place.start, place.end
    if place.style == "|":
        for _ in range(max(number, 1)):
            start = tree.text.find("\n", start, end) + 1 or end
        newline = tree.text.find("\n", start)
        end = newline if newline >= 0 else len(tree.text)
    opening = re.compile(r"\{\{|\{%|\{#").search(tree.text, start, end)
    if opening:
        return line_column(tree.text, opening.start())
    return line_column(tree.text, start + len(tree.text[start:end]) - len(tree.text[start:end].lstrip()))

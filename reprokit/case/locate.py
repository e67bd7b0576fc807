"""Where exactly in the file a template goes wrong: the line and column of a name or of a tag within a value. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from reprokit.case.tree import CaseTree, Loc, SourcePosition

_WORD = re.compile(r"(?<![\w.\"'])\w+(?![\w\"'])")
_OPENING = re.compile(r"\{\{|\{%")
_CLOSING = {"{{": "}}", "{%": "%}"}


def names_in(tree: CaseTree, loc: Loc, names: Collection[str]) -> dict[str, tuple[int, int]]:
    """Line and column (from 1 within the text) of the first use of each of ``names`` in a template at ``loc``."""
    found: dict[str, tuple[int, int]] = {}
    place = tree.places.get(loc)
    if place is None or not names:
        return found
    for start, end in tags(tree.text, place.start, place.end):
        for word in _WORD.finditer(tree.text, start, end):
            if word[0] in names and word[0] not in found:
                found[word[0]] = _at(tree, place, word.start())
    return found


def _at(tree: CaseTree, place: SourcePosition, offset: int) -> tuple[int, int]:
    """Line and column of an offset in a value, which is read from the value's beginning."""
    lines = (tree.text[place.start : offset] + "x").splitlines()
    return place.line + len(lines) - 1, len(lines[-1]) + (place.column - 1 if len(lines) == 1 else 0)


def tags(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
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
        return _at(tree, place, opening.start())
    return _at(tree, place, start + len(tree.text[start:end]) - len(tree.text[start:end].lstrip()))

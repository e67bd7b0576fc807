"""The drawing that ``traceback`` makes of an exception group, taken apart: margins, rulers, members."""

from __future__ import annotations

import re
from collections.abc import Sequence

Item = tuple[int, str]
"""A line's number in the log and its text."""

_FIRST = re.compile(r"^\+-\+-{8,} (?:\d+|\.\.\.) -{8,}$")
_NEXT = re.compile(r"^  \+-{8,} (?:\d+|\.\.\.) -{8,}$")
_END = re.compile(r"^  \+-{20,}$")


def own_part(block: Sequence[Item]) -> list[Item]:
    """Return the lines of the group's own traceback, without the margin ``| ``; ``block`` starts at its column."""
    own: list[Item] = []
    for number, text in block:
        if _FIRST.match(text):
            break
        if text.startswith("|"):
            own.append((number, _as_traceback(text[2:])))
    return own


def split_members(block: Sequence[Item]) -> list[list[Item]]:
    """Return the lines of each member, cut to the member's own column (so that each is a block again)."""
    members: list[list[Item]] = []
    inside = False
    for number, text in block:
        if not inside and _FIRST.match(text):
            inside = True
            members.append([])
        elif inside and _NEXT.match(text):
            members.append([])
        elif inside and _END.match(text):
            break
        elif inside:
            members[-1].append((number, text[2:]))
    return [member for member in members if member]


def _as_traceback(text: str) -> str:
    return text.replace("Exception Group Traceback (", "Traceback (", 1) if text.startswith("Exception Group") else text

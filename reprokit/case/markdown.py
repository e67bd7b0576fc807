"""Cases in Markdown: fenced blocks that hold a line ``schema: reprokit/v1``. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^(?P<indent>[ \t]*(?:(?:[-*+]|\d+[.)])[ \t]+)?)(?P<fence>`{3,}|~{3,})(?P<info>[^\n]*)$")
_SCHEMA = re.compile(r"^schema[ \t]*:[ \t]*[\"']?reprokit\b", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Block:
    """A case cut from Markdown. ``first_line``: lines above it; ``shifts``: columns cut from each of its lines."""

    text: str
    first_line: int
    shifts: tuple[int, ...]


def blocks(text: str) -> list[Block]:
    """The cases in a Markdown text, in order. A fence that is never closed goes to the end, as in CommonMark.

    Line endings are not part of a case: with CRLF it is the same case, with the same digest.
    """
    found: list[Block] = []
    lines = text.replace("\r\n", "\n").split("\n")
    index = 0
    while index < len(lines):
        opening = _FENCE.match(lines[index].rstrip("\r"))
        index += 1
        if not opening or (opening["fence"][0] == "`" and "`" in opening["info"]):
            continue
        start, indent = index, len(opening["indent"])
        closing = re.compile(rf"^[ \t]*{re.escape(opening['fence'][0])}{{{len(opening['fence'])},}}[ \t\r]*$")
        while index < len(lines) and not closing.match(lines[index]):
            index += 1
        block = _dedented(lines[start:index], start, indent)
        if _SCHEMA.search(block.text):
            found.append(block)
        index += 1
    return found


def is_markdown(text: str) -> bool:
    """Whether a text of unknown kind is Markdown with a case rather than a case that quotes one."""
    first = _SCHEMA.search(text)
    fence = re.search(r"^[ \t]*(```|~~~)", text, re.MULTILINE)
    return bool(fence) and not (first and fence and first.start() < fence.start()) and bool(blocks(text))


def _dedented(lines: list[str], first_line: int, indent: int) -> Block:
    shifts = tuple(min(indent, len(line) - len(line.lstrip(" \t"))) for line in lines)
    body = [line[shift:] for line, shift in zip(lines, shifts, strict=True)]
    return Block(text="".join(f"{line}\n" for line in body), first_line=first_line, shifts=shifts)

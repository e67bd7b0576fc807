"""A report as lines without their Markdown. Pure; one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_QUOTE = re.compile(r"^(?:\s{0,3}>)+ ?")
_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_BULLET = re.compile(r"^(?:[-*+•·●]\s+(?:\[[ xX]\]\s+)?|\(?\d{1,2}\s?[.)、）]\s*(?=\D)|[a-h][.)]\s+)+")
_HTML = re.compile(
    r"<(?:/?(?:br|p|b|i|strong|em|code|pre|summary|details|li|ul|td|tr|kbd|sub|sup)\b[^<>]{0,80}|!--)[/-]*>"
)
_BOLD = re.compile(r"\*\*|__(?=\S)|(?<=\S)__|`")
LONGEST = 2000
"""Characters of a line that are read: no line of an environment is longer, except the flags of a processor."""


@dataclass(frozen=True)
class ReportLine:
    """One line. ``text`` has no quote marks, bullets, bold or code marks; ``indent``: the number of blanks before it.

    ``fence``: the number of the fenced block that contains it, 0 = outside; ``edge``: it opens or closes one;
    ``heading``: it is a Markdown heading; ``item``: it has a bullet; ``cells``: of a table row. ``taken``: it has been
    read as part of another block.
    """

    number: int
    raw: str
    text: str = ""
    indent: int = 0
    fence: int = 0
    edge: bool = False
    heading: bool = False
    item: bool = False
    cells: tuple[str, ...] = ()
    taken: bool = False

    @property
    def blank(self) -> bool:
        """Whether it is empty."""
        return not self.text


def split(text: str) -> list[ReportLine]:
    """The lines of a text, numbered from 1."""
    found, fence, fences, mark = [], 0, 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        body = _QUOTE.sub("", raw[:LONGEST])
        edge = _FENCE.match(body)
        if edge and (not mark or (edge[1].startswith(mark) and not body.strip().strip(mark[0]))):
            if mark:
                mark, fence = "", 0
            else:
                fences += 1
                mark, fence = edge[1], fences
            found.append(ReportLine(number, raw, edge=True))
            continue
        found.append(_line(number, raw, body, fence))
    return found


def _line(number: int, raw: str, body: str, fence: int) -> ReportLine:
    stripped = body.strip()
    indent = len(body) - len(body.lstrip())
    if fence:
        return ReportLine(number, raw, text=_BULLET.sub("", stripped), indent=indent, fence=fence)
    heading = bool(re.match(r"#{1,6}\s", stripped))
    cells = tuple(plain(cell) for cell in stripped.strip("|").split("|")) if stripped.startswith("|") else ()
    shown = plain(stripped.strip("#") if heading else stripped)
    item = bool(_BULLET.match(stripped))
    return ReportLine(number, raw, text=shown, indent=indent, heading=heading, item=item, cells=cells)


def plain(text: str) -> str:
    """A line's text without bullets, bold, code marks and HTML tags."""
    text = _HTML.sub("", text.replace("&emsp;", " ").replace("&nbsp;", " ")).strip()
    return _BOLD.sub("", _BULLET.sub("", text)).strip()


def without(lines: Sequence[ReportLine], spans: Sequence[tuple[int, int]]) -> Iterator[ReportLine]:
    """The lines, with those in ``spans`` (numbers of first and last line) blanked since they have been read."""
    taken = {number for first, last in spans for number in range(first, last + 1)}
    for line in lines:
        yield ReportLine(line.number, line.raw, edge=True, taken=True) if line.number in taken else line

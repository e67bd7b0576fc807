"""A report as lines without their Markdown. Pure; one pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

_QUOTE = re.compile(r"^(?:\s{0,3}>)+ ?")
_FENCE = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_BULLET = re.compile(r"^(?:[-*+•·●]\s+(?:\[[ xX]\]\s+)?|\(?\d{1,2}\s?[.)、）]\s*(?=\D)|[a-h][.)]\s+)+")
_HTML = re.compile(
    r"<(?:/?(?:br|p|b|i|strong|em|code|pre|summary|details|li|ul|td|tr|kbd|sub|sup)\b[^<>]{0,80}|!--)[/-]*>"
)
_BOLD = re.compile(r"\*\*|__(?=\S)|(?<=\S)__|`")
_ITEMS = re.compile(r"""\(?(['"])([A-Za-z][^'"\n]{0,60})\1\s?[,:]\s?(['"])([^'"\n]{1,300})\3\)?""")
"""Pairs of a printed dictionary, or of tuples."""
_LEAST_ITEMS = 3
_ABOVE = 20
_PRINTED = re.compile(r"print\(([A-Za-z_][\w.]{1,60})\)\s*(?:[-=]>|→|[:#=])\s*(?=\S)")
_VERSION = re.compile(r"versions?\s*[:=]\s*(?=v?\d)", re.IGNORECASE)
_OWNER = re.compile(
    r"([A-Za-z][\w.+-]{0,40}(?: [A-Za-z][\w.+-]{0,40})?)\s*[:：]$|([A-Za-z][\w.+-]{1,40}) versions?\b.{0,80}[:：]$"
)
_BUILT = re.compile(r"(?:name|commands|detection method|include directory):")
_BESIDE = 6
"""What lies around the version of something that built a package, as numpy.show_config() prints it."""
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
        found += _pairs(_owned(_line(number, raw, body, fence), found))
    return found


def _pairs(line: ReportLine) -> list[ReportLine]:
    """A line; of a printed dictionary, each of its pairs as a line ``key: value``."""
    pairs = _ITEMS.findall(line.text) if "'" in line.text or '"' in line.text else []
    if len(pairs) < _LEAST_ITEMS:
        return [line]
    return [replace(line, text=f"{key}: {value.strip()}", item=True) for _, key, _, value in pairs]


def _owned(line: ReportLine, before: Sequence[ReportLine]) -> ReportLine:
    """A line ``version: 1.2`` with the name of what it is of: of a line above that is indented less, or leads to it."""
    if not _VERSION.match(line.text):
        return replace(line, text=_PRINTED.sub(r"\1: ", line.text)) if line.text.startswith("print(") else line
    above = (
        one for one in reversed(before[-_ABOVE:]) if one.text and (one.indent < line.indent or one.fence != line.fence)
    )
    beside = (one.text for one in reversed(before[-_BESIDE:]) if one.indent == line.indent)
    if any(map(_BUILT.match, beside)):
        return replace(line, text="version")
    owner = _OWNER.match(next(above, line).text)
    return replace(line, text=f"{owner[1] or owner[2]} {line.text}") if owner else line


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

"""The troubles of a document that has many, such as a FAQ: where each begins and ends. Pure."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from reprokit.core.text import one_line
from reprokit.intake import failure, pieces
from reprokit.intake.pieces import ParsedReport, ReportPiece
from reprokit.intake.shown import Shown

LEAST = 3
"""Fewest sections with a failure of their own that make a document of many troubles of a report."""
MOST = 200
"""Most troubles of one document."""

_ASKS = re.compile(
    r"^[\s#>*+-]{0,12}(?:(?:Q|FAQ|问|问题|Problem|Issue|Error|Symptom|表现|现象|症状|故障)\s?\d{0,3}\s?[:：.、)]"
    r"|\d{1,3}\s?[.、)）]\s*(?=\S))",
    re.IGNORECASE,
)
"""Lines that begin a question, by a number or by such a word."""
_ITEM = re.compile(r"^(?:[-*+•]|\d{1,3}[.)、])\s+\S")


@dataclass(frozen=True, kw_only=True)
class ReportedTrouble:
    """One trouble. ``line``, ``last``: its lines; ``words``: its first ones; ``about``: the line of its failure."""

    number: int
    line: int
    last: int
    words: str
    about: int

    def __str__(self) -> str:
        return f"{self.number} (line {self.line}): {self.words}"


def find(report: ParsedReport) -> tuple[list[ReportedTrouble], bool]:
    """(the troubles of a text in their order, whether each is a section of its own).

    Sections are headings of one level, numbered questions, or items of a list, of which ``LEAST`` or more each show a
    failure of their own. Otherwise the troubles are the failures that are pasted in the text.
    """
    lines = report.lines
    code = {number for piece in report.pieces if piece.code for number in range(piece.line, piece.last + 1)}
    ways: list[Callable[[str], object]] = [
        *(re.compile(rf"^#{{{level}}}\s+\S").match for level in (1, 2, 3, 4)),
        _ASKS.match,
        _ITEM.match,
    ]
    best: list[ReportedTrouble] = []
    for begins in ways:
        starts = [at for at, line in enumerate(lines, 1) if at not in code and begins(line[:200])][: MOST + 1]
        if len(starts) >= max(LEAST, len(best) + 1):
            found = _sections(report, starts)
            best = found if len(found) > len(best) else best
    if len(best) >= LEAST:
        return best, True
    shown = sorted(failure.every(report.pieces), key=lambda one: one.line)
    pasted = [one for one in shown if not (one.echo or one.words)]
    return [
        ReportedTrouble(
            number=number,
            line=one.line,
            last=one.last,
            words=one_line(one.title or lines[one.line - 1], 80),
            about=one.line,
        )
        for number, one in enumerate(pasted, 1)
    ], False


def _sections(report: ParsedReport, starts: Sequence[int]) -> list[ReportedTrouble]:
    """The sections that begin in these lines and show a failure that none before shows."""
    found: list[ReportedTrouble] = []
    seen: list[Shown] = []
    begins = [piece.line for piece in report.pieces]
    for start, following in zip(starts, [*starts[1:], len(report.lines) + 1], strict=True):
        # The last piece before the section may go on in it.
        near = report.pieces[max(bisect_right(begins, start) - 2, 0) : bisect_left(begins, following)]
        inside = [part for piece in near if (part := _within(piece, start, following))]
        shown = next((one for one in failure.every(inside) if not one.words or one.line == start), None)
        if shown is None or any(failure.same(shown, other) for other in seen):
            continue
        seen.append(shown)
        words = one_line(re.sub(r"^[\s#>*+-]+|\*\*", "", report.lines[start - 1]), 80)
        trouble = ReportedTrouble(number=len(found) + 1, line=start, last=following - 1, words=words, about=shown.line)
        found.append(trouble)
    return found


def _within(piece: ReportPiece, start: int, following: int) -> ReportPiece | None:
    """What of a piece lies in some lines: pasted text as a whole, where it begins there."""
    if start <= piece.line and piece.last < following:
        return piece
    first, last = max(start, piece.line), min(following - 1, piece.last)
    if piece.code or first > last:
        return piece if start <= piece.line < following else None
    lines = piece.text.split("\n")[first - piece.line : last - piece.line + 1]
    return replace(piece, text="\n".join(lines), line=first)


def only(report: ParsedReport, troubles: Sequence[ReportedTrouble], number: int) -> ParsedReport:
    """The report with the sections of all other troubles empty, so that lines keep their numbers."""
    lines = report.lines
    for one in troubles:
        if one.number != number:
            lines[one.line - 1 : one.last] = [""] * (one.last - one.line + 1)
    title = next(one.words for one in troubles if one.number == number)
    cut = pieces.cut("\n".join(lines))
    return ParsedReport(text=cut.text, pieces=cut.pieces, title=title, pictures=cut.pictures)

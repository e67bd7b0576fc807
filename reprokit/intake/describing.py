"""The description of the bug in a report: what people wrote, without what they pasted. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from reprokit.intake.naming import shortened
from reprokit.intake.pieces import ParsedReport, ReportPiece

LONGEST = 800
"""The longest description, as :func:`_wide` counts; the report has the rest."""

_LOG = re.compile(
    r"^\s*(?:[-=*_#~^|+ ]{3,}$|[\[(]?\d{4}[-/]\d\d[-/]\d\d|[WEIF]\d{4} |\[[ xX]\]|[-*] \[[ xX]\]|!\[|<[\w/]"
    r"|LAUNCH INFO|In file included|\s*\d* +\|  ?|error: |\s+warnings\.warn|\[(?:Thread|Inferior|New) "
    r"|\d*\.? ?See error$)"
)
"""Lines between prose that are not text: rulers, log lines, check boxes, pictures."""
_LINK = re.compile(
    r"[-*\s]*\[{1,2}[^\]\n]{0,300}\]{1,2}\([^)\n]{0,1000}\)[\s.。]*|\s*https?://\S+\s*|\s*\[(?:图片|image)\]\s*",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"\s*[\w.\[\], ]{1,60} [-+*/]?= \S.*|\s*[\w.]{1,60}\(.*\)\s*:?|\s*(?:import|from|def|class|return|for|if) .*[:\w)]",
    re.ASCII,
)
"""Lines of a program without a fence."""
_NO_ANSWER = re.compile(r"[_*]*(?:no response|n/?a|none|无|没有|请联系.{0,20}|yes|no)[_*.。]*", re.IGNORECASE)


def description(report: ParsedReport, taken: Sequence[tuple[int, int]], about: int = 0) -> str:
    """The first paragraphs that people wrote, without pasted text and its introductions; '' where there are none.

    ``taken``: spans of lines that are something else (first, last). In a long report it begins at the heading above
    line ``about``; ``...`` marks what was left out.
    """
    whole = list(_paragraphs(report.pieces, {number for first, last in taken for number in range(first, last + 1)}))
    first = 0
    if sum(_wide(text) for _, text in whole) > LONGEST and about:
        start = max(
            (piece.line for piece in report.pieces if piece.kind == "heading" and piece.line <= about), default=0
        )
        first = next((number for number, (line, _) in enumerate(whole) if line >= start), 0)
    chosen: list[str] = []
    for _, text in whole[first:]:
        if chosen and sum(map(_wide, chosen)) + _wide(text) > LONGEST:
            break
        chosen.append(text if len(text) <= LONGEST else shortened(text, LONGEST, " ") + " ...")
    left = ["..."] if first else []
    right = ["..."] if first + len(chosen) < len(whole) else []
    return "\n\n".join([*left, *chosen, *right]) + "\n" if chosen else ""


def _paragraphs(pieces: Sequence[ReportPiece], taken: Collection[int]) -> Iterator[tuple[int, str]]:
    """(line of its piece, text) of every paragraph with enough words."""
    for piece in pieces:
        if piece.kind != "prose":
            continue
        numbered = enumerate(piece.text.split("\n"), piece.line)
        lines = ["" if number in taken or _noise(line) else line.rstrip() for number, line in numbered]
        for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
            text = paragraph.strip("\n")
            words = text.strip(" *-").rstrip()
            if _wide(words) >= 24 and not words.endswith((":", "：")) and not _NO_ANSWER.fullmatch(words):
                yield piece.line, text


def _noise(line: str) -> bool:
    """Whether a line is not prose: a line of a log, only a link or picture, code without a fence."""
    return bool(_LOG.match(line[:300]) or _LINK.fullmatch(line[:1500]) or _CODE.fullmatch(line[:300]))


def _wide(text: str) -> int:
    """The length of a text, where a Chinese character counts as three letters."""
    return len(text) + 2 * len(re.findall(r"[\u3040-\u9fff\uac00-\ud7af]", text))

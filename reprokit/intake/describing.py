"""What of a report is a description of the bug: what people wrote, without what they pasted. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reprokit.intake.commands import within
from reprokit.intake.pieces import Report

LONGEST = 1500
"""Characters of a description."""

_LOG = re.compile(
    r"^\s*(?:[-=*_#~^|+ ]{3,}$|[\[(]?\d{4}[-/]\d\d[-/]\d\d|[WEIF]\d{4} |\[[ xX]\]|[-*] \[[ xX]\]|!\[|<[\w/]"
    r"|LAUNCH INFO|\s*\d* +\|  ?|error: |\s+warnings\.warn)"
)
"""Lines of prose that nobody wrote: rulers, log lines, ticked boxes, pictures."""
_NO_ANSWER = re.compile(r"[_*]*(?:no response|n/?a|none|无|没有|请联系.{0,20}|yes|no)[_*.。]*", re.IGNORECASE)


def description(report: Report, taken: Sequence[tuple[int, int]]) -> str:
    """What people wrote, without what was pasted and what only leads to it: the first paragraphs."""
    paragraphs: list[str] = []
    for piece in report.pieces:
        if piece.kind != "prose":
            continue
        numbered = enumerate(piece.text.split("\n"), piece.line)
        lines = ["" if within(number, taken) or _LOG.match(line[:300]) else line.rstrip() for number, line in numbered]
        for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
            text = paragraph.strip("\n")
            said = text.strip(" *-").rstrip()
            if _wide(said) >= 24 and not said.endswith((":", "：")) and not _NO_ANSWER.fullmatch(said):
                paragraphs.append(text)
        if sum(map(len, paragraphs)) > LONGEST:
            break
    text = "\n\n".join(paragraphs)
    if len(text) > LONGEST:
        text = (text[:LONGEST].rpartition("\n")[0] or text[:LONGEST]) + "\n\n..."
    return text + "\n" if text else ""


def _wide(text: str) -> int:
    """How much a text says: a Chinese character as much as three letters."""
    return len(text) + 2 * len(re.findall(r"[\u3040-\u9fff\uac00-\ud7af]", text))

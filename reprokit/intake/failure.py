"""Which of the failures that a report shows is the one that it is about. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from reprokit.intake import shown_failures
from reprokit.intake.pieces import ReportPiece
from reprokit.intake.shown import Shown
from reprokit.intake.signatures import readable

_ERROR_WORDS = re.compile(
    r"error|traceback|exception|crash|log|output|actual|fail|problem|stack|报错|错误|异常|日志|崩溃|输出|信息",
    re.IGNORECASE,
)


def find(pieces: Sequence[ReportPiece], about: int = 0) -> Shown | None:
    """The failure that a report is about, or that in line ``about``; None where it shows none."""
    found = every(pieces)
    chosen = next((shown for shown in found if shown.line == about), found[0] if found else None)
    return replace(chosen, others=len(found) - 1) if chosen else None


def every(pieces: Sequence[ReportPiece]) -> list[Shown]:
    """:func:`_every`, which is asked for twice of the same report."""
    return list(_every(tuple(pieces)))


@lru_cache(maxsize=4)
def _every(pieces: tuple[ReportPiece, ...]) -> tuple[Shown, ...]:
    """All failures that a report shows, each once, the one that it is about first.

    That is what the title says happens, where nothing pasted contradicts; a traceback or a crash in pasted text, the
    first below a heading about errors; another line that a program printed; what sentences say.
    """
    titles = [piece for piece in pieces if piece.kind == "heading"]
    pasted = [(piece, shown) for piece in pieces if piece.code for shown in shown_failures.pasted(piece)]
    nan = shown_failures.printed_nan(pieces)
    worded = [(piece, shown) for piece in pieces if not piece.code for shown in shown_failures.in_words(piece, nan)]
    if any(shown.words == "crash" for _, shown in worded):  # a sentence tells of another time, or of the moment before
        worded = [one for one in worded if one[1].words not in _LASTING or one[0] is titles[0]]
    ranked = sorted(
        ((-_weight(piece, shown, titles), number, shown) for number, (piece, shown) in enumerate(pasted + worded)),
        key=lambda entry: entry[:2],
    )
    if ranked and ranked[0][2].words == "signal":  # a title may call each signal a segmentation fault
        ranked = sorted(ranked, key=lambda entry: set(entry[2].signature) != {"signal"} or bool(entry[2].words))
    kept: list[Shown] = []
    for _, _, shown in ranked:
        if len(kept) < MOST and not (
            any(same(shown, other) for other in kept) or (kept and (shown.echo or shown.words))
        ):
            kept.append(shown)
    return tuple(kept)


def _weight(piece: ReportPiece, shown: Shown, titles: Sequence[ReportPiece]) -> int:
    """How likely a failure is what the report is about."""
    title = titles[0].text if titles else ""
    kind = str(shown.signature.get("exception") or "")
    warns = kind.endswith("Warning") and not re.search(r"warn|警告", title, re.IGNORECASE)
    interrupted = kind in ("KeyboardInterrupt", "SystemExit") or warns
    named = bool(kind and re.search(rf"\b{re.escape(kind)}\b", title))
    sure = bool(shown.words) and piece is (titles[0] if titles else None)
    weight = 0
    if shown.words:
        weight = 30 * sure + (10 if shown.words in _STRONG else 0)
    elif piece.code:
        weight = 60 if shown.frames else 40 if not shown.echo else 20
    else:
        weight = (25 if not shown.echo else 8) - 3 * shown.inline
    if sure and shown.words in ("hang", "signal"):
        weight = 58 if shown.words == "hang" else 66
    if shown.words in _VAGUE:
        weight = _VAGUE[shown.words]
    weight += 15 * named + 5 * bool(piece.code and _ERROR_WORDS.search(piece.under)) - 35 * interrupted
    weight -= 12 * bool(shown.words and piece.kind == "prose" and _EXPECTED.match(piece.heading))
    if piece.code:
        weight -= 60 * bool(_EXPECTED.match(piece.lead or piece.heading))
    return weight - (12 if piece.kind == "heading" and not sure else 0) - 5 * (set(shown.signature) == {"exception"})


MOST = 200
"""Most failures of one report."""
_EXPECTED = re.compile(
    r"\W*(?:describe )?(?:the )?expect(?:ed|ation)?\b|\W*(?:it )?should\b|\W*(?:期望|预期|正确)", re.IGNORECASE
)
"""What is below such words is not the failure."""
_VAGUE = {"build": 6, "crash": 7, "output": 9}
"""The weight of kinds whose words do not say what is printed."""
_LASTING = frozenset({"hang", "leak", "nan", "slow", "wrong"})
"""Kinds of failures in which a program goes on."""
_STRONG = frozenset({"signal", "hang", "oom", "nan"})
"""Kinds of failures whose words hardly mean anything else."""


def same(one: Shown, other: Shown) -> bool:
    """Whether two may be the same failure: a title may lack its type, a log its message."""
    kinds = {str(shown.signature.get("exception") or "") for shown in (one, other)} - {""}
    a, b = (
        readable(str(shown.signature.get("message") or shown.signature.get("output") or "")) for shown in (one, other)
    )
    if not a or not b:
        both = "exception" in one.signature and "exception" in other.signature
        return one.title == other.title or (both and len(kinds) == 1)
    return len(kinds) < 2 and (a in b or b in a)

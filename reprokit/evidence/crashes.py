"""Failures that are not Python tracebacks, found by the rules of all parsers. A rule looks only at lines that hold
one of its needles (plain text), so that a large log is searched at the speed of ``find``. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from reprokit.core.text import one_line
from reprokit.evidence.model import Crash
from reprokit.evidence.parser import CrashRule
from reprokit.evidence.parsers import parsers

PER_NEEDLE = 100
"""Lines with one needle that are looked at from the start of a text, and as many from its end."""
_BEFORE, _AFTER = 1000, 2000
"""Characters around a needle that a rule gets to see at most; a rule may look at the two lines that follow."""


@cache
def text_rules() -> tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...]:
    return tuple((rule.kind, rule.needles, re.compile(rule.pattern, re.MULTILINE)) for rule in _rules())


def _rules() -> Iterator[CrashRule]:
    """The rules of all parsers; of two that find something at the same place, the first counts."""
    for parser in parsers():
        yield from parser.crashes


@cache
def coarse_texts() -> tuple[str, ...]:
    """Short texts, one of which is in every line that a rule for floods matches."""
    return tuple(
        dict.fromkeys(text for rule in _rules() for text in (rule.needles if rule.coarse is None else rule.coarse))
    )


@cache
def byte_rules(coarse: str) -> tuple[tuple[tuple[bytes, ...], re.Pattern[bytes]], ...]:
    """The rules, for raw bytes, that can match only where ``coarse`` (one of ``coarse_texts``) occurs."""
    return tuple(
        (needles, re.compile(rule.pattern.encode(), re.MULTILINE))
        for rule in _rules()
        if (needles := tuple(needle.encode() for needle in rule.needles if coarse in needle))
    )


def find(text: str) -> tuple[Crash, ...]:
    """Return the crashes that cleaned log ``text`` shows, in log order; of a flood of equal ones the two ends."""
    hits: dict[int, tuple[str, str]] = {}
    for kind, needles, pattern in text_rules():
        for needle in needles:
            for at in _places(text, needle, "\n"):
                start, end = _window(text, at, "\n")
                if (hit := pattern.search(text[start:end])) and hit.start() <= at - start + len(needle):
                    hits.setdefault(start + hit.start(), (kind, hit.groupdict().get("text") or hit[0]))
    crashes: list[Crash] = []
    seen, line = 0, 1
    for at, (kind, shown) in sorted(hits.items()):
        line += text.count("\n", seen, at)
        seen = at
        crashes.append(Crash(kind=kind, text=_short(shown), line=line))
    return tuple(crashes)


def spans(block: bytes, coarse: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of what the rules for ``coarse`` match in raw log bytes (to keep these lines)."""
    for needles, pattern in byte_rules(coarse):
        for needle in needles:
            for at in _places(block, needle, b"\n"):
                start, end = _window(block, at, b"\n")
                if hit := pattern.search(block[start:end]):
                    yield start + hit.start(), start + hit.end()


def _places(text: str | bytes, needle: str | bytes, newline: str | bytes) -> list[int]:
    """Where lines with ``needle`` are: one place per line, the first and the last ``PER_NEEDLE`` of them."""
    places: list[int] = []
    at = text.find(needle)  # type: ignore[arg-type]
    while at >= 0:
        places.append(at)
        if len(places) >= PER_NEEDLE:
            return places + _last_places(text, needle, newline, at + 1)
        end = text.find(newline, at)  # type: ignore[arg-type]
        at = text.find(needle, end) if end >= 0 else -1  # type: ignore[arg-type]
    return places


def _last_places(text: str | bytes, needle: str | bytes, newline: str | bytes, after: int) -> list[int]:
    places: list[int] = []
    at = text.rfind(needle, after)  # type: ignore[arg-type]
    while at >= 0 and len(places) < PER_NEEDLE:
        places.append(at)
        start = text.rfind(newline, after, at)  # type: ignore[arg-type]
        at = text.rfind(needle, after, start) if start >= 0 else -1  # type: ignore[arg-type]
    return places[::-1]


def _window(text: str | bytes, at: int, newline: str | bytes) -> tuple[int, int]:
    """The line around ``at`` and the two that follow it, cut to a size that any rule reads fast."""
    start = max(text.rfind(newline, 0, at) + 1, at - _BEFORE)  # type: ignore[arg-type]
    end = at
    for _ in range(3):
        end = text.find(newline, end + 1)  # type: ignore[arg-type]
        if end < 0 or end > at + _AFTER:
            return start, min(len(text), at + _AFTER)
    return start, end


def _short(text: str) -> str:
    return " ".join(one_line(part, 500) for part in text.strip().splitlines() if part.strip())

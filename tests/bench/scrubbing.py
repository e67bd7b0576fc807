"""How the time for scrubbing grows from a quarter of a megabyte to a whole one: 4 is linear, 16 would be quadratic."""

from __future__ import annotations

import time

from reprokit.core.redaction import scrub
from tests.unit.intake.test_secrets import REPEATED, SURVIVES

SIZE = 1_000_000


def took(text: str, size: int) -> float:
    """Seconds for the first ``size`` characters of ``text`` repeated."""
    whole = (text * (size // len(text) + 1))[:size]
    started = time.perf_counter()
    scrub(whole)
    return time.perf_counter() - started


def growth() -> list[tuple[str, float, float]]:
    """What is repeated, seconds for a megabyte of it, and how many times that is what a quarter takes."""
    found = [(text, took(text, SIZE // 4), took(text, SIZE)) for text in [SURVIVES, *REPEATED]]
    return [(text.partition("\n")[0][:30], whole, whole / quarter) for text, quarter, whole in found]

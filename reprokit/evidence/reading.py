"""What a verdict says to whoever compares cells: bad, good, or neither. Pure."""

from __future__ import annotations

from reprokit.evidence.model import StrEnum, Verdict


class Reading(StrEnum):
    """What a verdict says to a search."""

    BAD = "bad"
    GOOD = "good"
    UNKNOWN = "unknown"


_READINGS = {
    Verdict.REPRODUCED: Reading.BAD,
    # It showed the failure: a cell from which the failure is absent does not.
    Verdict.FLAKY: Reading.BAD,
    Verdict.NOT_REPRODUCED: Reading.GOOD,
}


def reading(verdict: Verdict | None) -> Reading:
    """How a verdict reads. What failed otherwise, or is inconclusive, is neither bad nor good."""
    return _READINGS.get(verdict, Reading.UNKNOWN) if verdict else Reading.UNKNOWN

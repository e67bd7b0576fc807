"""What a verdict says to a search, or to a comparison of cells: pass, fail, or unresolved. Pure."""

from __future__ import annotations

from reprokit.evidence.model import StrEnum, Verdict


class Reading(StrEnum):
    """What a verdict says to a search, in the words of delta debugging. The values are those of result files."""

    FAIL = "bad"
    PASS = "good"
    UNRESOLVED = "unknown"


_READINGS = {
    Verdict.REPRODUCED: Reading.FAIL,
    # It showed the failure at least once; a cell without the failure never does.
    Verdict.FLAKY: Reading.FAIL,
    Verdict.NOT_REPRODUCED: Reading.PASS,
}


def reading(verdict: Verdict | None) -> Reading:
    """FAIL where the failure showed, PASS where it did not; UNRESOLVED for another failure or no conclusive result."""
    return _READINGS.get(verdict, Reading.UNRESOLVED) if verdict else Reading.UNRESOLVED

"""Slower, bigger: what trials of two cells that took turns decide of how many times as much the one needs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.core.json_record import ABSENT, JsonRecord
from reprokit.evidence.measuring import ABOVE, BELOW, LOOKS, Estimate, ratio
from reprokit.evidence.model import Judgement, Outcome
from reprokit.evidence.usage import SECONDS, Usage

MOST_PAIRS = max(LOOKS)
CPU, PRINTED, MEMORY = "CPU time", "printed time", "peak memory"
LEAST_CPU = 1.0
"""Seconds of CPU time that each trial must take: of the last twentieth of a second, the control group may be gone."""
NEEDS = {
    CPU: f"the command has to take {LEAST_CPU:g} s of CPU time or more, and the engine to be on this host; or it "
    f"prints '{SECONDS}1.23' in every trial",
    PRINTED: f"the command has to print '{SECONDS}1.23' in every trial, with a number above 0",
    MEMORY: "the command has to run for a second or more, and the engine to be on this host",
}
"""Why a quantity may be missing: what to change."""
_MARK = re.compile(rf"^{SECONDS}([0-9]{{1,9}}(?:\.[0-9]{{1,12}})?)\s*$", re.MULTILINE)
_OUTCOMES = {ABOVE: Outcome.REPRODUCED, BELOW: Outcome.PASSED, None: Outcome.INCONCLUSIVE}


@dataclass(frozen=True, kw_only=True)
class RatioRecord(JsonRecord):
    """What a cell was measured against: ``reference``, in words; '' where the cell is the reference itself.

    ``pairs``: the ``quantity``, in seconds or bytes, of a trial of the cell and of one of the reference. ``times``: how
    many times as much the cell needs. ``why``: what kept them from being measured.
    """

    reference: str = ""
    cell: Mapping[str, str] | None = field(default=None, metadata=ABSENT)
    quantity: str = field(default="", metadata=ABSENT)
    pairs: tuple[tuple[float, float], ...] = field(default=(), metadata=ABSENT)
    times: Estimate | None = field(default=None, metadata=ABSENT)
    why: str = field(default="", metadata=ABSENT)


def quantity_of(slower: bool, text: str) -> str:
    """What is measured, by the log of the first trial: whether it prints its seconds itself."""
    return MEMORY if not slower else PRINTED if _MARK.search(text) else CPU


def measure(quantity: str, usage: Usage | None, text: str) -> float | None:
    """The quantity of a trial with that log, above 0; None where it was not measured, or is too small for it."""
    usage = usage or Usage()
    marks = _MARK.findall(text) if quantity == PRINTED else []
    number = {MEMORY: usage.peak_memory, CPU: usage.cpu_seconds, PRINTED: float(marks[-1]) if marks else None}[quantity]
    return float(number) if number and not (quantity == CPU and number < LEAST_CPU) else None


def estimate(pairs: Sequence[tuple[float, float]], limit: float) -> tuple[Estimate, int, float] | None:
    """The ratio at the first look that decides it, or at the last one; with the pairs and the error of that look.

    None before the first look.
    """
    found = None
    for count, error in LOOKS.items():
        if len(pairs) < count or (found and found[0].side(limit)):
            break
        own, other = zip(*pairs[:count], strict=True)
        found = ratio(own, other, error), count, error
    return found


def is_decided(pairs: Sequence[tuple[float, float]], limit: float) -> bool:
    """Whether further pairs would change nothing."""
    found = estimate(pairs, limit)
    return len(pairs) >= MOST_PAIRS or bool(found and found[0].side(limit))


def weigh(record: RatioRecord, limit: float) -> Judgement:
    """What each trial of a cell shows that was measured so: whether it needs more than ``limit`` times as much."""
    if not record.reference:
        return Judgement(outcome=Outcome.PASSED, reason="this cell is the reference that others are measured against")
    found = estimate(record.pairs, limit)
    if record.why or found is None:
        return Judgement(outcome=Outcome.INCONCLUSIVE, reason=record.why or "too few pairs of trials were run")
    times, count, error = found
    side = times.side(limit)
    relation = {
        ABOVE: f"more than {limit:g} times",
        BELOW: f"less than {limit:g} times",
        None: f"which leaves open whether it is {limit:g} times: let the command do more of what is slow or big, "
        "or run it where less else runs",
    }[side]
    seen = f"{record.quantity} is {times.value:.3g} times that of the reference {record.reference}"
    interval = f"{100 - 200 * error:g} % interval {times.low:.3g} to {times.high:.3g}, {count} pairs of trials"
    return Judgement(outcome=_OUTCOMES[side], reason=f"{seen} ({interval}), {relation}")

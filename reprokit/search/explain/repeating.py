"""Which cells of a run to repeat, so that its statement "reproduces exactly when" rests on enough trials."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from reprokit.evidence.model import Verdict
from reprokit.evidence.reading import Reading, reading
from reprokit.evidence.records import CellRecord
from reprokit.evidence.strength import Tally
from reprokit.search.explain.explain import explain
from reprokit.search.explain.support import MOST_TRIALS, Support, as_before, budget, next_repeat

SHORTEST = 0.5
"""Seconds that a trial counts at least: below that, how long one took is mostly chance."""


def planner(confirm: str) -> Confirmation | None:
    """What ``--confirm`` asks for: ``auto``, ``always`` or ``never``."""
    return None if confirm == "never" else Confirmation(limited=confirm == "auto")


class Confirmation:
    """Implements :class:`reprokit.run.confirming.Planner`.

    ``limited``: within a budget of trial seconds, see :func:`reprokit.search.explain.support.budget`.
    """

    def __init__(self, *, limited: bool) -> None:
        self._limited = limited
        self._known: dict[tuple[str, tuple[Reading, ...]], Support] = {}

    def __call__(self, records: Sequence[CellRecord], running: Collection[int]) -> int | None:
        """The number of the cell to repeat next; None where nothing more is worth it, or what is ``running`` may do."""
        support = self._support(records)
        tallies, seconds = list(map(tally_of, records)), [seconds_of(record) for record in records]
        left = math.inf
        if self._limited:
            again = [record.details.repeats for record in records]
            first = (each * (len(one.trials) - n) for each, one, n in zip(seconds, records, again, strict=True))
            left = budget(sum(first)) - sum(each * n for each, n in zip(seconds, again, strict=True))
        for at, record in enumerate(records):
            if record.number in running:
                tallies[at] += as_before(tallies[at])
                left -= seconds[at]
        plan = support.missing(tallies, seconds)
        plan = replace(plan, cells=tuple(at for at in plan.cells if records[at].number not in running))
        chosen = next_repeat(plan, tallies, seconds, left)
        return None if chosen is None else records[chosen].number

    def _support(self, records: Sequence[CellRecord]) -> Support:
        readings = tuple(reading(record.verdict) for record in records)
        key = records[0].case_digest if records else "", readings
        if key not in self._known:
            cells = [dict(record.cell) for record in records]
            self._known[key] = Support(explain(cells, readings), cells)
        return self._known[key]


def tally_of(record: CellRecord) -> Tally:
    """What the trials of a recorded cell count for; of a record that was read without them, by its figures."""
    shown, measured = record.details.trials, record.details.ratio
    if measured is not None and not measured.reference and record.verdict is Verdict.NOT_REPRODUCED:
        return Tally(passed=MOST_TRIALS)  # the reference: it passes by definition, and no chance is in that
    if record.trials or shown is None:
        return Tally.count([trial.outcome for trial in record.trials])
    others = shown.of - shown.reproduced
    passes = record.verdict in (Verdict.NOT_REPRODUCED, Verdict.FLAKY)
    return Tally(failed=shown.reproduced, passed=others if passes else 0)


def trials_of(record: CellRecord) -> int:
    """How many trials a recorded cell had, at least one; also of a record that was read without them."""
    shown = record.details.trials
    return len(record.trials) or (shown.of if shown else 1)


def seconds_of(record: CellRecord) -> float:
    """What a trial of a cell takes, with its container."""
    spent = record.seconds or sum(trial.seconds for trial in record.trials)
    return max(spent / max(1, len(record.trials)), SHORTEST)

"""What judging recorded cells again came to, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from reprokit.core.terminal import style
from reprokit.core.text import pluralize
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report.history.rejudging import Again, CannotJudge
from reprokit.report.labels import cell_name, expectation

FORMAT = "reprokit-rejudge/v1"
Skipped = tuple[RunRecord, CellRecord, CannotJudge]
"""A cell that could not be judged again, and why."""


def lines(found: Sequence[Again], skipped: Sequence[Skipped], *, written: bool) -> Iterator[str]:
    """What changed, or would, run by run, then what could not be judged, then how many of how many."""
    changed = [one for one in found if one.differs]
    for run, group in groupby(changed, lambda one: one.run):
        yield style(f"run {run.id}, {run.started_at}", bold=True)
        for one in group:
            cell, after = one.before, one.after
            name = f"{cell.number} {cell.case_id}: {cell_name(cell)}"
            yield f"  {name}: {cell.verdict} -> {after.verdict} ({expectation(after)})"
            said: dict[str, list[str]] = {}
            for old, new in one.trials:
                said.setdefault(f"{old.outcome} -> {new.outcome}: {new.reason}", []).append(str(new.number))
            for words, numbers in said.items():
                yield f"      {'trial' if len(numbers) == 1 else 'trials'} {', '.join(numbers)}: {words}"
    reasons: dict[tuple[str, str], list[str]] = {}
    for run, _, error in skipped:
        reasons.setdefault((run.id, error.why), []).append(error.where)
    for (run_id, why), places in reasons.items():
        yield f"not judged, {pluralize(len(places), 'cell')} of run {run_id}: {why} ({places[0]})"
    runs = len({one.run.id for one in found})
    how = "changed" if written else "would change"
    hint = "; --write records it, and keeps what was there" if changed and not written else ""
    cells = pluralize(len(found), "cell")
    yield f"{cells} of {pluralize(runs, 'run')} judged again: {len(changed) or 'none'} {how}{hint}"


def to_json(found: Sequence[Again], skipped: Sequence[Skipped], *, written: bool) -> dict[str, Any]:
    """The same as JSON, with both records of each cell that changed."""

    def place(run: RunRecord, cell: CellRecord) -> dict[str, Any]:
        return {
            "run": run.id,
            "number": cell.number,
            "case": cell.case_id,
            "cell": dict(cell.cell),
            "variant": cell.variant,
        }

    def said(cell: CellRecord) -> dict[str, Any]:
        verdict = cell.verdict and cell.verdict.value
        return {"verdict": verdict, "reason": cell.reason, "rules": cell.rules, "as_expected": cell.as_expected}

    return {
        "format": FORMAT,
        "written": written,
        "judged": len(found),
        "changed": [
            {
                **place(one.run, one.before),
                "before": said(one.before),
                "after": said(one.after),
                "trials": [
                    {
                        "number": new.number,
                        "before": {"outcome": old.outcome.value, "reason": old.reason},
                        "after": {"outcome": new.outcome.value, "reason": new.reason},
                    }
                    for old, new in one.trials
                ],
            }
            for one in found
            if one.differs
        ],
        "not_judged": [{**place(run, cell), "why": str(error)} for run, cell, error in skipped],
    }

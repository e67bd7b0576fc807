"""Transitions with their records, and what changed around each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from reprokit.evidence.records import RunRecord
from reprokit.report.differences import Difference
from reprokit.report.history import changed
from reprokit.report.history.changed import Record
from reprokit.report.history.series import CaseHistory, Series
from reprokit.report.history.transitions import Transition

if TYPE_CHECKING:
    from reprokit.store.database import Store


@dataclass(frozen=True, kw_only=True)
class CellChange:
    """A transition of one cell. ``before``: the last record of the old state, None for a new cell; ``after``: the first
    of the new one; ``settled``: the run that made it count. ``differences``: what changed between the two records.
    """

    series: Series
    transition: Transition
    before: Record | None
    after: Record
    settled: RunRecord | None
    differences: tuple[Difference, ...] = ()


def describe(store: Store, history: CaseHistory, chosen: Sequence[tuple[Series, Transition]]) -> list[CellChange]:
    """These transitions with their records. A few queries, however many there are."""
    places = {series.results[at].place for series, one in chosen for at in (one.before, one.after) if at is not None}
    records = store.records(places)
    texts = lru_cache(maxsize=None)(store.case_text)

    def record(series: Series, at: int) -> Record:
        result = series.results[at]
        return history.runs[result.run_id], records[result.place]

    changes = []
    for series, one in chosen:
        before = record(series, one.before) if one.before is not None else None
        after = record(series, one.after)
        changes.append(
            CellChange(
                series=series,
                transition=one,
                before=before,
                after=after,
                settled=history.runs[series.results[one.settled].run_id] if one.settled is not None else None,
                differences=changed.between(texts, before, after) if before else (),
            )
        )
    return changes


def change_json(change: CellChange) -> dict[str, Any]:
    """A change as JSON: enough to open an issue from it."""
    one, series = change.transition, change.series
    return {
        **series_key(series),
        "from": one.old.value if one.old else None,
        "to": one.new.value,
        "words": one.words,
        "confirmed": one.confirmed,
        "before": _record_json(change.before),
        "after": _record_json(change.after),
        "confirmed_by": change.settled and {"run": change.settled.id, "at": change.settled.started_at},
        "seen": one.seen,
        "chance": one.chance,
        "changed": [
            {"concern": each.concern, "name": each.name, "before": each.before, "after": each.after}
            for each in change.differences
        ],
    }


def series_key(series: Series) -> dict[str, Any]:
    """What names a series, as JSON."""
    return {
        "case": series.case_id,
        "cell": dict(series.cell),
        "variant": series.variant,
        "engine": series.engine,
    }


def _record_json(record: Record | None) -> Mapping[str, Any] | None:
    if record is None:
        return None
    run, cell = record
    return {
        "run": run.id,
        "at": run.started_at,
        "number": cell.number,
        "verdict": cell.verdict and cell.verdict.value,
        "reason": cell.reason,
        "failure": cell.details.failure and cell.details.failure.to_json(),
        "case_digest": cell.case_digest,
    }

"""Records as rows of the tables, and back. Pure."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from reprokit.case.matrix import cell_key
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import CellRecord, RunRecord, TrialRecord
from reprokit.store.older import with_engine_kind


def run_row(run: RunRecord) -> dict[str, Any]:
    """A run as a row of ``runs``, without its cells."""
    return {
        "id": run.id,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "exit_status": run.exit_status,
        "version": run.version,
        "request": dict(run.request),
        "host": dict(run.host),
        "owner": dict(run.owner),
    }


def cell_row(run_id: str, cell: CellRecord) -> dict[str, Any]:
    """A cell as a row of ``cells``, without its trials."""
    return {
        "run_id": run_id,
        "number": cell.number,
        "case_id": cell.case_id,
        "case_path": cell.case_path,
        "case_digest": cell.case_digest,
        "cell": dict(cell.cell),
        "cell_key": cell_key(cell.cell),
        "variant": cell.variant,
        "verdict": cell.verdict and cell.verdict.value,
        "expected": cell.expected and cell.expected.value,
        "as_expected": cell.as_expected,
        "reason": cell.reason,
        "rules": cell.rules,
        "seconds": cell.seconds,
        "image": cell.image and dict(cell.image),
        "environment": cell.environment and dict(cell.environment),
        "dockerfile": cell.dockerfile,
        "repeat": cell.repeat,
        "details": dict(cell.details),
    }


def trial_row(cell_id: int | None, trial: TrialRecord) -> dict[str, Any]:
    """A trial of the cell in the row ``cell_id``."""
    return {
        "cell_id": cell_id,
        "number": trial.number,
        "outcome": trial.outcome.value,
        "exit_code": trial.exit_code,
        "seconds": trial.seconds,
        "oom": trial.oom,
        "timed_out": trial.timed_out,
        "exception": trial.exception and dict(trial.exception),
        "reason": trial.reason,
        "lines": list(trial.lines),
        "log": trial.log,
    }


def bare_run(row: Row[Any], cells: tuple[CellRecord, ...] = ()) -> RunRecord:
    """A run from its row, with these cells."""
    return RunRecord(
        id=row.id,
        started_at=row.started_at,
        finished_at=row.finished_at,
        exit_status=row.exit_status,
        version=row.version,
        request=row.request,
        host=with_engine_kind(row.host),
        owner=row.owner,
        cells=cells,
    )


def cell_of(row: Row[Any], trials: tuple[TrialRecord, ...]) -> CellRecord:
    """A cell from its row, with these trials."""
    return CellRecord(
        number=row.number,
        case_id=row.case_id,
        case_path=row.case_path,
        case_digest=row.case_digest,
        cell=row.cell,
        variant=row.variant,
        verdict=Verdict(row.verdict) if row.verdict else None,
        expected=Verdict(row.expected) if row.expected else None,
        reason=row.reason,
        rules=row.rules,
        seconds=row.seconds,
        image=row.image,
        environment=row.environment,
        dockerfile=row.dockerfile,
        repeat=row.repeat,
        details=with_engine_kind(row.details or {}),
        trials=trials,
    )


def trial_of(row: Row[Any]) -> TrialRecord:
    """A trial from its row; how it failed is in its cell's details."""
    return TrialRecord(
        number=row.number,
        outcome=Outcome(row.outcome),
        exit_code=row.exit_code,
        seconds=row.seconds,
        oom=row.oom,
        timed_out=row.timed_out,
        reason=row.reason,
        log=row.log,
        exception=row.exception,
        lines=tuple(row.lines),
    )

"""Records as rows of the tables, and back. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Row

from reprokit.case.matrix import cell_key
from reprokit.evidence.records import CellRecord, RunRecord, TrialRecord


def run_row(run: RunRecord) -> dict[str, Any]:
    """A run as a row of ``runs``, without its cells."""
    values = replace(run, cells=()).to_json()
    del values["cells"]
    return values


def cell_row(run_id: str, cell: CellRecord) -> dict[str, Any]:
    """A cell as a row of ``cells``, without its trials."""
    values = replace(cell, trials=()).to_json()
    del values["trials"]
    return {"run_id": run_id, "cell_key": cell_key(cell.cell), "as_expected": cell.as_expected, **values}


def trial_row(cell_id: int | None, trial: TrialRecord) -> dict[str, Any]:
    """A trial of the cell in the row ``cell_id``."""
    return {"cell_id": cell_id, **trial.to_json()}


def bare_run(row: Row[Any], cells: tuple[CellRecord, ...] = ()) -> RunRecord:
    """A run from its row, with these cells."""
    return replace(RunRecord.from_json(row._asdict()), cells=cells)


def cell_of(row: Row[Any], trials: tuple[TrialRecord, ...]) -> CellRecord:
    """A cell from its row, with these trials."""
    return replace(CellRecord.from_json({**row._asdict(), "details": row.details or {}}), trials=trials)


def trial_of(row: Row[Any]) -> TrialRecord:
    """A trial from its row."""
    return TrialRecord.from_json(row._asdict())

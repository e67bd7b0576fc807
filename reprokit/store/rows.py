"""Records as rows of the tables, and back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from functools import lru_cache
from typing import Any

from sqlalchemy import Row, Select, Table, Text, cast, select

from reprokit.case.matrix import cell_key
from reprokit.core import json_text
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails
from reprokit.evidence.origin import HostRecord
from reprokit.evidence.records import CellRecord, ImageRecord, RequestRecord, RunRecord, TrialRecord


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


def _once(read: Callable[[Any], object]) -> Callable[[str], object]:
    """A reader of a JSON text that reads equal texts once, so that memory holds what they say once."""
    return lru_cache(maxsize=1024)(lambda text: read(json_text.loads(text)))


_PARTS = {
    "request": _once(RequestRecord.from_json),
    "host": _once(HostRecord.from_json),
    "image": _once(lambda value: None if value is None else ImageRecord.from_json(value)),
    "environment": _once(lambda value: None if value is None else Measured.from_json(value)),
    "details": _once(lambda value: CellDetails.from_json(value or {})),
}
"""What many runs or cells have in common."""


def rows_of(table: Table, left_out: Collection[str] = ()) -> Select[Any]:
    """The columns of ``runs`` or ``cells`` as :func:`bare_run` and :func:`cell_of` take them."""
    kept = (column for column in table.c if column.name not in left_out)
    return select(*(cast(one, Text).label(one.name) if one.name in _PARTS else one for one in kept))


def _read(row: Row[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of a row but for :data:`_PARTS`, and what these say."""
    plain = row._asdict()
    return plain, {name: part(plain.pop(name) or "null") for name, part in _PARTS.items() if name in plain}


def bare_run(row: Row[Any]) -> RunRecord:
    """A run from its row, without its cells."""
    plain, parts = _read(row)
    return replace(RunRecord.from_json(plain), **parts)


def cell_of(row: Row[Any], trials: tuple[TrialRecord, ...]) -> CellRecord:
    """A cell from its row, with these trials."""
    plain, parts = _read(row)
    return replace(CellRecord.from_json(plain), trials=trials, **parts)


def trial_of(row: Row[Any]) -> TrialRecord:
    """A trial from its row."""
    return TrialRecord.from_json(row._asdict())

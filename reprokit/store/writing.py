"""Writes records into the tables, within a transaction that the caller opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, insert, or_, select, update

from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.store import dialects, summaries, tables
from reprokit.store.rows import cell_row, run_row, trial_row

runs, cells, trials = tables.runs.c, tables.cells.c, tables.trials.c
findings, journals = tables.findings.c, tables.journals.c


def know(connection: Connection, digest: str, case_id: str, title: str, text: str) -> None:
    """Keep the text of a case."""
    known = select(tables.cases.c.id).where(tables.cases.c.digest == digest)
    if connection.scalar(known) is None:
        # One host after the other: two that insert the same texts in different orders would wait for each other.
        dialects.of(connection.dialect.name).writing(connection, "texts of cases")
        if connection.scalar(known) is None:
            connection.execute(insert(tables.cases).values(digest=digest, id=case_id, title=title, text=text))


def put(connection: Connection, run: RunRecord) -> None:
    """Write a run with its cells, in place of what is there under its id."""
    _forget_cells(connection, run.id)
    _set(connection, tables.runs, {"id": run.id}, run_row(run))
    if not run.cells:
        return
    connection.execute(insert(tables.cells), [cell_row(run.id, cell) for cell in run.cells])
    of_run = connection.execute(select(cells.number, cells.id).where(cells.run_id == run.id))
    rows = {number: row_id for number, row_id in of_run}  # noqa: C416 - a Row is not a tuple of two for mypy
    found = [trial_row(rows[cell.number], trial) for cell in run.cells for trial in cell.trials]
    if found:
        connection.execute(insert(tables.trials), found)


def begin(connection: Connection, run: RunRecord) -> None:
    """Write a run that a host began, or took over. Of one that is there already, only cells that it lacks.

    Journals of several hosts come in any order: what one of them decided must not go with the beginning of another.
    """
    if connection.scalar(select(runs.id).where(runs.id == run.id)) is None:
        put(connection, run)
        return
    there = connection.execute(select(cells.number, cells.verdict).where(cells.run_id == run.id))
    verdicts = {number: verdict for number, verdict in there}  # noqa: C416 - a Row is not a tuple of two for mypy
    for cell in run.cells:
        if cell.number not in verdicts or (verdicts[cell.number] is None and cell.verdict is not None):
            decide(connection, run.id, cell)


def resume(connection: Connection, run_id: str, owner: Mapping[str, Any]) -> None:
    """Mark a run as being written by that process (its labels)."""
    values = {"owner": dict(owner), "finished_at": None, "exit_status": None}
    connection.execute(update(tables.runs).where(runs.id == run_id).values(**values))


def decide(connection: Connection, run_id: str, cell: CellRecord) -> None:
    """Write a decided cell with its trials. A search's cells come into being by this."""
    key = {"run_id": run_id, "number": cell.number}
    _set(connection, tables.cells, key, cell_row(run_id, cell))
    row_id = connection.scalar(select(cells.id).where(cells.run_id == run_id, cells.number == cell.number))
    connection.execute(delete(tables.trials).where(trials.cell_id == row_id))
    if cell.trials:
        connection.execute(insert(tables.trials), [trial_row(row_id, trial) for trial in cell.trials])


def finish(connection: Connection, run_id: str, *, finished_at: str, exit_status: int, host: Mapping[str, Any]) -> None:
    """Close a run. ``host``: its record as JSON."""
    values = {"finished_at": finished_at, "exit_status": exit_status, "host": dict(host)}
    connection.execute(update(tables.runs).where(runs.id == run_id).values(**values))


def find(connection: Connection, run_id: str, key: str, value: Any) -> None:
    """Keep what a search learned or found (JSON), in place of what was kept under the key."""
    _set(connection, tables.findings, {"run_id": run_id, "key": key}, {"run_id": run_id, "key": key, "value": value})


def forget(connection: Connection, run_id: str) -> None:
    """Remove a run with its cells, trials and findings."""
    summaries.drop(connection, run_id)
    _forget_cells(connection, run_id)
    connection.execute(delete(tables.findings).where(findings.run_id == run_id))
    connection.execute(delete(tables.journals).where(_journals_of(run_id)))
    connection.execute(delete(tables.runs).where(runs.id == run_id))


def has_journal(connection: Connection, run_id: str) -> bool:
    """Whether a journal of the run, of whatever host, is in the database."""
    return connection.scalar(select(journals.run_id).where(_journals_of(run_id)).limit(1)) is not None


def _journals_of(run_id: str) -> ColumnElement[bool]:
    return or_(journals.run_id == run_id, journals.run_id.startswith(f"{run_id}@", autoescape=True))


def replayed(connection: Connection, journal: str) -> int:
    """How many bytes of a journal, by its :func:`.remote.journal_name`, the database has."""
    return connection.scalar(select(journals.size).where(journals.run_id == journal)) or 0


def set_replayed(connection: Connection, journal: str, size: int) -> None:
    """Remember how many bytes of a journal the database has."""
    _set(connection, tables.journals, {"run_id": journal}, {"run_id": journal, "size": size})


def _set(connection: Connection, table: Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    # Values as parameters: SQLAlchemy then compiles each statement once, however many rows there are.
    where = [table.c[name] == bindparam(f"key_{name}") for name in key]
    keys = {f"key_{name}": value for name, value in key.items()}
    if not connection.execute(update(table).where(*where), {**values, **keys}).rowcount:
        connection.execute(insert(table), values)


def _forget_cells(connection: Connection, run_id: str) -> None:
    of_run = select(cells.id).where(cells.run_id == run_id)
    connection.execute(delete(tables.trials).where(trials.cell_id.in_(of_run)))
    connection.execute(delete(tables.cells).where(cells.run_id == run_id))

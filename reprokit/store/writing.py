"""Journals into the tables: what these lack, each line once, whoever was killed when; and rows as records again.

All that is in the tables came through a line of a journal. Whoever calls has opened a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    insert,
    or_,
    select,
    update,
)

from reprokit.case.matrix import cell_key
from reprokit.core import json_text
from reprokit.core.json_record import fits
from reprokit.core.ownership import IMPORTED
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails
from reprokit.evidence.origin import HostRecord, OwnerRecord
from reprokit.evidence.records import CellRecord, ImageRecord, RequestRecord, RunRecord, TrialRecord
from reprokit.store import dialects, summaries, tables
from reprokit.store.journal import Entry, entries, path_of
from reprokit.store.remote import journal_name

runs, cells = tables.runs.c, tables.cells.c
findings, journals = tables.findings.c, tables.journals.c

COPIES = ("put", "case", "find")  # kinds of lines that say what another store recorded


def lacks(connection: Connection, folder: Path, run_id: str) -> bool:
    """Whether the database does not have the whole journal of a run of the store in ``folder``."""
    try:
        return path_of(folder, run_id).stat().st_size > _replayed(connection, folder, run_id)[0]
    except FileNotFoundError:
        return False


def replay(connection: Connection, folder: Path, run_id: str, damage: list[str] | None = None) -> bool:
    """Write what the database lacks of a run's journal; whether the run has ended, or its folder was removed by hand.

    Damaged lines, and content that no reprokit writes, are left out and added to ``damage`` in words. Where the line
    that began the run is one of them, what the others say is kept in a run that says so.
    """
    end, copied = _replayed(connection, folder, run_id)
    summaries.drop(connection, run_id)
    found: list[str] = []
    ended = False
    try:
        for entry in entries(path_of(folder, run_id), end):
            end = entry.end
            ended = ended or entry.kind in ("finish", "put")
            copied = copied and entry.kind in COPIES
            try:
                if entry.kind not in ("begin", "put", "case", "") and not _is_there(connection, run_id):
                    begin(connection, _stand_in(run_id))
                    found.append("the line that began the run cannot be read")
                apply(connection, run_id, entry)
            except (ValueError, OverflowError) as error:
                found.append(f"a line that is not what reprokit wrote ({error})" if entry.kind else "a damaged line")
    except FileNotFoundError:
        return True
    if damage is not None:
        damage += [f"{path_of(folder, run_id)}: {text}" for text in dict.fromkeys(found)]
    _set(
        connection,
        tables.journals,
        {"run_id": journal_name(folder, run_id)},
        {"run_id": journal_name(folder, run_id), "size": end, "copied": copied},
    )
    if connection.scalar(select(runs.finished_at).where(runs.id == run_id)) is None:
        return False
    if ended:  # what is judged again comes cell by cell: its summaries are made when the store is next opened
        summaries.keep(connection, run_id)
    return True


def _replayed(connection: Connection, folder: Path, run_id: str) -> tuple[int, bool]:
    """How many bytes of a journal the database has, and whether these were only put there."""
    query = select(journals.size, journals.copied).where(journals.run_id == journal_name(folder, run_id))
    row = connection.execute(query).one_or_none()
    return (row.size, row.copied) if row else (0, True)


def _is_there(connection: Connection, run_id: str) -> bool:
    return connection.scalar(select(runs.id).where(runs.id == run_id)) is not None


def _stand_in(run_id: str) -> RunRecord:
    """The run of a journal whose first line is lost. It is not resumed: no one knows what it was asked."""
    at = "1970-01-01T00:00:00.000Z"
    with suppress(ValueError):
        at = f"{datetime.strptime(run_id[:15], '%Y%m%d-%H%M%S'):%Y-%m-%dT%H:%M:%S}.000Z"
    return RunRecord(id=run_id, started_at=at, version="", owner=OwnerRecord(labels={IMPORTED: "1"}))


def apply(connection: Connection, run_id: str, entry: Entry) -> None:
    """Write one line. Raises ValueError where it is not one of ours."""
    kind = entry.kind
    if kind in ("begin", "put"):
        run = entry.read("run", RunRecord)
        if run.id != run_id:
            raise ValueError(f"the journal is of run {run.id}")
        _check(_are_distinct(run.cells) and all(_are_distinct(one.trials) for one in run.cells))
        (begin if kind == "begin" else put)(connection, run)
    elif kind == "resume":
        values = {"owner": entry.read("owner", OwnerRecord).to_json(), "finished_at": None, "exit_status": None}
        connection.execute(update(tables.runs).where(runs.id == run_id).values(**values))
    elif kind == "case":
        know(connection, *(entry.read(key, str) for key in ("digest", "id", "title", "text")))
    elif kind == "decide":
        cell = entry.read("cell", CellRecord)
        _check(_are_distinct(cell.trials))
        decide(connection, run_id, cell)
    elif kind == "find":
        key = {"run_id": run_id, "key": entry.read("key", str)}
        _set(connection, tables.findings, key, {**key, "value": entry.read("value", object)})
    elif kind == "finish":
        ended: dict[str, object] = {
            "finished_at": entry.read("finished_at", str),
            "exit_status": entry.read("exit_status", int),
            "host": entry.read("host", HostRecord).to_json(),
        }
        connection.execute(update(tables.runs).where(runs.id == run_id).values(**ended))
    else:
        raise ValueError(f"a line of the kind {kind!r}")


def _check(holds: bool) -> None:
    if not holds:
        raise ValueError("a field has a value of another type")


def _are_distinct(some: Collection[CellRecord] | Collection[TrialRecord]) -> bool:
    return len({one.number for one in some}) == len(some)


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
    connection.execute(delete(tables.cells).where(cells.run_id == run.id))
    _set(connection, tables.runs, {"id": run.id}, _run_row(run))
    if run.cells:
        connection.execute(insert(tables.cells), [_cell_row(run.id, cell) for cell in run.cells])


def begin(connection: Connection, run: RunRecord) -> None:
    """Write a run that a host began, or took over. Of one that is there already, only cells that it lacks.

    Journals of several hosts come in any order: what one of them decided must not go with the beginning of another.
    """
    if not _is_there(connection, run.id):
        put(connection, run)
        return
    if run.version and not connection.scalar(select(runs.version).where(runs.id == run.id)):
        _set(connection, tables.runs, {"id": run.id}, _run_row(run))  # the real one, after a stand-in
    there = connection.execute(select(cells.number, cells.verdict).where(cells.run_id == run.id))
    verdicts = {number: verdict for number, verdict in there}  # noqa: C416 - a Row is not a tuple of two for mypy
    for cell in run.cells:
        if cell.number not in verdicts or (verdicts[cell.number] is None and cell.verdict is not None):
            decide(connection, run.id, cell)


def decide(connection: Connection, run_id: str, cell: CellRecord) -> None:
    """Write a decided cell with its trials. A search's cells come into being by this."""
    _set(connection, tables.cells, {"run_id": run_id, "number": cell.number}, _cell_row(run_id, cell))


def forget(connection: Connection, run_id: str) -> None:
    """Remove a run with its cells, trials and findings."""
    summaries.drop(connection, run_id)
    connection.execute(delete(tables.cells).where(cells.run_id == run_id))
    connection.execute(delete(tables.findings).where(findings.run_id == run_id))
    connection.execute(delete(tables.journals).where(_journals_of(run_id)))
    connection.execute(delete(tables.runs).where(runs.id == run_id))


def was_written(connection: Connection, run_id: str) -> bool:
    """Whether a host decided something of the run, in a journal that the database has: it was not only copied."""
    written = select(journals.run_id).where(and_(_journals_of(run_id), journals.copied.is_(False)))
    return connection.scalar(written.limit(1)) is not None


def _journals_of(run_id: str) -> ColumnElement[bool]:
    return or_(journals.run_id == run_id, journals.run_id.startswith(f"{run_id}@", autoescape=True))


def _set(connection: Connection, table: Table, key: Mapping[str, Any], values: Mapping[str, Any]) -> None:
    # Values as parameters: SQLAlchemy then compiles each statement once, however many rows there are.
    where = [table.c[name] == bindparam(f"key_{name}") for name in key]
    keys = {f"key_{name}": value for name, value in key.items()}
    if not connection.execute(update(table).where(*where), {**values, **keys}).rowcount:
        connection.execute(insert(table), values)


def _run_row(run: RunRecord) -> dict[str, Any]:
    values = replace(run, cells=()).to_json()
    del values["cells"]
    return values


def _cell_row(run_id: str, cell: CellRecord) -> dict[str, Any]:
    derived = {"cell_key": cell_key(cell.cell), "case_key": cell.case_key, "as_expected": cell.as_expected}
    return {"run_id": run_id, **derived, **cell.to_json()}


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


def _split(row: Row[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The columns of a row but for :data:`_PARTS`, and what these say."""
    plain = row._asdict()
    return plain, {name: part(plain.pop(name) or "null") for name, part in _PARTS.items() if name in plain}


def bare_run(row: Row[Any]) -> RunRecord:
    """A run from its row, without its cells."""
    plain, parts = _split(row)
    return replace(RunRecord.from_json(plain), **parts)


def cell_of(row: Row[Any]) -> CellRecord:
    """A cell from its row. Raises ValueError for one that reprokit did not write so."""
    plain, parts = _split(row)
    cell = replace(CellRecord.from_json(plain), **parts)
    _check(fits(cell.trials, tuple[TrialRecord, ...]))
    return cell

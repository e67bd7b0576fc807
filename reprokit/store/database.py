"""The record of runs: SQLite in ``.reprokit/`` of the project by default, any database that SQLAlchemy knows by URL.

One writer per run; WAL mode lets other commands read meanwhile. Cells are written as they are decided, so that
what a killed run had decided is kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Row,
    case,
    create_engine,
    delete,
    event,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlalchemy.pool import StaticPool

from reprokit.case.matrix import Cell
from reprokit.core.errors import UsageError
from reprokit.core.locks import locked
from reprokit.evidence.details import CellDetails
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.origin import HostRecord, OwnerRecord
from reprokit.evidence.records import CellRecord, Result, RunRecord, TrialRecord
from reprokit.store import migrations, tables
from reprokit.store.folder import make_folder
from reprokit.store.rows import bare_run, cell_of, cell_row, run_row, trial_of, trial_row


class Store:
    """Runs, cells and trials, recorded for the store in ``folder``. Safe to use from several threads."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        """Open, and create when new. ``url``: another database than ``folder/reprokit.db`` (``$REPROKIT_DATABASE``).

        A store of an earlier version is brought up to date. Raises UsageError for one of a newer version.
        """
        self.folder = make_folder(folder)
        url = url or os.environ.get("REPROKIT_DATABASE") or _sqlite_url(folder / "reprokit.db")
        self._engine = create_engine(url)
        self._lock = threading.Lock()
        if self._engine.dialect.name == "sqlite":
            event.listen(self._engine, "connect", _tune_sqlite)
        try:
            with contextlib.ExitStack() as held:  # two processes that open a new store make its tables once
                with contextlib.suppress(OSError):  # a store that may only be read has its tables
                    held.enter_context(locked(self.folder / "reprokit.lock"))
                self._bring_up_to_date()
        except DatabaseError as error:
            raise UsageError(
                f"the store's database in {self.folder} cannot be used: {error.orig}; "
                "name another store with --store, or move this one away"
            ) from error

    @property
    def engine(self) -> Engine:
        """The SQLAlchemy engine, for queries of one's own."""
        return self._engine

    def close(self) -> None:
        """Give the database back."""
        self._engine.dispose()

    def begin(self, run: RunRecord, texts: Mapping[str, tuple[str, str, str]]) -> None:
        """Record a new run with its undecided cells. ``texts``: case digest -> (id, title, text)."""
        for digest, (case_id, title, text) in texts.items():
            self.know(digest, case_id, title, text)
        with self._lock, self._engine.begin() as connection:
            connection.execute(insert(tables.runs).values(**run_row(run)))
            if run.cells:
                connection.execute(insert(tables.cells), [cell_row(run.id, cell) for cell in run.cells])

    def know(self, digest: str, case_id: str, title: str, text: str) -> None:
        """Keep the text of a case."""
        # Another run may know the case already, or come to know it at this very moment.
        with self._lock, contextlib.suppress(IntegrityError), self._engine.begin() as connection:
            connection.execute(insert(tables.cases).values(digest=digest, id=case_id, title=title, text=text))

    def take_over(self, run_id: str, owner: OwnerRecord) -> None:
        """Mark a run that is being resumed as this process's."""
        with self._lock, self._engine.begin() as connection:
            connection.execute(
                update(tables.runs)
                .where(tables.runs.c.id == run_id)
                .values(owner=owner.to_json(), finished_at=None, exit_status=None)
            )

    def decide(self, run_id: str, cell: CellRecord) -> None:
        """Write a decided cell with its trials, at once and whole. A search's cells come into being by this."""
        where = (tables.cells.c.run_id == run_id) & (tables.cells.c.number == cell.number)
        with self._lock, self._engine.begin() as connection:
            if not connection.execute(update(tables.cells).where(where).values(**cell_row(run_id, cell))).rowcount:
                connection.execute(insert(tables.cells).values(**cell_row(run_id, cell)))
            row_id = connection.scalar(select(tables.cells.c.id).where(where))
            connection.execute(delete(tables.trials).where(tables.trials.c.cell_id == row_id))
            if cell.trials:
                connection.execute(insert(tables.trials), [trial_row(row_id, trial) for trial in cell.trials])

    def finish(self, run_id: str, *, finished_at: str, exit_status: int, host: HostRecord) -> None:
        """Close a run."""
        with self._lock, self._engine.begin() as connection:
            connection.execute(
                update(tables.runs)
                .where(tables.runs.c.id == run_id)
                .values(finished_at=finished_at, exit_status=exit_status, host=host.to_json())
            )

    def put(self, run: RunRecord, texts: Mapping[str, tuple[str, str, str]]) -> None:
        """Write a run with all its cells at once, in place of what stands under its id. ``texts``: as of ``begin``."""
        for digest, (case_id, title, text) in texts.items():
            self.know(digest, case_id, title, text)
        values = run_row(run)
        with self._lock, self._engine.begin() as connection:
            _forget_cells(connection, run.id)
            if not connection.execute(update(tables.runs).where(tables.runs.c.id == run.id).values(**values)).rowcount:
                connection.execute(insert(tables.runs).values(**values))
            for cell in run.cells:
                row = connection.execute(insert(tables.cells).values(**cell_row(run.id, cell)))
                if cell.trials:
                    row_id = row.inserted_primary_key[0] if row.inserted_primary_key else None
                    connection.execute(insert(tables.trials), [trial_row(row_id, trial) for trial in cell.trials])

    def forget(self, run_id: str) -> None:
        """Remove a run with its cells, trials, findings and logs."""
        with self._lock, self._engine.begin() as connection:
            _forget_cells(connection, run_id)
            connection.execute(delete(tables.findings).where(tables.findings.c.run_id == run_id))
            connection.execute(delete(tables.runs).where(tables.runs.c.id == run_id))
        shutil.rmtree(self.folder / "runs" / run_id, ignore_errors=True)

    def texts(self, digests: Iterable[str]) -> dict[str, tuple[str, str, str]]:
        """Of cases that are known: digest -> (id, title, text)."""
        table, wanted = tables.cases.c, set(digests)
        with self._engine.connect() as connection:
            rows = connection.execute(select(table.digest, table.id, table.title, table.text))
            return {row.digest: (row.id, row.title, row.text) for row in rows if row.digest in wanted}

    def faults(self) -> str:
        """What is wrong with the database's file, as SQLite tells it; '' when it is whole."""
        if self._engine.dialect.name != "sqlite":
            return ""
        with self._engine.connect() as connection:
            said = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()
        return "" if said == "ok" else str(said)

    def find(self, run_id: str, key: str, value: Any) -> None:
        """Keep what a search learned or found (JSON); what was kept under the key before is replaced."""
        row = (tables.findings.c.run_id == run_id) & (tables.findings.c.key == key)
        with self._lock, self._engine.begin() as connection:
            connection.execute(delete(tables.findings).where(row))
            connection.execute(insert(tables.findings).values(run_id=run_id, key=key, value=value))

    def findings(self, run_id: str) -> dict[str, Any]:
        """What a search learned and found, by key; its result is under ``ANSWER``."""
        with self._engine.connect() as connection:
            query = select(tables.findings.c.key, tables.findings.c.value).where(tables.findings.c.run_id == run_id)
            return {row.key: row.value for row in connection.execute(query)}

    def run(self, reference: str) -> RunRecord:
        """A run by id, by a unique beginning of it, or ``last``. Raises UsageError when there is none."""
        with self._engine.connect() as connection:
            whole = (tables.runs.c.id != reference).asc()  # an id is found though another begins with it
            query = select(tables.runs).order_by(whole, tables.runs.c.started_at.desc(), tables.runs.c.id.desc())
            if reference != "last":
                query = query.where(tables.runs.c.id.startswith(reference, autoescape=True))
            rows = connection.execute(query.limit(2)).all()
            if not rows:
                raise UsageError(
                    f"{self.folder} holds no run"
                    + (f" {reference!r}" if reference != "last" else "")
                    + "; `reprokit history` lists what there is"
                )
            if len(rows) > 1 and reference != "last" and rows[0].id != reference:
                raise UsageError(f"{reference!r} begins several run ids: give more of it")
            return _run(connection, rows[0])

    def runs(self, limit: int | None = 100) -> list[RunRecord]:
        """The newest runs first, without their cells. ``limit`` None: all of them."""
        with self._engine.connect() as connection:
            query = select(tables.runs).order_by(tables.runs.c.started_at.desc(), tables.runs.c.id.desc()).limit(limit)
            return [bare_run(row) for row in connection.execute(query)]

    def results(self, cases: Collection[str] = ()) -> list[Result]:
        """Every recorded cell, of all cases or of these, by case, cell and variant; in no order of time."""
        table = tables.cells.c
        wanted = (
            table.id,
            table.run_id,
            table.number,
            table.case_id,
            table.cell_key,
            table.variant,
            table.verdict,
            table.as_expected,
        )
        query = select(*wanted).order_by(table.case_id, table.cell_key, table.variant)
        if cases:
            query = query.where(table.case_id.in_(cases))
        words: dict[str | None, Verdict | None] = {None: None, **{verdict.value: verdict for verdict in Verdict}}
        with self._engine.connect() as connection:
            rows = connection.execute(query)
            return [Result(*row[:6], words[row[6]], row[7]) for row in rows]

    def rewritten(self, searches: Mapping[str, str]) -> set[int]:
        """The rows of the cells of searches that are of another case than the search's own, whose digest is given."""
        table = tables.cells.c
        with self._engine.connect() as connection:
            query = select(table.id, table.run_id, table.case_digest).where(table.run_id.in_(searches))
            rows = connection.execute(query) if searches else ()
            return {row for row, run_id, digest in rows if digest != searches[run_id]}

    def records(self, rows: Collection[int]) -> dict[int, CellRecord]:
        """The whole cells, with their trials, that are in these rows, by row."""
        found: dict[int, CellRecord] = {}
        with self._engine.connect() as connection:
            for some in _chunks(rows):
                cells = connection.execute(select(tables.cells).where(tables.cells.c.id.in_(some))).all()
                by_cell = _trials_by_cell(connection, tables.trials.c.cell_id.in_(some))
                found |= {cell.id: cell_of(cell, tuple(by_cell.get(cell.id, ()))) for cell in cells}
        return found

    def tallies(self, rows: Collection[int]) -> dict[int, tuple[int, int]]:
        """How many trials of the cells in these rows matched the signature, and how many there were, by row."""
        table = tables.trials.c
        found: dict[int, tuple[int, int]] = {}
        matched = func.sum(case((table.outcome == Outcome.REPRODUCED.value, 1), else_=0))
        with self._engine.connect() as connection:
            for some in _chunks(rows):
                query = select(table.cell_id, matched, func.count()).where(table.cell_id.in_(some))
                found |= {row: (hits, total) for row, hits, total in connection.execute(query.group_by(table.cell_id))}
        return found

    def origins(self, rows: Collection[int]) -> dict[int, tuple[Cell, CellDetails]]:
        """The cell, its axes in the case's order, and the details of what is in these rows, by row."""
        table = tables.cells.c
        found: dict[int, tuple[Cell, CellDetails]] = {}
        with self._engine.connect() as connection:
            for some in _chunks(rows):
                query = select(table.id, table.cell, table.details).where(table.id.in_(some))
                rows_found = connection.execute(query)
                found |= {row: (cell, CellDetails.from_json(details or {})) for row, cell, details in rows_found}
        return found

    def of_case(self, digest: str) -> list[tuple[RunRecord, CellRecord]]:
        """Every recorded cell of that state of a case with its run, the newest first, without trials."""
        query = select(tables.cells).join(tables.runs).where(tables.cells.c.case_digest == digest)
        order = tables.runs.c.started_at.desc(), tables.runs.c.id.desc(), tables.cells.c.number
        with self._engine.connect() as connection:
            rows = connection.execute(query.order_by(*order)).all()
            wanted = select(tables.runs).where(tables.runs.c.id.in_({row.run_id for row in rows}))
            runs = {row.id: bare_run(row) for row in connection.execute(wanted)}
            return [(runs[row.run_id], cell_of(row, ())) for row in rows]

    def last_seen(self, case_id: str) -> tuple[RunRecord, list[CellRecord]] | None:
        """The newest run of a case with the case's cells in it, without trials; None when it was never run.

        Searches are left out: they ask for some cells only, and of cases that they rewrite.
        """
        with self._engine.connect() as connection:
            of_case = select(tables.cells.c.run_id).where(tables.cells.c.case_id == case_id)
            plain = tables.runs.c.request["search"].as_string().is_(None)
            newest = select(tables.runs).where(tables.runs.c.id.in_(of_case), plain)
            order = tables.runs.c.started_at.desc(), tables.runs.c.id.desc()
            run = connection.execute(newest.order_by(*order).limit(1)).one_or_none()
            if run is None:
                return None
            cells = select(tables.cells).where(tables.cells.c.run_id == run.id, tables.cells.c.case_id == case_id)
            rows = connection.execute(cells.order_by(tables.cells.c.number))
            return bare_run(run), [cell_of(row, ()) for row in rows]

    def image_cases(self) -> dict[str, set[str]]:
        """Tag of an image -> ids of the cases whose cells ran in it."""
        table, found = tables.cells.c, dict[str, set[str]]()
        with self._engine.connect() as connection:
            for image, case_id in connection.execute(select(table.image, table.case_id)):
                if image:
                    found.setdefault(image["tag"], set()).add(case_id)
        return found

    def case_ids(self) -> list[str]:
        """The ids of all cases that were ever run here."""
        with self._engine.connect() as connection:
            return list(connection.scalars(select(tables.cells.c.case_id).distinct().order_by(tables.cells.c.case_id)))

    def case_text(self, digest: str) -> str:
        """The case file as it was when it ran; '' when unknown."""
        with self._engine.connect() as connection:
            return connection.scalar(select(tables.cases.c.text).where(tables.cases.c.digest == digest)) or ""

    def _bring_up_to_date(self) -> None:
        """Change the tables to this version's, all or none; those of a store that may only be read, in a copy."""
        with self._engine.connect() as connection:
            found = migrations.version(connection)
            migrations.check(found, f"the store in {self.folder}")
            if found == migrations.CURRENT:
                return
            if "mode=ro" in str(self._engine.url):
                self._engine = _copied(connection)
        with self._engine.begin() as connection:
            if self._engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")  # else each change of a table is committed by itself
            migrations.migrate(connection)


def _forget_cells(connection: Connection, run_id: str) -> None:
    cells = select(tables.cells.c.id).where(tables.cells.c.run_id == run_id)
    connection.execute(delete(tables.trials).where(tables.trials.c.cell_id.in_(cells)))
    connection.execute(delete(tables.cells).where(tables.cells.c.run_id == run_id))


def _chunks(rows: Collection[int], size: int = 500) -> Iterator[Sequence[int]]:
    """As many at a time as any database takes in one query."""
    ordered = sorted(rows)
    return (ordered[at : at + size] for at in range(0, len(ordered), size))


def _sqlite_url(path: Path) -> str:
    if path.exists() and not os.access(path.parent, os.W_OK):
        # Another user's store, to be read: SQLite would write beside it otherwise.
        return f"sqlite:///file:{path}?mode=ro&immutable=1&uri=true"
    return f"sqlite:///{path}"


def _copied(connection: Connection) -> Engine:
    """A database in memory that holds what a SQLite database does."""
    copy = sqlite3.connect(":memory:", check_same_thread=False)
    source: Any = connection.connection.driver_connection
    source.backup(copy)
    return create_engine("sqlite://", creator=lambda: copy, poolclass=StaticPool)


def _tune_sqlite(connection: Any, _: Any) -> None:
    with contextlib.suppress(sqlite3.OperationalError):  # a store that may only be read stays in the mode it has
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA busy_timeout=30000")
    connection.execute("PRAGMA foreign_keys=ON")


def _run(connection: Connection, row: Row[Any]) -> RunRecord:
    cells = connection.execute(
        select(tables.cells).where(tables.cells.c.run_id == row.id).order_by(tables.cells.c.number)
    ).all()
    of_run = select(tables.cells.c.id).where(tables.cells.c.run_id == row.id)
    by_cell = _trials_by_cell(connection, tables.trials.c.cell_id.in_(of_run))
    return bare_run(row, tuple(cell_of(cell, tuple(by_cell.get(cell.id, ()))) for cell in cells))


def _trials_by_cell(connection: Connection, where: ColumnElement[bool]) -> dict[int, list[TrialRecord]]:
    by_cell: dict[int, list[TrialRecord]] = {}
    for trial in connection.execute(select(tables.trials).where(where).order_by(tables.trials.c.number)):
        by_cell.setdefault(trial.cell_id, []).append(trial_of(trial))
    return by_cell

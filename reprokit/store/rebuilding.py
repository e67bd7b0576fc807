"""A new database from the journals of runs and from what can be read of the old one, which is kept beside it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from sqlalchemy import select

from reprokit.core.errors import UsageError
from reprokit.core.ownership import locked, lockless
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.store import errors, tables
from reprokit.store.database import Store
from reprokit.store.errors import StoreError, Trouble, foreign
from reprokit.store.journal import entries, path_of, recorded
from reprokit.store.places import LOCK, unlinked
from reprokit.store.rows import bare_run, rows_of
from reprokit.store.sqlite_file import DATABASE, copy_files, wal_of


@dataclass
class RebuildResult:
    """``runs``: how many the new database has. ``lost``: runs, or parts of them, that nothing has any more, in words.

    ``old``: where the old database is now; None where there was none.
    """

    runs: int = 0
    lost: list[str] = field(default_factory=list)
    old: Path | None = None


def rebuild(folder: Path, stamp: str) -> RebuildResult:
    """Make the database of the store in ``folder`` again. ``stamp``: the time, for the name of the old one.

    Raises UsageError where that would lose something: a database of a newer reprokit, or of another program.
    """
    done, database = RebuildResult(), unlinked(folder, DATABASE)
    if database.exists() and not database.is_file():
        raise foreign(database, "it is not a regular file")
    lock = unlinked(folder, LOCK)
    if why := lockless(lock):
        raise errors.lockless(folder, why)
    with locked(lock), tempfile.TemporaryDirectory(dir=folder, prefix=".rebuild-") as scratch:
        place = Path(scratch) / "new"
        new = Store(place, f"sqlite:///{place / DATABASE}")
        try:
            new.replay(folder, recorded(folder))
            if database.exists():
                _salvage(database, Path(scratch), new, done, folder)
            done.runs = len(new.runs(limit=None))
        finally:
            new.close()
        if database.exists():
            done.old = _set_aside(database, stamp)
        (place / DATABASE).replace(database)
    return done


def _set_aside(database: Path, stamp: str) -> Path:
    """Give the old database a second name; its write-ahead log must not meet the new one."""
    old = database.with_name(f"{database.name}.old-{stamp}")
    try:
        os.link(database, old)
    except OSError:  # a file system without hard links
        shutil.copyfile(database, old)
    if wal_of(database).exists():
        wal_of(database).replace(wal_of(old))
    database.with_name(f"{database.name}-shm").unlink(missing_ok=True)
    return old


def _salvage(database: Path, scratch: Path, new: Store, done: RebuildResult, folder: Path) -> None:
    """Take over the runs of the old database that have no journal, or only a damaged one."""
    copy = scratch / "old"
    copy.mkdir()
    copy_files(database, copy / DATABASE)
    try:
        old = Store(copy, f"sqlite:///{copy / DATABASE}")
    except StoreError as error:
        if error.trouble not in (Trouble.DAMAGED, Trouble.OLDER):
            raise
        done.lost.append("what only the old database had: nothing of it can be read")
        return
    have = {run.id for run in new.runs(limit=None) if _is_whole(folder, run.id)}
    try:
        for run_id in [one for one in _ids(old, done) if one not in have]:
            run = _read(old, run_id, done)
            if run is not None:
                new.put(run, _texts(old, (cell.case_digest for cell in run.cells)))
                _copy_findings(old, new, run_id, done)
    finally:
        old.close()


def _is_whole(folder: Path, run_id: str) -> bool:
    """Whether no line of a journal is damaged."""
    return all(entry.kind for entry in entries(path_of(folder, run_id)))


def _ids(old: Store, done: RebuildResult) -> list[str]:
    try:
        with old.engine.connect() as connection:
            return list(connection.scalars(select(tables.runs.c.id).order_by(tables.runs.c.id)))
    except StoreError:
        done.lost.append("runs that only the old database had: its list of runs cannot be read")
        return []


def _read(old: Store, run_id: str, done: RebuildResult) -> RunRecord | None:
    """A run, cell by cell where it cannot be read at once; None where it cannot be read at all."""
    try:
        return old.run(run_id)
    except UsageError:
        pass
    cells: list[CellRecord] = []
    try:
        with old.engine.connect() as connection:
            run = bare_run(connection.execute(rows_of(tables.runs).where(tables.runs.c.id == run_id)).one())
            numbers = list(connection.scalars(select(tables.cells.c.number).where(tables.cells.c.run_id == run_id)))
    except (StoreError, ValueError, TypeError, KeyError, AttributeError):
        done.lost.append(f"run {run_id}")
        return None
    for number in numbers:
        try:
            cells += old.records([(run_id, number)]).values()
        except StoreError:
            done.lost.append(f"run {run_id}: one cell")
    return replace(run, cells=tuple(sorted(cells, key=lambda cell: cell.number)))


def _texts(old: Store, digests: Iterable[str]) -> dict[str, tuple[str, str, str]]:
    try:
        return old.texts(digests)
    except StoreError:
        return {}


def _copy_findings(old: Store, new: Store, run_id: str, done: RebuildResult) -> None:
    try:
        for key, value in old.findings(run_id).items():
            new.find(run_id, key, value)
    except StoreError:
        done.lost.append(f"run {run_id}: what its search learned")

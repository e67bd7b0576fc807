"""Opens the database of a store: checks whose it is, and brings it up to date, or a copy where it cannot be written."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DatabaseError, IntegrityError

from reprokit.core.locks import locked_if_free, lockless
from reprokit.store import errors, migrations, sqlite_file
from reprokit.store.errors import PASSING, StoreError, store_error
from reprokit.store.journal import pending
from reprokit.store.places import LOCK
from reprokit.store.replay import lacks, replay, settle
from reprokit.store.sqlite_file import CURRENT, DATABASE, wal_of

LOCK_SECONDS = 5.0
CHECK_SECONDS = 0.5
"""How long a database is looked at for damage before a process first writes to it."""

_looked_at: set[Path] = set()


@dataclass(frozen=True, kw_only=True)
class OpenDatabase:
    """An open database. ``path``: SQLite's file, None for another database. ``scratch``: where the file is a copy."""

    engine: Engine
    where: str
    path: Path | None
    scratch: TemporaryDirectory[str] | None = None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection that is the only one to write, and commits at the end."""
        with self.engine.begin() as connection:
            if self.path is not None:
                connection.exec_driver_sql("BEGIN IMMEDIATE")  # else each change of a table is committed by itself
            yield connection

    def close(self) -> None:
        """Give the database back."""
        self.engine.dispose()
        if self.scratch is not None:
            self.scratch.cleanup()


def open_database(folder: Path, url: str | None, *, up_to_date: bool) -> OpenDatabase:
    """The database of the store in ``folder``, with all that its journals have; see :class:`.database.Store`."""
    address = make_url(url or os.environ.get("REPROKIT_DATABASE") or f"sqlite:///{folder / DATABASE}")
    if address.get_backend_name() != "sqlite":
        where = address.render_as_string()
        opened = OpenDatabase(engine=_engine(address, where), where=where, path=None)
        _bring_up_to_date(opened, folder)
        return opened
    path = Path(address.database or "")
    known = sqlite_file.version(path)
    if why := _unwritable(path, folder, known):
        if up_to_date or not known:
            raise why
        return _read_only(path, folder, known)
    opened = OpenDatabase(engine=_engine(address, str(path)), where=str(path), path=path)
    try:
        _bring_up_to_date(opened, folder)
    except StoreError as error:
        opened.close()
        if up_to_date or not known or error.trouble not in PASSING:
            raise
        return _copy(path, folder)
    return opened


def _read_only(path: Path, folder: Path, known: int) -> OpenDatabase:
    """A store that may only be read: as it is where it is whole, else a copy. SQLite would write beside it."""
    wal = wal_of(path)
    if known == CURRENT and not (wal.exists() and wal.stat().st_size):
        address = make_url(f"sqlite:///file:{quote(str(path.absolute()))}?mode=ro&immutable=1&uri=true")
        opened = OpenDatabase(engine=_engine(address, str(path)), where=str(path), path=path)
        with opened.engine.connect() as connection:
            if not any(lacks(connection, folder, run_id) for run_id in pending(folder)):
                return opened
        opened.close()
    return _copy(path, folder, files=True)


def _copy(path: Path, folder: Path, *, files: bool = False) -> OpenDatabase:
    """A copy in a temporary folder, brought up to date. ``files``: of a database that SQLite may not open in place."""
    scratch = TemporaryDirectory(prefix="reprokit-store-")
    copy = Path(scratch.name) / DATABASE
    try:
        (sqlite_file.copy_files if files else sqlite_file.backup)(path, copy)
    except OSError as error:
        raise store_error(path, error) from error
    engine = _engine(make_url(f"sqlite:///{copy}"), str(path))
    opened = OpenDatabase(engine=engine, where=str(path), path=copy, scratch=scratch)
    _bring_up_to_date(opened, folder, is_copy=True)
    return opened


def _bring_up_to_date(opened: OpenDatabase, folder: Path, *, is_copy: bool = False) -> None:
    """Give the tables this version, and all that the journals have."""
    with opened.engine.connect() as connection:
        found = connection.exec_driver_sql("PRAGMA user_version").scalar() if opened.path is not None else None
        if found != CURRENT:
            found = migrations.version(connection, opened.where)
        if found == CURRENT and not any(lacks(connection, folder, run_id) for run_id in pending(folder)):
            return
    with contextlib.ExitStack() as held:
        if not is_copy:
            _hold(held, folder, opened.where)
        if found and opened.path is not None:
            _look_at(opened.path)
        with opened.transaction() as connection:
            if found != CURRENT:
                migrations.migrate(connection, opened.where)
            ended = [run_id for run_id in pending(folder) if replay(connection, folder, run_id)]
        for run_id in () if is_copy else ended:
            settle(folder, run_id)


def _hold(held: contextlib.ExitStack, folder: Path, where: str) -> None:
    """Let no other process of this host do the same. Raises StoreError where one is at it for long."""
    with contextlib.suppress(OSError):  # of another user, say: the database's own lock must do
        if not held.enter_context(locked_if_free(folder / LOCK, LOCK_SECONDS)):
            raise store_error(where, sqlite3.OperationalError(f"{folder / LOCK} is locked"))


def _look_at(path: Path) -> None:
    """Raise StoreError for a database that is visibly damaged; once in a process, and not for long."""
    if path not in _looked_at and (found := sqlite_file.faults(path, seconds=CHECK_SECONDS)):
        raise store_error(path, sqlite3.DatabaseError(f"malformed: {found[0]}"))
    _looked_at.add(path)


def _unwritable(path: Path, folder: Path, known: int) -> StoreError | None:
    """Why the database of this version takes nothing, None where it does."""
    if known and not sqlite_file.is_writable(path):
        return store_error(path, sqlite3.OperationalError("attempt to write a readonly database"))
    # Every run makes the lock. Made by another user who only reads, it would be in the owner's way.
    if (not known or (folder / LOCK).exists()) and (why := lockless(folder / LOCK)):
        return errors.lockless(folder, why)
    return None


def _engine(address: URL, where: str) -> Engine:
    def translate(context: ExceptionContext) -> None:
        said = context.sqlalchemy_exception
        if isinstance(said, DatabaseError) and not isinstance(said, IntegrityError):
            raise store_error(where, context.original_exception) from context.original_exception

    engine = create_engine(address)
    event.listen(engine, "handle_error", translate)
    if engine.dialect.name == "sqlite":
        event.listen(engine, "connect", _tune_sqlite)
    return engine


def _tune_sqlite(connection: Any, _: Any) -> None:
    with contextlib.suppress(sqlite3.OperationalError):  # a store that may only be read stays in the mode it has
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA busy_timeout=5000")
    connection.execute("PRAGMA foreign_keys=ON")

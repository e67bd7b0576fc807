"""The database of a store: opened, checked whose it is, and brought up to date with what journals have.

SQLite's is a file of the store's folder; where it takes nothing, a copy is read. Another one is on a server
(:mod:`.remote`), and is read as it is where it takes nothing now.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, event, insert, inspect, make_url, select
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DatabaseError, IntegrityError

from reprokit.core.ownership import locked_if_free, lockless
from reprokit.core.redaction import without_passwords
from reprokit.store import dialects, errors, sqlite_file, summaries, tables
from reprokit.store.errors import PASSING, StoreError, Trouble, store_error
from reprokit.store.journal import PENDING, pending
from reprokit.store.places import LOCK, below
from reprokit.store.remote import remote_of
from reprokit.store.sqlite_file import CURRENT, DATABASE, wal_of
from reprokit.store.writing import lacks, replay

LOCK_SECONDS = 5.0
SERVER_LOCK_SECONDS = 60.0
"""How long another process of this host may be at it; what it sends to a server takes longer than to a file."""
CHECK_SECONDS = 0.5  # how long a database is looked at for damage before a process first writes to it
SUMMARY_SECONDS = 2.0  # how long a command that opens a store makes summaries that it lacks
STALE_DAYS = 2  # after which a run that has not ended is taken for one that was killed

_looked_at: set[Path] = set()


@dataclass(frozen=True, kw_only=True)
class Index:
    """An open database."""

    engine: Engine
    dialect: dialects.Sqlite
    where: str
    path: Path | None  # SQLite's file; None for another database
    scratch: TemporaryDirectory[str] | None = None  # where the file is a copy
    refused: dict[str, StoreError] = field(default_factory=dict)  # runs whose journals have a value that it won't take
    damage: list[str] = field(default_factory=list)  # what journals had that was set aside, in words

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """A connection that commits at the end. Of SQLite, it is the only one to write."""
        with self.engine.begin() as connection:
            self.dialect.begin(connection)
            yield connection

    def catch_up(self, folder: Path, run_id: str) -> bool:
        """Add what a journal has, in a transaction; see :func:`.writing.replay`.

        Of two transactions that wait for each other a server ends one, which then does it again.
        """
        for last in (False, False, False, True):
            try:
                with self.transaction() as connection:
                    self.dialect.writing(connection, run_id)
                    return replay(connection, folder, run_id, self.damage)
            except StoreError as error:
                if last or error.trouble is not Trouble.BUSY or self.path is not None:
                    raise
        raise AssertionError

    def unsummarised(self) -> list[str]:
        """The runs that should have summaries and have none, the newest first."""
        before = datetime.now(timezone.utc) - timedelta(days=STALE_DAYS)
        with self.engine.connect() as connection:
            return summaries.lacking(connection, f"{before:%Y-%m-%dT%H:%M:%S}")

    def summarise(self, seconds: float) -> None:
        """Make such summaries, each in its own transaction: at least one, and no further one after that time."""
        end = time.monotonic() + seconds
        for run_id in self.unsummarised():
            with self.transaction() as connection:
                self.dialect.writing(connection, run_id)
                summaries.keep(connection, run_id)
            if time.monotonic() > end:
                return

    def close(self) -> None:
        """Give the database back."""
        self.engine.dispose()
        if self.scratch is not None:
            self.scratch.cleanup()


def open_index(folder: Path, url: str | None, *, up_to_date: bool) -> Index:
    """The database of the store in ``folder``, with all that its journals have; see :class:`.database.Store`."""
    address = _address(folder, url)
    opened = (_open_file if address.get_backend_name() == "sqlite" else _open_server)(address, folder, up_to_date)
    # What takes nothing now is read without. Rows that reprokit did not write are reported where they are read.
    with contextlib.suppress(StoreError, OSError, ValueError, TypeError, KeyError, AttributeError):
        if opened.scratch is None and opened.unsummarised():
            with locked_if_free(folder / LOCK, 0) as free:
                if free:
                    opened.summarise(SUMMARY_SECONDS)
    return opened


def _address(folder: Path, url: str | None) -> URL:
    remote = remote_of(folder)
    given = (
        url or (remote.address if remote else os.environ.get("REPROKIT_DATABASE")) or f"sqlite:///{folder / DATABASE}"
    )
    try:
        return make_url(given)
    except (ArgumentError, ValueError) as error:
        raise StoreError(
            f"{without_passwords(given)!r} is not the address of a database: write postgresql://USER@HOST/DATABASE",
            Trouble.OTHER,
        ) from error


def _open_server(address: URL, folder: Path, up_to_date: bool) -> Index:
    """A database that is not a file: with all that this host's journals have, where it can be written."""
    opened = _connect(address, address.difference_update_query(["password", "sslpassword"]).render_as_string(), None)
    try:
        _bring_up_to_date(opened, folder)
    except StoreError as error:
        if up_to_date or error.trouble not in PASSING:
            raise
        with opened.engine.connect() as connection:
            if _version(connection, opened) != CURRENT:
                raise
    return opened


def _open_file(address: URL, folder: Path, up_to_date: bool) -> Index:
    path = Path(address.database or "")
    known = sqlite_file.version(path)
    if why := _unwritable(path, folder, known):
        if up_to_date or not known:
            raise why
        return _read_only(path, folder)
    opened = _connect(address, str(path), path)
    try:
        _bring_up_to_date(opened, folder)
    except StoreError as error:
        opened.close()
        if up_to_date or not known or error.trouble not in PASSING:
            raise
        return _copy(path, folder, files=error.trouble is Trouble.FULL)
    return opened


def _unwritable(path: Path, folder: Path, known: int) -> StoreError | None:
    """Why the database takes nothing, None where it does. ``known``: its version, 0 where it has no tables."""
    if known and not sqlite_file.is_writable(path):
        return store_error(path, "attempt to write a readonly database")
    # Every run makes the lock. Made by another user who only reads, it would be in the owner's way.
    if (not known or (folder / LOCK).exists()) and (why := lockless(folder / LOCK)):
        return errors.lockless(folder, why)
    return None


def _read_only(path: Path, folder: Path) -> Index:
    """A store that may only be read: as it is where it is whole, else a copy. SQLite would write beside it."""
    wal = wal_of(path)
    if not (wal.exists() and wal.stat().st_size):
        address = make_url(f"sqlite:///file:{quote(str(path.absolute()))}?mode=ro&immutable=1&uri=true")
        opened = _connect(address, str(path), path)
        with opened.engine.connect() as connection:
            if not any(lacks(connection, folder, run_id) for run_id in pending(folder)):
                return opened
        opened.close()
    return _copy(path, folder, files=True)


def _copy(path: Path, folder: Path, *, files: bool = False) -> Index:
    """A copy in a temporary folder, brought up to date. ``files``: of a database that SQLite may not open in place."""
    scratch = TemporaryDirectory(prefix="reprokit-store-")
    copy = Path(scratch.name) / DATABASE
    try:
        (sqlite_file.copy_files if files else sqlite_file.backup)(path, copy)
    except OSError as error:
        raise store_error(path, error) from error
    opened = _connect(make_url(f"sqlite:///{copy}"), str(path), copy, scratch)
    _bring_up_to_date(opened, folder, is_copy=True)
    return opened


def _bring_up_to_date(opened: Index, folder: Path, *, is_copy: bool = False) -> None:
    """Make the tables where there are none, and add all that the journals have."""
    with opened.engine.connect() as connection:
        found = opened.dialect.version(connection) or _version(connection, opened)
        if found and not any(lacks(connection, folder, run_id) for run_id in pending(folder)):
            return
    with contextlib.ExitStack() as stack:
        if not is_copy:
            _lock(stack, folder, opened)
        if found and opened.path is not None:
            _look_for_damage(opened.path)
        if not found:
            with opened.transaction() as connection:
                _make_tables(connection, opened)
        for run_id in pending(folder):
            try:
                if opened.catch_up(folder, run_id) and not is_copy:
                    below(folder, PENDING, run_id).unlink(missing_ok=True)
            except StoreError as error:
                if error.trouble is not Trouble.VALUE:
                    raise
                opened.refused[run_id] = error


def _lock(stack: contextlib.ExitStack, folder: Path, opened: Index) -> None:
    """Let no other process of this host do the same. Raises StoreError where one is at it for long."""
    seconds = LOCK_SECONDS if opened.path is not None else SERVER_LOCK_SECONDS
    with contextlib.suppress(OSError):  # of another user, say: the database's own lock must do
        if not stack.enter_context(locked_if_free(folder / LOCK, seconds)):
            raise store_error(opened.where, f"{folder / LOCK} is locked")


def _look_for_damage(path: Path) -> None:
    """Raise StoreError for a database that is visibly damaged; once in a process, and not for long."""
    if path not in _looked_at and (found := sqlite_file.faults(path, seconds=CHECK_SECONDS)):
        raise store_error(path, sqlite3.DatabaseError(f"malformed: {found[0]}"))
    _looked_at.add(path)


def _version(connection: Connection, opened: Index) -> int:
    """:data:`CURRENT`, or 0 where there are no tables yet. Raises StoreError where they are of another version."""
    names = set(inspect(connection).get_table_names())
    ours = {tables.runs.name, tables.cells.name, tables.cases.name, tables.version.name}
    if not names & ours:
        return 0
    if not names >= ours:
        raise errors.foreign(opened.where, f"its tables are another program's ({', '.join(sorted(names)[:3])})")
    found = int(connection.scalar(select(tables.version.c.number)) or 0)
    if found != CURRENT:
        raise errors.other_version(opened.where, found, CURRENT, on_server=opened.path is None)
    return found


def _make_tables(connection: Connection, opened: Index) -> None:
    """Make the tables, all or nothing: the caller commits."""
    opened.dialect.making_tables(connection)
    if not _version(connection, opened):  # another process may have made them
        tables.metadata.create_all(connection)
        connection.execute(insert(tables.version).values(number=CURRENT))
        opened.dialect.set_version(connection, CURRENT)


def _connect(address: URL, where: str, path: Path | None, scratch: TemporaryDirectory[str] | None = None) -> Index:
    dialect = dialects.of(address.get_backend_name())

    def translate(context: ExceptionContext) -> None:
        said = context.sqlalchemy_exception
        if isinstance(said, DatabaseError) and not isinstance(said, IntegrityError):
            raise dialect.error(where, context.original_exception) from context.original_exception

    engine = dialect.engine(address)
    event.listen(engine, "handle_error", translate)
    return Index(engine=engine, dialect=dialect, where=where, path=path, scratch=scratch)

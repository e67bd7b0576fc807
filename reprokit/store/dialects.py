"""What differs between the databases that a store can have. No other module has SQL of one of them.

All else is SQLAlchemy Core, in which the same statements serve every database.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sqlite3
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, func, select, text

from reprokit.core.version import install_line
from reprokit.store import tables
from reprokit.store.errors import StoreError, Trouble, store_error
from reprokit.store.sqlite_file import APPLICATION_ID


class Sqlite:
    """One file, one writer at a time: a transaction that writes is the only one."""

    def engine(self, address: URL) -> Engine:
        """An engine whose connections are set up for us. Raises StoreError where the driver is not installed."""
        engine = create_engine(address)
        event.listen(engine, "connect", _tune)
        return engine

    def error(self, where: str, error: BaseException) -> StoreError:
        """The message for what the database said. ``where``: its file or address."""
        return store_error(where, error)

    def version(self, connection: Connection) -> int | None:
        """The version of the tables where it is known without a look at them, else None."""
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar() or 0)

    def set_version(self, connection: Connection, number: int) -> None:
        """Note the version and whose the database is, where it has a place for that beside the tables."""
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version = {int(number)}")

    def begin(self, connection: Connection) -> None:
        """Begin a transaction that writes, by hand: else the driver commits each change of a table by itself."""
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def making_tables(self, connection: Connection) -> None:
        """Wait until no other transaction makes the tables, and let none do so until the end of this one."""

    def writing(self, connection: Connection, run_id: str) -> None:
        """The same of the rows of that run."""

    def reading(self, connection: Connection) -> None:
        """Begin a transaction in which all queries see the database as it is at one moment."""
        connection.exec_driver_sql("BEGIN")

    def check_writable(self, connection: Connection) -> str:
        """Why this user may not write the tables, in words; '' where that is possible or is found out elsewhere."""
        return ""

    def faults(self, connection: Connection) -> list[str]:
        """What is wrong with the database itself, in words; [] for nothing."""
        found = [str(text) for (text,) in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
        return [text for text in found if text != "ok"]


def _tune(connection: Any, _: Any) -> None:
    """WAL mode, in which other commands read meanwhile."""
    with contextlib.suppress(sqlite3.OperationalError):  # a store that may only be read stays in the mode it has
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA busy_timeout=5000")
    connection.execute("PRAGMA foreign_keys=ON")


INSTALL = install_line("postgres")
CONNECT_SECONDS = 10
SILENT_SECONDS = 30  # how long packets may not be acknowledged until a connection counts as lost
LOCK_SECONDS = 30  # how long a transaction waits for another one
ENCODINGS = ("UTF8", "SQL_ASCII")
"""Of databases that take every text. The second one keeps bytes as they are."""
_SETTINGS = (
    f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'; SET LOCAL idle_in_transaction_session_timeout = '10min'; "
    "SET LOCAL jit = off"  # compiling takes longer than any of our queries
)
_MAKING_TABLES = 0x52507274
"""The advisory lock of whoever makes the tables; those of runs are other numbers."""

# By SQLSTATE (https://www.postgresql.org/docs/current/errcodes-appendix.html), or by what libpq says where a
# connection was never made. In the order in which they are looked for.
_KNOWN = (
    (
        ("28P01", "28000"),
        r"authentication failed|no password supplied|no pg_hba\.conf entry|role .* does not exist",
        Trouble.REFUSED,
        "refuses this user ({error}): put the password into ~/.pgpass or PGPASSWORD, or name another user",
    ),
    (
        ("3D000",),
        r"database .* does not exist",
        Trouble.REFUSED,
        "does not exist ({error}): make it with `createdb`, or name another one",
    ),
    (
        ("25006", "42501"),
        r"read-only transaction|permission denied",
        Trouble.READ_ONLY,
        "cannot be written ({error}): ask its owner for the right to write (GRANT), or name another store with --store",
    ),
    (("53100",), r"no space left", Trouble.FULL, "cannot be written ({error}): make room on the server"),
    (
        ("55P03", "40P01", "40001"),
        r"lock timeout|deadlock",
        Trouble.BUSY,
        "is in use by other processes ({error}): try again",
    ),
    (
        ("57P01", "57P02", "57P03", "08000", "08001", "08003", "08004", "08006", "53300"),
        r"connect|translate host name|resolve host|could not (receive|send)|timeout|server closed|too many clients",
        Trouble.UNREACHABLE,
        "cannot be reached ({error}): check the address, the server and the network",
    ),
)


class Postgres(Sqlite):
    """PostgreSQL, by psycopg 3: many hosts write at once, and the server or the network may go away at any time."""

    def engine(self, address: URL) -> Engine:
        """Without a pool: each use is one connection, which is given back."""
        given = {
            "connect_timeout": str(CONNECT_SECONDS),
            "application_name": "reprokit",
            "keepalives_idle": "10",
            "keepalives_interval": "5",
            "keepalives_count": "4",
            "tcp_user_timeout": str(SILENT_SECONDS * 1000),
        }
        # Forced: psycopg takes the encoding of the database, and gives bytes where that is SQL_ASCII.
        query = {**given, **address.query, "client_encoding": "utf8"}
        address = address.set(drivername="postgresql+psycopg").update_query_dict(query)
        try:
            # A pooler such as PgBouncer gives each transaction another session: none of these would be there again.
            engine = create_engine(address, poolclass=NullPool, connect_args={"prepare_threshold": None})
        except ModuleNotFoundError as error:
            raise StoreError(
                f"a store on PostgreSQL needs the package psycopg, which is not installed: {INSTALL}", Trouble.OTHER
            ) from error
        # For each transaction: a pooler takes no settings at the start of a connection.
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(_SETTINGS))
        return engine

    def error(self, where: str, error: BaseException) -> StoreError:
        """By its SQLSTATE, else by its words."""
        said, state = _shorten(str(error)), getattr(error, "sqlstate", None) or ""
        for states, words, trouble, sentence in _KNOWN:
            if state in states or (not state and re.search(words, said, re.IGNORECASE)):
                return StoreError(f"the store's database {where} {sentence.format(error=said)}", trouble)
        if state.startswith("22") or (not state and type(error).__name__ == "DataError"):
            return StoreError(f"the store's database {where} refuses a value ({said})", Trouble.VALUE)
        return StoreError(
            f"the store's database {where} cannot be used ({said}): see the log of the server, or name another store "
            "with --store",
            Trouble.OTHER,
        )

    def version(self, connection: Connection) -> int | None:
        """The table of it alone says so. Raises StoreError for a database that cannot hold every text."""
        if (encoding := connection.scalar(text("SHOW server_encoding"))) not in ENCODINGS:
            where = connection.engine.url.set(drivername="postgresql", query={}).render_as_string()
            raise StoreError(
                f"the store's database {where} has the encoding {encoding}, which lacks characters that programs "
                "print: make another one with `createdb --encoding=UTF8 --template=template0`",
                Trouble.REFUSED,
            )
        return None

    def set_version(self, connection: Connection, number: int) -> None:
        """The table of it alone says so."""

    def begin(self, connection: Connection) -> None:
        """Every transaction is one in which tables can be made."""

    def making_tables(self, connection: Connection) -> None:
        """An advisory lock: there may be no table to lock yet."""
        connection.execute(select(func.pg_advisory_xact_lock(_MAKING_TABLES)))

    def writing(self, connection: Connection, run_id: str) -> None:
        """An advisory lock: there may be no row to lock yet."""
        number = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:8], "big", signed=True)
        connection.execute(select(func.pg_advisory_xact_lock(number)))

    def reading(self, connection: Connection) -> None:
        """Without this, each query sees what was committed until it began."""
        connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")

    def check_writable(self, connection: Connection) -> str:
        """A standby, or a user who may only read."""
        if connection.scalar(text("SHOW transaction_read_only")) == "on":
            return "transactions are read-only on this server, or for this user"
        for table in (tables.runs, tables.cells, tables.journals):
            for right in ("INSERT", "UPDATE", "DELETE"):
                if not connection.scalar(select(func.has_table_privilege(table.name, right))):
                    return f"this user has no {right} on the table {table.name}"
        return ""

    def faults(self, connection: Connection) -> list[str]:
        """What should be impossible, and a restored dump or a hand may have done: rows without what they belong to."""
        runs, cells = tables.runs, tables.cells
        joined = cells.outerjoin(runs, cells.c.run_id == runs.c.id)
        count = connection.scalar(select(func.count()).select_from(joined).where(runs.c.id.is_(None)))
        return [f"{count} rows of {cells.name} belong to nothing in {runs.name}"] if count else []


def _shorten(said: str) -> str:
    """What the server said, in one line, without the help that psycopg adds, and each sentence once."""
    lines = (re.sub(r"^(connection failed: )?", "", line).strip() for line in said.splitlines())
    kept = dict.fromkeys(line for line in lines if line and not line.startswith(("Multiple connection", "- host:")))
    return " ".join(kept)[:400]


_SQLITE, _POSTGRES = Sqlite(), Postgres()


def of(backend: str) -> Sqlite:
    """The dialect of a backend as SQLAlchemy names it."""
    return _SQLITE if backend == "sqlite" else _POSTGRES

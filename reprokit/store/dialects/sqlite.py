"""SQLite: one file, one writer at a time. What is about the file itself is in :mod:`reprokit.store.sqlite_file`."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, true

from reprokit.store.errors import StoreError, store_error
from reprokit.store.sqlite_file import APPLICATION_ID


class Sqlite:
    """See :class:`reprokit.store.dialects.Dialect`."""

    parts = (true(),)

    def engine(self, address: URL) -> Engine:
        """WAL mode, in which other commands read meanwhile."""
        engine = create_engine(address)
        event.listen(engine, "connect", _tune)
        return engine

    def error(self, where: str, error: BaseException) -> StoreError:
        """By SQLite's own words."""
        return store_error(where, error)

    def version(self, connection: Connection) -> int | None:
        """In the file's header."""
        return int(connection.exec_driver_sql("PRAGMA user_version").scalar() or 0)

    def set_version(self, connection: Connection, number: int) -> None:
        """In the file's header."""
        connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.exec_driver_sql(f"PRAGMA user_version = {int(number)}")

    def begin(self, connection: Connection) -> None:
        """By hand: else the driver commits each change of a table by itself."""
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    def making_tables(self, connection: Connection) -> None:
        """A transaction that writes is the only one."""

    def writing(self, connection: Connection, run_id: str) -> None:
        """A transaction that writes is the only one."""

    def reading(self, connection: Connection) -> None:
        """By hand: the driver begins none for queries."""
        connection.exec_driver_sql("BEGIN")

    def check_writable(self, connection: Connection) -> str:
        """Found out from the file before it is opened."""
        return ""

    def faults(self, connection: Connection) -> list[str]:
        """Of all pages and indexes."""
        found = [str(text) for (text,) in connection.exec_driver_sql("PRAGMA integrity_check(20)")]
        return [text for text in found if text != "ok"]


def _tune(connection: Any, _: Any) -> None:
    with contextlib.suppress(sqlite3.OperationalError):  # a store that may only be read stays in the mode it has
        connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("PRAGMA busy_timeout=5000")
    connection.execute("PRAGMA foreign_keys=ON")


DIALECT = Sqlite()

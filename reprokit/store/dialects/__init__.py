"""What differs between the databases that a store can have. No other module has SQL of one of them.

A database is one module here with a :class:`Dialect`. All else is SQLAlchemy Core, in which the same statements serve
every database.
"""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import URL, ColumnElement, Connection, Engine

from reprokit.store.errors import StoreError


class Dialect(Protocol):
    """One kind of database. ``parts``: conditions that each result meets one of, each of which an index serves."""

    @property
    def parts(self) -> tuple[ColumnElement[bool], ...]:
        """See above."""

    def engine(self, address: URL) -> Engine:
        """An engine whose connections are set up for us. Raises StoreError where the driver is not installed."""

    def error(self, where: str, error: BaseException) -> StoreError:
        """The message for what the database said. ``where``: its file or address."""

    def version(self, connection: Connection) -> int | None:
        """The version of the tables where it is known without a look at them, else None."""

    def set_version(self, connection: Connection, number: int) -> None:
        """Note the version and whose the database is, where it has a place for that beside the tables."""

    def begin(self, connection: Connection) -> None:
        """Begin a transaction that writes, and in which tables can be made, all or nothing."""

    def making_tables(self, connection: Connection) -> None:
        """Wait until no other transaction makes the tables, and let none do so until the end of this one."""

    def writing(self, connection: Connection, run_id: str) -> None:
        """The same of the rows of that run."""

    def reading(self, connection: Connection) -> None:
        """Begin a transaction in which all queries see the database as it is at one moment."""

    def check_writable(self, connection: Connection) -> str:
        """Why this user may not write the tables, in words; '' where that is possible or is found out elsewhere."""

    def faults(self, connection: Connection) -> list[str]:
        """What is wrong with the database itself, in words; [] for nothing."""


def of(backend: str) -> Dialect:
    """The dialect of a backend as SQLAlchemy names it. Raises StoreError for one that cannot have a store."""
    if backend == "sqlite":
        from reprokit.store.dialects import sqlite

        return sqlite.DIALECT
    from reprokit.store.dialects import postgres

    return postgres.DIALECT

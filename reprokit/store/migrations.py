"""The version of a store's tables, and the steps that bring a store of an earlier version up to date in place."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, insert, inspect, select, update

from reprokit.core.errors import UsageError
from reprokit.store import tables


def version(connection: Connection) -> int:
    """The version of the tables: 1 is that of reprokit 0.1, which did not record it; 0 when there are none yet."""
    names = inspect(connection).get_table_names()
    if tables.version.name in names:
        return int(connection.scalar(select(tables.version.c.number)) or 0)
    return 1 if tables.runs.name in names else 0


def check(found: int, where: str) -> None:
    """Raise UsageError for a version that a newer reprokit wrote. ``where``: the store, for the message."""
    if found > CURRENT:
        raise UsageError(
            f"{where} was written by a newer reprokit (version {found} of the tables, this one knows {CURRENT}): "
            "upgrade reprokit, or name another store with --store"
        )


def migrate(connection: Connection) -> None:
    """Make the tables that are missing, and change those of an earlier version.

    All or nothing: the caller commits. The database must take statements that change tables in a transaction.
    """
    found = version(connection)
    if found == CURRENT:
        return
    for step in STEPS[max(found - 1, 0) :] if found else ():
        step(connection)
    tables.metadata.create_all(connection)
    if connection.scalar(select(tables.version.c.number)) is None:
        connection.execute(insert(tables.version).values(number=CURRENT))
    else:
        connection.execute(update(tables.version).values(number=CURRENT))


def _keep_failures_of_trials(connection: Connection) -> None:
    """To version 2. How a trial of before failed stays unknown: the details of its cell name each way once."""
    connection.exec_driver_sql("ALTER TABLE trials ADD COLUMN failure JSON")
    for index in tables.cells.indexes:  # the first stores had fewer
        index.create(connection, checkfirst=True)


STEPS: tuple[Callable[[Connection], None], ...] = (_keep_failures_of_trials,)
"""The step at place n leads from version n + 1 to n + 2."""

CURRENT = len(STEPS) + 1

"""The version of a store's tables, and how a store of an earlier version is brought up to date, by Alembic.

A change of :mod:`reprokit.store.tables` needs one more file in ``versions`` and the next number as
:data:`reprokit.store.sqlite_file.CURRENT`. Alembic is imported only where a store has to be changed. The version of a
store is in its table ``version``, which every reprokit reads, and in SQLite's ``user_version``.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select, update

from reprokit.store import tables
from reprokit.store.dialects import Dialect
from reprokit.store.errors import foreign, newer
from reprokit.store.sqlite_file import CURRENT


def version(connection: Connection, where: str) -> int:
    """The version of the tables: 1 is that of reprokit 0.1, which did not record it; 0 when there are none yet.

    Raises StoreError where a newer reprokit wrote them. ``where``: the database, for the message.
    """
    names = set(inspect(connection).get_table_names())
    ours = {tables.runs.name, tables.cells.name, tables.trials.name, tables.cases.name}
    if names & {*ours, tables.version.name} and not names >= ours:
        raise foreign(where, f"its tables are another program's ({', '.join(sorted(names)[:3])})")
    if tables.version.name not in names:
        return 1 if names >= ours else 0
    found = int(connection.scalar(select(tables.version.c.number)) or 0)
    if found > CURRENT:
        raise newer(where, found, CURRENT)
    return found


def migrate(connection: Connection, where: str, dialect: Dialect) -> None:
    """Make the tables where there are none, and change those of an earlier version.

    All or nothing: the caller commits. The database must take statements that change tables in a transaction.
    """
    dialect.migrating(connection)
    found = version(connection, where)
    if found == 0:
        tables.metadata.create_all(connection)
        connection.execute(insert(tables.version).values(number=CURRENT))
    elif found < CURRENT:
        _upgrade(connection, found)
        tables.version.create(connection, checkfirst=True)
        if connection.scalar(select(tables.version.c.number)) is None:
            connection.execute(insert(tables.version).values(number=CURRENT))
        connection.execute(update(tables.version).values(number=CURRENT))
    dialect.set_version(connection, CURRENT)


def _upgrade(connection: Connection, found: int) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    command.stamp(config, str(found), purge=True)  # what Alembic noted itself is not asked: reprokit 0.1 had none
    command.upgrade(config, "head")

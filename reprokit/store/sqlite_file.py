"""The file of a store's SQLite database: whose it is, its version, its faults, and copies. Without SQLAlchemy.

Its ``application_id`` says that it is reprokit's, its ``user_version`` which version of the tables it has.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import stat
import time
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

from reprokit.core.files import open_regular
from reprokit.store.errors import StoreError, foreign, other_version, store_error, too_long

DATABASE = "reprokit.db"
CURRENT = 9  # the version of the tables that this reprokit writes, and the only one that it reads

APPLICATION_ID = 0x52507274  # ``RPrt``, see https://www.sqlite.org/pragma.html#pragma_application_id

LONGEST_PATH = 504
"""Bytes of the longest path that SQLite opens: of the 512 that its journal's may have (MAX_PATHNAME of os_unix.c)."""

COPY_ATTEMPTS = 5
_MAGIC = b"SQLite format 3\0"
_HEADER = 100


def version(path: Path) -> int:
    """:data:`CURRENT`, or 0 where there are no tables yet. Raises StoreError where the file cannot be used."""
    if (length := len(os.fsencode(path.resolve()))) > LONGEST_PATH:
        raise too_long(path, length, LONGEST_PATH)
    try:
        if not path.stat().st_size:
            return 0
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        found, application = _numbers(path)
    except FileNotFoundError:
        return 0
    except (OSError, sqlite3.Error) as error:
        raise store_error(path, error) from error
    if application not in (0, APPLICATION_ID):
        raise foreign(path, f"the file belongs to another program (application id {application:#010x})")
    if not application:
        return _without_tables(path)
    if found != CURRENT:
        raise other_version(path, found, CURRENT)
    return found


def is_writable(path: Path) -> bool:
    """Whether this user may write the file, and others beside it, as SQLite does."""
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def last_seconds(folder: Path, cases: Collection[str]) -> dict[tuple[str, str, str], float]:
    """Case key, cell key and variant -> seconds of the cells in the newest run of each case.

    It serves the order of a run alone: nothing where the database is on a server, of another version, or does not
    answer at once.
    """
    path, found = folder / DATABASE, dict[tuple[str, str, str], float]()
    with contextlib.suppress(OSError, sqlite3.Error, StoreError):
        if not is_writable(path) or version(path) != CURRENT:
            return found
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=0)) as connection:
            for case in cases:
                rows = connection.execute(
                    "SELECT cell_key, variant, seconds FROM cells WHERE seconds IS NOT NULL AND case_key = ?1 "
                    "AND run_id = (SELECT max(run_id) FROM cells WHERE case_key = ?1)",
                    (case,),
                )
                found |= {(case, key, variant): seconds for key, variant, seconds in rows}
    return found


def _numbers(path: Path) -> tuple[int, int]:
    """``user_version`` and ``application_id``.

    By SQLite: to open the file otherwise and close it takes away every lock that this process holds on it (fcntl(2)),
    and another process then writes while this one does. Where SQLite gets no lock, or would write, there is none.
    """
    with contextlib.suppress(sqlite3.OperationalError):
        if is_writable(path):
            uri = f"{path.absolute().as_uri()}?mode=ro"
            with closing(sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None)) as connection:
                connection.execute("BEGIN")  # both of one moment: another process may be making the tables
                found, application = (
                    int(connection.execute(f"PRAGMA {name}").fetchone()[0])
                    for name in ("user_version", "application_id")
                )
                return found, application & 0xFFFFFFFF
    with open_regular(path) as stream:
        header = stream.read(_HEADER)
    if not header.startswith(_MAGIC) or len(header) < _HEADER:
        raise sqlite3.DatabaseError("file is not a database")
    return int.from_bytes(header[60:64], "big"), int.from_bytes(header[68:72], "big")


def _without_tables(path: Path) -> int:
    """0 for a file without an application id, which has no tables yet. Raises StoreError for one that has some."""
    uri = f"{path.absolute().as_uri()}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            connection.execute("BEGIN")
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            # Of the same moment as the names: another run may have made our tables since it was read before.
            application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    except sqlite3.Error as error:
        raise store_error(path, error) from error
    if names and not application:
        raise foreign(path, f"its tables are another program's ({', '.join(sorted(names)[:3])})")
    return 0


def wal_of(path: Path) -> Path:
    """The file beside a database that has what is not in it yet."""
    return path.with_name(f"{path.name}-wal")


def copy_files(path: Path, target: Path) -> None:
    """Copy a database that may only be read, with its write-ahead log, as it was at one moment.

    Raises StoreError where its owner writes on and on.
    """
    for _ in range(COPY_ATTEMPTS):
        before = _stamps(path)
        for file in (path, wal_of(path)):
            if file.is_file():
                shutil.copyfile(file, target.with_name(target.name + file.name.removeprefix(path.name)))
        if _stamps(path) == before:
            return
        time.sleep(0.1)
    raise store_error(path, "database is locked: it changed while it was copied")


def _stamps(path: Path) -> list[tuple[int, int]]:
    there = [file.stat() for file in (path, wal_of(path)) if file.exists()]
    return [(stat.st_size, stat.st_mtime_ns) for stat in there]


def backup(path: Path, target: Path) -> None:
    """Copy a database as it is at one moment, while others write it. Raises StoreError."""
    try:
        with (
            closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as source,
            closing(sqlite3.connect(target)) as copy,
        ):
            source.backup(copy)
    except sqlite3.Error as error:
        raise store_error(path, error) from error


def faults(path: Path, *, seconds: float | None = None) -> list[str]:
    """What is wrong with the file, in SQLite's words, [] when nothing is. Raises StoreError where it cannot be read.

    Indexes are not compared with their tables. ``seconds``: stop looking after that time.
    """
    end = None if seconds is None else time.monotonic() + seconds
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
            if end is not None:
                connection.set_progress_handler(lambda: int(time.monotonic() > end), 10_000)
            found = [str(text) for (text,) in connection.execute("PRAGMA quick_check(20)")]
    except sqlite3.OperationalError as error:
        if "interrupted" in str(error):
            return []
        raise store_error(path, error) from error
    except sqlite3.Error as error:
        return [str(error)]
    return [] if found == ["ok"] else found

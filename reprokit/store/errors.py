"""What is wrong with a store's database, in words: where, and what to type."""

from __future__ import annotations

import os
from enum import Enum
from pathlib import Path

from reprokit.core.errors import UsageError


class Trouble(Enum):
    """Why a database cannot be used. The first four: it can be read, but takes nothing now."""

    BUSY = "busy"
    FULL = "full"
    READ_ONLY = "read-only"
    LOCKLESS = "without locks"
    DAMAGED = "damaged"
    FOREIGN = "foreign"
    NEWER = "newer"
    OLDER = "older"
    REFUSED = "refused"
    UNREACHABLE = "unreachable"
    PATH = "path"
    VALUE = "value"
    OTHER = "other"


PASSING = (Trouble.BUSY, Trouble.FULL, Trouble.READ_ONLY, Trouble.LOCKLESS)
"""What keeps a database from being written, and not from being read."""


class StoreError(UsageError):
    """The database of a store cannot be used; ``trouble`` says why."""

    def __init__(self, text: str, trouble: Trouble) -> None:
        super().__init__(text)
        self.trouble = trouble


REBUILD = (
    "`reprokit store check` lists what is wrong; `reprokit store rebuild` makes a new database from the journals of "
    "runs, and keeps this one beside it"
)

_LEAST = 64 * 1024  # bytes: SQLite's shared memory takes 32 KiB

# In the order in which they are looked for; the words are SQLite's own (sqlite3ErrStr).
_KNOWN = (
    (("malformed", "not a database"), Trouble.DAMAGED, f"is damaged ({{error}}): {REBUILD}"),
    (
        ("locked", "busy"),
        Trouble.BUSY,
        "is in use by another process ({error}): try again, or find the process with `fuser {where}`",
    ),
    (("is full",), Trouble.FULL, "cannot be written ({error}): make room, or name another store with --store"),
    (
        ("readonly", "read-only"),
        Trouble.READ_ONLY,
        "cannot be written ({error}): name another store with --store",
    ),
    (
        ("disk i/o error", "locking protocol", "unable to open"),
        Trouble.OTHER,
        "cannot be used ({error}): its disk fails, or its file system has no locks: name another store with --store",
    ),
)


def store_error(where: str | Path, error: BaseException | str) -> StoreError:
    """The message for what a database said. ``where``: its file or address."""
    said = " ".join(str(error).split())
    if "disk i/o error" in said.lower() and _is_full(Path(where)):
        said = "the disk is full"  # SQLite cannot make the file by which processes share its log
    for words, trouble, text in _KNOWN:
        if any(word in said.lower() for word in words):
            return StoreError(f"the store's database {where} {text.format(error=said, where=where)}", trouble)
    return StoreError(
        f"the store's database {where} cannot be used ({said}): name another store with --store", Trouble.OTHER
    )


def _is_full(path: Path) -> bool:
    try:
        found = os.statvfs(path.parent)
    except OSError:  # gone, or the address of a server
        return False
    return found.f_bavail * found.f_frsize < _LEAST


def lockless(folder: Path, why: str) -> StoreError:
    """The message for a store on a file system without locks. ``why``: in the system's words."""
    return StoreError(
        f"the file system of the store {folder} has no locks ({why}), so that no run can be recorded there: name "
        "another store with --store",
        Trouble.LOCKLESS,
    )


def too_long(path: Path, length: int, longest: int) -> StoreError:
    """The message for a database whose path SQLite does not open."""
    return StoreError(
        f"the path of the store's database has {length} bytes, and SQLite opens at most {longest}: name a store with a "
        f"shorter path with --store ({path})",
        Trouble.PATH,
    )


def unreadable(where: str | Path, error: BaseException) -> StoreError:
    """The message for a row whose content is not what reprokit wrote."""
    return StoreError(
        f"the store's database {where} holds a record that cannot be read ({type(error).__name__}: {error}): {REBUILD}",
        Trouble.DAMAGED,
    )


def other_version(where: str | Path, found: int, known: int, *, on_server: bool = False) -> StoreError:
    """The message for tables of another version, which are made again and never changed."""
    if found > known:
        return StoreError(
            f"the store's database {where} was written by a newer reprokit (version {found} of the tables, this one "
            f"knows {known}): upgrade reprokit, or name another store with --store",
            Trouble.NEWER,
        )
    how = (
        "`dropdb` and `createdb` make it empty, and `reprokit store rebuild` on each host brings what its journals have"
        if on_server
        else "`reprokit store rebuild` makes a new one from the journals of runs, and keeps this one beside it"
    )
    return StoreError(
        f"the store's database {where} was written by an earlier reprokit (version {found} of the tables, this one "
        f"reads {known} alone): {how}",
        Trouble.OLDER,
    )


def foreign(where: str | Path, what: str) -> StoreError:
    """The message for another program's file. ``what``: how that is known."""
    return StoreError(
        f"{where} is not a store of reprokit: {what}; name another store with --store, or move this file away",
        Trouble.FOREIGN,
    )

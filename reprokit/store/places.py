"""Where the runs of a store lie, proved: ids and paths of records become names below its folder, and nothing else.

A store may be untrusted, unpacked or downloaded: its database may name anything, its folders may be links. Every
path that comes from a record is made here. Light: imports no database.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import suppress
from pathlib import Path

from reprokit.store.errors import StoreError, Trouble

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LONGEST_NAME, LONGEST_PATH = 255, 1000
RUNS = "runs"
LOCK = "reprokit.lock"
"""The file in the store's folder that is locked by the process that brings the database up to date."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_name(text: str, longest: int = LONGEST_NAME) -> bool:
    """Whether a text can be the name of a file or folder, and nothing else."""
    return len(text) <= longest and NAME.fullmatch(text) is not None


def is_log(path: str) -> bool:
    """Whether a path is of a log below the folder ``runs`` of a store."""
    first, *others = path.split("/")
    return first == RUNS and len(path) <= LONGEST_PATH and bool(others) and all(map(is_name, others))


def unlinked(folder: Path, *names: str) -> Path:
    """``folder/names...``, which need not exist. Raises StoreError where one of them is a symbolic link."""
    place = folder
    for name in names:
        place = place / name
        if place.is_symlink():
            raise _refused(folder, f"{place} is a symbolic link, which may lead anywhere")
    return place


def below(folder: Path, *names: str) -> Path:
    """As :func:`unlinked`, of names that a record has. Raises StoreError for what is not the name of a file, too."""
    bad = next((name for name in names if not is_name(name)), None)
    if bad is not None:
        raise _refused(folder, f"a record names {bad[:80]!r}, which is not the name of a file")
    return unlinked(folder, *names)


def run_folder(folder: Path, run_id: str) -> Path:
    """The folder of a run. Raises StoreError."""
    return below(folder, RUNS, run_id)


def log_path(folder: Path, log: str) -> Path:
    """The log of a trial, given as its record has it. Raises StoreError."""
    if not is_log(log):
        raise _refused(folder, f"a record names {log[:80]!r} as a log")
    return below(folder, *log.split("/"))


def read_log(folder: Path, log: str) -> bytes:
    """The bytes of a log. Raises StoreError, and FileNotFoundError where it is gone."""
    with os.fdopen(open_log(folder, log), "rb") as stream:
        return stream.read()


def open_log(folder: Path, log: str) -> int:
    """A descriptor of a log, whatever becomes of the folders above it meanwhile. Raises as :func:`read_log`.

    One that another host of the store wrote is copied to this one.
    """
    try:
        return _open_log(folder, log)
    except FileNotFoundError:
        from reprokit.store.files import files_of

        files = files_of(folder)
        if files is None:
            raise
        target = log_path(folder, log)
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            files.get(log, scratch)
            scratch.replace(target)
        finally:
            scratch.unlink(missing_ok=True)
        return _open_log(folder, log)


def _open_log(folder: Path, log: str) -> int:
    if not is_log(log):
        log_path(folder, log)  # which refuses it
    *parents, name = log.split("/")
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for parent in parents:
            at = _inside(at, parent)
        file = os.open(name, _FILE, dir_fd=at)
    except OSError as error:
        log_path(folder, log)  # which says so where a link is in the way
        if isinstance(error, NotADirectoryError):
            raise FileNotFoundError(*error.args) from error
        raise
    finally:
        os.close(at)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise _refused(folder, f"{log} is not a regular file")
    return file


def remove_run(folder: Path, run_id: str) -> None:
    """Remove the folder of a run with all that is in it; links are removed, and never followed. Raises StoreError."""
    run_folder(folder, run_id)
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # there is none; or a link, put there since it was looked at
            at = _inside(at, RUNS)
            shutil.rmtree(f"/proc/self/fd/{at}/{run_id}", ignore_errors=True)
    finally:
        os.close(at)


def _inside(at: int, name: str) -> int:
    """A descriptor of the folder ``name`` in ``at``, which is closed where that works."""
    found = os.open(name, _FOLDER, dir_fd=at)
    os.close(at)
    return found


def _refused(folder: Path, why: str) -> StoreError:
    return StoreError(
        f"the store {folder} is refused: {why}; it is not what reprokit wrote: name another store with --store",
        Trouble.FOREIGN,
    )

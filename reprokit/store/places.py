"""Paths below a store: ids and logs of records become names below its folder, and nothing else. Imports no database.

A store may be untrusted, unpacked or downloaded: its records may name anything, its folders may be links.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from reprokit.evidence.records import RunRecord
from reprokit.store.errors import StoreError, Trouble

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
LONGEST_NAME, LONGEST_PATH = 255, 1000
RUNS = "runs"
LOCK = "reprokit.lock"
"""The file in the store's folder that is locked by the process that brings the database up to date."""
NOTE = "logs-removed.txt"  # the file of a run's folder that says when its logs were removed

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


def names_in(folder: Path, name: str) -> list[str]:
    """The names in ``folder/name``, [] where that does not exist. Raises StoreError for a link."""
    try:
        return sorted(path.name for path in unlinked(folder, name).iterdir() if is_name(path.name))
    except FileNotFoundError:
        return []


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
            at = _enter(at, parent)
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


def _enter(at: int, name: str) -> int:
    """A descriptor of the folder ``name`` in ``at``, which is closed where that works."""
    found = os.open(name, _FOLDER, dir_fd=at)
    os.close(at)
    return found


def remove_run(folder: Path, run_id: str) -> None:
    """Remove the folder of a run with all that is in it; links are removed, and never followed. Raises StoreError."""
    run_folder(folder, run_id)
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # there is none; or a link, put there since it was looked at
            at = _enter(at, RUNS)
            shutil.rmtree(f"/proc/self/fd/{at}/{run_id}", ignore_errors=True)
    finally:
        os.close(at)


def logs_of(folder: Path, run_id: str) -> list[Path]:
    """The logs of a run's trials on the disk, and what they wrote to be compared."""
    found = (path for kind in ("*.log", "*.outputs.tar") for path in run_folder(folder, run_id).rglob(kind))
    return sorted(path for path in found if not path.is_symlink())


def logs_in(run: RunRecord) -> list[str]:
    """The logs that a run's record names, and the archives of what trials wrote to be compared."""
    compared = [trial.outputs for cell in run.cells if cell.details.comparison for trial in cell.trials]
    return [trial.log for cell in run.cells for trial in cell.trials] + compared


def remove_logs(folder: Path, run_id: str, *, note: bool = True) -> None:
    """Remove them, and leave a note: a run without logs and without a note was damaged."""
    if note:
        text = f"{datetime.now(timezone.utc):%Y-%m-%d}\n"
        below(folder, RUNS, run_id, NOTE).write_text(text, encoding="utf-8")
    for log in logs_of(folder, run_id):
        log.unlink(missing_ok=True)


def why_removed(folder: Path, log: str) -> str:
    """That the log of a trial, given as its record has it, was removed on purpose; '' where it was not."""
    for above in log_path(folder, log).parents if is_log(log) else ():
        if (above / NOTE).is_file() and not (above / NOTE).is_symlink():
            at = (above / NOTE).read_text(encoding="utf-8", errors="replace").strip()
            return f"the logs of this run were removed by reprokit gc on {at}; its verdicts stay"
    return ""


def _refused(folder: Path, why: str) -> StoreError:
    return StoreError(
        f"the store {folder} is refused: {why}; it is not what reprokit wrote: name another store with --store",
        Trouble.FOREIGN,
    )

"""Keeps stores whole: checks one, makes its database again from journals, and copies one to another."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprokit.core.errors import UsageError
from reprokit.core.json_record import JsonDocument
from reprokit.core.ownership import locked, lockless
from reprokit.core.text import pluralize
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.store import errors
from reprokit.store.database import Store
from reprokit.store.delivery import deliver_all, undelivered
from reprokit.store.errors import StoreError, Trouble, foreign
from reprokit.store.files import files_of
from reprokit.store.journal import Entry, entries, path_of, pending, recorded
from reprokit.store.merging import copy_log
from reprokit.store.places import LOCK, RUNS, log_path, logs_in, unlinked
from reprokit.store.remote import remote_of
from reprokit.store.sqlite_file import DATABASE, version, wal_of


@dataclass
class CheckResult(JsonDocument):
    """What `store check` looked at, and what is wrong."""

    FORMAT = "reprokit-store-check/v1"

    runs: int
    journals: int
    logs: int
    problems: list[str]
    notes: list[str]  # what is worth knowing


def check(folder: Path) -> CheckResult:
    """Look at everything in the store in ``folder``; change nothing but what opening a store does."""
    done = CheckResult(0, 0, 0, [], [])
    known: dict[str, set[int]] | None = None  # the decided cells of each run in the database
    own = False  # the database is this folder's alone
    try:
        with contextlib.closing(Store(folder)) as store:
            own = store.where == str(folder / DATABASE)
            done.problems += [f"{store.where}: {text}" for text in store.faults()]
            runs = _check_runs(store, done)
            known = {run.id: _decided(run.cells) for run in runs}
    except StoreError as error:
        done.problems.append(str(error))
    for run_id in recorded(folder):
        done.journals += 1
        try:
            decided = _check_journal(folder, run_id, done)
        except StoreError as error:
            done.problems.append(str(error))
            continue
        if known is None or decided is None:  # killed before its first line was whole
            continue
        if run_id not in known:
            done.problems.append(f"run {run_id} is in its journal and not in the database: {_ADDS} it")
        elif lost := decided - known[run_id]:
            text = f"run {run_id}: {pluralize(len(lost), 'cell')} decided in its journal and not in the database"
            done.problems.append(f"{text}: {_ADDS} {'it' if len(lost) == 1 else 'them'}")
        # A kill leaves a journal before its own database, never behind; others may go on with a run in a shared one.
        elif (cut := known[run_id] - decided) and own:
            text = f"run {run_id}: {pluralize(len(cut), 'cell')} decided in the database and not in its journal"
            done.problems.append(f"{text}, which is damaged: `reprokit store rebuild` writes it again")
    return done


_ADDS = "`reprokit store rebuild` adds"


def _check_runs(store: Store, done: CheckResult) -> Iterator[RunRecord]:
    """The runs that can be read, each with its logs looked at."""
    for run_id in [run.id for run in store.runs(limit=None)]:
        try:
            run = store.run(run_id)
        except StoreError as error:
            done.problems.append(f"run {run_id}: {error}")
            continue
        done.runs += 1
        logs = logs_in(run)
        lost = [log for log in logs if not _is_there(store.folder, log)]
        if lost and (files := files_of(store.folder)):
            there = files.names(f"{RUNS}/{run_id}")
            lost = [log for log in lost if log not in there]
        elif lost and remote_of(store.folder) and not run.owner.is_here:
            done.notes.append(f"run {run_id}: its logs are on the machine {run.owner.machine or '?'} alone: see files")
            lost = []
        done.logs += len(logs)
        if lost:
            done.problems.append(f"run {run_id}: {pluralize(len(lost), 'log')} missing, such as {lost[0]}")
        words = sorted({str(cell.verdict) for cell in run.cells if cell.verdict and cell.verdict not in set(Verdict)})
        if words:
            done.notes.append(f"run {run_id}: verdicts that a newer reprokit knows: {', '.join(words)}")
        yield run


def _is_there(folder: Path, log: str) -> bool:
    with contextlib.suppress(StoreError):
        return log_path(folder, log).is_file()
    return False


def _check_journal(folder: Path, run_id: str, done: CheckResult) -> set[int] | None:
    """The cells that are decided in a journal; None where it has no whole line."""
    path, damaged, end, decided = path_of(folder, run_id), 0, 0, set[int]()
    for entry in entries(path):
        damaged += not entry.kind
        end = entry.end
        decided |= _decided_in(entry)
    if damaged:
        done.problems.append(f"{path}: {pluralize(damaged, 'damaged line')}")
    if path.stat().st_size > end and run_id not in pending(folder):
        done.notes.append(f"{path}: the last line is only half written: a process was stopped while it wrote")
    return decided if end else None


def _decided_in(entry: Entry) -> set[int]:
    """The numbers of the cells that a line of a journal decides."""
    with contextlib.suppress(ValueError):
        whole = entry.kind in ("begin", "put")
        return _decided(entry.read("run", RunRecord).cells if whole else (entry.read("cell", CellRecord),))
    return set()


def _decided(cells: Iterable[CellRecord]) -> set[int]:
    return {cell.number for cell in cells if cell.verdict is not None}


@dataclass
class RebuildResult(JsonDocument):
    """What `store rebuild` made; `old`: where the database is now that was there."""

    FORMAT = "reprokit-store-rebuild/v1"

    runs: int
    lost: list[str]
    old: str | None


def rebuild(folder: Path, stamp: str) -> RebuildResult:
    """Make the database of the store in ``folder`` again from its journals. ``stamp``: the time, to name the old one.

    What only the old one has is written to them first, where it can be read. Raises UsageError where the old one is a
    newer reprokit's, or another program's, and where the folder is read-only.
    """
    done, database = RebuildResult(0, [], None), unlinked(folder, DATABASE)
    if database.exists() and not database.is_file():
        raise foreign(database, "it is not a regular file")
    try:
        version(database)
    except StoreError as error:
        if error.trouble in (Trouble.NEWER, Trouble.FOREIGN):
            raise
    lock = unlinked(folder, LOCK)
    if why := lockless(lock):
        raise errors.lockless(folder, why)
    if not os.access(folder, os.W_OK):
        raise UsageError(f"the store {folder} is read-only: copy it to another folder, and name that with --store")
    _record_what_is_lacking(folder)
    with locked(lock), tempfile.TemporaryDirectory(dir=folder, prefix=".rebuild-") as scratch:
        with contextlib.closing(Store(Path(scratch), f"sqlite:///{scratch}/{DATABASE}")) as new:
            new.replay(folder, recorded(folder))
            done.lost += new.damage
            ids = {run.id for run in new.runs(limit=None)}
        done.runs = len(ids)
        if database.exists():
            done.lost += [f"run {run_id}: it has no journal" for run_id in _runs_in(database) if run_id not in ids]
            done.old = str(_set_aside(database, stamp))
        (Path(scratch) / DATABASE).replace(database)
    return done


def _record_what_is_lacking(folder: Path) -> None:
    """Write to the journals what the database alone has: of runs whose folder was removed, or a line is damaged."""
    known = recorded(folder)
    with contextlib.suppress(StoreError), contextlib.closing(Store(folder, up_to_date=True)) as store:
        for run in store.runs(limit=None):
            is_whole, decided = False, set[int]()  # a run is there, no damaged line after it, and what it decided
            with contextlib.suppress(StoreError):
                for entry in entries(path_of(folder, run.id)) if run.id in known else ():
                    is_whole = entry.kind in ("begin", "put") or (is_whole and entry.kind != "")
                    decided |= _decided_in(entry)
                if not is_whole or not _decided(store.run(run.id).cells) <= decided:
                    store.record(run.id)


def _runs_in(database: Path) -> list[str]:
    """The runs that the old database names, as far as that can be read."""
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection,
    ):
        return [str(run_id) for (run_id,) in connection.execute("SELECT id FROM runs ORDER BY id")]
    return []


def _set_aside(database: Path, stamp: str) -> Path:
    """Give the old database a second name; its write-ahead log must not meet the new one."""
    old = database.with_name(f"{database.name}.old-{stamp}")
    try:
        os.link(database, old)
    except OSError:  # a file system without hard links
        shutil.copyfile(database, old)
    if wal_of(database).exists():
        wal_of(database).replace(wal_of(old))
    database.with_name(f"{database.name}-shm").unlink(missing_ok=True)
    return old


@dataclass
class CopyResult(JsonDocument):
    """What `store copy` did. `copied`, `same`: runs that were not there like this, and that were; of both together
    `cells` and `trials` were compared by digest. `problems`: what was left out or differs."""

    FORMAT = "reprokit-store-copy/v1"

    copied: int
    same: int
    cells: int
    trials: int
    logs: int  # copied now
    problems: list[str]


def copy(source: Store, target: Store) -> CopyResult:
    """Add every run of ``source`` to ``target``, the oldest first; doing it again, or after it was stopped, goes on.

    A run that the target has, and that was written there as well, stays as it is there. Raises StoreError.
    """
    if source.folder == target.folder and source.where == target.where:
        raise UsageError(f"{source.where} is both stores: name another one to copy to")
    done = CopyResult(0, 0, 0, 0, 0, [])
    known = {run.id for run in target.runs(limit=None)}
    for bare in reversed(source.runs(limit=None)):
        run = source.run(bare.id)
        wanted = _digest(source, run)
        there = run.id in known and _digest(target, target.run(run.id)) == wanted
        if not there and run.id in known and target.was_written(run.id):
            done.problems.append(f"run {run.id} differs in {target.where}, where it was gone on with: it stays there")
            continue
        done.logs += _copy_logs(source, target, run, done)
        if there:
            done.same += 1
        else:
            target.put(run, source.texts(cell.case_digest for cell in run.cells), source.findings(run.id))
            if _digest(target, target.run(run.id)) != wanted:
                done.problems.append(f"run {run.id} is not the same in {target.where}: please report this")
            done.copied += 1
        done.cells += len(run.cells)
        done.trials += sum(len(cell.trials) for cell in run.cells)
    return done


def _digest(store: Store, run: RunRecord) -> str:
    """What tells whether two stores have the same of a run: all that they say of it, and the texts of its cases."""
    texts = store.texts(cell.case_digest for cell in run.cells)
    said: Any = [run.to_json(), store.findings(run.id), sorted((key, *text) for key, text in texts.items())]
    # No database has more than these: see tables.PortableText.
    text = json.dumps(said, sort_keys=True).replace("\\u0000", "\\ufffd")
    return hashlib.sha256(text.encode()).hexdigest()


def _copy_logs(source: Store, target: Store, run: RunRecord, done: CopyResult) -> int:
    """Copy the logs that the target lacks; how many. Those that are gone from the source are counted."""
    files = files_of(target.folder)
    there = files.names(f"{RUNS}/{run.id}") if files else set()
    copied = lost = 0
    for log in dict.fromkeys(logs_in(run)):
        if log in there or (files is None and log_path(target.folder, log).is_file()):
            continue
        with tempfile.TemporaryDirectory(dir=target.folder, prefix=".copy-") as scratch:
            path = Path(scratch) / "log" if files else log_path(target.folder, log)
            found = copy_log(source.folder, log, path)
            if found and files:
                files.put(path, log)
        copied += found
        lost += not found
    if lost:
        done.problems.append(f"run {run.id}: {pluralize(lost, 'log')} cannot be read in {source.where}")
    return copied


@dataclass
class SyncResult(JsonDocument):
    """What `store sync` delivered: ids of runs. `not_ended`: runs that go on, of which there is more to come.
    `refused`: runs that the database does not take, and why."""

    FORMAT = "reprokit-store-sync/v1"

    delivered: list[str]
    not_ended: list[str]
    refused: dict[str, str]


def sync(folder: Path) -> SyncResult:
    """Deliver what this host still keeps for a database and a place of files on servers. Raises StoreError."""
    before = {*pending(folder), *undelivered(folder)}
    with contextlib.closing(Store(folder, up_to_date=True)) as store:
        refused = {run_id: str(error) for run_id, error in store.refused.items()}
    deliver_all(folder)
    left = {*pending(folder), *undelivered(folder)} - refused.keys()
    return SyncResult(sorted(before - left - refused.keys()), sorted(left), refused)

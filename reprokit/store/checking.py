"""Whether a store is whole: its database, its journals against it, and the logs that its records name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from reprokit.core.ownership import private_folder
from reprokit.core.text import pluralize
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import RunRecord
from reprokit.store.database import Store
from reprokit.store.errors import StoreError
from reprokit.store.files import files_of
from reprokit.store.journal import entries, path_of, pending, recorded
from reprokit.store.logs import logs_in
from reprokit.store.places import RUNS, log_path
from reprokit.store.remote import remote_of
from reprokit.store.sqlite_file import DATABASE


@dataclass
class CheckResult:
    """What was looked at, what is wrong (``problems``), and what is worth knowing (``notes``), in words."""

    runs: int = 0
    journals: int = 0
    logs: int = 0
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check(folder: Path) -> CheckResult:
    """Look at everything in the store in ``folder``; change nothing but what opening a store does."""
    done = CheckResult()
    store: Store | None = None
    try:
        store = Store(folder)
        done.problems += [f"{store.where}: {text}" for text in store.faults()]
    except StoreError as error:
        done.problems.append(str(error))
    known = {run.id: run for run in _runs(store, done)} if store else {}
    with private_folder("check") as scratch:
        own = Store(scratch, f"sqlite:///{scratch / DATABASE}")
        for run_id in recorded(folder):
            done.journals += 1
            _check_journal(folder, run_id, done)
            if store is not None:
                done.problems += _lacking(own, folder, run_id, known.get(run_id))
        own.close()
    if store is not None:
        store.close()
    return done


def _runs(store: Store, done: CheckResult) -> Iterator[RunRecord]:
    """The runs that can be read, each with its logs looked at."""
    try:
        ids = [run.id for run in store.runs(limit=None)]
    except StoreError as error:
        done.problems.append(str(error))
        return
    for run_id in ids:
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
    with suppress(StoreError):
        return log_path(folder, log).is_file()
    return False


def _check_journal(folder: Path, run_id: str, done: CheckResult) -> None:
    path, damaged, end = path_of(folder, run_id), 0, 0
    for entry in entries(path):
        damaged += not entry.kind
        end = entry.end
    if damaged:
        done.problems.append(f"{path}: {pluralize(damaged, 'damaged line')}")
    if path.stat().st_size > end and run_id not in pending(folder):
        done.notes.append(f"{path}: the last line is only half written: a process was stopped while it wrote")


def _lacking(own: Store, folder: Path, run_id: str, known: RunRecord | None) -> Iterator[str]:
    """What the journal of a run has and the database does not."""
    own.replay(folder, [run_id])
    if run_id not in [run.id for run in own.runs(limit=None)]:
        return  # killed before its first line was whole
    decided = {cell.number for cell in own.run(run_id).cells if cell.verdict is not None}
    own.forget(run_id)
    if known is None:
        yield f"run {run_id} is in its journal and not in the database: `reprokit store rebuild` adds it"
    elif lost := decided - {cell.number for cell in known.cells if cell.verdict is not None}:
        yield (
            f"run {run_id}: {pluralize(len(lost), 'cell')} decided in its journal and not in the database: "
            "`reprokit store rebuild` adds them"
        )

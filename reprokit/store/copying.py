"""A store into another one, whatever has their databases: each run whole or not at all, and compared afterwards."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reprokit.core.errors import UsageError
from reprokit.core.text import pluralize
from reprokit.evidence.records import RunRecord
from reprokit.store.database import Store
from reprokit.store.errors import StoreError
from reprokit.store.files import files_of
from reprokit.store.logs import logs_in
from reprokit.store.places import log_path, open_log
from reprokit.store.sqlite_file import DATABASE


@dataclass
class CopyResult:
    """``copied``: runs that were not there like this; ``same``: those that were. ``cells``, ``trials``: of all of them,
    compared by their digests. ``logs``: copied now. ``problems``: what was left out or differs, in words.
    """

    copied: int = 0
    same: int = 0
    cells: int = 0
    trials: int = 0
    logs: int = 0
    problems: list[str] = field(default_factory=list)


def copy(source: Store, target: Store, progress: Callable[[str], None] = lambda text: None) -> CopyResult:
    """Add every run of ``source`` to ``target``, the oldest first; doing it again, or after it was stopped, goes on.

    A run that the target has, and that was written there as well, stays as it is there. Raises StoreError.
    """
    if source.folder == target.folder and source.where == target.where:
        raise UsageError(f"{source.where} is both stores: name another one to copy to")
    done = CopyResult()
    known = {run.id for run in target.runs(limit=None)}
    for bare in reversed(source.runs(limit=None)):
        run = source.run(bare.id)
        wanted = digest(source, run)
        there = run.id in known and digest(target, target.run(run.id)) == wanted
        if not there and run.id in known and target.has_journal(run.id):
            done.problems.append(f"run {run.id} differs in {target.where}, where it was gone on with: it stays there")
            continue
        done.logs += _copy_logs(source, target, run, done)
        if there:
            done.same += 1
        else:
            texts = source.texts(cell.case_digest for cell in run.cells)
            target.put(run, texts, source.findings(run.id))
            if digest(target, target.run(run.id)) != wanted:
                done.problems.append(f"run {run.id} is not the same in {target.where}: please report this")
            done.copied += 1
            progress(run.id)
        done.cells += len(run.cells)
        done.trials += sum(len(cell.trials) for cell in run.cells)
    return done


def digest(store: Store, run: RunRecord) -> str:
    """What tells whether two stores have the same of a run: all that they say of it, and the texts of its cases."""
    texts = store.texts(cell.case_digest for cell in run.cells)
    said: Any = [run.to_json(), store.findings(run.id), sorted((key, *text) for key, text in texts.items())]
    # No database has more than these: see tables.PortableText.
    text = json.dumps(said, sort_keys=True).replace("\\u0000", "\\ufffd")
    return hashlib.sha256(text.encode()).hexdigest()


def _copy_logs(source: Store, target: Store, run: RunRecord, done: CopyResult) -> int:
    """Copy the logs that the target lacks; how many. Those that are gone from the source are counted."""
    files = files_of(target.folder)
    there = files.names(f"runs/{run.id}") if files else set()
    copied = lost = 0
    for log in dict.fromkeys(logs_in(run)):
        if log in there or (files is None and log_path(target.folder, log).is_file()):
            continue
        try:
            opened = os.fdopen(open_log(source.folder, log), "rb")
        except (OSError, StoreError):
            lost += 1
            continue
        with opened, tempfile.TemporaryDirectory(dir=target.folder, prefix=".copy-") as scratch:
            path = Path(scratch) / "log"
            with path.open("wb") as stream:
                shutil.copyfileobj(opened, stream)
            if files:
                files.put(path, log)
            else:
                place = log_path(target.folder, log)
                place.parent.mkdir(parents=True, exist_ok=True)
                path.replace(place)
        copied += 1
    if lost:
        done.problems.append(f"run {run.id}: {pluralize(lost, 'log')} cannot be read in {source.where}")
    return copied


def snapshot(store: Store, folder: Path) -> Store:
    """A copy of a store's records in SQLite in ``folder``, for a backup. Raises StoreError."""
    copied = Store(folder, f"sqlite:///{folder / DATABASE}")  # not $REPROKIT_DATABASE
    for bare in store.runs(limit=None):
        run = store.run(bare.id)
        copied.put(run, store.texts(cell.case_digest for cell in run.cells), store.findings(run.id))
    return copied

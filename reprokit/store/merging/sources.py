"""The stores that jobs left, read without touching them: whole, half-written, damaged, or of another version."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DatabaseError

from reprokit.core.errors import UsageError
from reprokit.core.ownership import private_folder
from reprokit.evidence.records import RunRecord
from reprokit.store.database import Store
from reprokit.store.journal import FILE, recorded
from reprokit.store.sqlite_file import DATABASE, faults
from reprokit.store.validating import unfit


@dataclass(frozen=True, kw_only=True)
class StoreSource:
    """One store: its ``folder``, where logs lie, what is recorded, and ``problem``: why nothing could be read.

    ``texts``: digest of a case -> (id, title, text). ``findings``: of searches, by run.
    """

    name: str
    folder: Path
    runs: tuple[RunRecord, ...] = ()
    texts: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    findings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    problem: str = ""


def find(paths: Iterable[Path]) -> list[tuple[str, Path]]:
    """The stores in these folders, each with a name for people: of a folder of artifacts, each artifact's.

    Raises UsageError for a path that is not a folder. A folder without a store is named itself: :func:`read` says so.
    """
    found: dict[Path, str] = {}
    for path in paths:
        if not path.is_dir():
            raise UsageError(f"{path} is not a folder: name stores, or folders of downloaded artifacts")
        journals = (journal.parents[2] for journal in path.rglob(f"runs/*/{FILE}"))
        stores = sorted({*(database.parent for database in path.rglob(DATABASE)), *journals})
        # An artifact that holds no store tells of a job all the same.
        known = {store.relative_to(path).parts[0] for store in stores if store != path}
        empty = [] if path in stores else [one for one in sorted(path.iterdir()) if one.is_dir()]
        for store in stores or ([] if empty else [path]):
            found.setdefault(store.resolve(), _name(path, store))
        for one in empty:
            if one.name not in known and one.name != ".reprokit":
                found.setdefault(one.resolve(), one.name)
    return [(name, folder) for folder, name in found.items()]


def _name(path: Path, store: Path) -> str:
    parts = [part for part in store.relative_to(path).parts if part != ".reprokit"]
    return "/".join(parts) or str(path)


def read(name: str, folder: Path) -> StoreSource:
    """What a store holds. A store that cannot be read has a ``problem``, and nothing else."""
    if not (folder / DATABASE).is_file() and not recorded(folder):
        return StoreSource(
            name=name, folder=folder, problem="holds no store: the job was stopped before it ran anything"
        )
    with private_folder("merge") as scratch:
        try:
            # A copy: opening a database finishes what was half written, and makes tables that it lacks.
            for file in (folder / f"{DATABASE}{suffix}" for suffix in ("", "-wal", "-shm", "-journal")):
                if file.is_file() and not file.is_symlink():
                    shutil.copyfile(file, scratch / file.name)
            return _read(name, folder, scratch)
        except (UsageError, DatabaseError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            cause = error.__cause__ or error  # the store tells of a path, which here is the copy's
            reason = str(getattr(cause, "orig", None) or cause).replace(str(scratch), str(folder))
            return StoreSource(name=name, folder=folder, problem=f"cannot be read: {' '.join(reason.split())}")


def _read(name: str, folder: Path, copy: Path) -> StoreSource:
    if (copy / DATABASE).exists() and (found := faults(copy / DATABASE)):
        raise ValueError(f"the database is damaged: {found[0]}")
    store = Store(copy, f"sqlite:///{copy / DATABASE}")
    try:
        store.replay(folder, recorded(folder))
        runs = tuple(store.run(run.id) for run in reversed(store.runs(limit=None)))
        if bad := next(((run.id, why) for run in runs if (why := unfit(run))), None):
            raise ValueError(f"run {bad[0][:50]!r}: {bad[1]}")
        findings = {run.id: store.findings(run.id) for run in runs if run.searches}
        texts = store.texts(cell.case_digest for run in runs for cell in run.cells)
    finally:
        store.close()
    problem = "" if runs else "holds no run: the job was stopped before it ran anything"
    return StoreSource(name=name, folder=folder, runs=runs, texts=texts, findings=findings, problem=problem)


def read_all(paths: Iterable[Path]) -> Iterator[StoreSource]:
    """Every store in these folders, one after the other."""
    for name, folder in find(paths):
        yield read(name, folder)

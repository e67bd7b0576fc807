"""Stores of jobs into one store: what each left is read from its journals, runs are joined, logs copied, losses named.

What another store brings is untrusted input: ids become names of folders, and logs are read by their paths. Only
journals and logs are read of it, never its database.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from reprokit.case.matrix import cell_key
from reprokit.core.errors import UsageError
from reprokit.core.ownership import IMPORTED, private_folder
from reprokit.core.text import pluralize
from reprokit.evidence.origin import WorkflowRecord
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.store.database import Store
from reprokit.store.errors import StoreError
from reprokit.store.joining import Missing, Night, join, key_of, new_id, nights, workflow_of
from reprokit.store.journal import FILE, CaseTexts, recorded
from reprokit.store.places import RUNS, below, is_log, is_name, logs_in, open_log
from reprokit.store.sqlite_file import DATABASE

LONGEST_RUN, LONGEST_CASE = 40, 200
VARIANTS = ("case", "fix")


@dataclass(frozen=True, kw_only=True)
class StoreSource:
    """What a store holds, and what of it could not be read."""

    name: str
    folder: Path  # where its logs lie
    runs: tuple[RunRecord, ...] = ()
    texts: CaseTexts = field(default_factory=dict)
    findings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # of searches, by run
    problems: tuple[str, ...] = ()


def find(paths: Iterable[Path]) -> list[tuple[str, Path]]:
    """The stores in these folders, each with a name for people: of a folder of artifacts, each artifact's.

    Raises UsageError for a path that is not a folder. A folder without a store is named itself: :func:`read` says so.
    """
    found: dict[Path, str] = {}
    for path in paths:
        if not path.is_dir():
            raise UsageError(f"{path} is not a folder: name stores, or folders of downloaded artifacts")
        journals = (journal.parents[2] for journal in path.rglob(f"{RUNS}/*/{FILE}"))
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
    """What the journals of a store hold. What cannot be read is left out, and is one of its ``problems``."""
    runs, problems = [], []
    texts: dict[str, tuple[str, str, str]] = {}
    findings: dict[str, Mapping[str, Any]] = {}
    with private_folder("merge") as scratch, closing(Store(scratch, f"sqlite:///{scratch / DATABASE}")) as store:
        for run_id in recorded(folder):
            try:
                store.replay(folder, [run_id])
            except (StoreError, OSError) as error:
                problems.append(f"run {run_id[:50]!r} cannot be read: {error}")
        problems += [f"cannot be read whole: {text}" for text in store.damage]
        for bare in reversed(store.runs(limit=None)):
            run = store.run(bare.id)
            if why := why_unfit(run):
                problems.append(f"run {run.id[:50]!r} cannot be taken over: {why}")
                continue
            runs.append(run)
            texts |= store.texts(cell.case_digest for cell in run.cells)
            findings[run.id] = store.findings(run.id)
    if not runs and not problems:
        why = "its database is not read, and it has no journals: take all of the store's folder"
        has_database = (folder / DATABASE).exists()
        problems = [f"holds no run: {why if has_database else 'the job was stopped before it ran anything'}"]
    return StoreSource(
        name=name, folder=folder, runs=tuple(runs), texts=texts, findings=findings, problems=tuple(problems)
    )


def why_unfit(run: RunRecord) -> str:
    """Why a run from another store cannot be taken over, in words; '' when it can."""
    if not is_name(run.id, LONGEST_RUN):
        return f"its id {run.id[:50]!r} is not a name"
    for at in (run.started_at, *(job.started_at for job in run.request.merged or ())):
        try:
            datetime.fromisoformat(at.replace("Z", "+00:00"))
        except ValueError:
            return f"{at[:50]!r} is not a time"
    for cell in run.cells:
        if cell.number < 1:
            return f"the number {cell.number} of a cell is not above 0"
        if not is_name(cell.case_id, LONGEST_CASE):
            return f"the id {cell.case_id[:50]!r} of a case is not a name"
        if cell.variant not in VARIANTS:
            return f"the variant {cell.variant[:50]!r} is not one of {', '.join(VARIANTS)}"
    bad = next((log for log in logs_in(run) if not is_log(log)), None)
    return f"the log {bad[:50]!r} is not a path in a store" if bad is not None else ""


@dataclass
class MergeResult:
    """What became of it."""

    nights: list[RunRecord] = field(default_factory=list)  # the runs that were made of jobs, the oldest first
    imported: list[str] = field(default_factory=list)  # the ids of the others
    changed: int = 0  # how many runs the store did not hold like this before
    lost: dict[str, int] = field(default_factory=dict)  # cells without a record, by job
    problems: list[str] = field(default_factory=list)  # what could not be read or found, in words


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What the jobs were to run: cells that no job recorded, if none does, and the texts of their cases."""

    cells: tuple[Missing, ...]
    texts: CaseTexts
    workflow: WorkflowRecord | None


def merge(sources: Iterable[StoreSource], store: Store, plan: Planned | None, now: str) -> MergeResult:
    """Put what the sources hold into the store; doing it again changes nothing. Raises UsageError."""
    done = MergeResult()
    known: list[StoreSource] = []
    for source in sources:
        if source.folder == store.folder.resolve():
            raise UsageError(f"{source.folder} is the store that is merged into: name the others")
        done.problems += [f"{source.name} {problem}" for problem in source.problems]
        known.append(source)
    runs, origin = _unique(known)
    texts = {digest: text for source in known for digest, text in source.texts.items()}
    found, alone = nights(runs)
    if plan is not None:
        texts |= plan.texts
        found = _with_planned(found, plan)
    merger = _Merger(store, origin, texts, done, now)
    merged = [run for run in merger.taken.values() if run.request.merged is not None]
    there = {(workflow_of(run), run.host.engine_kind or ""): run.id for run in merged}
    for night in found:
        # Under its kind of engine, or as one of which nothing was left so far.
        run_id = there.get((night.workflow, night.kind)) or there.get((night.workflow, ""))
        merger.night(night, store.run(run_id) if run_id else None, _missing(night, found, plan))
    for run in alone:
        merger.alone(run)
    done.nights.sort(key=lambda run: run.started_at)
    return done


def forget(store: Store, keep: int) -> list[str]:
    """Remove all but the newest ``keep`` runs with their logs; returns the ids of those that went."""
    gone = [run.id for run in store.runs(limit=None)[keep:]]
    for run_id in gone:
        store.forget(run_id)
    return gone


def _with_planned(found: list[Night], plan: Planned) -> list[Night]:
    """The nights, with the one that the plan is of, even if none of its jobs left anything."""
    workflow = plan.workflow or (found[0].workflow if len({one.workflow for one in found}) == 1 else None)
    if not workflow:
        raise UsageError(
            "--planned: the stores are of several runs of a workflow, or of none: GITHUB_RUN_ID says which"
        )
    own = [night for night in found if night.workflow == workflow]
    return found if own else [*found, Night(workflow=workflow, kind="", runs=())]


def _missing(night: Night, found: Sequence[Night], plan: Planned | None) -> list[Missing]:
    """The planned cells that no job of the night recorded, under the first of the kinds of engine that it had."""
    same = [one for one in found if one.workflow == night.workflow]
    if plan is None or same[0] is not night or (plan.workflow and plan.workflow != night.workflow):
        return []
    present = {key_of(cell) for one in same for run in one.runs for cell in run.cells}
    return [one for one in plan.cells if key_of(one.cell) not in present]


def _unique(sources: Sequence[StoreSource]) -> tuple[list[RunRecord], dict[str, StoreSource]]:
    """All runs, each with an id of its own, and where each is from. Two jobs may have begun in the same second."""
    runs: dict[str, RunRecord] = {}
    origin: dict[str, StoreSource] = {}
    for source in sources:
        for run in source.runs:
            one = _renamed(run) if run.id in runs and not _are_same(runs[run.id], run) else run
            if one.id not in runs or (runs[one.id].finished_at is None and one.finished_at):
                runs[one.id], origin[one.id] = one, source
    return list(runs.values()), origin


def _are_same(one: RunRecord, other: RunRecord) -> bool:
    return one.started_at == other.started_at and one.owner.same_as(other.owner)


def _renamed(run: RunRecord) -> RunRecord:
    labels = {name: value for name, value in run.owner.labels.items() if name != IMPORTED}
    identity = json.dumps([run.started_at, labels], sort_keys=True)
    return dataclasses.replace(run, id=f"{run.id[:15]}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}")


class _Merger:
    """Writes runs and copies their logs."""

    def __init__(
        self, store: Store, origin: Mapping[str, StoreSource], texts: CaseTexts, done: MergeResult, now: str
    ) -> None:
        self._store = store
        self._origin = origin
        self._texts = texts
        self._done = done
        self._now = now
        self.taken = {run.id: run for run in store.runs(limit=None)}

    def night(self, night: Night, known: RunRecord | None, missing: Sequence[Missing]) -> None:
        """Join what is known of a night with what its jobs left, and write it where that is news."""
        if known is not None:
            night = dataclasses.replace(night, runs=(known, *night.runs))
        first = min((run.started_at for run in night.runs), default=self._now)
        run_id = known.id if known else new_id(night, first, lambda one: one in self.taken)
        run, origins = join(night, run_id, missing=missing, text=self._text, now=self._now)
        if run.cells:
            self._done.nights.append(run)
        without = {key_of(cell) for cell in run.cells if not cell.details.job}
        for one in missing:
            if key_of(one.cell) in without:
                self._done.lost[one.job] = self._done.lost.get(one.job, 0) + 1
        if run == known or not run.cells:
            return
        cells = []
        for cell in run.cells:
            source = origins.get(key_of(cell))
            fresh = source is not None and (known is None or source.id != known.id)
            digest = hashlib.sha256("/".join((cell.case_key, cell_key(cell.cell))).encode()).hexdigest()[:12]
            folder = f"{RUNS}/{run_id}/{cell.case_id}-{cell.variant}-{digest}"
            cells.append(self._with_logs(cell, source.id, folder) if fresh and source is not None else cell)
        self._done.nights[-1] = dataclasses.replace(run, cells=tuple(cells))
        self._write(self._done.nights[-1])

    def alone(self, run: RunRecord) -> None:
        """Take over a run that is not a job of a workflow, under its own id unless another run has it."""
        source = self._origin[run.id]
        known = self.taken.get(run.id)
        if known is not None and not _are_same(known, run):
            self._origin = {**self._origin, (run := _renamed(run)).id: source}
            known = self.taken.get(run.id)
        self._done.imported.append(run.id)
        if known is not None and (known.finished_at or not run.finished_at):
            return
        cells = (
            self._with_logs(cell, run.id, f"{RUNS}/{run.id}/{cell.number:03d}-{cell.case_id}-{cell.variant}")
            for cell in run.cells
        )
        run = dataclasses.replace(run, cells=tuple(cells), owner=run.owner.as_imported())
        self._write(run, source.findings.get(run.id))

    def _text(self, digest: str) -> str:
        return self._texts[digest][2] if digest in self._texts else self._store.case_text(digest)

    def _write(self, run: RunRecord, findings: Mapping[str, Any] | None = None) -> None:
        digests = {cell.case_digest for cell in run.cells}
        texts = {digest: self._texts[digest] for digest in sorted(digests) if digest in self._texts}
        self._store.put(run, texts, findings)
        self.taken[run.id] = run
        self._done.changed += 1

    def _with_logs(self, cell: CellRecord, run_id: str, folder: str) -> CellRecord:
        """The cell with its logs, and what its trials wrote to be compared, copied to ``folder`` below the store."""
        source = self._origin[run_id]
        trials = []
        lost = 0
        for trial in cell.trials:
            name = trial.log.rpartition("/")[2]
            log = f"{folder}/{name if is_name(name) else f'trial-{trial.number}.log'}"
            lost += not copy_log(source.folder, trial.log, below(self._store.folder, *log.split("/")))
            trials.append(dataclasses.replace(trial, log=log))
            if cell.details.comparison is not None:
                outputs = below(self._store.folder, *trials[-1].outputs.split("/"))
                lost += not copy_log(source.folder, trial.outputs, outputs)
        if lost:
            self._done.problems.append(f"{source.name}: {pluralize(lost, 'log')} of {cell.case_id} cannot be read")
        return dataclasses.replace(cell, trials=tuple(trials))


def copy_log(folder: Path, relative: str, target: Path) -> bool:
    """Copy a log, whole or not at all; whether it is available, and in ``folder``. Raises UsageError."""
    try:
        log = os.fdopen(open_log(folder, relative), "rb")
    except (OSError, StoreError):
        return False
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    with log:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with scratch.open("wb") as copy:
                shutil.copyfileobj(log, copy)
            scratch.replace(target)
        except OSError as error:
            scratch.unlink(missing_ok=True)
            raise UsageError(f"{target} cannot be written: {error.strerror}") from error
    return True

"""Stores of jobs into one store: runs are joined, logs copied, and what was lost is reported."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from reprokit.case.matrix import cell_key
from reprokit.core.errors import UsageError
from reprokit.core.ownership import IMPORTED
from reprokit.core.text import pluralize
from reprokit.evidence.origin import WorkflowRecord
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.store.database import Store
from reprokit.store.errors import StoreError
from reprokit.store.merging.joining import Missing, Night, join, key_of, new_id, nights, workflow_of
from reprokit.store.merging.sources import StoreSource
from reprokit.store.places import below, is_name, open_log


@dataclass
class MergeResult:
    """What became of it. ``nights``: the runs that were made of jobs, the oldest first; ``imported``: the others' ids.

    ``changed``: how many runs the store did not hold like this before. ``lost``: cells without a record, by job.
    ``problems``: what could not be read or found, in words.
    """

    nights: list[RunRecord] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)
    changed: int = 0
    lost: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Planned:
    """What the jobs were to run: cells that no job recorded, if none does, and the texts of their cases."""

    cells: tuple[Missing, ...]
    texts: Mapping[str, tuple[str, str, str]]
    workflow: WorkflowRecord | None


def merge(sources: Iterable[StoreSource], store: Store, plan: Planned | None, now: str) -> MergeResult:
    """Put what the sources hold into the store; doing it again changes nothing. Raises UsageError."""
    done = MergeResult()
    read: list[StoreSource] = []
    for source in sources:
        if source.folder == store.folder.resolve():
            raise UsageError(f"{source.folder} is the store that is merged into: name the others")
        if source.problem:
            done.problems.append(f"{source.name} {source.problem}")
        read.append(source)
    runs, origin = _unique(read)
    texts = {digest: text for source in read for digest, text in source.texts.items()}
    found, alone = nights(runs)
    if plan is not None:
        texts |= plan.texts
        found = _with_planned(found, plan)
    merged = [run for run in store.runs(limit=None) if run.request.merged is not None]
    there = {(workflow_of(run), run.host.engine_kind or ""): run.id for run in merged}
    merger = _Merger(store, origin, texts, done, now)
    for night in found:
        name = night.workflow
        known = there.get((name, night.kind)) or there.get((name, ""))  # of which nothing was left so far
        merger.night(night, store.run(known) if known else None, _missing(night, found, plan))
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
            one = run
            if run.id in runs and not _same(runs[run.id], run):
                one = _renamed(run)
            if one.id not in runs or (runs[one.id].finished_at is None and one.finished_at):
                runs[one.id], origin[one.id] = one, source
    return list(runs.values()), origin


def _same(one: RunRecord, other: RunRecord) -> bool:
    return one.started_at == other.started_at and one.owner.same_as(other.owner)


def _renamed(run: RunRecord) -> RunRecord:
    labels = {name: value for name, value in run.owner.labels.items() if name != IMPORTED}
    identity = json.dumps([run.started_at, labels], sort_keys=True)
    return dataclasses.replace(run, id=f"{run.id[:15]}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}")


class _Merger:
    """Writes runs and copies their logs."""

    def __init__(
        self,
        store: Store,
        origin: Mapping[str, StoreSource],
        texts: Mapping[str, tuple[str, str, str]],
        done: MergeResult,
        now: str,
    ) -> None:
        self._store = store
        self._origin = origin
        self._texts = texts
        self._done = done
        self._now = now
        self._taken = {run.id: run for run in store.runs(limit=None)}

    def night(self, night: Night, known: RunRecord | None, missing: Sequence[Missing]) -> None:
        """Join what is known of a night with what its jobs left, and write it where that is news."""
        if known is not None:
            night = dataclasses.replace(night, runs=(known, *night.runs))
        first = min((run.started_at for run in night.runs), default=self._now)
        run_id = known.id if known else new_id(night, first, lambda one: one in self._taken)
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
            digest = hashlib.sha256(cell_key(cell.cell).encode()).hexdigest()[:12]
            folder = f"runs/{run_id}/{cell.case_id}-{cell.variant}-{digest}"
            cells.append(self._with_logs(cell, source.id, folder) if fresh and source is not None else cell)
        self._write(dataclasses.replace(run, cells=tuple(cells)))
        self._done.nights[-1] = dataclasses.replace(run, cells=tuple(cells))

    def alone(self, run: RunRecord) -> None:
        """Take over a run that is not a job of a workflow, under its own id unless another run has it."""
        source = self._origin[run.id]
        known = self._taken.get(run.id)
        if known is not None and not _same(known, run):
            self._origin = {**self._origin, (run := _renamed(run)).id: source}
            known = self._taken.get(run.id)
        self._done.imported.append(run.id)
        if known is not None and (known.finished_at or not run.finished_at):
            return
        cells = (
            self._with_logs(cell, run.id, f"runs/{run.id}/{cell.number:03d}-{cell.case_id}-{cell.variant}")
            for cell in run.cells
        )
        self._write(dataclasses.replace(run, cells=tuple(cells), owner=run.owner.as_imported()))
        for key, value in source.findings.get(run.id, {}).items():
            self._store.find(run.id, key, value)

    def _text(self, digest: str) -> str:
        return self._texts[digest][2] if digest in self._texts else self._store.case_text(digest)

    def _write(self, run: RunRecord) -> None:
        digests = {cell.case_digest for cell in run.cells}
        self._store.put(run, {digest: self._texts[digest] for digest in digests if digest in self._texts})
        self._taken[run.id] = run
        self._done.changed += 1

    def _with_logs(self, cell: CellRecord, run_id: str, folder: str) -> CellRecord:
        """The cell with its logs, and what its trials wrote to be compared, copied to ``folder`` below the store."""
        source = self._origin[run_id]
        trials = []
        lost = 0
        for trial in cell.trials:
            name = trial.log.rpartition("/")[2]
            log = f"{folder}/{name if is_name(name) else f'trial-{trial.number}.log'}"
            lost += not _copy(source.folder, trial.log, below(self._store.folder, *log.split("/")))
            trials.append(dataclasses.replace(trial, log=log))
            if cell.details.comparison is not None:
                outputs = below(self._store.folder, *trials[-1].outputs.split("/"))
                lost += not _copy(source.folder, trial.outputs, outputs)
        if lost:
            self._done.problems.append(f"{source.name}: {pluralize(lost, 'log')} of {cell.case_id} cannot be read")
        return dataclasses.replace(cell, trials=tuple(trials))


def _copy(folder: Path, relative: str, target: Path) -> bool:
    """Copy a log, whole or not at all; whether it could be had. What an artifact names outside of itself cannot."""
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

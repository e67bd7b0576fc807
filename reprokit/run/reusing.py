"""Cells that are taken over from an earlier run in place of trials: ``--reuse``. Never of itself, and always marked.

What is taken over is the newest conclusive record of just this cell in this store: of the same text of the case from
the same place, the same image by the hash of its inputs, the same kind of engine, limits and rules. A record that was
itself taken over, or came from another store, is not one; neither is what rests on something that no record holds, such
as a folder of data.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.matrix import cell_key
from reprokit.case.trust import ALLOWANCES
from reprokit.environment.host import HostFacts
from reprokit.evidence.details import LimitsRecord
from reprokit.evidence.fingerprint import FINGERPRINT_VERSION
from reprokit.evidence.model import RULES_VERSION, Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.run.task import Task
from reprokit.run.trials import kept_folder
from reprokit.store.errors import StoreError
from reprokit.store.places import below, open_log

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.store.database import Store

Key = tuple[str, str, str, str]
"""The key and digest of a case, the key of a cell, the variant."""


@dataclass(frozen=True, kw_only=True)
class Earlier:
    """A recorded cell with its run."""

    run: RunRecord
    cell: CellRecord

    @property
    def name(self) -> str:
        """As an option takes it."""
        return f"{self.run.id}:{self.cell.number}"


def newest_record(found: Iterable[tuple[RunRecord, CellRecord]], kind: str) -> Earlier | None:
    """The newest conclusive record of a cell that this store's own runs made with that kind of engine.

    ``found``: the newest first. Pure.
    """
    for run, cell in found:
        own = not run.owner.imported and run.request.merged is None and not run.searches and not cell.reused_from
        if own and cell.verdict is not None and cell.verdict.conclusive and cell.details.engine_kind == kind:
            return Earlier(run=run, cell=cell)
    return None


def refusal(task: Task, earlier: Earlier, tag: str, facts: HostFacts, *, backtrace: bool) -> str:
    """Why a record cannot stand for the task, whose image has that tag here; '' where it can. Pure."""
    cell, details = earlier.cell, earlier.cell.details
    limits = LimitsRecord.pick(task.spec.limits)
    judged_by = details.rejudged[-1].by if details.rejudged else cell.case_digest
    gpus = [gpu for trial in cell.trials if trial.usage for gpu in trial.usage.gpus]
    checks = {
        "it compares or measures cells of one run": bool(task.reference or task.case.expect.compare),
        "data of this host is given to it": bool(task.datasets),
        "it is flaky": cell.verdict is Verdict.FLAKY,
        "its image is another one now": cell.image is None or cell.image.tag != tag,
        "its logs were judged by other rules": cell.rules != RULES_VERSION
        or any(way.version != FINGERPRINT_VERSION for way in details.ways)
        or judged_by != task.file.digest,
        "the case was trusted otherwise": ALLOWANCES[details.trust] != ALLOWANCES[task.file.trust],
        "its limits were others": details.limits != limits
        or bool(earlier.run.request.asked.get("backtrace")) is not backtrace,
        "it has fewer trials": not task.trials.finished([trial.outcome for trial in cell.trials]),
        "it ran on another GPU or driver": bool(task.spec.limits.gpus)
        and not (gpus and {(gpu.name, gpu.driver) for gpu in gpus} == {(gpu.name, facts.driver) for gpu in facts.gpus}),
    }
    return next((words for words, wrong in checks.items() if wrong), "")


class Reuse:
    """What may be taken over for a run in the store's ``folder``: records since ``seconds`` before ``now``."""

    def __init__(
        self, store: Store, tasks: Sequence[Task], *, seconds: float, facts: HostFacts, backtrace: bool, run_id: str
    ) -> None:
        self._folder, self._run_id = store.folder, run_id
        self._facts, self._backtrace = facts, backtrace
        since = (datetime.now(timezone.utc) - timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
        wanted = {_key(task.file, task.cell, task.variant) for task in tasks}
        self._found: dict[Key, list[tuple[RunRecord, CellRecord]]] = {}
        for file in {(task.file.key, task.file.digest): task.file for task in tasks}.values():
            for run, cell in store.of_case(file.key, file.digest):
                key = _key(file, cell.cell, cell.variant)
                if key in wanted and run.started_at >= since:
                    self._found.setdefault(key, []).append((run, cell))
        chosen = [  # those that can be asked for: all runs of a week, with their trials, may be large
            found.run.id
            for some in self._found.values()
            for kind in {cell.details.engine_kind for _, cell in some}
            if (found := newest_record(some, kind))
        ]
        self._runs: Mapping[str, RunRecord] = {run_id: store.run(run_id) for run_id in dict.fromkeys(chosen)}

    def wants(self, tasks: Iterable[Task]) -> bool:
        """Whether there is a record of any of the tasks."""
        return any(_key(task.file, task.cell, task.variant) in self._found for task in tasks)

    def record(self, task: Task, tag: str, kind: str) -> CellRecord | None:
        """The record that stands for the task, of which the image has that tag; None where it has to run."""
        found = newest_record(self._found.get(_key(task.file, task.cell, task.variant), ()), kind)
        if found is None:
            return None
        earlier = replace(found, cell=self._runs[found.run.id].cell(found.cell.number))  # with its trials
        if refusal(task, earlier, tag, self._facts, backtrace=self._backtrace):
            return None
        return self._taken(task, earlier)

    def _taken(self, task: Task, earlier: Earlier) -> CellRecord | None:
        """The record as one of this run, with logs of its own; None where a log is gone."""
        place = kept_folder(self._run_id, task)
        trials = []
        for trial in earlier.cell.trials:
            log = place / Path(trial.log).name
            try:
                os.close(open_log(self._folder, trial.log))  # which another host may have
                _link(below(self._folder, *Path(trial.log).parts), below(self._folder, *log.parts))
            except (OSError, StoreError):
                return None
            trials.append(replace(trial, log=str(log)))
        cell = earlier.cell
        return replace(
            cell,
            number=task.number,
            case_path=task.file.path,
            expected=task.expected,
            image=cell.image and replace(cell.image, built=False, fetched=False, seconds=0.0),
            details=replace(cell.details, job=None),
            trials=tuple(trials),
            reused_from=earlier.name,
        )


def _key(file: CaseFile, cell: Mapping[str, str], variant: str) -> Key:
    return file.key, file.digest, cell_key(cell), variant


def _link(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copyfile(source, target, follow_symlinks=False)

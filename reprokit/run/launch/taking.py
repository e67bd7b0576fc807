"""Takes the records of a job's archive into a run: only those that the job was asked for, with their logs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from reprokit.case.matrix import cell_key
from reprokit.engine import site
from reprokit.evidence.origin import HostRecord
from reprokit.evidence.records import CellRecord
from reprokit.evidence.spans import KEY, Timings
from reprokit.run.task import Task
from reprokit.run.trials import keep_files, kept_folder
from reprokit.store.archive import ImportLimits, unpacked
from reprokit.store.merging import StoreSource, copy_log
from reprokit.store.places import below


@dataclass(frozen=True, kw_only=True)
class TakenArchive:
    """What an archive held: cells as the job decided or left them, under their numbers and paths of this run.
    ``machine``: the name of the node.
    """

    cells: tuple[CellRecord, ...] = ()
    machine: str = ""
    host: HostRecord = field(default_factory=HostRecord)
    timings: Timings | None = None


def take(archive: Path, store: Path, run_id: str, tasks: Sequence[tuple[Task, int]]) -> TakenArchive:
    """The records of an archive that are of these tasks; their logs are copied into the store.

    ``tasks``: each with how many trials it has already, after which the new ones are numbered.

    Raises UsageError for what is not an export of a store, and OSError where the store cannot be written.
    """
    own = site.settings()
    wanted = {(task.file.digest, cell_key(task.cell), task.variant): (task, had) for task, had in tasks}
    with unpacked(archive, ImportLimits(size=own.max_fetch_size, entries=own.max_fetch_entries)) as found:
        cells: dict[int, CellRecord] = {}
        numbers: dict[int, int] = {}
        run = found.runs[-1] if found.runs else None
        if run is None:
            return TakenArchive()
        for cell in run.cells:
            key = cell.case_digest, cell_key(cell.cell), cell.variant
            if key in wanted and cell.verdict is not None:
                task, had = wanted[key]
                numbers[cell.number] = task.number
                cells[task.number] = _ours(found, cell, task, store, run_id, had)
        timings = [value for key, value in found.findings.get(run.id, {}).items() if key.split()[0] == KEY]
        return TakenArchive(
            cells=tuple(cells.values()),
            machine=run.owner.machine[:100],
            host=run.host,
            timings=_renumbered(Timings.from_json(timings[-1]), numbers) if timings else None,
        )


def _ours(found: StoreSource, cell: CellRecord, task: Task, store: Path, run_id: str, had: int) -> CellRecord:
    """The record as this run has it, with its logs in the store."""
    trials, repeat = [], cell.repeat
    for number, trial in enumerate(cell.trials, had + 1):
        log = str(kept_folder(run_id, task) / f"trial-{number}.log")
        copy_log(found.folder, trial.log, below(store, *log.split("/")))
        trials.append(replace(trial, number=number, log=log))
        if cell.details.comparison is not None:
            copy_log(found.folder, trial.outputs, below(store, *trials[-1].outputs.split("/")))
    if cell.trials:
        there, ours = cell.trials[0].log.rpartition("/")[0], str(keep_files(store, run_id, task))
        repeat = re.sub(rf"[^\s'\"=,]*/{re.escape(there)}/files", lambda _: ours, repeat)
    details = replace(cell.details, trust=task.file.trust, job=None, node=None)
    return replace(
        cell,
        number=task.number,
        case_id=task.case.id,
        case_path=task.file.path,
        expected=task.expected,
        trials=tuple(trials),
        repeat=repeat,
        details=details,
    )


def _renumbered(timings: Timings, numbers: Mapping[int, int]) -> Timings:
    """The times of a job with the numbers that its cells have in this run."""
    return replace(
        timings,
        images=tuple(tuple(numbers[one] for one in image if one in numbers) for image in timings.images),
        spans=tuple(one._replace(cell=numbers.get(one.cell, 0)) for one in timings.spans),
    )

"""Runs of jobs to the run of a night. Pure: which runs belong together, and which record of a cell counts."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from reprokit.case.matrix import cell_key, expand
from reprokit.core.text import whole_number
from reprokit.environment.cases import recorded_case
from reprokit.evidence.model import RULES_VERSION, Verdict
from reprokit.evidence.origin import HostRecord, JobRecord, WorkflowRecord
from reprokit.evidence.records import CellRecord, RequestRecord, RunRecord, exit_status

CellKey = tuple[str, str, str]  # what names a cell of a night: case, key of the cell, variant

CellPosition = tuple[str, str, int, str, str]
"""The position of a cell in a run: path and id of its case, place in the matrix, key, variant."""

STOPPED = "its job was stopped before it was decided"


@dataclass(frozen=True, kw_only=True)
class Night:
    """Runs that are one: jobs of one run of a workflow, served by one kind of engine."""

    workflow: WorkflowRecord
    kind: str
    runs: tuple[RunRecord, ...]


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A cell that was planned and that no job recorded, as its record says it; ``job``: the job's name."""

    job: str
    cell: CellRecord


def workflow_of(run: RunRecord) -> WorkflowRecord | None:
    """Which run of a workflow a run is a job of, or was merged from; None for one that was started by hand."""
    found = run.request.workflow
    return None if run.searches or found is None or not found.run else replace(found, attempt="")


def nights(runs: Iterable[RunRecord]) -> tuple[list[Night], list[RunRecord]]:
    """The runs that belong together, and those that stand for themselves.

    Kinds of engine are never mixed in one run. A job that needed no engine goes with the kind that most others had.
    """
    grouped: dict[WorkflowRecord, list[RunRecord]] = {}
    alone: list[RunRecord] = []
    for run in runs:
        if known := workflow_of(run):
            grouped.setdefault(known, []).append(run)
        else:
            alone.append(run)
    found = []
    for workflow, some in grouped.items():
        kinds = Counter(run.host.engine_kind for run in some if run.host.engine_kind)
        usual = max(sorted(kinds), key=lambda kind: kinds[kind], default="")
        for kind in sorted(kinds) or [""]:
            own = tuple(run for run in some if (run.host.engine_kind or usual) == kind)
            found.append(Night(workflow=workflow, kind=kind, runs=own))
    return found, alone


def join(
    night: Night,
    run_id: str,
    *,
    missing: Sequence[Missing] = (),
    text: Callable[[str], str] = lambda digest: "",
    now: str = "",
) -> tuple[RunRecord, dict[CellKey, RunRecord]]:
    """The run of a night, and which run each of its cells is from (none for those that no job recorded).

    Of a cell that several jobs recorded, as after a job was run again, the newest conclusive record counts, else the
    newest that is decided, in whatever order the jobs come.
    ``text``: a case by its digest, for the order of its cells. ``now``: the time, for a night of which nothing is left.
    """
    chosen: dict[CellKey, tuple[tuple[bool, int, int, str], CellRecord, RunRecord]] = {}
    for run in night.runs:
        for cell in run.cells:
            job = job_of(run, cell)
            conclusive = cell.verdict is not None and cell.verdict.conclusive
            decided = (cell.verdict not in (None, Verdict.CANCELLED)) + conclusive
            attempt = (whole_number(job.attempt) or 0) if job else 0
            rank = (job is not None, decided, attempt, job.started_at if job else "")
            before = chosen.get(key_of(cell))
            if before is None or rank > before[0]:
                chosen[key_of(cell)] = rank, _from_job(cell, job), run
    cells = [cell for _, cell, _ in chosen.values()]
    cells += [one.cell for one in missing if key_of(one.cell) not in chosen]
    place = _places(cells, text)
    cells = [replace(cell, number=number) for number, cell in enumerate(sorted(cells, key=place), 1)]
    origins = {key: run for key, (_, _, run) in chosen.items()}
    return _run(night, run_id, cells, now), origins


def key_of(cell: CellRecord) -> CellKey:
    """What names a cell of a night."""
    return cell.case_key, cell_key(cell.cell), cell.variant


def job_of(run: RunRecord, cell: CellRecord) -> JobRecord | None:
    """The job that recorded a cell, also where its run was merged before; None where none did."""
    if run.request.merged is not None:
        return cell.details.job
    return replace(_job(run), finished_at="", machine="")


def _from_job(cell: CellRecord, job: JobRecord | None) -> CellRecord:
    if cell.verdict is None:
        cell = replace(cell, verdict=Verdict.CANCELLED, reason=STOPPED, rules=RULES_VERSION)
    return replace(cell, details=replace(cell.details, job=job)) if job else cell


def _places(cells: Iterable[CellRecord], text: Callable[[str], str]) -> Callable[[CellRecord], CellPosition]:
    """The order in which one run would have had the cells: by file, and then as the matrix has them."""
    orders: dict[str, dict[str, int]] = {}
    for digest in {cell.case_digest for cell in cells}:
        file = recorded_case(text(digest))
        if file is not None:
            matrix = file.case.matrix
            own = expand(matrix.axes, matrix.exclude, matrix.include)
            orders[digest] = {cell_key(cell): place for place, cell in enumerate(own)}

    def place(cell: CellRecord) -> CellPosition:
        key = cell_key(cell.cell)
        known = orders.get(cell.case_digest, {})
        return cell.case_path, cell.case_key, known.get(key, len(known)), key, cell.variant

    return place


def _run(night: Night, run_id: str, cells: Sequence[CellRecord], now: str) -> RunRecord:
    jobs = {one.run: one for run in night.runs for one in _jobs(run)}
    ordered = sorted(jobs.values(), key=lambda one: (one.started_at, one.run))
    first = night.runs[0] if night.runs else None
    versions = {one.version for one in ordered}
    return RunRecord(
        id=run_id,
        started_at=ordered[0].started_at if ordered else (first.started_at if first else now),
        version=max(versions, default=first.version if first else ""),
        request=RequestRecord(
            asked={
                **(first.request.asked if first else {}),
                "cases": list(dict.fromkeys(cell.case_path for cell in cells)),
                "chosen": [],
            },
            workflow=night.workflow,
            merged=tuple(ordered),
        ),
        host=_host(night.kind, [one.host for one in ordered]),
        finished_at=max((one.finished_at for one in ordered), default=first.finished_at if first else now),
        exit_status=exit_status(list(cells)),
        cells=tuple(cells),
    )


def _job(run: RunRecord) -> JobRecord:
    """What is kept of a job."""
    attempt = (run.request.workflow.attempt if run.request.workflow else "") or "1"
    ended = run.finished_at or run.started_at
    return JobRecord.pick(run, run=run.id, attempt=attempt, finished_at=ended, machine=run.owner.machine)


def _jobs(run: RunRecord) -> tuple[JobRecord, ...]:
    """The jobs that a run was merged from, or the one that it is."""
    return run.request.merged or (_job(run),)


def _host(kind: str, hosts: Sequence[HostRecord]) -> HostRecord:
    """What the hosts of the jobs have in common; each cell keeps its own. GPUs: all that there were."""
    engines = Counter(host.engine for host in hosts if host.engine)
    kernels = {host.kernel for host in hosts if host.kernel}
    drivers = {host.driver for host in hosts if host.driver}
    return HostRecord(
        engine=max(sorted(engines), key=lambda name: engines[name], default=None),
        engine_kind=kind or None,
        kernel=kernels.pop() if len(kernels) == 1 else None,
        driver=drivers.pop() if len(drivers) == 1 else None,
        gpus=tuple(sorted({gpu for host in hosts for gpu in host.gpus})),
    )


def new_id(night: Night, started_at: str, taken: Callable[[str], bool]) -> str:
    """An id for a night: when it started, and what tells it from others; the same each time."""
    at = datetime.fromisoformat(started_at.replace("Z", "+00:00"))
    name = "/".join((*sorted((night.workflow.repository, night.workflow.run)), night.kind))
    hexadecimal = hashlib.sha256(name.encode()).hexdigest()
    lengths = range(4, 21, 4)
    ids = [f"{at:%Y%m%d-%H%M%S}-{hexadecimal[:length]}" for length in lengths]
    return next((one for one in ids if not taken(one)), ids[-1])

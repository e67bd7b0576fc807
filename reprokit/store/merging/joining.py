"""Runs of jobs to the run of a night. Pure: which runs belong together, and which record of a cell counts."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reprokit.case.matrix import cell_key, expand
from reprokit.core.ownership import HOST
from reprokit.evidence.model import RULES_VERSION, Verdict
from reprokit.evidence.records import CellRecord, RunRecord, exit_status

Key = tuple[str, str, str]
"""What names a cell of a night: case, key of the cell, variant."""

STOPPED = "its job was stopped before it was decided"


@dataclass(frozen=True, kw_only=True)
class Night:
    """Runs that are one: jobs of one run of a workflow, served by one kind of engine."""

    workflow: Mapping[str, str]
    kind: str
    runs: tuple[RunRecord, ...]


@dataclass(frozen=True, kw_only=True)
class Missing:
    """A cell that was planned and that no job recorded, as its record says it; ``job``: the job's name."""

    job: str
    cell: CellRecord


def workflow_of(run: RunRecord) -> dict[str, str]:
    """Which run of a workflow a run is a job of, or was merged from; {} for one that somebody started by hand."""
    found = run.request.get("workflow") or {}
    return (
        {}
        if run.searches or not found.get("run")
        else {name: str(found.get(name, "")) for name in ("repository", "run")}
    )


def nights(runs: Iterable[RunRecord]) -> tuple[list[Night], list[RunRecord]]:
    """The runs that belong together, and those that stand for themselves.

    Kinds of engine are never mixed in one run. A job that needed no engine goes with the kind that most others had.
    """
    grouped: dict[tuple[str, str], list[RunRecord]] = {}
    alone: list[RunRecord] = []
    for run in runs:
        known = workflow_of(run)
        if known:
            grouped.setdefault((known["repository"], known["run"]), []).append(run)
        else:
            alone.append(run)
    found = []
    for some in grouped.values():
        kinds = Counter(kind for run in some if (kind := kind_of(run)))
        usual = max(sorted(kinds), key=lambda kind: kinds[kind], default="")
        for kind in sorted(kinds) or [""]:
            own = tuple(run for run in some if (kind_of(run) or usual) == kind)
            found.append(Night(workflow=workflow_of(some[0]), kind=kind, runs=own))
    return found, alone


def kind_of(run: RunRecord) -> str:
    """What kind of engine served a run: '' where none did, which is not yet a kind of its own."""
    return run.host.get("engine_kind") or ""


def join(
    night: Night,
    run_id: str,
    *,
    missing: Sequence[Missing] = (),
    text: Callable[[str], str] = lambda digest: "",
    now: str = "",
) -> tuple[RunRecord, dict[Key, RunRecord]]:
    """The run of a night, and which run each of its cells is from (none for those that no job recorded).

    Of a cell that several jobs recorded, as after a job was run again, the newest record that is decided counts.
    ``text``: a case by its digest, for the order of its cells. ``now``: the time, for a night of which nothing is left.
    """
    chosen: dict[Key, tuple[tuple[Any, ...], CellRecord, RunRecord]] = {}
    for run in night.runs:
        for cell in run.cells:
            job = job_of(run, cell)
            decided = cell.verdict not in (None, Verdict.CANCELLED)
            rank = (bool(job), decided, int(job.get("attempt") or 0), job.get("started_at") or "")
            before = chosen.get(key_of(cell))
            if before is None or rank > before[0]:
                chosen[key_of(cell)] = rank, _from_job(cell, job), run
    cells = [cell for _, cell, _ in chosen.values()]
    cells += [one.cell for one in missing if key_of(one.cell) not in chosen]
    place = _places(cells, text)
    cells = [dataclasses.replace(cell, number=number) for number, cell in enumerate(sorted(cells, key=place), 1)]
    origins = {key: run for key, (_, _, run) in chosen.items()}
    return _run(night, run_id, cells, now), origins


def key_of(cell: CellRecord) -> Key:
    """What names a cell of a night."""
    return cell.case_id, cell_key(cell.cell), cell.variant


def job_of(run: RunRecord, cell: CellRecord) -> Mapping[str, Any]:
    """The job that recorded a cell, also where its run was merged before; {} where none did."""
    if "merged" in run.request:
        return dict(cell.details.get("job") or {})
    return {
        "run": run.id,
        "attempt": str((run.request.get("workflow") or {}).get("attempt") or "1"),
        "started_at": run.started_at,
        "version": run.version,
        "host": dict(run.host),
    }


def _from_job(cell: CellRecord, job: Mapping[str, Any]) -> CellRecord:
    if cell.verdict is None:
        cell = dataclasses.replace(cell, verdict=Verdict.CANCELLED, reason=STOPPED, rules=RULES_VERSION)
    return dataclasses.replace(cell, details={**cell.details, "job": job}) if job else cell


def _places(cells: Iterable[CellRecord], text: Callable[[str], str]) -> Callable[[CellRecord], tuple[Any, ...]]:
    """The order in which one run would have had the cells: by file, and then as the matrix has them."""
    from reprokit.case.recorded import recorded_case

    orders: dict[str, dict[str, int]] = {}
    for digest in {cell.case_digest for cell in cells}:
        file = recorded_case(text(digest))
        if file is not None:
            matrix = file.case.matrix
            own = expand(matrix.axes, matrix.exclude, matrix.include)
            orders[digest] = {cell_key(cell): place for place, cell in enumerate(own)}

    def place(cell: CellRecord) -> tuple[Any, ...]:
        key = cell_key(cell.cell)
        known = orders.get(cell.case_digest, {})
        return cell.case_path, cell.case_id, known.get(key, len(known)), key, cell.variant

    return place


def _run(night: Night, run_id: str, cells: Sequence[CellRecord], now: str) -> RunRecord:
    jobs: dict[str, dict[str, Any]] = {}
    for run in night.runs:
        for one in run.request.get("merged") or [_job(run)]:
            jobs[one["run"]] = one
    ordered = sorted(jobs.values(), key=lambda one: (one["started_at"], one["run"]))
    first = night.runs[0] if night.runs else None
    versions = {one["version"] for one in ordered}
    return RunRecord(
        id=run_id,
        started_at=ordered[0]["started_at"] if ordered else (first.started_at if first else now),
        version=max(versions, default=first.version if first else ""),
        request={
            **(dict(first.request) if first else {}),
            "cases": list(dict.fromkeys(cell.case_path for cell in cells)),
            "chosen": [],
            "workflow": dict(night.workflow),
            "merged": ordered,
        },
        host=_host(night),
        owner={},
        finished_at=max((one["finished_at"] for one in ordered), default=first.finished_at if first else now),
        exit_status=exit_status(list(cells)),
        cells=tuple(cells),
    )


def _job(run: RunRecord) -> dict[str, Any]:
    """What is kept of a job. ``machine`` is there to be taken out of what is published, as a run's owner is."""
    attempt = str((run.request.get("workflow") or {}).get("attempt") or "1")
    return {
        "run": run.id,
        "attempt": attempt,
        "started_at": run.started_at,
        "finished_at": run.finished_at or run.started_at,
        "version": run.version,
        "host": dict(run.host),
        "machine": str(run.owner.get(HOST, "")).partition("/")[0],
    }


def _host(night: Night) -> dict[str, Any]:
    """What the jobs' hosts have in common; each cell keeps its own. GPUs: all that there were."""
    hosts = [one["host"] for run in night.runs for one in run.request.get("merged") or [_job(run)]]
    engines = Counter(host["engine"] for host in hosts if host.get("engine"))
    kernels = {host["kernel"] for host in hosts if host.get("kernel")}
    drivers = {host["driver"] for host in hosts if host.get("driver")}
    return {
        "engine": max(sorted(engines), key=lambda name: engines[name], default=None),
        "engine_kind": night.kind or None,
        "kernel": kernels.pop() if len(kernels) == 1 else None,
        "driver": drivers.pop() if len(drivers) == 1 else None,
        "gpus": sorted({gpu for host in hosts for gpu in host.get("gpus") or ()}),
    }


def new_id(night: Night, started_at: str, taken: Callable[[str], bool]) -> str:
    """An id for a night: when it started, and what tells it from others; the same each time."""
    at = datetime.fromisoformat(started_at.replace("Z", "+00:00"))
    name = "/".join((*sorted(night.workflow.values()), night.kind))
    hexadecimal = hashlib.sha256(name.encode()).hexdigest()
    lengths = range(4, 21, 4)
    ids = [f"{at:%Y%m%d-%H%M%S}-{hexadecimal[:length]}" for length in lengths]
    return next((one for one in ids if not taken(one)), ids[-1])

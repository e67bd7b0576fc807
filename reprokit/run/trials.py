"""From an image to a verdict: the trials of one cell, their logs, and the record of what they show."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from reprokit import environment
from reprokit.case.cellspec import mode
from reprokit.core.errors import EngineError, Unsupported
from reprokit.core.ownership import GPUS, ownership
from reprokit.engine.protocol import Engine, Mount, Trial
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.catalog import Catalog
from reprokit.environment.host import Gpu
from reprokit.evidence import Condenser
from reprokit.evidence.failure_details import failure_details
from reprokit.evidence.judging import concluded, judged
from reprokit.evidence.model import RULES_VERSION, Outcome, Verdict
from reprokit.evidence.records import CellRecord, TrialRecord
from reprokit.run.gpus import Grant
from reprokit.run.images import Ready, Wanted, handed_files, image_json
from reprokit.run.places import Places
from reprokit.run.task import Task


def blank(task: Task) -> CellRecord:
    """The record of a task that is not decided yet."""
    return CellRecord(
        number=task.number,
        case_id=task.case.id,
        case_path=task.file.path,
        case_digest=task.file.digest,
        cell=task.cell,
        variant=task.variant,
        expected=task.expected,
    )


def decided(task: Task, verdict: Verdict, reason: str, **values: Any) -> CellRecord:
    """The record of a task with its verdict."""
    if failed := failure_details(verdict, values.get("trials", ())):
        values["details"] = {**values.get("details", {}), **failed}
    if task.tried:
        values["details"] = {**values.get("details", {}), "tried": task.tried}
    return dataclasses.replace(blank(task), verdict=verdict, reason=reason, rules=RULES_VERSION, **values)


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where trials run: the engine, the run they belong to, and the store's folder that takes their logs."""

    engine: Engine
    run_id: str
    folder: Path
    cancel: threading.Event
    places: Places
    """One for each program that may run at a time."""


def trial_of(task: Task, image: str, run_id: str, gpus: Sequence[Gpu] = ()) -> Trial:
    """The container that a task asks for."""
    workdir = task.spec.workdir.rstrip("/")
    uuids = tuple(gpu.uuid for gpu in gpus)
    return Trial(
        image=image,
        command=task.spec.command,
        env=task.spec.env,
        workdir=task.spec.workdir,
        limits=task.spec.limits,
        labels=ownership(run_id, task.case.id, task.cell) | ({GPUS: ",".join(uuids)} if uuids else {}),
        mounts=tuple(
            Mount(source=folder, target=f"{workdir}/{task.spec.datasets[name].path}")
            for name, folder in sorted(task.datasets.items())
        ),
        files=handed_files(task),
        gpus=uuids,
        gpu_indices=tuple(gpu.index for gpu in gpus),
    )


def known_facts(image: Wanted, ready: Ready) -> dict[str, Any]:
    """What a record says of an image, whatever becomes of its trials."""
    base = image.environment.base
    return {
        "image": image_json(ready),
        "environment": ready.measured.to_json(),
        "dockerfile": image.rendered.dockerfile,
        "details": {
            "base": {
                "name": base.name,
                "source": base.source,
                "reference": base.reference,
                "id": ready.base.id,
                "digest": ready.base.digest,
            },
            "images": {name: {"id": found.id, "digest": found.digest} for name, found in ready.bases.items()},
            "served_by": dict(image.environment.served_by),
            **_lock_json(image),
            "notes": list(image.environment.notes),
            "sources": {name: {"commit": tree.commit, "digest": tree.digest} for name, tree in image.sources.items()},
        },
    }


def _lock_json(image: Wanted) -> dict[str, Any]:
    if image.held is None:
        return {}
    lock, entry = image.held.lock, image.held.entry
    return {"lock": {"path": lock.where(entry), "date": entry.pins.date, "image": entry.image}}


def mismatches(task: Task, ready: Ready, catalog: Catalog) -> list[str]:
    """Where the image measures otherwise than the cell asks, in words."""
    asked = {name: value for name, value in task.cell.items() if name in AXIS_NAMES}
    differs = environment.compare(asked, ready.measured, catalog)
    differs += environment.compare_builds(task.spec, ready.measured, catalog)
    if task.held:
        from reprokit.run.locking.verify import departures

        own = not task.datasets
        differs += departures(task.held.lock, task.held.entry, ready.image.tag, ready.measured, comparable=own)
    return differs


def run_trials(
    bench: Bench,
    task: Task,
    image: str,
    grant: Grant | None = None,
    *,
    on_start: Callable[[int], None],
    keep: Callable[[tuple[TrialRecord, ...], str], None],
    echo: Callable[[bytes], None] | None = None,
) -> tuple[Verdict, str]:
    """Run a task's trials; the verdict and its reason. ``grant``: the GPUs that the task asks for.

    ``keep`` gets the trials so far, and the line that repeats one by hand, after each: they are worth keeping even if
    the engine fails in the next.
    """
    files = _kept_files(bench, task)
    records: list[TrialRecord] = []
    while not task.trials.finished([record.outcome for record in records]):
        number = len(records) + 1
        # A cell with GPUs has its place already, for as long as it has them.
        slot = _Slot(None if grant else bench.places, partial(on_start, number))
        record, trial = _steady(bench, task, image, grant, number, slot, echo)
        records.append(record)
        keep(tuple(records), bench.engine.repeat(trial, files))
    return concluded(records, task.trials)


def _steady(
    bench: Bench,
    task: Task,
    image: str,
    grant: Grant | None,
    number: int,
    slot: _Slot,
    echo: Callable[[bytes], None] | None,
) -> tuple[TrialRecord, Trial]:
    """One trial, once more in a fresh container if it lost its GPU. Raises EngineError if that one did too."""
    lost = ""
    while True:
        trial = trial_of(task, image, bench.run_id, grant.gpus if grant else ())
        try:
            record = _one(bench, task, trial, number, slot, echo)
        except (EngineError, Unsupported) as error:
            why = grant.why_lost(str(error)) if grant else ""
            if not why:
                raise
        else:
            if grant is None or record.outcome is Outcome.PASSED:
                return record, trial
            log = bench.folder / record.log
            # What the signature asks for is the finding, whatever its words are; a GPU that is gone is none.
            why = grant.why_lost("" if record.outcome is Outcome.REPRODUCED else log.read_text("utf-8", "replace"))
            if not why:
                return record, trial
            log.replace(log.with_suffix(".lost.log"))
        if lost or grant is None:
            raise EngineError(f"{lost}; and once more in a fresh container: {why}")
        lost = why
        grant.renew()


def _folder(bench: Bench, task: Task) -> Path:
    """Where what is kept of a task's trials lies, below the store's folder."""
    return Path("runs") / bench.run_id / f"{task.number:03d}-{task.case.id}-{task.variant}"


def _kept_files(bench: Bench, task: Task) -> Path:
    """Keep a copy of the files that the containers get: evidence, and what the line that repeats a trial mounts."""
    folder = (bench.folder / _folder(bench, task) / "files").absolute()
    for path, text in handed_files(task).items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        target.chmod(mode(text))
    return folder


class _Slot:
    """One of the bench's places, if it takes one, with word given when the program starts."""

    def __init__(self, places: Places | None, on_taken: Callable[[], None]) -> None:
        self._places = places
        self._on_taken = on_taken

    def __enter__(self) -> None:
        if self._places is not None:
            self._places.take()
        try:
            self._on_taken()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        if self._places is not None:
            self._places.give_back()


def _one(
    bench: Bench, task: Task, trial: Trial, number: int, slot: _Slot, echo: Callable[[bytes], None] | None
) -> TrialRecord:
    relative = _folder(bench, task) / f"trial-{number}.log"
    log = bench.folder / relative
    log.parent.mkdir(parents=True, exist_ok=True)
    condenser = Condenser(log, task.case.expect.failure, echo=echo)
    try:
        ending = bench.engine.run(trial, condenser.feed, bench.cancel, slot)
    finally:
        condenser.close()
    # Judged from the file, so that judging the record again later sees the same.
    return judged(task.case.expect, number, ending, log.read_bytes().decode("utf-8", "replace"), str(relative))

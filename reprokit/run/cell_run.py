"""One cell, from its image to its record: its trials, or pairs of trials with what it is measured against."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from reprokit.core.errors import ImageDamaged, ImageGone
from reprokit.engine.protocol import ImageInfo
from reprokit.evidence.model import Verdict
from reprokit.evidence.ratio import RatioRecord
from reprokit.evidence.records import CellRecord, TrialRecord
from reprokit.evidence.sequential import figures
from reprokit.run.cell_records import CellFacts, decided_record, image_record
from reprokit.run.gpus import GpuAllocation
from reprokit.run.images import BuiltImage
from reprokit.run.measuring import measure_for
from reprokit.run.ratios import Pairs
from reprokit.run.services import Services
from reprokit.run.task import Task
from reprokit.run.trials import TrialHooks, run_trials


@dataclass(frozen=True, kw_only=True)
class CellImages:
    """The image of a cell, and how to get what else its trials may need."""

    ready: BuiltImage
    rebuild: Callable[[bool], BuiltImage]
    """Called where the engine has lost the image meanwhile, or (True) a part of it."""
    reference: Callable[[], AbstractContextManager[tuple[Task, ImageInfo]]]
    """What the cell is measured against, as this host serves it, and its image, which is kept so long."""


def run_cell(
    services: Services, task: Task, images: CellImages, allocation: GpuAllocation | None, facts: CellFacts
) -> CellRecord:
    """Run the trials of a cell. ``facts``: gets what is known by then, whatever stops it.

    Raises what the engine's methods raise.
    """
    starts: list[float] = []

    def on_start(number: int) -> None:
        starts.append(time.monotonic())
        text = f"trial {number}/{task.trials.max}" if task.trials.max > 1 else ""
        services.listener.state([task.number], "running", text)

    def keep(trials: tuple[TrialRecord, ...], repeat: str) -> None:
        facts.trials, facts.repeat = trials, repeat
        if allocation is not None and facts.environment is not None:
            # An image is measured once, without a GPU; which one a trial got is the host's fact.
            names = tuple(f"GPU {gpu.index}: {gpu.name}" for gpu in allocation.gpus)
            facts.environment = replace(facts.environment, gpu=names, driver=services.host.facts.driver)

    def note(found: RatioRecord) -> None:
        facts.details = replace(facts.details, ratio=found)

    def echo(data: bytes) -> None:
        services.listener.output(task.number, data)

    def attempt(image: ImageInfo) -> tuple[Verdict, str]:
        hooks = TrialHooks(on_start=on_start, keep=keep, echo=echo)
        if task.reference is None:
            return run_trials(services, task, image, allocation, hooks)
        return Pairs(
            services=services,
            task=task,
            image=image,
            allocation=allocation,
            reference=images.reference,
            hooks=hooks,
            note=note,
        ).run()

    try:
        verdict, reason = attempt(images.ready.image)
    except ImageGone as error:
        services.listener.note(f"{task.case.id}: {error}; it is built again")
        made = images.rebuild(isinstance(error, ImageDamaged))
        facts.image, facts.environment, facts.trials = image_record(made), measure_for(services, task, made), ()
        verdict, reason = attempt(made.image)
    facts.seconds = round(time.monotonic() - starts[0], 3) if starts else None
    shown = figures([trial.outcome for trial in facts.trials], task.trials)
    facts.details = replace(facts.details, trials=shown)
    return decided_record(task, verdict, reason, facts)

"""The record of a cell, from what is known of it so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from reprokit.core.errors import BuildFailed
from reprokit.engine.protocol import EngineInfo
from reprokit.environment.measured import Measured
from reprokit.evidence.details import (
    BaseRecord,
    CellDetails,
    FailedBuildRecord,
    LimitsRecord,
    LockRecord,
    SourceRecord,
    StartImageRecord,
)
from reprokit.evidence.judging import add_failures
from reprokit.evidence.model import RULES_VERSION, Verdict
from reprokit.evidence.records import CellRecord, ImageRecord, TrialRecord
from reprokit.run.images import BuiltImage, ImageSpec
from reprokit.run.task import Task

MOST_LINES = 100
"""Last lines of a failed step that are recorded."""


def blank_record(task: Task) -> CellRecord:
    """The record of a task that is not decided yet."""
    return CellRecord(
        number=task.number,
        case_id=task.case.id,
        case_path=task.file.path,
        case_digest=task.file.digest,
        cell=task.cell,
        variant=task.variant,
        expected=task.expected,
        details=CellDetails(trust=task.file.trust),
    )


@dataclass(kw_only=True)
class CellFacts:
    """What is known of a cell so far, whatever its verdict will be: the fields of its record of these names."""

    seconds: float | None = None
    image: ImageRecord | None = None
    environment: Measured | None = None
    dockerfile: str = ""
    repeat: str = ""
    details: CellDetails = field(default_factory=CellDetails)
    trials: tuple[TrialRecord, ...] = ()


def decided_record(task: Task, verdict: Verdict, reason: str, facts: CellFacts | None = None) -> CellRecord:
    """The record of a task with its verdict."""
    facts = facts or CellFacts()
    limits = LimitsRecord.pick(task.spec.limits)
    details = add_failures(facts.details, verdict, facts.trials)
    notes = (*details.notes, *task.notes)
    details = replace(details, notes=notes, tried=task.tried, trust=task.file.trust, limits=limits)
    values = {**vars(facts), "details": details}
    return replace(blank_record(task), verdict=verdict, reason=reason, rules=RULES_VERSION, **values)


def known_facts(ready: BuiltImage, engine: EngineInfo) -> CellFacts:
    """What a record says of an image that ``engine`` has built, whatever becomes of its trials."""
    image = ready.spec
    return CellFacts(
        image=image_record(ready),
        environment=ready.measured,
        dockerfile=image.rendered.dockerfile,
        details=CellDetails(
            base=BaseRecord.pick(image.environment.base, id=ready.base.id, digest=ready.base.digest),
            images={name: StartImageRecord.pick(one) for name, one in ready.bases.items()},
            served_by=image.environment.served_by,
            lock=_lock_record(image),
            notes=image.environment.notes,
            sources={name: SourceRecord.pick(one) for name, one in image.sources.items()},
            engine=str(engine),
            engine_kind=engine.kind,
            unenforced=tuple(sorted(engine.unenforced)),
        ),
    )


def _lock_record(image: ImageSpec) -> LockRecord | None:
    if image.held is None:
        return None
    lock, entry = image.held.lock, image.held.entry
    return LockRecord(path=lock.where(entry), date=entry.pins.date, image=entry.image)


def image_record(ready: BuiltImage) -> ImageRecord:
    """The image as the record of a cell has it."""
    seconds = round(ready.seconds, 3)
    return ImageRecord.pick(ready.image, built=ready.built, seconds=seconds, fetched=ready.fetched)


def explain_build(error: BuildFailed) -> tuple[str, FailedBuildRecord]:
    """The reason, cause first, and the record of the step."""
    record = FailedBuildRecord(step=error.step, tail=error.tail[-MOST_LINES:])
    if error.reason:
        return error.reason, record
    from reprokit.evidence.build_failure import explain  # most runs have no failed build

    found = explain(error.step, error.tail, str(error))
    return found.reason, replace(record, cause=found.cause, put=found.put)

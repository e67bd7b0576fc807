"""From an image to a verdict: the trials of one cell, their logs, and the record of what they show."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path

from reprokit.case.cellspec import Limits
from reprokit.case.trust import ALLOWANCES
from reprokit.core.errors import EngineError, EngineLost, Unsupported
from reprokit.core.ownership import GPUS, ownership
from reprokit.core.text import one_line
from reprokit.engine.gpus import discovery
from reprokit.engine.outputs import Collector
from reprokit.engine.protocol import Engine, EngineInfo, Mount, Trial
from reprokit.environment import comparing, sanitizing
from reprokit.environment.catalog import Catalog
from reprokit.environment.debugging import CAPABILITY
from reprokit.environment.host import Gpu
from reprokit.environment.measured import Measured
from reprokit.evidence.details import BaseRecord, CellDetails, LimitsRecord, LockRecord, SourceRecord, StartImageRecord
from reprokit.evidence.judging import concluded, judged, with_failures
from reprokit.evidence.log_trimmer import LogTrimmer
from reprokit.evidence.model import RULES_VERSION, Outcome, Verdict
from reprokit.evidence.records import CellRecord, ImageRecord, TrialRecord
from reprokit.evidence.usage import Usage
from reprokit.run.debuggers import DebugFiles, DebugImages, Symboliser
from reprokit.run.gpus import GpuAllocation
from reprokit.run.images import BuiltImage, ImageSpec, handed_files, image_record
from reprokit.run.locked_build import departures
from reprokit.run.recovering import EngineRecovery, check_awake, slept
from reprokit.run.task import Task
from reprokit.run.threads import PrioritySemaphore
from reprokit.run.timing import Timer
from reprokit.store.places import below, unlinked

UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
"""What a program finds beside the variables of its case, which may unset it by an empty value."""
PYTHON_STACKS = {"PYTHONFAULTHANDLER": "1"}
"""Where debuggers are asked for and not available, a Python that crashes prints its own frames at least."""


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


def limits_record(limits: Limits) -> LimitsRecord:
    """What a record keeps of the limits of a cell."""
    return LimitsRecord(**{one.name: getattr(limits, one.name) for one in fields(LimitsRecord)})


def decided(task: Task, verdict: Verdict, reason: str, facts: CellFacts | None = None) -> CellRecord:
    """The record of a task with its verdict."""
    facts = facts or CellFacts()
    limits = limits_record(task.spec.limits)
    details = with_failures(facts.details, verdict, facts.trials)
    notes = (*details.notes, *task.notes)
    details = replace(details, notes=notes, tried=task.tried, trust=task.file.trust, limits=limits)
    values = {**vars(facts), "details": details}
    return replace(blank(task), verdict=verdict, reason=reason, rules=RULES_VERSION, **values)


@dataclass(frozen=True, kw_only=True)
class TrialContext:
    """Where trials run: the engine, the run they belong to, and the store's folder that takes their logs."""

    engine: Engine
    run_id: str
    folder: Path
    cancel: threading.Event
    semaphore: PrioritySemaphore
    """One for each program that may run at a time."""
    recovery: EngineRecovery
    debuggers: DebugImages = field(default_factory=DebugImages)
    symboliser: Symboliser = field(default_factory=lambda: Symboliser(DebugFiles(())))
    timer: Timer = field(default_factory=Timer)


def trial_of(task: Task, image: str, run_id: str, gpus: Sequence[Gpu] = (), *, traced: bool = False) -> Trial:
    """The container that a task asks for. ``traced``: its image has debuggers."""
    workdir = task.spec.workdir.rstrip("/")
    uuids = tuple(gpu.uuid for gpu in gpus)
    return Trial(
        image=image,
        command=sanitizing.command(task.spec),
        env={
            **UNBUFFERED,
            **sanitizing.variables(task.spec),
            **(PYTHON_STACKS if task.spec.limits.backtrace and not traced else {}),
            **task.spec.env,
        },
        workdir=task.spec.workdir,
        limits=task.spec.limits,
        labels=ownership(run_id, task.case.id, task.cell) | ({GPUS: ",".join(uuids)} if uuids else {}),
        mounts=tuple(
            Mount(source=folder, target=f"{workdir}/{task.spec.datasets[name].path}")
            for name, folder in sorted(task.datasets.items())
        ),
        files=handed_files(task),
        gpus=uuids,
        gpu_indices=tuple(gpu.place for gpu in gpus),
        trust=task.file.trust,
        traced=traced,
        capabilities=(CAPABILITY,) if traced else (),
    )


def known_facts(ready: BuiltImage, engine: EngineInfo) -> CellFacts:
    """What a record says of an image that ``engine`` has built, whatever becomes of its trials."""
    image = ready.spec
    base = image.environment.base
    return CellFacts(
        image=image_record(ready),
        environment=ready.measured,
        dockerfile=image.rendered.dockerfile,
        details=CellDetails(
            base=BaseRecord(
                name=base.name,
                source=base.source,
                reference=base.reference,
                id=ready.base.id,
                digest=ready.base.digest,
            ),
            images={name: StartImageRecord(id=one.id, digest=one.digest) for name, one in ready.bases.items()},
            served_by=image.environment.served_by,
            lock=_lock_record(image),
            notes=image.environment.notes,
            sources={name: SourceRecord(commit=one.commit, digest=one.digest) for name, one in image.sources.items()},
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


def mismatches(task: Task, ready: BuiltImage, catalog: Catalog) -> list[str]:
    """Where the image measures otherwise than the cell asks, in words."""
    differs = comparing.compare(task.cell, ready.measured, catalog)
    differs += comparing.compare_builds(task.spec, ready.measured, catalog)
    differs += comparing.lacking_libraries(task.spec, ready.measured)
    if task.held:
        own = not task.datasets
        differs += departures(task.held.lock, task.held.entry, ready.image.tag, ready.measured, comparable=own)
    return differs


def run_trials(
    context: TrialContext,
    task: Task,
    image: str,
    allocation: GpuAllocation | None = None,
    *,
    on_start: Callable[[int], None],
    keep: Callable[[tuple[TrialRecord, ...], str], None],
    echo: Callable[[bytes], None] | None = None,
) -> tuple[Verdict, str]:
    """Run a task's trials; the verdict and its reason. ``allocation``: the GPUs that the task asks for.

    ``keep`` gets the trials so far, and the line that repeats one by hand, after each: they are worth keeping even if
    the engine fails in the next.
    """
    records: list[TrialRecord] = []
    while not task.trials.finished([record.outcome for record in records]):
        number = len(records) + 1
        record, repeat = run_trial(context, task, image, allocation, number, on_start=on_start, echo=echo)
        records.append(record)
        keep(tuple(records), repeat)
    return concluded(records, task.trials, task.case.expect)


def run_trial(
    context: TrialContext,
    task: Task,
    image: str,
    allocation: GpuAllocation | None,
    number: int,
    *,
    on_start: Callable[[int], None],
    echo: Callable[[bytes], None] | None = None,
) -> tuple[TrialRecord, str]:
    """One trial of a task, and the line that repeats it by hand. ``on_start`` is called when its program starts.

    Where the engine loses it, it is done again, and what was read of it stays beside its log, as ``trial-N.lost.log``.
    """
    # A cell with GPUs has its place already, for as long as it has them.
    slot = _Slot(None if allocation else context.semaphore, partial(on_start, number))
    steady = partial(_steady, context, task, image, allocation, number, slot, echo)
    record, trial = context.recovery.repeated(steady)
    return record, context.engine.repeat(
        replace(trial, image=image, traced=False, capabilities=()), _kept_files(context, task)
    )


def _steady(
    context: TrialContext,
    task: Task,
    image: str,
    allocation: GpuAllocation | None,
    number: int,
    slot: _Slot,
    echo: Callable[[bytes], None] | None,
) -> tuple[TrialRecord, Trial]:
    """One trial, once more in a fresh container if it lost its GPU. Raises EngineError if that one did too."""
    lost = ""
    while True:
        debugged, missing = image, ""
        if task.spec.limits.backtrace:
            debugged, missing = context.debuggers.over(context.engine, image, task.file.trust, context.cancel)
        if allocation:
            allocation.begin()
        gpus = allocation.gpus if allocation else ()
        trial = trial_of(task, debugged, context.run_id, gpus, traced=debugged != image)
        try:
            record = _one(context, task, trial, number, slot, echo, missing)
        except (EngineError, Unsupported) as error:
            why = allocation.why_lost(str(error), discovery.facts()) if allocation else ""
            if not why:
                raise
        else:
            if allocation is None:
                return record, trial
            now = discovery.facts()
            usage = replace(record.usage or Usage(), gpus=allocation.records(now))
            record = replace(record, usage=usage)
            if record.outcome is Outcome.PASSED:
                return record, trial
            log = context.folder / record.log
            said = None if record.outcome is Outcome.REPRODUCED else log.read_text("utf-8", "replace")
            why = allocation.why_lost(said, now)
            if not why:
                return record, trial
            log.replace(log.with_suffix(".lost.log"))
        if lost or allocation is None:
            raise EngineError(f"{lost}; and once more in a fresh container: {why}")
        lost = why
        allocation.renew()


def kept_folder(run_id: str, task: Task) -> Path:
    """Where what is kept of a task's trials lies, below the store's folder."""
    return Path("runs") / run_id / f"{task.number:03d}-{task.case.id}-{task.variant}"


def _kept_files(context: TrialContext, task: Task) -> Path:
    """Keep a copy of the files that the containers get: evidence, and what the line that repeats a trial mounts."""
    folder = unlinked(context.folder, *kept_folder(context.run_id, task).parts, "files").absolute()
    for path, file in handed_files(task).items():
        target = unlinked(folder, *Path(path).parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file.text, encoding="utf-8")
        target.chmod(file.permissions | 0o600)  # this copy is ours to read, whatever the case asks for
    return folder


class _Slot:
    """The semaphore, where there is one, held while the program runs; ``on_taken`` is called when it starts.

    ``asked``, ``taken`` and ``left``: when that was, by the monotonic clock; 0 before.
    """

    def __init__(self, semaphore: PrioritySemaphore | None, on_taken: Callable[[], None]) -> None:
        self._semaphore = semaphore
        self._on_taken = on_taken
        self.asked = self.taken = self.left = 0.0

    def __enter__(self) -> None:
        self.asked, self.left = time.monotonic(), 0.0
        if self._semaphore is not None:
            self._semaphore.acquire()
        self.taken = time.monotonic()
        try:
            self._on_taken()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self.left = time.monotonic()
        if self._semaphore is not None:
            self._semaphore.release()


def _one(
    context: TrialContext,
    task: Task,
    trial: Trial,
    number: int,
    slot: _Slot,
    echo: Callable[[bytes], None] | None,
    no_stacks: str,
) -> TrialRecord:
    relative = kept_folder(context.run_id, task) / f"trial-{number}.log"
    log = below(context.folder, *relative.parts)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)  # one that --reuse put there is the file of an earlier run, and would be written over
    compare, kept = task.case.expect.compare, relative.with_suffix(".outputs.tar")
    outputs = Collector(compare.outputs, below(context.folder, *kept.parts)) if compare else None
    awake = slept()
    try:
        with LogTrimmer(log.open("w+b", buffering=0), task.case.expect.failure, echo=echo) as trimmer:
            began = time.monotonic()
            ending = context.engine.run(replace(trial, outputs=outputs), trimmer.feed, context.cancel, slot)
            _time(context.timer, task.number, number, began, slot, ending.seconds)
            if no_stacks:
                trimmer.feed(f"\n[reprokit: no stacks: {one_line(no_stacks, 300)}]\n".encode())
        check_awake(awake, "the trial")
    except EngineLost:
        log.replace(log.with_suffix(".lost.log"))
        raise
    if trial.traced and ALLOWANCES[trial.trust].debug_files:
        context.symboliser.rewrite(log, context.engine, trial, context.cancel)
    # Judged from the file, so that judging the record again later sees the same.
    with context.timer.span("judging", cell=task.number, trial=number):
        return judged(task.case.expect, number, ending, log.read_bytes().decode("utf-8", "replace"), str(relative))


def _time(timer: Timer, cell: int, trial: int, began: float, slot: _Slot, program: float) -> None:
    """Keep the spans of a trial that has ended: its container is made, waits for its turn, runs, and is removed."""
    now = time.monotonic()
    add = partial(timer.add, cell=cell, trial=trial)
    if not slot.taken:  # an engine that takes no turns
        add("program", now - program, program)
        return
    add("start", began, slot.asked - began, name="making the container")
    add("waiting", slot.asked, slot.taken - slot.asked, name="for a program's turn")
    left = slot.left or now
    starting = max(left - slot.taken - program, 0.0)
    add("start", slot.taken, starting, name="starting the container")
    add("program", slot.taken + starting, left - slot.taken - starting)
    add("removal", left, now - left)

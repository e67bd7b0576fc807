"""The trials of a cell: each a container, its log, and what that shows."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reprokit.case.trust import ALLOWANCES
from reprokit.core.errors import EngineError, EngineLost, Unsupported
from reprokit.core.ownership import GPUS, ownership
from reprokit.core.text import one_line
from reprokit.engine.gpus import discovery
from reprokit.engine.outputs import Collector
from reprokit.engine.protocol import ImageInfo, Mount, Trial
from reprokit.environment import sanitizing
from reprokit.environment.debugging import CAPABILITY
from reprokit.environment.host import Gpu
from reprokit.evidence.judging import conclude, judge_trial
from reprokit.evidence.log_trimmer import LogTrimmer
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import TrialRecord
from reprokit.evidence.usage import Usage
from reprokit.run.gpus import GpuAllocation
from reprokit.run.images import handed_files
from reprokit.run.recovering import check_awake, seconds_slept
from reprokit.run.services import Services
from reprokit.run.task import Task
from reprokit.run.threads import PrioritySemaphore
from reprokit.store.places import below, unlinked

UNBUFFERED = {"PYTHONUNBUFFERED": "1"}
"""What a program finds beside the variables of its case, which may unset it by an empty value."""
PYTHON_STACKS = {"PYTHONFAULTHANDLER": "1"}
"""Where debuggers are asked for and not available, a Python that crashes prints its own frames at least."""


def trial_of(task: Task, image: str, run_id: str, gpus: Sequence[Gpu] = (), *, traced: bool = False) -> Trial:
    """The container that a task asks for. ``traced``: its image has debuggers.

    ``image``: its id, where it is run here: a name may be another image's by then.
    """
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


@dataclass(frozen=True, kw_only=True)
class TrialHooks:
    """Who hears of the trials of a cell."""

    on_start: Callable[[int], None]
    """Called with the number of a trial when its program starts."""
    keep: Callable[[tuple[TrialRecord, ...], str], None] = lambda trials, repeat: None
    """Gets the trials so far, and the line that repeats one by hand, after each: they are worth keeping even if the
    engine fails in the next."""
    echo: Callable[[bytes], None] | None = None
    """Gets the output as it comes."""


def run_trials(
    services: Services, task: Task, image: ImageInfo, allocation: GpuAllocation | None, hooks: TrialHooks
) -> tuple[Verdict, str]:
    """Run a task's trials; the verdict and its reason. ``allocation``: the GPUs that the task asks for."""
    records: list[TrialRecord] = []
    while not task.trials.finished([record.outcome for record in records]):
        record, repeat = run_trial(services, task, image, allocation, len(records) + 1, hooks)
        records.append(record)
        hooks.keep(tuple(records), repeat)
    return conclude(records, task.trials, task.case.expect)


def run_trial(
    services: Services,
    task: Task,
    image: ImageInfo,
    allocation: GpuAllocation | None,
    number: int,
    hooks: TrialHooks,
) -> tuple[TrialRecord, str]:
    """One trial of a task, and the line that repeats it by hand.

    Where the engine loses it, it is done again, and what was read of it stays beside its log, as ``trial-N.lost.log``.
    """
    # A cell with GPUs has its place already, for as long as it has them.
    slot = _Slot(None if allocation else services.semaphore, lambda: hooks.on_start(number))
    attempt = _Attempt(services, task, number, slot, hooks.echo)
    record, trial = services.recovery.repeated(lambda: attempt.run(image, allocation))
    files = keep_files(services.folder, services.run_id, task)
    return record, services.engine.repeat(replace(trial, image=image.tag, traced=False, capabilities=()), files)


@dataclass(frozen=True)
class _Attempt:
    """A trial that may have to be run more than once."""

    services: Services
    task: Task
    number: int
    slot: _Slot
    echo: Callable[[bytes], None] | None

    def run(self, image: ImageInfo, allocation: GpuAllocation | None) -> tuple[TrialRecord, Trial]:
        """Run it, and once more in a fresh container if it lost its GPU. Raises EngineError if that one did too."""
        if allocation is None:
            return self._run_once(image, ())
        lost = ""
        while True:
            allocation.begin()
            try:
                record, trial = self._run_once(image, allocation.gpus)
            except (EngineError, Unsupported) as error:
                why = allocation.why_lost(str(error), discovery.facts())
                if not why:
                    raise
            else:
                record, why = self._with_gpus(record, allocation)
                if not why:
                    return record, trial
            if lost:
                raise EngineError(f"{lost}; and once more in a fresh container: {why}")
            lost = why
            allocation.renew()

    def _with_gpus(self, record: TrialRecord, allocation: GpuAllocation) -> tuple[TrialRecord, str]:
        """The record with what its GPUs did, and why it does not count, '' where it does."""
        now = discovery.facts()
        usage = replace(record.usage or Usage(), gpus=allocation.records(now))
        record = replace(record, usage=usage)
        if record.outcome is Outcome.PASSED:
            return record, ""
        log = self.services.folder / record.log
        text = None if record.outcome is Outcome.REPRODUCED else log.read_text("utf-8", "replace")
        if why := allocation.why_lost(text, now):
            log.replace(log.with_suffix(".lost.log"))
        return record, why

    def _run_once(self, image: ImageInfo, gpus: Sequence[Gpu]) -> tuple[TrialRecord, Trial]:
        services, task, slot = self.services, self.task, self.slot
        debugged, no_stacks = image, ""
        if task.spec.limits.backtrace:
            debugged, no_stacks = services.debuggers.over(services.engine, image, task.file.trust, services.cancel)
        trial = trial_of(task, debugged.id, services.run_id, gpus, traced=debugged != image)
        relative = kept_folder(services.run_id, task) / f"trial-{self.number}.log"
        log = below(services.folder, *relative.parts)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(
            missing_ok=True
        )  # one that --reuse put there is the file of an earlier run, and would be overwritten
        compare, kept = task.case.expect.compare, relative.with_suffix(".outputs.tar")
        outputs = Collector(compare.outputs, below(services.folder, *kept.parts)) if compare else None
        awake = seconds_slept()
        try:
            with LogTrimmer(log.open("w+b", buffering=0), task.case.expect.failure, echo=self.echo) as trimmer:
                began = time.monotonic()
                ending = services.engine.run(replace(trial, outputs=outputs), trimmer.feed, services.cancel, slot)
                self._time(began, ending.seconds)
                if no_stacks:
                    trimmer.feed(f"\n[reprokit: no stacks: {one_line(no_stacks, 300)}]\n".encode())
            check_awake(awake, "the trial")
        except EngineLost:
            log.replace(log.with_suffix(".lost.log"))
            raise
        if trial.traced and ALLOWANCES[trial.trust].debug_files:
            services.symboliser.rewrite(log, services.engine, trial, services.cancel)
        # Judged from the file, so that judging the record again later sees the same.
        with services.timer.span("judging", cell=task.number, trial=self.number):
            text = log.read_bytes().decode("utf-8", "replace")
            return judge_trial(task.case.expect, self.number, ending, text, str(relative)), trial

    def _time(self, began: float, program: float) -> None:
        """Keep the spans of a trial that has ended: its container is made, waits its turn, runs, and is removed."""
        now, slot, timer = time.monotonic(), self.slot, self.services.timer

        def add(kind: str, began: float, seconds: float, name: str = "") -> None:
            timer.add(kind, began, seconds, cell=self.task.number, trial=self.number, name=name)

        if not slot.taken:  # an engine that takes no turns
            add("program", now - program, program)
            return
        add("start", began, slot.asked - began, "making the container")
        add("waiting", slot.asked, slot.taken - slot.asked, "for a program's turn")
        left = slot.left or now
        starting = max(left - slot.taken - program, 0.0)
        add("start", slot.taken, starting, "starting the container")
        add("program", slot.taken + starting, left - slot.taken - starting)
        add("removal", left, now - left)


def kept_folder(run_id: str, task: Task) -> Path:
    """Where what is kept of a task's trials lies, below the store's folder."""
    return Path("runs") / run_id / f"{task.number:03d}-{task.case.id[:100]}-{task.variant}"


def keep_files(store: Path, run_id: str, task: Task) -> Path:
    """Keep a copy of the files that the containers get: evidence, and what the line that repeats a trial mounts."""
    folder = unlinked(store, *kept_folder(run_id, task).parts, "files").absolute()
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

"""Runs the cells of a plan: images are built once for all cells that share them, trials follow as images are built.

Threads, since all that they do is wait for the engine. See `deciding` for what becomes of whatever stops a cell.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from reprokit.case.cellspec import Limits
from reprokit.case.trust import Trust
from reprokit.core import interrupts
from reprokit.core.errors import (
    BuildFailed,
    Cancelled,
    EngineError,
    ImageGone,
    ReprokitError,
    Unsupported,
    UsageError,
)
from reprokit.engine import site
from reprokit.engine.gpus.discovery import odd_request
from reprokit.environment.catalog import OURS, Catalog
from reprokit.environment.granting import Caps
from reprokit.environment.host import HostFacts
from reprokit.environment.preflighting import preflight
from reprokit.environment.steps import short_step
from reprokit.environment.supply import Supply
from reprokit.evidence.model import Verdict
from reprokit.evidence.ratio import RatioRecord
from reprokit.evidence.records import CellRecord, TrialRecord
from reprokit.evidence.sequential import figures
from reprokit.evidence.spans import Timings
from reprokit.run.admitting import check_engine, check_reached, grant_by_engine
from reprokit.run.confirming import Planner, Repeater, repeatable
from reprokit.run.debuggers import DebugFiles, Symboliser, servers
from reprokit.run.deciding import Decisions
from reprokit.run.gpus import GpuAllocation, GpuScheduler
from reprokit.run.images import (
    BuiltImage,
    ImageSpec,
    SourceTrees,
    as_shared,
    image_record,
    is_here,
    make_ready,
    name_of,
    wanted,
)
from reprokit.run.keeping import Keeper
from reprokit.run.listener import Listener
from reprokit.run.ratios import Pairs
from reprokit.run.recovering import ENGINE_WAIT, EngineRecovery, check_awake, slept
from reprokit.run.request import Request
from reprokit.run.task import Task
from reprokit.run.threads import Builds, PrioritySemaphore, TrialWorkers, Workers, stop
from reprokit.run.timing import ImageTimer, KnownSeconds, Timer
from reprokit.run.trials import CellFacts, TrialContext, decided, known_facts, mismatches, run_trials
from reprokit.store.folder import Measurements, SeenBases

if TYPE_CHECKING:
    from reprokit.engine.protocol import Engine, EngineInfo, Progress
    from reprokit.engine.sharing import ImageShare
    from reprokit.run.reusing import Reuse
    from reprokit.store.recorder import Recorder

T = TypeVar("T")
Work = Callable[[TrialContext, BuiltImage, Task, "GpuAllocation | None"], None]
"""What is done with a task in place of its trials: it gets its image, and the GPUs that it asks for."""


def _served(tasks: Sequence[Task], serve: Callable[[Task], Task]) -> list[Task]:
    """Decided tasks as this host serves them; one that it does not serve is not repeated."""
    found = []
    for task in tasks:
        with contextlib.suppress(Unsupported):
            found.append(serve(task))
    return found


def _with(task: Task, limits: Limits) -> Task:
    return replace(task, spec=replace(task.spec, limits=limits))


def _submit(
    workers: TrialWorkers,
    scheduler: GpuScheduler,
    runs: list[Future[None]],
    task: Task,
    run: Callable[..., None],
    refuse: Callable[[Exception], None],
) -> Future[None]:
    """Start ``run`` in a thread, with the task's GPUs where it asks for some, and add it to ``runs``."""
    started = scheduler.submit(task, run, refuse) if task.spec.limits.gpus else workers.start(task, run)
    runs.append(started)
    return started


def _after_all(futures: Sequence[Future[None]], call: Callable[[], None]) -> None:
    """Call when all are done, at once where there is none."""
    done = itertools.count(1)

    def one(_: Future[None]) -> None:
        if next(done) == len(futures):
            call()

    for future in futures:
        future.add_done_callback(one)
    if not futures:
        call()


def _one_by_one(starts: Mapping[int, Callable[[], Future[None]]]) -> None:
    """Start each once the one before has ended, by number."""
    for number in sorted(starts):
        wait([starts[number]()])


def servable(task: Task, facts: HostFacts, catalog: Catalog) -> bool:
    """Whether this host has what the task needs, so that it is an engine's turn."""
    try:
        preflight(task.spec, facts, catalog)
    except Unsupported:
        return False
    return not task.refused


class Runner:
    """Runs one plan. ``engine`` is called at the first cell that needs one, at most once.

    ``engine_wait``: seconds for which an engine that went away is waited for, None for the default.
    ``gpu_leases``: where the leases lie, None for the host's usual place; ``gpu_others``: see :class:`.GpuScheduler`.
    ``confirming``: which cells to repeat once all are decided, None for none.
    ``reuse``: what is taken over from earlier runs, None for nothing.
    ``shares``: through what images of cases that are trusted so far are shared with other machines.
    ``keeper``: keeps what is on the disk within a budget, and what this run uses from being removed.
    ``compares``: judge cells by those that they are compared with; else whoever asked for them does.
    ``began``: since when a registry's images count as they are now (``refresh_bases``), None for from now on.
    ``folder`` is the store's; without a ``recorder`` nothing is recorded, as for builds without a run.
    """

    def __init__(
        self,
        run_id: str,
        request: Request,
        *,
        engine: Callable[[], Engine],
        folder: Path,
        recorder: Recorder | None,
        facts: HostFacts,
        listener: Listener,
        supply: Callable[[], Supply],
        catalog: Catalog = OURS,
        caps: Caps | None = None,
        gpu_leases: Path | None = None,
        gpu_others: str = "share",
        engine_wait: float | None = None,
        confirming: Planner | None = None,
        keeper: Keeper | None = None,
        shares: Callable[[Trust], ImageShare | None] = lambda trust: None,
        reuse: Reuse | None = None,
        compares: bool = True,
        began: float | None = None,
    ) -> None:
        self.run_id = run_id
        self.request = request
        self.engine_info: EngineInfo | None = None
        self._fresh = False
        self._make_engine = engine
        self._folder = folder
        self._measurements = Measurements(folder)
        self._seen = SeenBases(folder)
        self._since = (began or time.time()) if request.refresh_bases else 0.0
        self._facts = facts
        self._catalog = catalog
        self._caps = caps or Caps()
        self._listener = listener
        self._supply = supply
        self._cancel = recorder.hurry if recorder is not None else threading.Event()
        self._gpu_leases = gpu_leases
        self._gpu_others = gpu_others
        self._engine_wait = engine_wait
        self._trees = SourceTrees(request.sources_for, listener.note)
        self._confirming = confirming
        self._keeper = keeper or Keeper()
        self._shares = shares
        self._reuse = reuse
        self._compares = compares
        self._of_image: Callable[[ImageSpec], ImageSpec] = lambda image: image
        self._ready: dict[int, BuiltImage] = {}
        self._seconds = KnownSeconds({})
        self._decisions = Decisions(folder, recorder, listener, self._cancel)
        self._timer = Timer()

    @property
    def records(self) -> tuple[CellRecord, ...]:
        """The decided cells so far, in the order of their numbers."""
        return self._decisions.records

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the hosts of a cluster: none."""
        return ()

    @property
    def timings(self) -> Timings:
        """Where the time went so far."""
        return self._timer.timings()

    def run(self, tasks: Sequence[Task], earlier: Sequence[Task] = ()) -> tuple[CellRecord, ...]:
        """Decide every task. An interrupt is raised again when everything that was started is stopped and gone.

        Where that does not come about in time, it is GaveUp. Where nothing can be kept any more, nothing more is run,
        and RecordError is raised.

        ``earlier``: tasks whose records were taken over, see :meth:`reuse`; they may be repeated.
        """
        interrupted: KeyboardInterrupt | None = None
        self._decisions.begin(tasks if self._compares else ())
        try:
            ours = [served for task in tasks if (served := self._decisions.serve(task, self._granted))]
            self._say_odd_requests(ours)
            earlier = _served(earlier, self._capped)
            if ours or repeatable(earlier, self._confirming, self.records):
                with self._keeper.uses:
                    self._run_servable(ours, earlier=earlier)
        except KeyboardInterrupt as interrupt:
            interrupted = interrupt
        self._decisions.end(tasks, given_up=interrupted is not None)
        if interrupted is not None:
            raise interrupted
        return self.records

    def _say_odd_requests(self, tasks: Sequence[Task]) -> None:
        for text in dict.fromkeys(
            f"{task.case.id}: {odd}"
            for task in tasks
            if (odd := odd_request(task.spec.env.get("CUDA_VISIBLE_DEVICES"), task.spec.limits.gpus))
        ):
            self._listener.note(text)

    def _granted(self, task: Task) -> Task:
        """The task as this host serves it. Raises Unsupported when it cannot."""
        notes = preflight(task.spec, self._facts, self._catalog)
        return replace(self._capped(task), notes=notes)

    def _capped(self, task: Task) -> Task:
        return _with(task, self._caps_of(task).grant(task.spec.limits))

    def _caps_of(self, task: Task) -> Caps:
        """What a task's case gets at most, by how far it is trusted."""
        return self._caps.within(task.file.trust)

    def _held(self, engine: EngineInfo, task: Task) -> Task:
        check_reached(task, engine)
        return _with(task, grant_by_engine(task.spec.limits, engine, self._caps_of(task)))

    def build(self, tasks: Sequence[Task], *, fresh: bool = False) -> list[tuple[ImageSpec, BuiltImage, list[Task]]]:
        """Only the images of ``tasks``; a task whose image is not available gets a record, the others get none.

        ``fresh``: build them again, with what archives and indexes have today.
        """
        self._fresh = fresh
        images: list[tuple[ImageSpec, BuiltImage, list[Task]]] = []
        # No preflight: building needs no GPU.
        tasks = [_with(task, self._caps_of(task).fill(task.spec.limits)) for task in tasks]
        self._run_servable(tasks, built=lambda *found: images.append(found))
        return images

    def use(self, tasks: Sequence[Task], work: Work, of_image: Callable[[ImageSpec], ImageSpec] | None = None) -> None:
        """Build the images of ``tasks``, and call ``work`` for each in place of its trials. Decides nothing but what
        stops a task: it then has a record.

        ``of_image``: what is built in place of a task's image. An image that measures otherwise than its task asks is
        noted, and serves all the same. Raises KeyboardInterrupt as :meth:`run` does.
        """
        self._of_image = of_image or self._of_image
        if ours := [served for task in tasks if (served := self._decisions.serve(task, self._granted))]:
            with self._keeper.uses:
                self._run_servable(ours, work=work)

    def _program_of(
        self,
        context: TrialContext,
        image: ImageSpec,
        ready: BuiltImage,
        task: Task,
        facts: CellFacts,
        supply: Supply,
        work: Work | None,
    ) -> Callable[..., None]:
        """What is called for a task once it has its image."""
        if work:
            return partial(self._used, context, ready, work, task)
        again, reference = partial(self._image_of, context, image), partial(self._reference, context, supply)
        return partial(self._run_cell, context, ready, task, facts, again, reference)

    @contextlib.contextmanager
    def _reference(self, context: TrialContext, supply: Supply, task: Task) -> Iterator[tuple[Task, str]]:
        """What a task is measured against, as this host serves it, and the tag of its image, which is kept so long."""
        assert task.reference is not None
        assert self.engine_info is not None
        reference = self._held(self.engine_info, self._granted(task.reference))
        ready = self._image_of(context, wanted(reference, supply, self._trees))
        try:
            if differs := mismatches(reference, ready, self._catalog):
                raise Unsupported("; ".join(differs))
            yield reference, ready.image.tag
        finally:
            self._keeper.uses.end(ready.image.tag)

    def _used(
        self,
        context: TrialContext,
        ready: BuiltImage,
        work: Work,
        task: Task,
        allocation: GpuAllocation | None = None,
    ) -> None:
        for text in mismatches(task, ready, self._catalog):
            self._listener.note(f"{task.case.id}: {text}")
        self._decisions.serve(task, lambda task: work(context, ready, task, allocation))

    def _run_servable(
        self,
        tasks: Sequence[Task],
        built: Callable[[ImageSpec, BuiltImage, list[Task]], None] | None = None,
        earlier: Sequence[Task] = (),
        work: Work | None = None,
    ) -> None:
        began = time.monotonic()
        try:
            engine, info, supply = self._open()
        except UsageError:
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, EngineError) else self._decisions.defect(error)
            for task in tasks:
                self._decisions.decide(decided(task, Verdict.ENGINE_ERROR, reason))
            return
        if built is None:
            # Building alone limits nothing.
            tasks = [held for task in tasks if (held := self._decisions.serve(task, partial(self._held, info)))]
            earlier = _served(earlier, partial(self._held, info))
        groups = self._group(tasks, supply)
        self._timer.add("preparing", began, time.monotonic() - began)
        jobs = max(1, self.request.jobs)
        context = TrialContext(
            engine=engine,
            run_id=self.run_id,
            folder=self._folder,
            cancel=self._cancel,
            semaphore=PrioritySemaphore(jobs),
            recovery=self._recovery(engine),
            symboliser=Symboliser(DebugFiles(servers(site.settings().debuginfod, os.environ))),
            timer=self._timer,
        )
        # Twice as many threads as programs may run: the next containers are made while the last ones are removed.
        with (
            Workers(jobs, "build") as builders,
            TrialWorkers(2 * jobs, "trial", self._seconds) as workers,
            self._scheduler(context) as scheduler,
        ):
            runs: list[Future[None]] = []
            alone: dict[int, Callable[[], Future[None]]] = {}

            submit = partial(_submit, workers, scheduler, runs)

            def prepare(image: ImageSpec, waiting: list[Task], times: ImageTimer, queued: float) -> None:
                times.add("waiting", queued, "for a worker")
                in_trial = (lambda: any(not run.done() for run in list(runs))) if built is None else lambda: False
                waiting = self._left_by_reuse(context, image, waiting)
                ready, facts = self._prepare(context, image, waiting, in_trial, times)
                if ready is None:
                    return
                self._keeper.uses.begin(ready.image.tag)
                if built is not None:
                    built(image, ready, waiting)
                else:

                    def start(task: Task) -> Future[None]:
                        self._timer.queued(task.number)
                        run = self._program_of(context, image, ready, task, facts, supply, work)
                        return submit(task, run, partial(self._decisions.refuse, task, facts))

                    ours = waiting if work else self._faithful(ready, waiting, facts)
                    alone.update(self._start(ready, ours, start, at_once=work is not None))
                self._offer(image, ready)

            builds = Builds(builders, prepare, partial(self._needs_no_build, context, len(groups) > jobs and not built))
            try:
                for image, waiting in groups:
                    times = ImageTimer(self._timer, self._timer.image([task.number for task in waiting]))
                    builds.start(image, waiting, times, time.monotonic())
                builds.wait()
                wait(list(runs))
                _one_by_one(alone)
                reused = {record.number for record in self.records if record.reused_from}
                ran = [task for task in (*tasks, *earlier) if task.number not in reused]
                self._confirm(context, supply, ran, submit)
            except KeyboardInterrupt:
                self._cancel.set()
                stop(lambda: (*builds.started, *runs), self._listener.note)
                raise
        if interrupts.left():
            with contextlib.suppress(EngineError):  # it went away again: the next run does it
                self._sweep(engine, "when the engine went away")

    def _needs_no_build(self, context: TrialContext, look: bool, image: ImageSpec) -> bool:
        """Whether nothing is gained by preparing an image later: it is here, or no others wait (``look`` is false)."""
        if not look or image.bundled or self._since:
            return True
        try:
            return is_here(context.engine, image, self._seen)
        except ReprokitError:  # what is wrong is said where the image is made
            return True

    def _left_by_reuse(self, context: TrialContext, image: ImageSpec, waiting: list[Task]) -> list[Task]:
        """The tasks that have to run; the others are decided by an earlier run, in just this image."""
        if self._reuse is None or image.bundled or not self._reuse.wants(waiting):
            return waiting
        assert self.engine_info is not None
        try:
            tag = name_of(
                context.engine,
                self._measurements,
                image,
                cancel=self._cancel,
                seen=self._seen,
                since=self._since,
                keeper=self._keeper,
                share=self._shares(image.trust),
            )
        except ReprokitError:  # what is wrong is said where the image is made
            return waiting
        left = []
        for task in waiting:
            if record := self._reuse.record(task, tag, self.engine_info.kind):
                self._decisions.decide(record)
            else:
                left.append(task)
        return left

    def _offer(self, image: ImageSpec, ready: BuiltImage) -> None:
        """Push an image that was built, now or in an earlier run that could not push it, while its trials run.

        Then give its use back.
        """
        try:
            share = None if image.bundled else self._shares(image.trust)
            if share and share.owes(shared := as_shared(image, ready.image.tag, ready.bases)):
                share.push(shared, self._cancel)
        except Cancelled:
            pass  # its cells are decided, and the next run that needs it pushes it
        finally:
            self._keeper.uses.end(ready.image.tag)

    def _start(
        self, ready: BuiltImage, tasks: Sequence[Task], start: Callable[[Task], Future[None]], *, at_once: bool
    ) -> dict[int, Callable[[], Future[None]]]:
        """Start the tasks of an image, but those that may have nothing beside them: gives, by number, what starts them.

        ``at_once``: start all. The image is in use until the last has ended.
        """
        end = partial(self._keeper.uses.end, tag := ready.image.tag)

        def start_alone(task: Task) -> Future[None]:
            started = start(task)
            _after_all([started], end)
            return started

        started: list[Future[None]] = []
        later: dict[int, Callable[[], Future[None]]] = {}
        for task in sorted(tasks, key=lambda task: -self._seconds(task)):
            self._ready[task.number] = ready
            if at_once or task.reference is None:
                started.append(start(task))
            else:
                self._keeper.uses.begin(tag)
                later[task.number] = partial(start_alone, task)
        _after_all(started, end)
        return later

    def _confirm(
        self,
        context: TrialContext,
        supply: Supply,
        tasks: Sequence[Task],
        submit: Callable[[Task, Callable[..., None], Callable[[Exception], None]], Future[None]],
    ) -> None:
        """Repeat decided cells for as long as the planner asks for it. ``submit`` starts a task's trial."""
        if self._confirming is None:
            return
        repeater = Repeater(
            planner=self._confirming,
            context=context,
            listener=self._listener,
            records=lambda: self.records,
            image=partial(self._image_again, context, supply),
            keep=lambda record: self._decisions.keep(record, self._listener.repeated),
            compare=self._decisions.compared_again if self._compares else lambda _, record: record,
            explain_error=lambda error: (
                str(error) if isinstance(error, ReprokitError) else self._decisions.defect(error)
            ),
        )

        def start(task: Task) -> Future[None]:
            return submit(task, partial(repeater.repeat, task), partial(repeater.refuse, task))

        repeater.run(repeatable(tasks, self._confirming, self.records), start, context.semaphore.count)

    def _image_again(self, context: TrialContext, supply: Supply, task: Task, record: CellRecord) -> str:
        """The image of a decided task: where a run is resumed, it has to be the one that its trials ran in."""
        if task.number not in self._ready:
            ready = self._image_of(context, wanted(task, supply, self._trees))
            if record.image is None or ready.image.id != record.image.id:
                raise EngineError("its image is not the one of its first trials any more")
            self._ready[task.number] = ready
        self._keeper.uses.begin(tag := self._ready[task.number].image.tag, self._cancel)
        return tag

    def _image_of(
        self,
        context: TrialContext,
        image: ImageSpec,
        on_progress: Callable[[Progress], None] = lambda progress: None,
        in_trial: Callable[[], bool] = lambda: False,
        times: ImageTimer | None = None,
    ) -> BuiltImage:
        def attempt() -> BuiltImage:
            awake = slept()
            try:
                return make_ready(
                    context.engine,
                    self._measurements,
                    image,
                    on_progress=on_progress,
                    cancel=self._cancel,
                    seen=self._seen,
                    since=self._since,
                    fresh=self._fresh,
                    keeper=self._keeper,
                    waits=in_trial,
                    share=self._shares(image.trust),
                    times=times,
                )
            except BuildFailed:
                check_awake(awake, "the build")
                raise

        return context.recovery.repeated(attempt)

    def _scheduler(self, context: TrialContext) -> GpuScheduler:
        return GpuScheduler(
            self._facts,
            catalog=self._catalog,
            folder=self._gpu_leases,
            others=self._gpu_others,
            run_id=self.run_id,
            engine=context.engine,
            semaphore=context.semaphore,
            cancel=self._cancel,
            note=self._listener.note,
            seconds=self._seconds,
            waits=lambda task, who: self._listener.state([task.number], "waiting", f"for a GPU: {who}"),
        )

    def _recovery(self, engine: Engine) -> EngineRecovery:
        patience = ENGINE_WAIT if self._engine_wait is None else self._engine_wait
        return EngineRecovery(engine=engine, cancel=self._cancel, note=self._listener.note, patience=patience)

    def _open(self) -> tuple[Engine, EngineInfo, Supply]:
        """The engine, once it answers, and what cells can be made of. Raises UsageError, EngineError."""
        engine = self._make_engine()
        info = engine.info()
        self.engine_info = info
        check_engine(self.records, info.kind)
        self._sweep(engine, "by a run that was killed")
        return engine, info, self._supply()

    def _sweep(self, engine: Engine, how: str) -> None:
        for text in engine.sweep():
            self._listener.note(f"left behind {how}, removed: {text}")

    def _group(self, tasks: Sequence[Task], supply: Supply) -> list[tuple[ImageSpec, list[Task]]]:
        """Tasks by the image that they share: first those on which a GPU would wait, then those with the longest cells,
        else as their first task.
        """
        self._seconds = KnownSeconds.of(self._folder, tasks)
        images: dict[str, tuple[ImageSpec, list[Task]]] = {}
        for task in tasks:
            if image := self._decisions.serve(task, lambda task: self._of_image(wanted(task, supply, self._trees))):
                images.setdefault(image.key, (image, []))[1].append(task)
        for _, waiting in images.values():
            self._listener.state([task.number for task in waiting], "queued")

        def order(image: tuple[ImageSpec, list[Task]]) -> tuple[bool, float]:
            return not any(task.spec.limits.gpus for task in image[1]), -max(map(self._seconds, image[1]))

        return sorted(images.values(), key=order)

    def _prepare(
        self,
        context: TrialContext,
        image: ImageSpec,
        waiting: list[Task],
        in_trial: Callable[[], bool],
        times: ImageTimer,
    ) -> tuple[BuiltImage | None, CellFacts]:
        if not waiting:
            return None, CellFacts()
        numbers = [task.number for task in waiting]
        began: list[float] = []

        def on_progress(progress: Progress) -> None:
            began[:] = began or [time.monotonic()]
            if progress.log:
                self._listener.build_output(numbers, progress.log)
            else:
                where = f"{progress.number}/{progress.total} " if progress.total else ""
                self._listener.state(numbers, "building", where + short_step(progress.name))

        facts = CellFacts(dockerfile=image.rendered.dockerfile)

        def attempt(_: Task) -> tuple[BuiltImage, CellFacts]:
            try:
                ready = self._image_of(context, image, on_progress, in_trial, times)
            except BuildFailed:
                if began:
                    self._listener.build_ended(numbers, time.monotonic() - began[0], failed=True)
                raise
            if ready.built:
                self._listener.build_ended(numbers, ready.seconds)
            assert self.engine_info is not None
            return ready, known_facts(ready, self.engine_info)

        served = self._decisions.serve(waiting[0], attempt, facts)
        if served is None:
            failed = self._decisions.record(waiting[0])
            for task in waiting[1:]:
                assert failed.verdict is not None
                self._decisions.decide(decided(task, failed.verdict, failed.reason, facts))
            return None, facts
        return served

    def _faithful(self, ready: BuiltImage, waiting: Sequence[Task], facts: CellFacts) -> list[Task]:
        """The tasks that the image serves; the others are decided, as it measures otherwise than they ask."""
        served = []
        for task in waiting:
            if differs := mismatches(task, ready, self._catalog):
                self._decisions.decide(decided(task, Verdict.ENVIRONMENT_MISMATCH, "; ".join(differs), facts))
            else:
                served.append(task)
        return served

    def _run_cell(
        self,
        context: TrialContext,
        ready: BuiltImage,
        task: Task,
        facts: CellFacts,
        again: Callable[[], BuiltImage],
        reference: Callable[[Task], AbstractContextManager[tuple[Task, str]]],
        allocation: GpuAllocation | None = None,
    ) -> None:
        facts = replace(facts)
        self._timer.taken(task.number)
        starts: list[float] = []

        def on_start(number: int) -> None:
            starts.append(time.monotonic())
            text = f"trial {number}/{task.trials.max}" if task.trials.max > 1 else ""
            self._listener.state([task.number], "running", text)

        def keep(trials: tuple[TrialRecord, ...], repeat: str) -> None:
            facts.trials, facts.repeat = trials, repeat
            if allocation is not None and facts.environment is not None:
                # An image is measured once, without a GPU; which one a trial got is the host's fact.
                names = tuple(f"GPU {gpu.index}: {gpu.name}" for gpu in allocation.gpus)
                facts.environment = replace(facts.environment, gpu=names, driver=self._facts.driver)

        def note(found: RatioRecord) -> None:
            facts.details = replace(facts.details, ratio=found)

        def attempt(image: str) -> tuple[Verdict, str]:
            echo = partial(self._listener.output, task.number)
            if task.reference is not None:
                return Pairs(
                    context=context,
                    task=task,
                    image=image,
                    allocation=allocation,
                    reference=partial(reference, task),
                    on_start=on_start,
                    keep=keep,
                    note=note,
                    echo=echo,
                ).run()
            return run_trials(context, task, image, allocation, on_start=on_start, keep=keep, echo=echo)

        def trials(task: Task) -> None:
            try:
                verdict, reason = attempt(ready.image.tag)
            except ImageGone as error:
                self._listener.note(f"{task.case.id}: {error}; it is built again")
                made = again()
                facts.image, facts.environment, facts.trials = image_record(made), made.measured, ()
                verdict, reason = attempt(made.image.tag)
            facts.seconds = round(time.monotonic() - starts[0], 3) if starts else None
            shown = figures([trial.outcome for trial in facts.trials], task.trials)
            facts.details = replace(facts.details, trials=shown)
            with self._timer.span("recording", cell=task.number):
                self._decisions.decide(decided(task, verdict, reason, facts))

        self._decisions.serve(task, trials, facts)

    def cancel(self) -> None:
        """Stop what is being built or run, from another thread; its tasks are decided as cancelled."""
        self._cancel.set()

    def reuse(self, record: CellRecord) -> None:
        """Take over a cell that an interrupted run had decided, or that was decided without an engine."""
        self._decisions.reuse(record)

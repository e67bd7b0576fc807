"""The steps from tasks to records: admit, group by image, build or find, measure, lease GPUs, try, judge, record.

Images are built once for all cells that share them; trials follow as images are built.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reprokit.core import interrupts
from reprokit.core.errors import BuildFailed, EngineError, ReprokitError, Unsupported, UsageError
from reprokit.engine.gpus.discovery import odd_request
from reprokit.engine.images import find_built
from reprokit.environment.steps import short_step
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.evidence.spans import Timings
from reprokit.run.admitting import check_engine
from reprokit.run.building import BuildOptions, build_or_find, image_name, is_here, offer
from reprokit.run.cell_records import CellFacts, decided_record, known_facts
from reprokit.run.cell_run import CellImages, run_cell
from reprokit.run.confirming import Planner, Repeater, repeatable
from reprokit.run.deciding import Decisions
from reprokit.run.gpus import GpuAllocation, GpuScheduler
from reprokit.run.images import BuiltImage, ImageSpec, TasksOfImage, group_by_image, image_for
from reprokit.run.measuring import measure_for, mismatches
from reprokit.run.services import Services
from reprokit.run.task import Task
from reprokit.run.threads import Builds, PriorityWorkers, Workers, call_after, start_one_by_one, stop
from reprokit.run.timing import ImageTimer, KnownSeconds

if TYPE_CHECKING:
    from reprokit.engine.protocol import EngineInfo, ImageInfo, Progress
    from reprokit.run.reusing import Reuse
    from reprokit.store.recorder import Recorder

TaskWork = Callable[[Services, BuiltImage, Task, "GpuAllocation | None"], None]
"""What is done with a task in place of its trials: it gets its image, and the GPUs that it asks for."""


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The steps that a run has beside those of every run."""

    recorder: Recorder | None = None
    """Without one nothing is recorded, as for builds without a run."""
    confirming: Planner | None = None
    """Which cells to repeat once all are decided."""
    reuse: Reuse | None = None
    """What is taken over from earlier runs."""
    compares: bool = True
    """Judge cells by those that they are compared with; else whoever asked for them does."""


@dataclass(frozen=True, kw_only=True)
class _Aim:
    """What becomes of the tasks of an image: their trials, unless one of these says otherwise."""

    built: Callable[[ImageSpec, BuiltImage, list[Task]], None] | None = None
    """Gets the image alone."""
    work: TaskWork | None = None
    fresh: bool = False
    earlier: Sequence[Task] = ()
    """Decided tasks that may be repeated."""


@dataclass(frozen=True, kw_only=True)
class _Started:
    """What starts the tasks of images, and what it has started."""

    workers: PriorityWorkers
    scheduler: GpuScheduler
    seconds: Callable[[Task], float]
    runs: list[Future[None]]
    alone: dict[int, Callable[[], Future[None]]]
    """What starts a task that may have nothing beside it, by number."""

    def start(
        self, task: Task, work: Callable[[GpuAllocation | None], None], refuse: Callable[[Exception], None]
    ) -> Future[None]:
        """Start ``work`` in a thread, with the task's GPUs where it asks for some."""
        if task.spec.limits.gpus:
            started = self.scheduler.submit(task, work, refuse)
        else:
            started = self.workers.start(lambda: work(None), self.seconds(task))
        self.runs.append(started)
        return started

    @property
    def is_busy(self) -> bool:
        """Whether a trial runs or waits."""
        return any(not run.done() for run in list(self.runs))


class Runner:
    """Runs plans with the same services. The engine is opened at the first cell that needs one."""

    def __init__(self, services: Services, options: RunOptions) -> None:
        self.engine_info: EngineInfo | None = None
        self.nodes: tuple[str, ...] = ()
        """The names of the hosts of a cluster: none."""
        self._services = services
        self._options = options
        self._image_of: Callable[[ImageSpec], ImageSpec] = lambda image: image
        self._ready: dict[int, BuiltImage] = {}
        self._rebuilding = threading.Lock()
        self._seconds = KnownSeconds({})
        self._decisions = Decisions(services.folder, options.recorder, services.listener, services.cancel)

    @property
    def records(self) -> tuple[CellRecord, ...]:
        """The decided cells so far, in the order of their numbers."""
        return self._decisions.records

    @property
    def timings(self) -> Timings:
        """Where the time went so far."""
        return self._services.timer.timings()

    def cancel(self) -> None:
        """Stop what is being built or run, from another thread; its tasks are decided as cancelled."""
        self._services.cancel.set()

    def reuse(self, record: CellRecord) -> None:
        """Take over a cell that an interrupted run had decided, or that was decided without an engine."""
        self._decisions.reuse(record)

    def run(self, tasks: Sequence[Task], earlier: Sequence[Task] = ()) -> tuple[CellRecord, ...]:
        """Decide every task. An interrupt is raised again when everything that was started is stopped and gone.

        Where that does not come about in time, it is GaveUp. Where nothing can be kept any more, nothing more is run,
        and RecordError is raised.

        ``earlier``: tasks whose records were taken over, see :meth:`reuse`; they may be repeated.
        """
        interrupted: KeyboardInterrupt | None = None
        host = self._services.host
        self._decisions.begin(tasks if self._options.compares else ())
        try:
            ours = self._decisions.serve_all(tasks, host.admit)
            self._note_odd_requests(ours)
            earlier = _served(earlier, host.cap)
            if ours or repeatable(earlier, self._options.confirming, self.records):
                with self._services.keeper.uses:
                    self._serve(ours, _Aim(earlier=earlier))
        except KeyboardInterrupt as interrupt:
            interrupted = interrupt
        self._decisions.end(tasks, given_up=interrupted is not None)
        if interrupted is not None:
            raise interrupted
        return self.records

    def build(self, tasks: Sequence[Task], *, fresh: bool = False) -> list[tuple[ImageSpec, BuiltImage, list[Task]]]:
        """Only the images of ``tasks``; a task whose image is not available gets a record, the others get none.

        ``fresh``: build them again, with what archives and indexes have today.
        """
        images: list[tuple[ImageSpec, BuiltImage, list[Task]]] = []
        # No preflight: building needs no GPU.
        filled = [self._services.host.fill(task) for task in tasks]
        self._serve(filled, _Aim(built=lambda *found: images.append(found), fresh=fresh))
        return images

    def use(
        self, tasks: Sequence[Task], work: TaskWork, image_of: Callable[[ImageSpec], ImageSpec] | None = None
    ) -> None:
        """Build the images of ``tasks``, and call ``work`` for each in place of its trials. Decides nothing but what
        stops a task: it then has a record.

        ``image_of``: what is built in place of a task's image. An image that measures otherwise than its task asks is
        noted, and serves all the same. Raises KeyboardInterrupt as :meth:`run` does.
        """
        self._image_of = image_of or self._image_of
        if ours := self._decisions.serve_all(tasks, self._services.host.admit):
            with self._services.keeper.uses:
                self._serve(ours, _Aim(work=work))

    def _note_odd_requests(self, tasks: Sequence[Task]) -> None:
        for text in dict.fromkeys(
            f"{task.case.id}: {odd}"
            for task in tasks
            if (odd := odd_request(task.spec.env.get("CUDA_VISIBLE_DEVICES"), task.spec.limits.gpus))
        ):
            self._services.listener.note(text)

    def _serve(self, tasks: Sequence[Task], aim: _Aim) -> None:
        """Take tasks that this host serves through the steps that need an engine."""
        services, decisions = self._services, self._decisions
        began = time.monotonic()
        try:
            info = services.open()
            self.engine_info = info
            check_engine(self.records, info.kind)
            services.sweep("by a run that was killed")
            services.supply()
        except UsageError:
            raise
        except Exception as error:
            reason = str(error) if isinstance(error, EngineError) else decisions.defect(error)
            for task in tasks:
                decisions.decide(decided_record(task, Verdict.ENGINE_ERROR, reason))
            return
        earlier = aim.earlier
        if aim.built is None:  # building alone limits nothing
            tasks = decisions.serve_all(tasks, lambda task: services.host.admit_to(info, task))
            earlier = _served(earlier, lambda task: services.host.admit_to(info, task))
        groups = self._group(tasks)
        services.timer.add("preparing", began, time.monotonic() - began)
        jobs = services.semaphore.count
        look = len(groups) > jobs and aim.built is None
        # Twice as many threads as programs may run: the next containers are made while the last ones are removed.
        with (
            Workers(jobs, "build") as builders,
            PriorityWorkers(2 * jobs, "trial") as workers,
            GpuScheduler(services, self._seconds) as scheduler,
        ):
            started = _Started(workers=workers, scheduler=scheduler, seconds=self._seconds, runs=[], alone={})
            builds = Builds(builders)
            try:
                for group in groups:
                    self._start_build(builds, group, started, aim, look=look)
                builds.wait()
                wait(list(started.runs))
                start_one_by_one(started.alone)
                reused = {record.number for record in self.records if record.reused_from}
                self._confirm([task for task in (*tasks, *earlier) if task.number not in reused], started)
            except KeyboardInterrupt:
                services.cancel.set()
                stop(lambda: (*builds.started, *started.runs), services.listener.note)
                raise
        if interrupts.left():
            with contextlib.suppress(EngineError):  # it went away again: the next run does it
                services.sweep("when the engine went away")

    def _group(self, tasks: Sequence[Task]) -> list[TasksOfImage]:
        """Tasks by the image that they share: first those on which a GPU would wait, then those with the longest cells,
        else as their first task.
        """
        services, decisions = self._services, self._decisions
        self._seconds = KnownSeconds.of(services.folder, tasks)
        groups = group_by_image(
            tasks, lambda task: decisions.serve(task, lambda task: self._image_of(self._spec(task)))
        )
        for _, waiting in groups:
            services.listener.state([task.number for task in waiting], "queued")

        def order(group: TasksOfImage) -> tuple[bool, float]:
            return not any(task.spec.limits.gpus for task in group[1]), -max(map(self._seconds, group[1]))

        return sorted(groups, key=order)

    def _spec(self, task: Task) -> ImageSpec:
        return image_for(task, self._services.supply(), self._services.trees)

    def _start_build(self, builds: Builds, group: TasksOfImage, started: _Started, aim: _Aim, *, look: bool) -> None:
        """Have an image made in a thread, and then start what its tasks are for. ``look``: others wait."""
        image, waiting = group
        timer = self._services.timer
        times = ImageTimer(timer, timer.image([task.number for task in waiting]))
        queued = time.monotonic()

        def prepare() -> None:
            times.add("waiting", queued, "for a worker")
            self._follow(image, self._left_by_reuse(image, waiting), started, aim, times)

        builds.start(prepare, lambda: self._needs_no_build(image, look=look))

    def _needs_no_build(self, image: ImageSpec, *, look: bool) -> bool:
        """Whether nothing is gained by preparing an image later: it is here, or no others wait (``look`` is false)."""
        services = self._services
        if not look or image.bundled or services.since:
            return True
        try:
            return is_here(services.engine, image, services.seen)
        except ReprokitError:  # what is wrong is said where the image is made
            return True

    def _left_by_reuse(self, image: ImageSpec, waiting: list[Task]) -> list[Task]:
        """The tasks that have to run; the others are decided by an earlier run, in just this image."""
        reuse = self._options.reuse
        if reuse is None or image.bundled or not reuse.wants(waiting):
            return waiting
        assert self.engine_info is not None
        try:
            tag = image_name(self._services, image)
        except ReprokitError:  # what is wrong is said where the image is made
            return waiting
        left = []
        for task in waiting:
            if record := reuse.record(task, tag, self.engine_info.kind):
                self._decisions.decide(record)
            else:
                left.append(task)
        return left

    def _follow(self, image: ImageSpec, waiting: list[Task], started: _Started, aim: _Aim, times: ImageTimer) -> None:
        """Make the image of ``waiting`` and start what they are for; then offer it to other machines."""
        if not waiting:
            return
        waits = (lambda: started.is_busy) if aim.built is None else lambda: False
        found = self._build(image, waiting, BuildOptions(waits=waits, fresh=aim.fresh, times=times))
        if found is None:
            return
        ready, facts = found
        uses = self._services.keeper.uses
        uses.begin(ready.image.tag)
        try:
            if aim.built is not None:
                aim.built(image, ready, waiting)
            elif aim.work is not None:
                self._start_work(ready, waiting, facts, started, aim.work)
            else:
                self._start_trials(image, ready, self._faithful(ready, waiting, facts), facts, started)
            offer(self._services, ready, image)
        finally:
            uses.end(ready.image.tag)

    def _build(
        self, image: ImageSpec, waiting: Sequence[Task], options: BuildOptions
    ) -> tuple[BuiltImage, CellFacts] | None:
        """The image, and what records say of it; None where it is not available, by which its tasks are decided."""
        listener = self._services.listener
        numbers = [task.number for task in waiting]
        began: list[float] = []

        def on_progress(progress: Progress) -> None:
            began[:] = began or [time.monotonic()]
            if progress.log:
                listener.build_output(numbers, progress.log)
            else:
                where = f"{progress.number}/{progress.total} " if progress.total else ""
                listener.state(numbers, "building", where + short_step(progress.name))

        def attempt(_: Task) -> tuple[BuiltImage, CellFacts]:
            try:
                ready = build_or_find(self._services, image, replace(options, on_progress=on_progress))
            except BuildFailed:
                if began:
                    listener.build_ended(numbers, time.monotonic() - began[0], failed=True)
                raise
            if ready.built:
                listener.build_ended(numbers, ready.seconds)
            assert self.engine_info is not None
            return ready, known_facts(ready, self.engine_info)

        facts = CellFacts(dockerfile=image.rendered.dockerfile)
        served = self._decisions.serve(waiting[0], attempt, facts)
        if served is None:
            failed = self._decisions.record(waiting[0])
            for task in waiting[1:]:
                assert failed.verdict is not None
                self._decisions.decide(decided_record(task, failed.verdict, failed.reason, facts))
        return served

    def _faithful(self, ready: BuiltImage, waiting: Sequence[Task], facts: CellFacts) -> list[Task]:
        """The tasks that the image serves; the others are decided, as it measures otherwise than they ask."""
        served = []
        for task in waiting:
            differs = self._decisions.serve(task, lambda task: mismatches(self._services, task, ready), facts)
            if differs:
                seen = replace(facts, environment=measure_for(self._services, task, ready))
                self._decisions.decide(decided_record(task, Verdict.ENVIRONMENT_MISMATCH, "; ".join(differs), seen))
            elif differs is not None:
                served.append(task)
        return served

    def _start_work(
        self, ready: BuiltImage, tasks: Sequence[Task], facts: CellFacts, started: _Started, work: TaskWork
    ) -> None:
        """Start what is done with the tasks in place of their trials."""
        services, decisions = self._services, self._decisions

        def start(task: Task) -> Future[None]:
            def run(allocation: GpuAllocation | None) -> None:
                for text in mismatches(services, task, ready):
                    services.listener.note(f"{task.case.id}: {text}")
                decisions.serve(task, lambda task: work(services, ready, task, allocation))

            return started.start(task, run, lambda error: decisions.refuse(task, facts, error))

        runs = [start(task) for task in sorted(tasks, key=lambda task: -self._seconds(task))]
        call_after(runs, lambda: services.keeper.uses.end(ready.image.tag))

    def _start_trials(
        self, image: ImageSpec, ready: BuiltImage, tasks: Sequence[Task], facts: CellFacts, started: _Started
    ) -> None:
        """Start the trials of the tasks of an image, but of those that may have nothing beside them: they are left to
        ``started.alone``. The image is in use until the last has ended.
        """
        services, decisions, uses, tag = self._services, self._decisions, self._services.keeper.uses, ready.image.tag

        def start(task: Task) -> Future[None]:
            own = replace(facts, environment=measure_for(services, task, ready))
            images = CellImages(
                ready=ready,
                rebuild=lambda damaged: self._rebuild(image, ready, damaged=damaged),
                reference=lambda: self._reference(task),
            )

            def run(allocation: GpuAllocation | None) -> None:
                services.timer.taken(task.number)

                def attempt(task: Task) -> None:
                    record = run_cell(services, task, images, allocation, own)
                    with services.timer.span("recording", cell=task.number):
                        decisions.decide(record)

                decisions.serve(task, attempt, own)

            services.timer.queued(task.number)
            return started.start(task, run, lambda error: decisions.refuse(task, own, error))

        def start_alone(task: Task) -> Future[None]:
            run = start(task)
            call_after([run], lambda: uses.end(tag))
            return run

        runs: list[Future[None]] = []
        for task in sorted(tasks, key=lambda task: -self._seconds(task)):
            self._ready[task.number] = ready
            if task.reference is None:
                runs.append(start(task))
            else:
                uses.begin(tag)
                started.alone[task.number] = lambda task=task: start_alone(task)  # type: ignore[misc]
        call_after(runs, lambda: uses.end(tag))

    def _rebuild(self, image: ImageSpec, lost: BuiltImage, *, damaged: bool) -> BuiltImage:
        """The image once more: where parts of it are missing, by all its steps, once for all cells that find so."""
        with self._rebuilding:
            now = find_built(self._services.engine, lost.image.tag) if damaged else None
            fresh = now is not None and now.id == lost.image.id
            return build_or_find(self._services, image, BuildOptions(fresh=fresh))

    @contextlib.contextmanager
    def _reference(self, task: Task) -> Iterator[tuple[Task, ImageInfo]]:
        """What a task is measured against, as this host serves it, and its image, which is kept so long."""
        assert task.reference is not None
        assert self.engine_info is not None
        services = self._services
        reference = services.host.admit_to(self.engine_info, services.host.admit(task.reference))
        ready = build_or_find(services, self._spec(reference))
        try:
            if differs := mismatches(services, reference, ready):
                raise Unsupported("; ".join(differs))
            yield reference, ready.image
        finally:
            services.keeper.uses.end(ready.image.tag)

    def _confirm(self, tasks: Sequence[Task], started: _Started) -> None:
        """Repeat decided cells for as long as the planner asks for it."""
        planner, decisions, services = self._options.confirming, self._decisions, self._services
        if planner is None:
            return
        repeater = Repeater(
            planner=planner,
            services=services,
            records=lambda: self.records,
            image=self._image_again,
            keep=lambda record: decisions.keep(record, services.listener.repeated),
            compare=decisions.compared_again if self._options.compares else lambda _, record: record,
            explain_error=lambda error: str(error) if isinstance(error, ReprokitError) else decisions.defect(error),
        )

        def start(task: Task) -> Future[None]:
            return started.start(
                task,
                lambda allocation: repeater.repeat(task, allocation),
                lambda error: repeater.refuse(task, error),
            )

        repeater.run(repeatable(tasks, planner, self.records), start, services.semaphore.count)

    def _image_again(self, task: Task, record: CellRecord) -> ImageInfo:
        """The image of a decided task: where a run is resumed, it has to be the one that its trials ran in."""
        if task.number not in self._ready:
            ready = build_or_find(self._services, self._spec(task))
            if record.image is None or ready.image.id != record.image.id:
                raise EngineError("its image is not the one of its first trials any more")
            self._ready[task.number] = ready
        image = self._ready[task.number].image
        self._services.keeper.uses.begin(image.tag, self._services.cancel)
        return image


def _served(tasks: Sequence[Task], serve: Callable[[Task], Task]) -> list[Task]:
    """Decided tasks as this host serves them; one that it does not serve is not repeated."""
    found = []
    for task in tasks:
        with contextlib.suppress(Unsupported):
            found.append(serve(task))
    return found

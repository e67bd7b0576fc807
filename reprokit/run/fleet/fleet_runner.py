"""Decides the cells of a plan on a cluster: what :class:`~reprokit.run.runner.Runner` is for this host."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from reprokit.core.errors import ReprokitError
from reprokit.core.interrupts import GaveUp
from reprokit.environment.catalog import Catalog
from reprokit.evidence.model import Verdict
from reprokit.evidence.origin import NodeRecord
from reprokit.evidence.records import CellRecord
from reprokit.evidence.spans import Timings
from reprokit.run.cell_records import decided_record
from reprokit.run.confirming import Planner, repeat_cells, repeatable
from reprokit.run.deciding import Decisions
from reprokit.run.fleet.cluster import Cluster
from reprokit.run.fleet.dispatching import Dispatcher, FleetJob, sequence
from reprokit.run.fleet.orders import FleetEvent, Order, ServedImage
from reprokit.run.fleet.placing import describe_cluster
from reprokit.run.listener import Listener
from reprokit.run.request import Request
from reprokit.run.sources import SourceTrees
from reprokit.run.task import Task
from reprokit.run.threads import stop
from reprokit.run.timing import Timer
from reprokit.run.trials import kept_folder
from reprokit.store.errors import StoreError, Trouble
from reprokit.store.folder import SeenBases
from reprokit.store.places import unlinked

if TYPE_CHECKING:
    from reprokit.engine.protocol import EngineInfo
    from reprokit.store.recorder import Recorder

REPEATING = 4
"""Cells that are repeated at a time to confirm what they say: each trial may make the next one needless."""


class FleetRunner:
    """Runs one plan on ``cluster``. The other arguments are those of a Runner."""

    def __init__(
        self,
        run_id: str,
        request: Request,
        *,
        cluster: Cluster,
        folder: Path,
        recorder: Recorder,
        listener: Listener,
        catalog: Catalog,
        confirming: Planner | None = None,
    ) -> None:
        self.engine_info: EngineInfo | None = describe_cluster(cluster.nodes(), cluster.version)
        self._run_id = run_id
        self._request = request
        self._ordered = replace(request, on="")
        self._cluster = cluster
        self._folder = folder
        self._listener = listener
        self._catalog = catalog
        self._confirming = confirming
        self._cancel = recorder.hurry
        self._decisions = Decisions(folder, recorder, listener, self._cancel)
        self._trees = SourceTrees(request.sources_for, listener.note)
        self._seen = SeenBases(folder)
        self._bases: dict[str, str] = {}
        self._stopped: set[str] = set()
        self._timer = Timer()
        self._lock = threading.Lock()
        self._dispatcher = Dispatcher(
            cluster,
            catalog=catalog,
            cancel=self._cancel,
            order=self._order,
            landed=self._landed,
            failed=self._failed,
            heard=self._heard,
            note=listener.note,
        )

    @property
    def timings(self) -> Timings:
        """Where the time went, on the nodes and between them."""
        return self._timer.timings()

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the hosts of the cluster."""
        return self._dispatcher.hosts

    @property
    def records(self) -> tuple[CellRecord, ...]:
        """The decided cells so far, in the order of their numbers."""
        return self._decisions.records

    def reuse(self, record: CellRecord) -> None:
        """Take over a cell that an interrupted run had decided."""
        self._decisions.reuse(record)

    def run(self, tasks: Sequence[Task], earlier: Sequence[Task] = ()) -> tuple[CellRecord, ...]:
        """Decide every task, as :meth:`reprokit.run.runner.Runner.run` does, and leave the cluster."""
        interrupted: KeyboardInterrupt | None = None
        self._decisions.begin(tasks)
        self._dispatcher.start()
        try:
            self._run(tasks, earlier)
        except KeyboardInterrupt as interrupt:
            interrupted = interrupt
        finally:
            self._dispatcher.close(wait=not isinstance(interrupted, GaveUp))
        self._decisions.end(tasks, given_up=interrupted is not None)
        self._cluster.close()
        if interrupted is not None:
            raise interrupted
        return self.records

    def _run(self, tasks: Sequence[Task], earlier: Sequence[Task]) -> None:
        futures: list[Future[None]] = []
        try:
            ours = [pinned for task in sequence(tasks) if (pinned := self._decisions.serve(task, self._pinned))]
            self._listener.state([task.number for task in ours], "queued")
            futures += [self._dispatcher.submit(task) for task in ours]
            wait(futures)
            if self._confirming is not None and not self._cancel.is_set():

                def start(task: Task) -> Future[None]:
                    self._listener.state([task.number], "confirming")
                    futures.append(self._dispatcher.submit(task, self._decisions.record(task)))
                    return futures[-1]

                cases = repeatable([*ours, *earlier], self._confirming, self.records)
                repeat_cells(self._confirming, lambda: self.records, cases, self._stopped, start, REPEATING)
        except KeyboardInterrupt:
            self._cancel.set()
            stop(lambda: futures, self._listener.note)
            raise

    def _pinned(self, task: Task) -> Task:
        """The task with the commits of its sources as they are now: the same for all its cells, on every node.

        Raises SourceError.
        """
        given = self._request.sources_for(task.file.trust)
        fetched = {name: one for name, one in task.spec.sources.items() if name not in given}
        if not fetched or task.held:
            return task
        trees = self._trees.of(task.file.trust, replace(task.spec, sources=fetched))
        pinned = {name: replace(one, ref=trees[name].commit or one.ref) for name, one in fetched.items()}
        return replace(task, spec=replace(task.spec, sources={**task.spec.sources, **pinned}))

    def _order(self, job: FleetJob, key: int) -> Order:
        with self._lock:
            bases = dict(self._bases)
        return Order(
            key=key,
            run_id=self._run_id,
            request=self._ordered,
            task=job.task,
            record=job.record,
            bases=bases,
            homes=tuple(sorted(job.group.homes)),
        )

    def _heard(self, event: FleetEvent) -> None:
        _, kind, *arguments = event
        if kind == "build_ended":
            numbers, took, failed = arguments
            self._listener.build_ended(numbers, took, failed=failed)
        elif kind in ("state", "build_output", "output", "note"):
            getattr(self._listener, kind)(*arguments)

    def _landed(self, job: FleetJob, served: ServedImage) -> None:
        """Take a record over, with its files, as if it had been made here."""
        record = served.record
        if served.timings is not None:
            self._timer.merge(served.timings, self._dispatcher.host(served.node))
        if record is None:  # a trial more that could not be made
            self._stopped.add(job.task.file.digest)
            return
        if record.number != job.task.number:  # of the leader of its group, whose build failed
            record = replace(
                decided_record(job.task, Verdict.BUILD_FAILED, record.reason),
                dockerfile=record.dockerfile,
                details=replace(record.details, tried=job.task.tried, trust=job.task.file.trust),
            )
        try:
            self._take(job, served, record)
        except (OSError, ReprokitError) as error:  # the store's disk, say
            self._decisions.decide(decided_record(job.task, Verdict.ENGINE_ERROR, str(error)))

    def _take(self, job: FleetJob, served: ServedImage, record: CellRecord) -> None:
        self._keep_files(job.task, served)
        if record.details.base is not None and record.details.base.source == "registry":
            self._keep_bases(record)
        here, there = str(self._folder.absolute()), served.store
        node = NodeRecord(name=self._dispatcher.host(served.node), id=served.node, lost=tuple(job.lost))
        record = replace(
            record,
            repeat=record.repeat.replace(there, here) if there else record.repeat,
            details=replace(record.details, node=node),
        )
        if job.record is None:
            self._decisions.decide(record)
        else:
            self._decisions.keep(self._decisions.compared_again(job.task, record), self._listener.repeated)

    def _keep_files(self, task: Task, served: ServedImage) -> None:
        folder = unlinked(self._folder, *kept_folder(self._run_id, task).parts)
        for file in served.files:
            parts = PurePosixPath(file.path).parts
            if PurePosixPath(file.path).is_absolute() or ".." in parts or not parts:
                raise StoreError(f"{served.node}: a node names {file.path!r} as a file of a cell", Trouble.FOREIGN)
            target = unlinked(folder, *parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(file.content)
            target.chmod(file.mode | 0o600)

    def _keep_bases(self, record: CellRecord) -> None:
        """What a node found behind the name of a base image is what every node takes from now on."""
        for reference, image in record.details.images.items():
            if image.digest and reference not in self._bases:
                known = "" if self._request.refresh_bases else self._seen.digest(reference)
                if not known:
                    self._seen.keep(reference, image.digest)
                with self._lock:
                    self._bases[reference] = known or image.digest

    def _failed(self, job: FleetJob, verdict: Verdict, reason: str) -> None:
        if job.record is not None:
            self._stopped.add(job.task.file.digest)
            self._listener.note(
                f"{job.task.case.id}: its cells are not repeated any more to confirm what they say: {reason}"
            )
            return
        record = decided_record(job.task, verdict, reason)
        if job.lost:
            record = replace(record, details=replace(record.details, node=NodeRecord(lost=tuple(job.lost))))
        self._decisions.decide(record)

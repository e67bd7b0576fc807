"""Gives the cells of a run to a cluster, so many at a time as it can use, and once more what a dead node loses."""

from __future__ import annotations

import itertools
import math
import statistics
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial

from reprokit.core.errors import EngineError
from reprokit.environment.catalog import Catalog
from reprokit.evidence.model import Verdict
from reprokit.evidence.origin import LossRecord
from reprokit.evidence.records import CellRecord
from reprokit.run.fleet import placing
from reprokit.run.fleet.cluster import Cluster
from reprokit.run.fleet.orders import FleetEvent, Lost, Order, ServedImage
from reprokit.run.fleet.placing import Needs, Node
from reprokit.run.task import Task

FAILURES = 3
"""Cells in a row that fail by a node's fault, after which others are preferred: it would fail all of them, and fast."""
ATTEMPTS = 3
"""How often a cell is given to a node before it counts as failed by the cluster."""
LOOK = 0.5
"""Seconds between two looks at whether the cells of an image leave the nodes that have it."""
WAIT = 0.1
"""Seconds between two looks for new work, and for a run that was stopped."""


@dataclass(eq=False)
class NodeGroup:
    """Cells that probably share an image. ``leader``: the one that goes first; ``homes``: nodes that have the image.

    ``waiting``: jobs that wait for the leader. ``taken``: whether its cells go to nodes that take the image from a home
    in ``take_seconds``; ``spread``: whether they go to all nodes, which make it in ``image_seconds``. ``took``: what
    its cells took, which had it.
    """

    waiting: deque[FleetJob] = field(default_factory=deque)
    leader: FleetJob | None = None
    homes: set[str] = field(default_factory=set)
    taken: bool = False
    spread: bool = False
    take_seconds: float = math.inf
    image_seconds: float = 0.0
    took: list[float] = field(default_factory=list)
    looked: float = 0.0


@dataclass(eq=False)
class FleetJob:
    """One cell to be decided, or to be repeated where it has a ``record``. ``done`` ends when it is over.

    ``refused``: what nodes that cannot serve it said, by id; ``lost``: attempts that came to nothing.
    """

    task: Task
    done: Future[None]
    record: CellRecord | None = None
    group: NodeGroup = field(default_factory=lambda: NodeGroup())
    refused: dict[str, str] = field(default_factory=dict)
    lost: list[LossRecord] = field(default_factory=list)
    node: str = ""
    began: float = 0.0


Bucket = tuple[tuple[str, ...], Needs]
"""The nodes that can take a job, by id, and its needs: jobs of one bucket wait in one line."""


class Dispatcher:
    """A thread between a run and its cluster.

    ``order`` makes the order of an attempt. ``landed(job, served)`` and ``failed(job, verdict, reason)`` take what came
    of a job; ``heard`` takes what nodes tell of a cell, ``note`` what the user should know.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        catalog: Catalog,
        cancel: threading.Event,
        order: Callable[[FleetJob, int], Order],
        landed: Callable[[FleetJob, ServedImage], None],
        failed: Callable[[FleetJob, Verdict, str], None],
        heard: Callable[[FleetEvent], None],
        note: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._catalog = catalog
        self._cancel = cancel
        self._order = order
        self._landed = landed
        self._failed = failed
        self._heard = heard
        self._note = note
        self._new: deque[FleetJob] = deque()
        self._groups: dict[str, NodeGroup] = {}
        self._lines: dict[Bucket, deque[FleetJob]] = {}
        self._flying: dict[int, tuple[FleetJob, Bucket]] = {}
        self._keys = itertools.count(1)
        self._nodes: dict[str, Node] = {}
        self._hosts: dict[str, str] = {}
        self._failures: Counter[str] = Counter()
        self._closing = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)

    def submit(self, task: Task, record: CellRecord | None = None) -> Future[None]:
        """Have a task served, once more where it has a record; the future is done when that is over."""
        job = FleetJob(task=task, done=Future(), record=record)
        self._new.append(job)
        return job.done

    def start(self) -> None:
        """Begin to give work to the cluster."""
        self._thread.start()

    def close(self, wait: bool) -> None:
        """End the thread; nothing is in flight any more, or is not waited for."""
        self._closing.set()
        if wait:
            self._thread.join()

    def host(self, node: str) -> str:
        """The name of a node's host."""
        return self._hosts.get(node, "")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of the hosts of all nodes that were there so far."""
        return tuple(dict.fromkeys(self._hosts.copy().values()))

    # What follows runs in the one thread.

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                self._turn()
        except EngineError as error:
            self._end(str(error))
        except Exception as error:
            self._end(f"internal error of reprokit: {type(error).__name__}: {error}")

    def _end(self, why: str) -> None:
        """No cluster any more: each cell that is left has that as its reason."""
        flying = [job for job, _ in self._flying.values()]
        waiting = [job for group in self._groups.values() for job in group.waiting]
        lines = [job for line in self._lines.values() for job in line]
        while not self._closing.is_set():
            new = [self._new.popleft() for _ in range(len(self._new))]
            for job in [*flying, *waiting, *lines, *new]:
                self._give_up(job, Verdict.ENGINE_ERROR, why)
            flying, waiting, lines = [], [], []
            self._closing.wait(WAIT)

    def _turn(self) -> None:
        if self._cancel.is_set():
            self._stop()
        self._look()
        while self._new:
            self._admit(self._new.popleft())
        self._send()
        if not self._flying:
            self._closing.wait(WAIT)
            return
        landed, events = self._cluster.wait(WAIT)
        for event in events:
            self._hear(event)
        for key, outcome in landed:
            job, _ = self._flying.pop(key)
            if isinstance(outcome, ServedImage):
                self._land(job, outcome)
            else:
                self._lose(job, outcome)

    def _stop(self) -> None:
        """Begin nothing more, and stop what runs."""
        for line in (*self._lines.values(), *(group.waiting for group in self._groups.values()), self._new):
            while line:
                job = line.popleft()
                if not job.done.cancel():  # it was given to a node before
                    self._over(job)
        if not self._stopped:
            self._stopped = True
            self._cluster.stop()
            for key, (job, _) in self._flying.items():
                if not job.node:
                    self._cluster.cancel(key)

    def _look(self) -> None:
        nodes = {node.id: node for node in self._cluster.nodes()}
        if nodes.keys() == self._nodes.keys():
            return
        gone = [node for name, node in self._nodes.items() if name not in nodes]
        if self._nodes:
            for node in nodes.values():
                if node.id not in self._nodes:
                    self._note(f"{node} joined" + (f", and is not used: {node.trouble}" if node.trouble else ""))
        for node in gone:
            self._note(f"{node} is gone: what it ran is repeated elsewhere")
            for group in self._groups.values():
                group.homes.discard(node.id)
        self._nodes = nodes
        self._hosts.update({node.id: node.host for node in nodes.values()})
        self._queue_again()
        for key, (job, (names, _)) in self._flying.items():
            if not job.node and not any(name in nodes for name in names):
                self._cluster.cancel(key)  # of its nodes none is left to begin it

    def _admit(self, job: FleetJob) -> None:
        """A new job: at once, or behind the one that makes its image; a trial more where the first ones were."""
        if job.record is not None:
            if job.record.details.node is not None:
                job.group.homes.add(job.record.details.node.id)
            self._queue(job)
            return
        group = job.group = self._groups.setdefault(placing.image_key(job.task), job.group)
        if group.homes:
            self._queue(job)
        elif group.leader is None:
            group.leader = job
            self._queue(job)
        else:
            group.waiting.append(job)

    def _queue(self, job: FleetJob) -> None:
        nodes = placing.places(job.task, self._nodes.values(), self._catalog, job.refused)
        nodes = [node for node in nodes if self._failures[node.id] < FAILURES] or nodes
        homes = [node for node in nodes if node.id in job.group.homes]
        if homes and not job.group.spread:
            nodes = [node for node in nodes if node in homes or (job.group.taken and placing.takes_images(node, homes))]
        if not nodes:
            verdict = Verdict.ENGINE_ERROR if job.lost or not self._nodes else Verdict.UNSUPPORTED
            why = placing.unserved(job.task, list(self._nodes.values()), self._catalog, job.refused)
            self._give_up(job, verdict, "; ".join([*map(str, job.lost[-1:]), why]))
            return
        needs = placing.needs_of(job.task, nodes, self._catalog)
        self._lines.setdefault((tuple(node.id for node in nodes), needs), deque()).append(job)

    def _queue_again(self) -> None:
        """Queue what waits, since other nodes are to serve it."""
        waiting = [job for line in self._lines.values() for job in line]
        self._lines.clear()
        for job in waiting:
            self._queue(job)

    def _send(self) -> None:
        flying: dict[Bucket, int] = {}
        for _, bucket in self._flying.values():
            flying[bucket] = flying.get(bucket, 0) + 1
        for bucket, line in list(self._lines.items()):
            nodes = [self._nodes[name] for name in bucket[0]]
            most = max(1, placing.QUEUED * placing.slots(nodes, bucket[1]))
            while line and flying.get(bucket, 0) < most:
                job = line.popleft()
                if not job.done.running() and not job.done.set_running_or_notify_cancel():
                    continue
                key = next(self._keys)
                job.node, job.began = "", 0.0
                self._flying[key] = job, bucket
                self._cluster.submit(self._order(job, key), nodes, bucket[1])
                flying[bucket] = flying.get(bucket, 0) + 1
            if not line:
                del self._lines[bucket]

    def _hear(self, event: FleetEvent) -> None:
        key, kind, *arguments = event
        if key not in self._flying:
            return  # of an attempt that is over
        job = self._flying[key][0]
        if kind == "began":
            job.node, job.began = arguments[0], time.monotonic()
            return
        if kind == "state" and arguments[1] == "running" and job.group.leader is job:
            job.group.image_seconds = time.monotonic() - job.began
            self._release(job.group, job.node)
        self._heard(event)

    def _release(self, group: NodeGroup, node: str) -> None:
        """A node has the image of a group: its cells go there."""
        group.homes.add(node)
        group.leader = None
        waiting, group.waiting = group.waiting, deque()
        for job in waiting:
            self._queue(job)

    def _land(self, job: FleetJob, served: ServedImage) -> None:
        job.node = served.node
        group, record = job.group, served.record
        verdict = record.verdict if record else None
        if verdict is Verdict.UNSUPPORTED and record is not None:
            job.refused[served.node] = record.reason
            self._again(job)
            return
        if verdict is Verdict.ENGINE_ERROR and record is not None and not self._cancel.is_set():
            self._fail(served.node, record.reason)
            job.refused[served.node] = record.reason
            others = placing.places(job.task, self._nodes.values(), self._catalog, job.refused)
            if others and len(job.lost) < ATTEMPTS - 1:
                self._repeat(job, record.reason)
                return
        elif record is not None:
            self._failures[served.node] = 0
        if verdict is Verdict.BUILD_FAILED and record is not None and self._refuse_without_images(job, record.reason):
            self._again(job)
            return
        for event in served.events:
            if event[1] != "began":
                self._heard(event)
        if record is not None and job.record is None:
            self._learn(job, record)
        self._landed(job, served)
        self._over(job)
        if group.leader is job:
            self._lead_on(group, served)
        self._spread(group)

    @staticmethod
    def _learn(job: FleetJob, record: CellRecord) -> None:
        """What a decided cell says of the image of its group: where it is, and what it takes to have it there."""
        group, image = job.group, record.image
        if image is None:
            return
        group.homes.add(job.node)
        if image.fetched:
            group.take_seconds = min(group.take_seconds, image.seconds)
        elif image.size and group.take_seconds == math.inf:
            group.take_seconds = placing.take_seconds(image.size)
        if record.seconds is not None and not image.built and not image.fetched:
            group.took.append(time.monotonic() - job.began if job.began else record.seconds)

    def _fail(self, node: str, why: str) -> None:
        self._failures[node] += 1
        if self._failures[node] == FAILURES and len(self._nodes) > 1:
            here = self._nodes.get(node, node)
            self._note(f"{here} failed {FAILURES} cells in a row, and others are preferred: {why}")
            self._queue_again()

    def _refuse_without_images(self, job: FleetJob, reason: str) -> bool:
        """Whether a build that failed without images can be tried where they are made: the nodes that are left then."""
        without = {name: reason for name, node in self._nodes.items() if not placing.makes_images(node)}
        refused = {**job.refused, **without}
        if job.node not in without or not placing.places(job.task, self._nodes.values(), self._catalog, refused):
            return False
        for one in (job, *job.group.waiting):
            one.refused.update(without)
        return True

    def _lead_on(self, group: NodeGroup, served: ServedImage | None) -> None:
        """The leader is over: its image is there, or failed for all, or the next one tries."""
        group.leader = None
        if served is not None and served.record is not None and served.record.verdict is Verdict.BUILD_FAILED:
            waiting, group.waiting = group.waiting, deque()
            for job in waiting:
                if job.done.set_running_or_notify_cancel():
                    self._landed(job, replace(served, files=()))
                    self._over(job)
        elif group.homes:
            self._release(group, next(iter(group.homes)))
        elif group.waiting:
            self._admit(group.waiting.popleft())

    def _spread(self, group: NodeGroup) -> None:
        if group.spread or not group.took or time.monotonic() - group.looked < LOOK:
            return
        group.looked = time.monotonic()
        waiting = [(bucket, job) for bucket, line in self._lines.items() for job in line if job.group is group]
        homes = [self._nodes[name] for name in group.homes if name in self._nodes]
        if not waiting:
            return
        leaves = partial(
            placing.leaves_home,
            waiting=len(waiting),
            slots=placing.slots(homes, waiting[0][0][1]),
            cell_seconds=statistics.median(group.took[-20:]),
        )
        taken = group.taken or leaves(image_seconds=group.take_seconds)
        spread = leaves(image_seconds=group.image_seconds)
        if (taken, spread) != (group.taken, group.spread):
            group.taken, group.spread = taken, spread
            for bucket, job in waiting:
                self._lines[bucket].remove(job)
                self._queue(job)

    def _lose(self, job: FleetJob, lost: Lost) -> None:
        if self._cancel.is_set():
            self._over(job)
            return
        if lost.cancelled and not job.node:
            self._again(job)  # none of its nodes was left to begin it
        elif len(job.lost) < ATTEMPTS - 1:
            self._repeat(job, lost.why)
        else:
            job.lost.append(self._loss(job, lost.why))
            self._give_up(job, Verdict.ENGINE_ERROR, "; ".join(map(str, job.lost)))

    def _loss(self, job: FleetJob, why: str) -> LossRecord:
        return LossRecord(node=self.host(job.node), id=job.node, why=why)

    def _repeat(self, job: FleetJob, why: str) -> None:
        """Once more: the attempt on the job's node came to nothing."""
        job.lost.append(self._loss(job, why))
        self._note(f"{job.task.case.id}: {job.lost[-1]}; it is repeated")
        self._again(job)

    def _again(self, job: FleetJob) -> None:
        job.node, job.began = "", 0.0
        self._queue(job)

    def _give_up(self, job: FleetJob, verdict: Verdict, reason: str) -> None:
        if not job.done.running() and not job.done.set_running_or_notify_cancel():
            return
        self._failed(job, verdict, reason)
        self._over(job)
        if job.group.leader is job:
            self._lead_on(job.group, None)

    @staticmethod
    def _over(job: FleetJob) -> None:
        if not job.done.done():
            job.done.set_result(None)


def sequence(tasks: Sequence[Task]) -> list[Task]:
    """The order in which tasks are given: first those on which a GPU would wait, else by number."""
    return sorted(tasks, key=lambda task: (not task.spec.limits.gpus, task.number))

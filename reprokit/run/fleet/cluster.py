"""The Ray cluster that serves a run: the only module that speaks to Ray."""

from __future__ import annotations

import concurrent.futures
import functools
import logging
import os
import socket
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from reprokit.core import version
from reprokit.core.errors import Cancelled, EngineError, UsageError
from reprokit.core.text import one_line, whole_number
from reprokit.run.fleet import carried
from reprokit.run.fleet.node import NodeGiver, NodeInvocation, serve
from reprokit.run.fleet.orders import CommonParts, FleetEvent, Lost, Order, ServedImage, common_parts, packed, unpacked
from reprokit.run.fleet.placing import Needs, Node, NodeReport
from reprokit.run.request import HERE, check_address

KNOCK = 10.0
"""Seconds that a cluster has to take a connection."""
LOOK = 2.0
"""Seconds between two looks at which nodes are alive."""
GREETING = 120.0
"""Seconds that nodes have for their reports: a fresh machine imports slowly."""
SILENCE = 300.0
"""Seconds that another node has to give an image, or a part of it."""
EXTRA = f"install the extra 'ray': {version.install_line('ray')}"


class Cluster(Protocol):
    """What serves orders."""

    version: str

    def nodes(self) -> Sequence[Node]:
        """The nodes that are alive and have reported, as they were at most seconds ago. Raises EngineError."""

    def submit(self, order: Order, nodes: Sequence[Node], needs: Needs) -> None:
        """Have the order served on one of the nodes."""

    def wait(self, seconds: float) -> tuple[list[tuple[int, ServedImage | Lost]], list[FleetEvent]]:
        """What became of orders, by key, and what nodes tell; as soon as there is something. Raises EngineError."""

    def cancel(self, key: int) -> None:
        """Give an order up that has not begun."""

    def stop(self) -> None:
        """Have every node stop what it runs for this driver."""

    def close(self) -> None:
        """Leave the cluster."""


def connect(on: str, engine: str) -> RayCluster:
    """The cluster that ``--on`` names. ``engine``: the kind that nodes are to have, or ``auto``.

    Raises UsageError, EngineError.
    """
    check_address(on)
    try:
        import ray
    except ImportError:
        raise UsageError(f"--on {on} needs Ray, which is not installed: {EXTRA}") from None
    os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    ours = not ray.is_initialized()
    if ours:
        _init(ray, on)
    return RayCluster(ray, engine, ours=ours)


def _init(ray: Any, on: str) -> None:
    address = os.environ.get("RAY_ADDRESS") or "auto" if on == HERE else on
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=True)
    except (ConnectionError, OSError) as error:
        start = "start one with `ray start --head`, or name another with --on ray://HOST:PORT"
        where = "RAY_ADDRESS" if on == HERE and os.environ.get("RAY_ADDRESS") else f"--on {on}"
        raise EngineError(f"{where}: no Ray cluster answers ({one_line(str(error), 200)}): {start}") from None
    except Exception as error:  # Ray has no class of its own for another version, and gRPC several
        said = one_line(" ".join(str(error).split()), 400)
        if "version" in said.lower() and "mismatch" in said.lower().replace("versions", ""):
            raise UsageError(
                f"--on {on}: the cluster has another Python or Ray than this machine ({said}): install the cluster's "
                "versions here, or run reprokit on a node"
            ) from None
        if isinstance(error, (UsageError, KeyboardInterrupt)):
            raise
        raise EngineError(f"--on {on}: the Ray cluster cannot be used: {said}") from None


def _knock(address: str) -> None:
    """Raise OSError where nothing listens at an address with a port: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and (number := whole_number(port)) is not None:
        socket.create_connection((host.strip("[]"), number), KNOCK).close()


class RayCluster:
    """A cluster that this process is connected to. ``ours``: whether it disconnects at the end."""

    def __init__(self, ray: Any, engine: str, *, ours: bool) -> None:
        self._ray = ray
        self._engine = engine
        self._ours = ours
        self.version = str(ray.__version__)
        self._nodes: dict[str, Node] = {}
        self._greetings: dict[Any, dict[str, Any]] = {}
        self._looked = 0.0
        self._flying: dict[Any, int] = {}
        with suppress(AttributeError, ValueError):
            ray.cloudpickle.register_pickle_by_value(carried)
        self._source = carried.source_digest(version.__file__)
        self._greet = ray.remote(carried.greet)
        self._mailbox: Any = None
        self._taking: Any = None
        self._serve = ray.remote(_serve)
        self._common: dict[tuple[int, ...], tuple[CommonParts, Any]] = {}

    def nodes(self) -> Sequence[Node]:
        """See :class:`Cluster`."""
        if time.monotonic() - self._looked > LOOK:
            self._look()
        return list(self._nodes.values())

    def greeted(self) -> Sequence[Node]:
        """All nodes, once each has reported or had its time to. Raises EngineError."""
        self._look()
        waiting = time.monotonic() + GREETING
        while self._greetings and time.monotonic() < waiting:
            self._ray.wait(list(self._greetings), num_returns=len(self._greetings), timeout=1.0)
            self._look()
        for found in self._greetings.values():
            self._take(found, NodeReport(trouble=f"it did not report within {GREETING:g} s"))
        self._greetings.clear()
        return list(self._nodes.values())

    def _look(self) -> None:
        self._looked = time.monotonic()
        try:
            alive = {found["NodeID"]: found for found in self._ray.nodes() if found["Alive"]}
        except Exception as error:
            raise EngineError(f"the Ray cluster does not answer any more: {one_line(str(error), 200)}") from error
        self._nodes = {name: node for name, node in self._nodes.items() if name in alive}
        for greeting in self._ray.wait(list(self._greetings), num_returns=len(self._greetings), timeout=0)[0]:
            self._take(self._greetings.pop(greeting), self._report(greeting))
        known = {*self._nodes, *(found["NodeID"] for found in self._greetings.values())}
        for name, found in alive.items():
            if name not in known:
                here = self._ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(name, soft=False)
                options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": here}
                greet = self._greet.options(**options).remote
                self._greetings[greet(version.__version__, self._source, self._engine)] = found

    def _report(self, greeting: Any) -> NodeReport:
        try:
            said = self._ray.get(greeting)
        except Exception as error:
            return NodeReport(trouble=f"it does not report: {one_line(str(error), 200)}")
        return said if isinstance(said, NodeReport) else NodeReport(trouble=str(said))

    def _take(self, found: dict[str, Any], report: NodeReport) -> None:
        offers = found["Resources"]
        self._nodes[found["NodeID"]] = Node(
            id=found["NodeID"],
            name=found["NodeManagerHostname"],
            cpus=offers.get("CPU", 0.0),
            gpus=offers.get("GPU", 0.0),
            memory=offers.get("memory", 0.0),
            report=report,
        )

    def submit(self, order: Order, nodes: Sequence[Node], needs: Needs) -> None:
        """See :class:`Cluster`."""
        names = ",".join(node.id for node in nodes)
        options = {**needs.options, "max_retries": 0, "label_selector": {"ray.io/node-id": f"in({names})"}}
        try:
            if self._mailbox is None:
                # On the node without which there is no cluster.
                head = {"node:__internal_head__": 0.001}
                self._mailbox = self._ray.remote(carried.Mailbox).options(num_cpus=0, resources=head).remote()
                self._taking = self._mailbox.take.remote(LOOK)
            serve = self._serve.options(**options, name=f"reprokit {order.task.case.id}")
            self._flying[serve.remote(packed(order), [self._kept(common_parts(order))], self._mailbox)] = order.key
        except Exception as error:
            raise EngineError(f"the Ray cluster went away: {one_line(str(error), 200)}") from error

    def _kept(self, common: CommonParts) -> Any:
        """A reference to parts that orders have in common, which nodes fetch once. Holds them, so that ids stay."""
        key = tuple(map(id, common))
        if key not in self._common:
            self._common[key] = common, self._ray.put(common)
        return self._common[key][1]

    def wait(self, seconds: float) -> tuple[list[tuple[int, ServedImage | Lost]], list[FleetEvent]]:
        """See :class:`Cluster`."""
        waiting = [*self._flying, *([self._taking] if self._taking is not None else [])]
        try:
            if self._ray.wait(waiting, timeout=seconds)[0]:
                ready = set(self._ray.wait(waiting, num_returns=len(waiting), timeout=0)[0])
            else:
                ready = set()
            events: list[FleetEvent] = []
            if self._taking in ready:
                events = self._ray.get(self._taking)
                self._taking = self._mailbox.take.remote(LOOK)
        except Exception as error:
            raise EngineError(f"the Ray cluster went away: {one_line(str(error), 200)}") from error
        landed = [(self._flying.pop(task), self._outcome(task)) for task in list(self._flying) if task in ready]
        return landed, events

    def _outcome(self, task: Any) -> ServedImage | Lost:
        errors = self._ray.exceptions
        try:
            served = self._ray.get(task)
        except errors.TaskCancelledError:
            return Lost(why="it was cancelled", cancelled=True)
        except (errors.TaskUnschedulableError, errors.NodeDiedError) as error:
            # The first: of the nodes that were to take it none is left, so that it has not begun.
            return Lost(why="the node died", cancelled=isinstance(error, errors.TaskUnschedulableError))
        except errors.RayTaskError as error:
            return Lost(why=f"internal error of reprokit: {one_line(str(error.cause), 300)}")
        except errors.WorkerCrashedError:
            return Lost(why="its process was killed")
        except errors.OutOfMemoryError:
            return Lost(why="Ray killed its process, as the node ran out of memory")
        except errors.RayError as error:
            return Lost(why=one_line(str(error), 200))
        assert isinstance(served, ServedImage)
        return served

    def cancel(self, key: int) -> None:
        """See :class:`Cluster`."""
        for task, of in self._flying.items():
            if of == key:
                with suppress(Exception):  # it has ended
                    self._ray.cancel(task, force=False)

    def stop(self) -> None:
        """See :class:`Cluster`."""
        if self._mailbox is not None:
            self._mailbox.stop.remote()

    def close(self) -> None:
        """See :class:`Cluster`."""
        if self._ours:
            self._ray.shutdown()


@functools.lru_cache(maxsize=8)
def _fetched(common: Any) -> CommonParts:
    found: CommonParts = common.future().result()
    return found


class _RayPeer:
    """The giver of another node: an actor, which ends with this process."""

    def __init__(self, run_id: str, engine: str, node: str) -> None:
        import ray

        there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        self._errors = ray.exceptions
        try:
            self._actor = ray.remote(NodeGiver).options(num_cpus=0, scheduling_strategy=there).remote(run_id, engine)
        except self._errors.RayError as error:
            raise EngineError(one_line(str(error), 200)) from None

    def ask(self, cancel: threading.Event, method: str, *arguments: Any) -> Any:
        """See :class:`~reprokit.run.fleet.peers.ImagePeer`."""
        deadline = time.monotonic() + SILENCE
        try:
            answer = getattr(self._actor, method).remote(*arguments).future()
            while not cancel.is_set() and time.monotonic() < deadline:
                with suppress(concurrent.futures.TimeoutError, TimeoutError):
                    return answer.result(timeout=LOOK)
        except self._errors.RayTaskError as error:
            raise EngineError(one_line(str(error.cause), 300)) from None
        except self._errors.RayError as error:
            raise EngineError(one_line(str(error), 200)) from None
        if cancel.is_set():
            raise Cancelled("stopped while an image came from another node")
        raise EngineError(f"it did not answer for {SILENCE:g} s")

    def close(self) -> None:
        """See :class:`~reprokit.run.fleet.peers.ImagePeer`."""
        self._actor.close.remote()


@functools.lru_cache(maxsize=1)  # a process of Ray serves one driver
def _invocation(run_id: str) -> NodeInvocation:
    return NodeInvocation(run_id, connect=_RayPeer)


def _serve(content: bytes, common: Sequence[Any], mailbox: Any) -> ServedImage:
    """On a node, in a process of Ray's. It waits in futures: a task in ``ray.get`` gives its CPU to the next one."""
    import ray

    def exchange(events: list[FleetEvent], answered: bool) -> bool:
        asked = mailbox.exchange.remote(events)
        if not answered:
            return False
        try:
            return bool(asked.future().result())
        except ray.exceptions.RayError:
            return True  # the driver is gone, and with it whoever would take the result

    order = unpacked(content, _fetched(common[0]))
    return serve(order, ray.get_runtime_context().get_node_id(), exchange, _invocation)

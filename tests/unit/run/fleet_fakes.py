"""A cluster without Ray: nodes are threads of this process, each with a fake engine, and die when a test says so."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from reprokit.core import cache
from reprokit.core.errors import EngineError
from reprokit.environment.host import HostFacts
from reprokit.run.fleet.node import NodeInvocation, serve
from reprokit.run.fleet.orders import FleetEvent, Lost, Order, ServedImage, common_parts, packed, unpacked
from reprokit.run.fleet.peers import Giver
from reprokit.run.fleet.placing import Needs, Node, NodeReport
from reprokit.store.folder import make_folder
from tests.unit.fakes import FakeEngine


@dataclass(eq=False)
class FakeNode:
    """``dies_in``: the number of the order in which it dies, counted from 1; None = it lives."""

    name: str
    engine: FakeEngine
    dies_in: int | None = None
    cpus: int = 2
    facts: HostFacts = field(default_factory=HostFacts)
    trouble: str = ""
    served: list[int] = field(default_factory=list)

    @property
    def node(self) -> Node:
        info = None if self.trouble else self.engine.info()
        report = NodeReport(facts=self.facts, engine=info, trouble=self.trouble)
        return Node(id=f"{self.name}-id", name=self.name, cpus=self.cpus, gpus=len(self.facts.gpus), report=report)


class FakePeer:
    """Implements :class:`reprokit.run.fleet.peers.ImagePeer`."""

    def __init__(self, giver: Giver) -> None:
        self._giver = giver

    def ask(self, cancel: threading.Event, method: str, *arguments: Any) -> Any:
        return getattr(self._giver, method)(*arguments)

    def close(self) -> None:
        self._giver.close()


class FakeCluster:
    """Implements :class:`reprokit.run.fleet.cluster.Cluster`."""

    version = "0"

    def __init__(self, *nodes: FakeNode) -> None:
        self.alive = {node.node.id: node for node in nodes}
        self.most = 0
        self.closed = False
        self.down = ""
        self._happened: queue.Queue[tuple[int, ServedImage | Lost] | FleetEvent] = queue.Queue()
        self._flying: set[int] = set()
        self._threads = ThreadPoolExecutor(16)
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def nodes(self) -> Sequence[Node]:
        if self.down:
            raise EngineError(self.down)
        return [node.node for node in self.alive.values()]

    def greeted(self) -> Sequence[Node]:
        return self.nodes()

    def submit(self, order: Order, nodes: Sequence[Node], needs: Needs) -> None:
        with self._lock:
            able = [self.alive[node.id] for node in nodes if node.id in self.alive]
            if not able:  # they died since the caller looked
                self._happened.put((order.key, Lost(why="no such node", cancelled=True)))
                return
            chosen = min(able, key=lambda node: len(node.served))
            chosen.served.append(order.key)
            nth = len(chosen.served)
            self._flying.add(order.key)
            self.most = max(self.most, len(self._flying))
        self._threads.submit(self._serve, chosen, unpacked(packed(order), common_parts(order)), nth)

    def _serve(self, node: FakeNode, order: Order, nth: int) -> None:
        name = node.node.id
        self._happened.put((order.key, "began", name))
        if node.dies_in == nth:
            self.alive.pop(name, None)
        if name not in self.alive:
            self._happened.put((order.key, Lost(why="the node died")))
            return

        def exchange(events: list[FleetEvent], answered: bool) -> bool:
            for event in events:
                self._happened.put(event)
            return self._stopped.is_set()

        try:
            own = NodeInvocation(order.run_id, lambda: node.engine, self._connect)
            outcome: ServedImage | Lost = serve(order, name, exchange, lambda run_id: own)
        except Exception as error:
            outcome = Lost(why=f"internal error of reprokit: {error!r}")
        self._happened.put((order.key, outcome if name in self.alive else Lost(why="the node died")))

    def _connect(self, run_id: str, engine: str, node: str) -> FakePeer:
        if node not in self.alive:
            raise EngineError("the node died")
        return FakePeer(Giver(lambda: self.alive[node].engine, make_folder(cache.folder("fleet") / run_id)))

    def wait(self, seconds: float) -> tuple[list[tuple[int, ServedImage | Lost]], list[FleetEvent]]:
        landed: list[tuple[int, ServedImage | Lost]] = []
        events: list[FleetEvent] = []
        try:
            while True:
                one = self._happened.get(timeout=0.0 if landed or events else seconds)
                if len(one) == 2:
                    landed.append(one)  # type: ignore[arg-type]
                    self._flying.discard(one[0])
                else:
                    events.append(one)
        except queue.Empty:
            return landed, events

    def cancel(self, key: int) -> None:
        """What has not begun here is about to."""

    def stop(self) -> None:
        self._stopped.set()

    def close(self) -> None:
        self.closed = True
        self._threads.shutdown()

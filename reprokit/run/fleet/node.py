"""On a node: what it can serve, and one cell of a run, with the node's own engine, settings and leases."""

from __future__ import annotations

import functools
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.case.files import CaseFile
from reprokit.core import cache
from reprokit.core.errors import EngineError, ReprokitError, UsageError
from reprokit.engine import kinds, registry, site
from reprokit.engine.gpus import discovery
from reprokit.engine.gpus.discovery import leasable
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.evidence.spans import Timings
from reprokit.run.cell_records import decided_record
from reprokit.run.fleet.orders import FleetEvent, KeptFile, Order, ServedImage
from reprokit.run.fleet.peers import Giver, ImagePeer, PeerShare
from reprokit.run.fleet.placing import NodeReport
from reprokit.run.invocation import Invocation
from reprokit.run.listener import Listener
from reprokit.run.request import Request
from reprokit.run.task import Task
from reprokit.run.trials import kept_folder
from reprokit.store.folder import SeenBases, make_folder

if TYPE_CHECKING:
    from reprokit.case.trust import Trust
    from reprokit.engine.protocol import Engine
    from reprokit.engine.sharing import ImageShare

BEAT = 1.0
"""Seconds between two exchanges with the driver."""
MOST_OUTPUT = 64 * 1024
"""Bytes of output that are passed on between two exchanges: who follows a fleet misses lines, as a slow reader does."""
KEPT_SECONDS = 7 * 24 * 3600
"""For how long the folder of a run is kept on a node, with what was measured in images."""


def report(engine: str) -> NodeReport:
    """What this node can serve, with an engine of that kind or its own choice (``auto``)."""
    try:
        settings = site.settings()
        # A Ray task that asks for no GPU sees none, and the report is about all that the node leases.
        environ = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        facts = leasable(discovery.facts(), settings.gpus, environ)
        _tidy()
        return NodeReport(facts=facts, engine=registry.make(_kind(engine)).info())
    except ReprokitError as error:
        return NodeReport(trouble=str(error))


def _kind(asked: str) -> str:
    return site.settings().engine if asked == kinds.AUTO else asked


def _tidy() -> None:
    """Remove the folders of runs of long ago."""
    for folder in cache.folder("fleet").glob("*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime > KEPT_SECONDS:
                shutil.rmtree(folder)


class Events(Listener):
    """A :class:`~reprokit.run.listener.Listener` that keeps what it hears until it is taken."""

    def __init__(self, key: int) -> None:
        self._key = key
        self._events: list[FleetEvent] = []
        self._bytes = 0
        self._lock = threading.Lock()

    def take(self) -> list[FleetEvent]:
        """What came since."""
        with self._lock:
            events, self._events, self._bytes = self._events, [], 0
        return events

    def tell(self, kind: str, *arguments: Any, size: int = 0) -> None:
        """Keep one event, unless there is more output than is passed on."""
        with self._lock:
            self._bytes += size
            if not size or self._bytes <= MOST_OUTPUT:
                self._events.append((self._key, kind, *arguments))

    def state(self, numbers: Sequence[int], state: str, text: str = "") -> None:
        """Passed on, but for ``queued``: Ray has given the node its cell."""
        if state != "queued":
            self.tell("state", tuple(numbers), state, text)

    def build_ended(self, numbers: Sequence[int], took: float, *, failed: bool = False) -> None:
        """Passed on."""
        self.tell("build_ended", tuple(numbers), took, failed)

    def build_output(self, numbers: Sequence[int], text: str) -> None:
        """Passed on, as far as it is not too much."""
        self.tell("build_output", tuple(numbers), text, size=len(text))

    def output(self, number: int, data: bytes) -> None:
        """Passed on, as far as it is not too much."""
        self.tell("output", number, data, size=len(data))

    def note(self, text: str) -> None:
        """Passed on."""
        self.tell("note", text)


class _NoDisplay:
    """Nodes have no user."""

    def say(self, text: str) -> None:
        """Nothing."""

    def progress(self) -> AbstractContextManager[Listener]:
        """Never asked for."""
        raise NotImplementedError

    def run_ended(
        self, record: RunRecord, file_of: Callable[[str], CaseFile | None], *, interrupted: bool, recorded: bool
    ) -> None:
        """Nothing."""

    def search_ended(self, cells: Sequence[CellRecord]) -> None:
        """Nothing."""


class NodeInvocation(Invocation):
    """What the cells of a run that one process of a node serves have in common: its engine, supply and facts.

    ``timings``: where the time of the last cell went.
    """

    timings: Timings | None = None

    def __init__(
        self,
        run_id: str,
        engine: Callable[[], Engine] | None = None,
        connect: Callable[[str, str, str], ImagePeer] | None = None,
    ) -> None:
        super().__init__(
            make_folder(cache.folder("fleet") / run_id),
            display=_NoDisplay(),
            engine=engine,
            confirming=lambda _: self._once,
        )
        self._began = time.time()
        self._run_id = run_id
        self._connect = connect
        self._homes: tuple[str, ...] = ()
        self._asked = kinds.AUTO
        self._more: tuple[int, int] | None = None

    def _shares(self, request: Request, listener: Listener) -> Callable[[Trust], ImageShare | None]:
        """Images come from other nodes, unless the site has a registry for them."""
        if site.settings().registry_images or self._connect is None:
            return super()._shares(request, listener)
        connect = functools.partial(self._connect, self._run_id, self._asked)
        share = PeerShare(lambda: self._open_engine(request), self._homes, connect, self.folder, listener.note)
        return lambda trust: share

    def _once(self, records: Sequence[CellRecord], running: Any) -> int | None:
        """Asks for one trial more of the cell that the order names."""
        if self._more is None or running:
            return None
        number, trials = self._more
        return number if any(one.number == number and len(one.trials) == trials for one in records) else None

    def serve(self, order: Order, events: Events, cancelled: Callable[[Callable[[], None]], None]) -> CellRecord | None:
        """The record of a cell; None where a trial more was not made. ``cancelled`` gets what stops it."""
        own = site.settings()
        request = replace(
            order.request,
            on="",
            jobs=1,
            engine=_kind(order.request.engine),
            base_images=own.base_images if order.request.base_images == "auto" else order.request.base_images,
        )
        if why := _missing(order.task, request):
            return decided_record(order.task, Verdict.UNSUPPORTED, why)
        seen = SeenBases(self.folder)
        for reference, digest in order.bases.items():
            if seen.digest(reference, self._began or 0.0) != digest:
                seen.keep(reference, digest)
        self._homes, self._asked = order.homes, order.request.engine
        runner = self._runner(order.run_id, request, None, events, compares=False)
        cancelled(runner.cancel)
        self._more = None
        self.timings = None
        try:
            if order.record is None:
                [record] = runner.run([order.task])
                return record
            self._more = order.record.number, len(order.record.trials)
            runner.reuse(order.record)
            [record] = runner.run([], [order.task])
            return record if len(record.trials) > len(order.record.trials) else None
        except UsageError as error:
            return decided_record(order.task, Verdict.UNSUPPORTED, str(error))
        except EngineError as error:
            return decided_record(order.task, Verdict.ENGINE_ERROR, str(error))
        finally:
            self.timings = runner.timings


def _missing(task: Task, request: Request) -> str:
    """Which folder that the cell needs is not on this node, in words; '' for none."""
    sources = request.sources_for(task.file.trust)
    given = {f"--source {name}": sources[name] for name in task.spec.sources if name in sources}
    given |= {f"--dataset {name}": folder for name, folder in task.datasets.items()}
    lacking = [f"{option}={folder}" for option, folder in given.items() if not folder.is_dir()]
    return f"{', '.join(lacking)}: no such folder on this node" if lacking else ""


class NodeGiver(Giver):
    """Gives images of this node to others that serve the run, from the engine that serves orders here."""

    def __init__(self, run_id: str, engine: str) -> None:
        super().__init__(lambda: registry.make(_kind(engine)), make_folder(cache.folder("fleet") / run_id))


def serve(
    order: Order,
    node: str,
    exchange: Callable[[list[FleetEvent], bool], bool],
    invocation: Callable[[str], NodeInvocation],
) -> ServedImage:
    """Serve an order. ``exchange`` passes events on, waits for the answer if it is to, and gives whether to stop.

    ``invocation``: what the cells of a run have in common here, by the run's id.
    """
    order = replace(order, homes=tuple(home for home in order.homes if home != node))
    events = Events(order.key)
    events.tell("began", node)
    exchange(events.take(), False)
    stops: list[Callable[[], None]] = []
    found: list[CellRecord | None] = []
    failed: list[BaseException] = []
    stopped = threading.Event()

    def cancelled(stop: Callable[[], None]) -> None:
        stops.append(stop)
        if stopped.is_set():
            stop()

    def work() -> None:
        try:
            found.append(invocation(order.run_id).serve(order, events, cancelled))
        except BaseException as error:
            failed.append(error)

    # Beside the thread that Ray interrupts, which would leave containers where it was interrupted twice.
    thread = threading.Thread(target=work, name="cell", daemon=True)
    thread.start()
    while thread.is_alive():
        try:
            thread.join(BEAT)
            if thread.is_alive() and exchange(events.take(), True):
                stopped.set()
        except KeyboardInterrupt:
            stopped.set()
        if stopped.is_set():
            for stop in list(stops):
                stop()
    if failed and not (isinstance(failed[0], (OSError, ReprokitError)) and order.record is None):
        raise failed[0]
    if failed:  # a full disk, say: another node may serve the cell
        why = decided_record(order.task, Verdict.ENGINE_ERROR, str(failed[0]))
        return ServedImage(record=why, node=node, events=tuple(events.take()))
    own = invocation(order.run_id)
    store = own.folder
    folder = store / kept_folder(order.run_id, order.task)
    files = tuple(_kept(folder)) if found[0] is not None else ()
    shutil.rmtree(folder, ignore_errors=True)
    return ServedImage(
        record=found[0],
        node=node,
        store=str(store.absolute()),
        files=files,
        events=tuple(events.take()),
        timings=own.timings,
    )


def _kept(folder: Path) -> Iterator[KeptFile]:
    for place in sorted(folder.rglob("*")):
        if place.is_file() and not place.is_symlink():
            mode = place.stat().st_mode & 0o777
            yield KeptFile(path=str(place.relative_to(folder)), mode=mode, content=place.read_bytes())

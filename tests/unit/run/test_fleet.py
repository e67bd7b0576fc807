"""Cells on the nodes of a cluster, without Ray. The real one is in tests/integration/test_fleet.py."""

from __future__ import annotations

import io
import pickle
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.case.matrix import Selection
from reprokit.case.trust import Trust
from reprokit.cli.display.screen import Screen
from reprokit.core import version
from reprokit.core.errors import BuildFailed, EngineError, Unsupported, UsageError
from reprokit.engine.kinds import Capabilities
from reprokit.engine.protocol import EngineInfo, ImageInfo, Trial
from reprokit.evidence.model import Ending
from reprokit.evidence.records import CellRecord
from reprokit.report.formats import Scrubber
from reprokit.run.fleet import carried, dispatching, placing
from reprokit.run.fleet.cluster import connect
from reprokit.run.fleet.node import NodeInvocation
from reprokit.run.fleet.orders import Order, common_parts, packed, unpacked
from reprokit.run.loading import load_all
from reprokit.run.plan import plan
from reprokit.run.request import Request, check_address
from reprokit.run.run_session import Session
from reprokit.search.repeating import planner
from reprokit.store.database import Store
from reprokit.store.folder import SeenBases
from tests.unit.fakes import FakeEngine
from tests.unit.run.fleet_fakes import FakeCluster, FakeNode

CASE = """\
schema: reprokit/v1
id: toy
title: A toy
matrix: {a: ["1", "2"], b: [u, v, w, x, y, z]}
env: {A: "{{ a }}", B: "{{ b }}"}
command: toy
expect:
  failure: {exit_code: 3, output: boom}
  reproduces: [{a: "2"}]
"""


def toy(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
    sink(f"{trial.env['A']} {trial.env['B']}\n".encode())
    if trial.env["A"] == "2":
        sink(b"boom\n")
        return Ending(exit_code=3, seconds=0.1)
    return Ending(exit_code=0, seconds=0.1)


class Fleet:
    """A folder with a case and a store, and a cluster."""

    def __init__(self, folder: Path, *nodes: FakeNode) -> None:
        self.folder, self.case = folder, folder / "toy.yaml"
        self.case.write_text(CASE)
        self.nodes = nodes or (FakeNode("one", FakeEngine(toy)), FakeNode("two", FakeEngine(toy)))
        self.output = io.StringIO()
        self.new_session()

    def new_session(self) -> None:
        self.cluster = FakeCluster(*self.nodes)
        self.session = Session(self.folder / "store", display=Screen(self.output), confirming=planner)
        self.session._cluster = self.cluster  # type: ignore[assignment]

    def run(self, **values: object) -> int:
        defaults = {"cases": (str(self.case),), "base_images": "registry", "on": "ray", "confirm": "never"}
        return self.session.start(Request(**{**defaults, **values}))  # type: ignore[arg-type]

    @property
    def cells(self) -> tuple[CellRecord, ...]:
        assert self.session.record is not None
        return self.session.record.cells

    @property
    def verdicts(self) -> list[str]:
        return [str(cell.verdict) for cell in self.cells]


AS_ON_ONE_HOST = ["not-reproduced"] * 6 + ["reproduced"] * 6


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(dispatching, "WAIT", 0.01)


@pytest.fixture
def fleet(tmp_path: Path, cache: None) -> Fleet:
    return Fleet(tmp_path)


def test_verdicts_are_those_of_one_host_and_logs_come_home(fleet: Fleet) -> None:
    assert fleet.run() == 0
    assert fleet.verdicts == AS_ON_ONE_HOST
    store = fleet.folder / "store"
    assert (store / fleet.cells[7].trials[0].log).read_text() == "2 v\nboom\n"
    assert {cell.details.node.name for cell in fleet.cells if cell.details.node} <= {"one", "two"}
    assert str(fleet.folder / "cache") not in "".join(cell.repeat for cell in fleet.cells)
    assert fleet.cluster.closed
    assert not list((fleet.folder / "cache" / "reprokit" / "fleet").glob("*/runs/*/*"))


class MovingTags(FakeEngine):
    """Of a registry whose tags mean another image each time one is pulled."""

    def __init__(self) -> None:
        super().__init__(toy)
        self.pulled: list[str] = []

    def image(self, tag: str) -> ImageInfo | None:
        return super().image(tag) if tag.startswith(("sha256:", "reprokit/")) else None

    def pull(self, reference: str, trust: Trust, cancel: threading.Event) -> ImageInfo | None:
        with self.lock:
            self.pulled.append(f"sha256:{len(self.pulled):064}")
            return ImageInfo(tag=reference, id=f"sha256:{reference}", digest=self.pulled[-1])


def test_a_base_image_is_looked_up_again_once_for_a_run_and_stays_what_it_was_then(tmp_path: Path, cache: None) -> None:
    engine = MovingTags()
    fleet = Fleet(tmp_path, FakeNode("one", engine, cpus=1))
    fleet.run()
    seen = SeenBases(fleet.folder / "store")
    (reference,) = fleet.cells[0].details.images
    before, pulled = seen.digest(reference), len(engine.pulled)
    assert before
    fleet.new_session()
    assert fleet.run(refresh_bases=True) == 0
    assert len(engine.pulled) - pulled <= 1 + placing.QUEUED  # what was given to the node before any of it was decided
    assert seen.digest(reference) in engine.pulled[pulled:]


@pytest.fixture
def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells stay where their image is."""
    monkeypatch.setattr(placing, "leaves_home", lambda **_: False)


@pytest.mark.usefixtures("at_home")
def test_one_node_builds_an_image_and_its_cells_follow(fleet: Fleet) -> None:
    fleet.run()
    assert sorted(len(node.engine.built) for node in fleet.nodes) == [0, 1]


def test_cells_leave_the_node_of_their_image_where_waiting_takes_longer(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(placing, "leaves_home", lambda **_: True)
    monkeypatch.setattr(dispatching, "LOOK", 0.0)
    fleet.run()
    assert fleet.verdicts == AS_ON_ONE_HOST
    assert [len(node.engine.built) for node in fleet.nodes] == [1, 1]


def test_what_a_dead_node_had_is_repeated_and_the_record_says_so(tmp_path: Path, cache: None) -> None:
    fleet = Fleet(tmp_path, FakeNode("one", FakeEngine(toy), dies_in=3), FakeNode("two", FakeEngine(toy), dies_in=99))
    assert fleet.run() == 0
    assert fleet.verdicts == AS_ON_ONE_HOST
    lost = [cell.details.node for cell in fleet.cells if cell.details.node and cell.details.node.lost]
    assert lost
    assert {(one.lost[0].node, one.lost[0].why, one.name) for one in lost} == {("one", "the node died", "two")}
    store = Store(fleet.folder / "store")
    assert Counter(cell.number for cell in store.run(fleet.session.record.id).cells) == Counter(range(1, 13))
    store.close()


def test_pages_leave_out_the_names_of_nodes_that_served_nothing(tmp_path: Path, cache: None) -> None:
    nodes = (FakeNode("gpu-box-17", FakeEngine(toy)), FakeNode("gpu-box-18", FakeEngine(toy), trouble="no engine"))
    fleet = Fleet(tmp_path, *nodes)
    fleet.run()
    clean = Scrubber(Store(tmp_path / "store").runs(limit=None))
    assert clean("gpu-box-17 and gpu-box-18 (node 1)") == "<host> and <host> (node 1)"


def test_a_cell_is_unsupported_only_where_every_node_says_so(tmp_path: Path, cache: None) -> None:
    def never(build: object) -> None:
        raise Unsupported("this engine makes no such thing")

    fleet = Fleet(tmp_path, FakeNode("one", FakeEngine(toy, make=never)), FakeNode("two", FakeEngine(toy)))
    assert fleet.run() == 0
    assert {cell.details.node.name for cell in fleet.cells if cell.details.node} == {"two"}
    fleet.nodes[1].engine.make = never
    fleet.nodes[1].engine.built.clear()
    fleet.new_session()
    assert fleet.run() == 3
    assert set(fleet.verdicts) == {"unsupported"}
    assert "one (node one-id), two (node two-id): this engine makes no such thing" in fleet.cells[0].reason


def test_an_engine_that_fails_on_one_node_is_not_a_failure_of_the_others(tmp_path: Path, cache: None) -> None:
    def broken(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        raise EngineError("its disk is full")

    fleet = Fleet(tmp_path, FakeNode("one", FakeEngine(broken)), FakeNode("two", FakeEngine(toy)))
    assert fleet.run() == 0
    assert fleet.verdicts == AS_ON_ONE_HOST
    fleet.nodes[1].engine.behave = broken
    fleet.new_session()
    assert fleet.run() == 3
    assert set(fleet.verdicts) == {"engine-error"}


def test_a_node_whose_disk_is_full_leaves_the_cells_to_others(
    tmp_path: Path, cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fails at once, and would take every attempt of every cell."""
    monkeypatch.setattr(placing, "leaves_home", lambda **_: True)
    fleet = Fleet(tmp_path, FakeNode("full", FakeEngine(toy)), FakeNode("well", FakeEngine(toy), cpus=1))
    full = fleet.nodes[0].engine
    honest = NodeInvocation.serve

    def serve(invocation: NodeInvocation, *arguments: Any) -> CellRecord | None:
        if invocation._engine is not None and invocation._engine() is full:
            raise OSError(28, "No space left on device")
        return honest(invocation, *arguments)

    monkeypatch.setattr(NodeInvocation, "serve", serve)
    assert fleet.run() == 0
    assert fleet.verdicts == AS_ON_ONE_HOST
    assert "full (node full-id) failed 3 cells in a row, and others are preferred" in fleet.output.getvalue()
    assert len(fleet.nodes[0].served) <= 3 + placing.QUEUED * 3
    lost = [one.why for cell in fleet.cells if cell.details.node for one in cell.details.node.lost]
    assert set(lost) == {"[Errno 28] No space left on device"}


@pytest.mark.usefixtures("at_home")
def test_cells_leave_the_node_of_their_image_once_its_disk_is_full(
    tmp_path: Path, cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(tmp_path, FakeNode("full", FakeEngine(toy), cpus=1), FakeNode("well", FakeEngine(toy)))
    full, good = fleet.nodes[0].engine, iter(range(2))
    honest = NodeInvocation.serve

    def serve(invocation: NodeInvocation, *arguments: Any) -> CellRecord | None:
        if invocation._engine is not None and invocation._engine() is full and next(good, None) is None:
            raise OSError(28, "No space left on device")
        return honest(invocation, *arguments)

    monkeypatch.setattr(NodeInvocation, "serve", serve)
    assert fleet.run() == 0
    assert fleet.verdicts == AS_ON_ONE_HOST
    assert len(full.built) == 1
    assert len(fleet.nodes[0].served) <= 2 + dispatching.FAILURES + placing.QUEUED


def test_names_of_nodes_are_shown_without_what_moves_a_terminal(tmp_path: Path, cache: None) -> None:
    name = "evil\x1b[2J\u202e\n[1/1] all as expected"
    fleet = Fleet(tmp_path, FakeNode(name, FakeEngine(toy), dies_in=1), FakeNode("well", FakeEngine(toy), dies_in=99))
    assert fleet.run() == 0
    bad = FakeNode(name, FakeEngine(), trouble=f"\x1b]0;t\x07{name}")
    fleet.session._say(placing.check_nodes([bad.node, fleet.nodes[1].node], "ray")[1])
    said = fleet.output.getvalue()
    assert "evil" in said
    assert not set("\x1b\x07\u202e") & set(said)
    assert "\n[1/1] all" not in said


def test_a_failed_build_is_that_of_all_cells_of_the_image(fleet: Fleet) -> None:
    for node in fleet.nodes:
        node.engine.build_error = BuildFailed("it failed", step="RUN x", tail=("no such thing",))
    assert fleet.run() == 3
    assert set(fleet.verdicts) == {"build-failed"}
    assert sum(len(node.served) for node in fleet.nodes) == 1
    assert [cell.number for cell in fleet.cells] == list(range(1, 13))


@pytest.mark.usefixtures("at_home")
class WithoutImages(FakeEngine):
    def info(self) -> EngineInfo:
        return replace(super().info(), capabilities=Capabilities(images=False))


def test_a_build_that_fails_without_images_is_tried_where_images_are_made(tmp_path: Path, cache: None) -> None:
    host, images = FakeNode("host", WithoutImages(toy)), FakeNode("images", FakeEngine(toy))
    host.engine.build_error = BuildFailed("it failed: /opt is read-only", step="RUN x", tail=())
    fleet = Fleet(tmp_path, host, images)
    assert fleet.run() == 0
    assert fleet.verdicts == AS_ON_ONE_HOST
    assert (len(host.served), len(images.served)) == (1, 12)
    images.engine.built.clear()
    images.engine.build_error = host.engine.build_error
    fleet.new_session()
    assert fleet.run() == 3
    assert set(fleet.verdicts) == {"build-failed"}
    assert fleet.cells[0].details.node is not None
    assert fleet.cells[0].details.node.name == "images"


@pytest.mark.usefixtures("at_home")
def test_no_more_is_in_flight_than_nodes_can_use(fleet: Fleet) -> None:
    fleet.run()
    assert fleet.cluster.most <= placing.QUEUED * fleet.nodes[0].cpus + 1


def test_a_cluster_that_goes_away_leaves_reasons_and_can_be_resumed(fleet: Fleet) -> None:
    def then_down(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if trial.env["B"] == "w":
            fleet.cluster.down = "the Ray cluster went away"
        return toy(trial, sink)

    for node in fleet.nodes:
        node.engine.behave = then_down
    assert fleet.run() == 3
    assert "engine-error" in fleet.verdicts
    assert "the Ray cluster went away" in {cell.reason for cell in fleet.cells}
    decided = [cell.number for cell in fleet.cells if cell.verdict and cell.verdict.conclusive]
    for node in fleet.nodes:
        node.engine.behave = toy
    fleet.new_session()
    assert fleet.session.resume(None) == 0
    assert fleet.verdicts == AS_ON_ONE_HOST
    assert f"{len(decided)} of 12 cells are decided" in fleet.output.getvalue()


def test_an_interrupt_stops_what_runs_on_the_nodes(fleet: Fleet) -> None:
    began = threading.Event()

    def waits(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        engine = next(node.engine for node in fleet.nodes if trial in node.engine.trials)
        if not began.is_set():
            began.set()
            signal.raise_signal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else (
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            )
        assert engine.cancel.wait(60)
        from reprokit.core.errors import Cancelled

        raise Cancelled("stopped")

    for node in fleet.nodes:
        node.engine.behave = waits
    assert fleet.run() == 130
    assert set(fleet.verdicts) == {"cancelled"}
    for node in fleet.nodes:
        node.engine.behave = toy
    fleet.new_session()
    assert fleet.session.resume(None) == 0
    assert fleet.verdicts == AS_ON_ONE_HOST


@pytest.mark.usefixtures("at_home")
def test_cells_are_repeated_where_their_image_is(fleet: Fleet) -> None:
    assert fleet.run(confirm="always") == 0
    repeated = [cell for cell in fleet.cells if cell.details.repeats]
    assert repeated
    for cell in repeated:
        assert [trial.number for trial in cell.trials] == list(range(1, 2 + cell.details.repeats))
        assert (fleet.folder / "store" / cell.trials[-1].log).exists()
    assert sorted(len(node.engine.built) for node in fleet.nodes) == [0, 1]


def test_outputs_are_compared_where_the_store_is(fleet: Fleet) -> None:
    """A node knows one cell, and not the one that it is compared with."""
    fleet.case.write_text(
        CASE.replace("expect:\n  failure: {exit_code: 3, output: boom}\n", "expect:\n").replace(
            '  reproduces: [{a: "2"}]\n', "  compare: {outputs: [x.json], reference: {cell: {a: '1'}}}\n"
        )
    )

    def writes(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        assert trial.outputs is not None
        place = fleet.folder / f"{trial.env['A']}{trial.env['B']}"
        place.mkdir(exist_ok=True)
        (place / "x.json").write_text(trial.env["A"])
        trial.outputs.from_folder(place)
        return Ending(exit_code=0, seconds=0.1)

    for node in fleet.nodes:
        node.engine.behave = writes
    fleet.run()
    assert fleet.verdicts == AS_ON_ONE_HOST


def test_nodes_that_cannot_serve_are_named_and_none_at_all_is_an_error() -> None:
    able = FakeNode("one", FakeEngine()).node
    idle = FakeNode("two", FakeEngine(), cpus=0).node
    other = FakeNode("three", FakeEngine(), trouble="it has reprokit 0.1").node
    assert placing.check_nodes([able, idle, other], "ray") == [
        "ray: 1 node with Fake 1",
        "not used: two (node two-id): it offers Ray no CPU",
        "not used: three (node three-id): it has reprokit 0.1",
    ]
    with pytest.raises(EngineError, match=r"--on ray: no node .*\n.*no CPU\n.*reprokit 0\.1"):
        placing.check_nodes([idle, other], "ray")


def test_a_node_with_another_source_of_the_same_version_says_so(tmp_path: Path) -> None:
    ours = carried.source_digest(version.__file__)
    assert f"has reprokit {version.__version__}, and here is 0.0.1" in carried.greet("0.0.1", ours, "venv")
    said = carried.greet(version.__version__, "0123456789ab", "venv")
    assert f"of another source ({ours} in " in said
    assert "and here is 0123456789ab: check the same commit out" in said
    one = tmp_path / "reprokit" / "core" / "version.py"
    one.parent.mkdir(parents=True)
    one.write_text("")
    alone = carried.source_digest(str(one))
    (one.parent / "__init__.pyc").write_text("compiled")
    assert carried.source_digest(str(one)) == alone
    (tmp_path / "dockerfiles").mkdir()
    seen = {alone}
    for more in (one.parent / "more.py", one.parent / "table.yaml", tmp_path / "dockerfiles" / "pip.j2"):
        more.write_text("")
        seen.add(carried.source_digest(str(one)))
    assert len(seen) == 4
    (tmp_path / "dockerfiles").rename(tmp_path / "reprokit" / "dockerfiles")
    (tmp_path / "reprokit" / "cases").mkdir()
    (tmp_path / "reprokit" / "cases" / "example.yaml").write_text("")
    assert carried.source_digest(str(one)) in seen


@pytest.mark.parametrize("on", ["head:10001", "ray://head", "ray://head:0", "ray://head:http", "slurm"])
def test_what_is_not_an_address_is_refused(on: str) -> None:
    with pytest.raises(UsageError, match=r"--on .*(expected ray|names no port)"):
        check_address(on)


def test_an_order_travels_without_what_all_orders_of_its_case_have_in_common(tmp_path: Path) -> None:
    values = str([str(number) for number in range(2000)])
    (tmp_path / "toy.yaml").write_text(CASE.replace("[u, v, w, x, y, z]", values) + "fix: {env: {A: '1'}}\n")
    request = Request(cases=(str(tmp_path / "toy.yaml"),), fix=True, selection=Selection(only=({"b": ("7",)},)))
    tasks = plan(load_all(request.cases), request)
    orders = [Order(key=1, run_id="a", request=request, task=task) for task in (tasks[0], tasks[-1])]
    assert len(pickle.dumps(orders[0])) > 100_000
    for order in orders:
        assert len(packed(order)) < 10_000
        got = unpacked(packed(order), common_parts(order))
        assert got == order
        assert got.task.case is order.task.case


def test_a_cluster_of_another_python_is_wrong_usage_and_both_versions_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def init(**options: object) -> None:  # as Ray 2.60 says it
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n    Python: 3.11.7\n"
            "This process on node 127.0.0.1 was started with:\n    Ray: 2.60.0\n    Python: 3.12.1\n"
        )

    ray = SimpleNamespace(__version__="2.60.0", init=init, is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "ray", ray)
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    with pytest.raises(UsageError, match=r"(?s)Python: 3\.11\.7 .*Python: 3\.12\.1.*install the cluster's versions"):
        connect("ray", "auto")

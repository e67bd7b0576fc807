"""Images from node to node, without Ray. The real one is in tests/integration/test_fleet.py."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.core.errors import EngineError
from reprokit.engine.kinds import Capabilities
from reprokit.engine.protocol import EngineInfo, ImageInfo
from reprokit.run.fleet import dispatching, peers, placing
from tests.unit.fakes import FakeEngine
from tests.unit.run.fleet_fakes import FakeNode, FakePeer
from tests.unit.run.test_fleet import AS_ON_ONE_HOST, Fleet, cache, toy

__all__ = ["cache"]


class ArchiveEngine(FakeEngine):
    """Saves and loads images; ``number`` is in the ids of its base images. ``size``: of its images."""

    def __init__(self, number: int, architecture: str = "amd64", size: int = 1000) -> None:
        super().__init__(toy)
        self.number, self.architecture, self.image_bytes = number, architecture, size
        self.loaded: dict[str, dict[str, str]] = {}
        self.spoil: Callable[[str], str] = lambda text: text
        self.full = False

    def info(self) -> EngineInfo:
        archives = self.architecture != ""
        return replace(super().info(), architecture=self.architecture, capabilities=Capabilities(archives=archives))

    def image(self, tag: str) -> ImageInfo | None:
        name = tag.removeprefix("sha256:")
        if name in self.loaded:
            return ImageInfo(tag=name, id=f"sha256:{name}", labels=self.loaded[name])
        found = super().image(tag)
        return found and (replace(found, id=f"{found.id}-{self.number}") if "img:" not in tag else found)

    def save(self, image: str, target: Path, cancel: threading.Event) -> None:
        if self.full:
            raise OSError(28, "No space left on device")
        target.write_text(self.spoil(json.dumps(dict(self.labels[image]))))

    def load(self, archive: Path, tag: str) -> ImageInfo:
        self.loaded[tag] = json.loads(archive.read_text())
        found = self.image(tag)
        assert found is not None
        return found

    def remove_image(self, tag: str) -> None:
        super().remove_image(tag)
        self.loaded.pop(tag, None)


def fleet_of(folder: Path, *engines: ArchiveEngine) -> Fleet:
    return Fleet(folder, *(FakeNode(f"node{number}", engine) for number, engine in enumerate(engines)))


@pytest.fixture(autouse=True)
def spreads(monkeypatch: pytest.MonkeyPatch, cache: None) -> None:
    monkeypatch.setattr(placing, "leaves_home", lambda **_: True)
    monkeypatch.setattr(dispatching, "LOOK", 0.0)
    monkeypatch.setattr(dispatching, "WAIT", 0.01)


def made(fleet: Fleet) -> list[tuple[int, int]]:
    """How many images each node built, and took from another one: most first."""
    engines = [node.engine for node in fleet.nodes]
    return sorted(((len(one.built), len(getattr(one, "loaded", ()))) for one in engines), reverse=True)


def test_one_node_builds_and_the_other_takes_the_image_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(peers, "PART", 10)  # so that it comes in parts
    fleet = fleet_of(tmp_path, ArchiveEngine(1), ArchiveEngine(2))
    assert fleet.run() == 0
    assert fleet.verdicts == AS_ON_ONE_HOST
    assert made(fleet) == [(1, 0), (0, 1)]
    assert len({cell.image.tag for cell in fleet.cells if cell.image}) == 1
    assert len({cell.details.base for cell in fleet.cells}) == 1
    fetched = [cell for cell in fleet.cells if cell.image and cell.image.fetched]
    assert fetched
    assert not any(cell.image.built for cell in fetched if cell.image)


def test_trials_are_repeated_on_the_node_that_took_the_image(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, ArchiveEngine(1), ArchiveEngine(2))
    assert fleet.run(confirm="always") == 0
    assert made(fleet) == [(1, 0), (0, 1)]
    assert any(cell.details.repeats for cell in fleet.cells)
    assert "not repeated" not in fleet.output.getvalue()


def test_a_node_with_the_image_takes_none(tmp_path: Path) -> None:
    fleet = fleet_of(tmp_path, ArchiveEngine(1), ArchiveEngine(1))
    fleet.run()
    first = made(fleet)
    for node in fleet.nodes:
        assert isinstance(node.engine, ArchiveEngine)
        node.engine.built += [tag for tag in node.engine.loaded if tag not in node.engine.built]
        node.engine.labels.update(node.engine.loaded)
        node.engine.loaded.clear()
    fleet.new_session()
    assert fleet.run() == 0
    assert first == [(1, 0), (0, 1)]
    assert made(fleet) == [(1, 0), (1, 0)]


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        (ArchiveEngine(1, size=2 << 30), ArchiveEngine(2, size=2 << 30), "the image has 2 GiB, nodes give"),
        (ArchiveEngine(1, "amd64"), ArchiveEngine(2, "arm64"), "Fake 1 gives no images for a"),
        (ArchiveEngine(1, ""), ArchiveEngine(2, ""), ""),
    ],
)
def test_an_image_that_does_not_fit_is_built_where_it_is_needed(
    tmp_path: Path, first: ArchiveEngine, second: ArchiveEngine, why: str
) -> None:
    fleet = fleet_of(tmp_path, first, second)
    assert fleet.run() == 0
    assert fleet.verdicts == AS_ON_ONE_HOST
    assert made(fleet) == [(1, 0), (1, 0)]
    assert why in fleet.output.getvalue()


@pytest.mark.parametrize(
    ("spoil", "full", "why"),
    [
        (lambda text: text.replace("org.reprokit", "org.other"), False, "its labels org.reprokit"),
        (lambda text: text, True, "No space left on device"),
        (lambda text: "", False, "Expecting value"),
    ],
)
def test_an_image_that_cannot_be_given_is_built_where_it_is_needed(
    tmp_path: Path, spoil: Callable[[str], str], full: bool, why: str
) -> None:
    fleet = fleet_of(tmp_path, ArchiveEngine(1), ArchiveEngine(2))
    for node in fleet.nodes:
        assert isinstance(node.engine, ArchiveEngine)
        node.engine.spoil, node.engine.full = spoil, full
    assert fleet.run() == 0
    assert fleet.verdicts == AS_ON_ONE_HOST
    assert made(fleet) == [(1, 0), (1, 0)]
    assert why in fleet.output.getvalue()


def test_what_arrives_is_compared_with_the_digest_of_what_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = FakePeer.ask

    def flips(peer: FakePeer, cancel: threading.Event, method: str, *arguments: object) -> object:
        answer = honest(peer, cancel, method, *arguments)
        return bytes([answer[0] ^ 1]) + answer[1:] if method == "part" else answer

    monkeypatch.setattr(FakePeer, "ask", flips)
    fleet = fleet_of(tmp_path, ArchiveEngine(1), ArchiveEngine(2))
    assert fleet.run() == 0
    assert made(fleet) == [(1, 0), (1, 0)]
    assert "what arrived has the SHA-256" in fleet.output.getvalue()


@pytest.mark.parametrize("method", ["bases", "open", "part"])
def test_a_node_that_dies_while_it_gives_costs_a_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    honest = FakePeer.ask

    def dies(peer: FakePeer, cancel: threading.Event, asked: str, *arguments: object) -> object:
        if asked == method:
            raise EngineError("the node died")
        return honest(peer, cancel, asked, *arguments)

    monkeypatch.setattr(FakePeer, "ask", dies)
    fleet = fleet_of(tmp_path, ArchiveEngine(1), ArchiveEngine(2))
    assert fleet.run() == 0
    assert fleet.verdicts == AS_ON_ONE_HOST
    assert made(fleet) == [(1, 0), (1, 0)]
    assert "from node node" in fleet.output.getvalue()


def test_where_a_registry_is_configured_it_alone_has_the_images(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPROKIT_REGISTRY_IMAGES", "registry.example.com/reprokit")
    fleet = fleet_of(tmp_path, ArchiveEngine(1), ArchiveEngine(2))
    assert fleet.run() == 0
    assert all(not getattr(node.engine, "loaded", ()) for node in fleet.nodes)

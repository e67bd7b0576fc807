"""Images that machines share: what is taken from a registry, what is refused, and what is said of a registry."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from reprokit.case.trust import Trust
from reprokit.core.errors import Cancelled, EngineError
from reprokit.engine import failure
from reprokit.engine.images import on_loopback
from reprokit.engine.kinds import Capabilities
from reprokit.engine.protocol import EngineInfo, ImageInfo
from reprokit.engine.sharing import REPOSITORIES, RegistryShare, SharedImage
from reprokit.engine.site.keys import read_image_registry
from reprokit.engine.venv import ENTRY as VENV
from reprokit.store.folder import SeenBases

PREFIX = "registry.example.com/team"
NAME = f"{PREFIX}/own:amd64-5f0c"
IMAGE = SharedImage(tag="reprokit/img:5f0c", repository="own", version="5f0c", labels={"inputs": "5f0c"})

DOCKER = EngineInfo(
    kind="docker", name="Docker", version="1", architecture="amd64", capabilities=Capabilities(steps=True)
)


@dataclass
class Registry:
    """What machines push to, by name and by digest. ``error``: what it answers instead."""

    images: dict[str, ImageInfo] = field(default_factory=dict)
    error: str | Exception = ""

    def put(self, name: str, image: ImageInfo) -> str:
        digest = f"sha256:{image.id}-in-{name.partition('/')[0]}"
        self.images[name] = self.images[f"{name.rpartition(':')[0]}@{digest}"] = replace(image, digest=digest)
        return digest


@dataclass
class Machine:
    """An engine that speaks with a registry, and counts what it asks of it."""

    registry: Registry
    images: dict[str, ImageInfo] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    details: EngineInfo = field(default=DOCKER)

    def info(self) -> EngineInfo:
        return self.details

    def pull(self, reference: str, trust: Trust, cancel: threading.Event) -> ImageInfo | None:
        self._ask(f"pull {reference}", cancel)
        if found := self.registry.images.get(reference):
            self.images[reference] = replace(found, tag=reference)
        return self.images.get(reference)

    def push(self, reference: str, cancel: threading.Event) -> str:
        self._ask(f"push {reference}", cancel)
        return self.registry.put(reference, self.images[reference])

    def tag(self, image: str, name: str) -> ImageInfo:
        found = next(one for key, one in self.images.items() if image in (key, one.id))
        self.images[name] = replace(found, tag=name, digest="")
        return self.images[name]

    def remove_image(self, tag: str) -> None:
        del self.images[tag]

    def has(self, image: str, **labels: str) -> None:
        self.images[IMAGE.tag] = ImageInfo(tag=IMAGE.tag, id=image, labels=labels)

    def _ask(self, what: str, cancel: threading.Event) -> None:
        self.asked.append(what)
        if cancel.is_set():
            raise Cancelled("stopped")
        if isinstance(self.registry.error, Exception):
            raise self.registry.error
        if self.registry.error:
            raise EngineError(self.registry.error)


class World:
    """One registry, and machines with a store each."""

    def __init__(self, folder: Path) -> None:
        self.registry = Registry()
        self.said: list[str] = []
        self.never = threading.Event()
        self._folder = folder

    def machine(self, name: str, *, pushes: bool = True) -> tuple[Machine, RegistryShare]:
        machine = Machine(self.registry)
        engine: Callable[[], Machine] = lambda: machine  # noqa: E731
        seen = SeenBases(self._folder / name)
        (self._folder / name).mkdir(exist_ok=True)
        return machine, RegistryShare(
            engine=engine,  # type: ignore[arg-type]
            prefix=PREFIX,
            digests=seen,
            note=self.said.append,
            pushes=pushes,
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_one_machine_pushed_another_fetches_under_our_name_alone(world: World) -> None:
    one, share = world.machine("one")
    one.has("built", inputs="5f0c")
    digest = share.push(IMAGE, world.never)
    assert list(one.images) == [IMAGE.tag]  # the registry's name would keep gc from removing it
    two, other = world.machine("two")
    found = other.fetch(IMAGE, world.never)
    assert found is not None
    assert (found.id, found.tag, found.digest) == ("built", IMAGE.tag, digest)
    assert list(two.images) == [IMAGE.tag]
    assert world.said == []


def test_what_no_one_pushed_is_missing_and_nothing_is_said(world: World) -> None:
    assert world.machine("one")[1].fetch(IMAGE, world.never) is None
    assert world.said == []


@pytest.mark.parametrize("labels", [{}, {"inputs": "other"}])
def test_an_image_without_the_labels_of_its_name_is_refused_and_not_kept(world: World, labels: dict[str, str]) -> None:
    world.registry.put(NAME, ImageInfo(tag=NAME, id="evil", labels=labels))
    machine, share = world.machine("one")
    assert share.fetch(IMAGE, world.never) is None
    assert machine.images == {}
    assert "its labels inputs are not those of reprokit/img:5f0c" in world.said[0]
    machine.has("built", inputs="5f0c")
    share.push(IMAGE, world.never)  # and what is built instead takes its place
    assert world.registry.images[NAME].id == "built"


def test_the_digest_that_a_store_saw_first_is_the_one_it_takes(world: World) -> None:
    machine, share = world.machine("one")
    machine.has("first", inputs="5f0c")
    first = share.push(IMAGE, world.never)
    machine.images.clear()
    world.registry.put(NAME, ImageInfo(tag=NAME, id="second", labels={"inputs": "5f0c"}))
    found = share.fetch(IMAGE, world.never)
    assert found is not None
    assert found.id == "first"
    assert machine.asked[-1] == f"pull {PREFIX}/own@{first}"
    del world.registry.images[f"{PREFIX}/own@{first}"]
    machine.images.clear()
    assert share.fetch(IMAGE, world.never) is None
    assert f"no longer has the image {first}" in world.said[0]
    assert world.machine("two")[1].fetch(IMAGE, world.never) is not None  # a store that saw none takes what there is


REFUSALS = (
    "no basic auth credentials",
    "denied: requested access to the resource is denied",
    "unauthorized: authentication required",
    "dial tcp 127.0.0.1:9: connect: connection refused",
    "received unexpected HTTP status: 507 Insufficient Storage",
    "there was no answer for 600 s, and it was given up",
)


@pytest.mark.parametrize("error", REFUSALS)
def test_a_registry_that_serves_nothing_is_asked_once_and_said_once(world: World, error: str) -> None:
    world.registry.error = error
    machine, share = world.machine("one")
    machine.has("built")
    assert [share.fetch(IMAGE, world.never) for _ in range(3)] == [None] * 3
    assert share.push(IMAGE, world.never) == ""
    assert len(machine.asked) == len(world.said) == 1
    assert error in world.said[0]
    assert "they are built here" in world.said[0]


def test_one_image_that_is_corrupt_says_nothing_of_the_others(world: World) -> None:
    world.registry.error = "filesystem layer verification failed for digest sha256:1"
    _, share = world.machine("one")
    assert share.steps(replace(IMAGE, steps=("aa",)))
    assert share.fetch(IMAGE, world.never) is None
    assert share.steps(replace(IMAGE, steps=("aa",))) == ()  # whose layers may be corrupt as well
    world.registry.error = ""
    world.registry.put(NAME, ImageInfo(tag=NAME, id="good", labels={"inputs": "5f0c"}))
    assert share.fetch(IMAGE, world.never) is not None
    assert "filesystem layer verification failed" in world.said[0]


def test_a_push_that_fails_is_said_once_and_no_other_follows(world: World) -> None:
    machine, share = world.machine("one")
    machine.has("built")
    world.registry.error = "received unexpected HTTP status: 507 Insufficient Storage"
    assert [share.push(IMAGE, world.never) for _ in range(3)] == [""] * 3
    assert machine.asked == [f"push {NAME}"]
    assert list(machine.images) == [IMAGE.tag]
    assert len(world.said) == 1


@pytest.mark.parametrize("before", [OSError(28, "No space left on device"), EngineError("insufficient storage: 507")])
def test_what_could_not_be_pushed_a_later_run_pushes(world: World, before: Exception) -> None:
    machine, share = world.machine("one")
    machine.has("built", inputs="5f0c")
    assert not share.owes(IMAGE)
    share.owe(IMAGE)
    world.registry.error = before
    assert share.push(IMAGE, world.never) == ""
    world.registry.error = ""
    machine, later = world.machine("one")
    machine.has("built", inputs="5f0c")
    assert later.owes(IMAGE)
    assert later.push(IMAGE, world.never)
    assert not later.owes(IMAGE)
    assert world.machine("two")[1].fetch(IMAGE, world.never) is not None


def test_nothing_is_owed_that_this_machine_does_not_push(world: World) -> None:
    _, share = world.machine("one", pushes=False)
    share.owe(IMAGE)
    assert not share.owes(IMAGE)
    assert not world.machine("one")[1].owes(IMAGE)


def test_what_is_owed_keeps_the_digest_that_was_seen(world: World) -> None:
    machine, share = world.machine("one")
    machine.has("first", inputs="5f0c")
    share.push(IMAGE, world.never)
    share.owe(IMAGE)
    assert (share.owes(IMAGE), share.exchanged(IMAGE)) == (True, True)


@pytest.mark.parametrize(
    "error", [OSError(5, "Input/output error"), ValueError("Expecting value"), EngineError("gone")]
)
def test_no_failure_of_the_engine_or_of_the_store_gets_out(
    world: World, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.registry.error = error
    machine, share = world.machine("one")
    machine.has("built", inputs="5f0c")
    assert (share.fetch(IMAGE, world.never), share.push(IMAGE, world.never)) == (None, "")
    world.registry.error = ""
    machine, share = world.machine("two")
    machine.has("built", inputs="5f0c")

    def fails(*_: object) -> str:
        raise error

    for method in ("keep", "owe"):
        monkeypatch.setattr(SeenBases, method, fails)
    share.owe(IMAGE)
    assert share.push(IMAGE, world.never).startswith("sha256:built")  # it is there, though no one here remembers
    assert "cannot keep which images" in world.said[-1]
    machine.images.clear()
    assert share.fetch(IMAGE, world.never) is not None
    monkeypatch.setattr(SeenBases, "digest", fails)
    monkeypatch.setattr(Machine, "info", fails)
    machine.images.clear()
    assert share.fetch(IMAGE, world.never) is None
    assert (share.push(IMAGE, world.never), share.steps(IMAGE), share.owes(IMAGE)) == ("", (), False)
    assert share.exchanged(IMAGE)


def test_an_image_is_found_by_its_first_steps_which_are_pushed_once(world: World) -> None:
    one = replace(IMAGE, steps=("aa", "bb"))
    two = replace(IMAGE, tag="reprokit/img:77", version="77", steps=("aa", "cc"))
    machine, share = world.machine("one")
    assert share.steps(one) == (f"{PREFIX}/steps:amd64-aa", f"{PREFIX}/steps:amd64-bb")
    machine.has("built", inputs="5f0c")
    share.push(one, world.never)
    machine.images[two.tag] = ImageInfo(tag=two.tag, id="other")
    share.push(two, world.never)
    assert machine.asked == [
        f"push {PREFIX}/{name}"
        for name in ("own:amd64-5f0c", "steps:amd64-aa", "steps:amd64-bb", "own:amd64-77", "steps:amd64-cc")
    ]
    assert sorted(machine.images) == [IMAGE.tag, two.tag]
    world.registry.error = "connection refused"
    share.fetch(one, world.never)
    assert share.steps(one) == ()  # a registry that does not answer holds up no build
    other, share = world.machine("two")
    other.details = replace(DOCKER, capabilities=Capabilities(steps=False))
    assert share.steps(one) == ()


def test_cancelling_is_not_a_fault_of_the_registry(world: World) -> None:
    machine, share = world.machine("one")
    machine.has("built")
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(Cancelled):
        share.fetch(IMAGE, stopped)
    with pytest.raises(Cancelled):
        share.push(IMAGE, stopped)
    assert world.said == []
    assert list(machine.images) == [IMAGE.tag]


def test_nothing_is_pushed_where_the_site_says_never_and_nothing_at_all_by_an_engine_without_images(
    world: World,
) -> None:
    machine, share = world.machine("one", pushes=False)
    machine.has("built")
    assert share.push(IMAGE, world.never) == ""
    other, share = world.machine("two")
    other.details = EngineInfo(kind="venv", name="venv", version="1", capabilities=VENV.capabilities)
    assert (share.fetch(IMAGE, world.never), share.push(IMAGE, world.never)) == (None, "")
    assert machine.asked == other.asked == []


def test_levels_of_trust_have_repositories_of_their_own() -> None:
    assert len({REPOSITORIES[level] for level in Trust} | {"base"}) == len(Trust) + 1


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("127.0.0.1:5000/p/own", True),
        ("localhost/own", True),
        ("localhost:1/own", True),
        ("127.example.com/own", False),
    ],
)
def test_an_engine_speaks_plain_http_with_its_own_loopback_alone(name: str, expected: bool) -> None:
    assert on_loopback(name) is expected


def test_a_push_that_is_not_allowed_says_how_to_log_in() -> None:
    said = str(failure.of_push("denied: requested access to the resource is denied", NAME))
    assert "docker login registry.example.com" in said


@pytest.mark.parametrize(
    "good", ["", "registry.example.com/reprokit", "127.0.0.1:5000/p", "host:5000", "localhost/a-b"]
)
def test_the_setting_takes_a_registry_and_a_path(good: str) -> None:
    assert read_image_registry(good, Path()) == good


@pytest.mark.parametrize(
    "bad", ["https://registry.example.com/p", "reprokit", "user/p", "host:5000/P", "a.b/c:tag", "a.b//c"]
)
def test_the_setting_refuses_what_is_not_a_registry(bad: str) -> None:
    with pytest.raises(ValueError, match=r"registry\.example\.com/reprokit"):
        read_image_registry(bad, Path())

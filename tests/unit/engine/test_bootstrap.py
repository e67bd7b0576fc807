"""Where base images come from: pulled, made once, or refused in words; and whether a registry answers."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from reprokit.case.trust import Trust
from reprokit.core.errors import Cancelled, EngineError, Unsupported, UsageError
from reprokit.engine import bases, bootstrap
from reprokit.engine.protocol import ImageInfo, Progress
from reprokit.environment.catalog import OURS
from reprokit.environment.model import Base
from reprokit.store.folder import SeenBases
from tests.unit.serving import Quiet, serving

DEBIAN = Base(name="debian-12", source="bootstrap", reference="reprokit/base:debian-12")


class Shelf:
    """An engine that holds images by name, and a registry with some."""

    def __init__(self, *registry: str) -> None:
        self.registry = registry
        self.images: dict[str, ImageInfo] = {}
        self.asked: list[str] = []
        self.imported: list[str] = []

    def image(self, tag: str) -> ImageInfo | None:
        return self.images.get(tag)

    def pull(self, reference: str, trust: Trust, cancel: threading.Event) -> ImageInfo | None:
        self.asked.append(reference)
        if reference not in self.registry:
            return None
        return self.images.setdefault(reference, ImageInfo(tag=reference, id=f"sha256:{reference}"))

    def tag(self, image: str, name: str) -> ImageInfo:
        self.images[name] = ImageInfo(tag=name, id=image)
        return self.images[name]

    def import_rootfs(self, tar: Path, tag: str, labels: Mapping[str, str]) -> ImageInfo:
        self.imported.append(tar.read_text())
        time.sleep(0.05)
        self.images[tag] = ImageInfo(tag=tag, id="sha256:imported", labels=labels)
        return self.images[tag]


def ensure(engine: Shelf, base: Base) -> ImageInfo:
    return bases.ensure(engine, base, Trust.OWN, threading.Event(), lambda progress: None)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], None]:
    """A PATH of our own, on which the test puts programs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr(
        bootstrap.shutil, "which", lambda name: str(folder / name) if (folder / name).exists() else None
    )
    keys = tmp_path / "keyrings"
    keys.mkdir()
    (keys / "debian-archive-keyring.gpg").touch()
    monkeypatch.setattr(bootstrap, "KEYRINGS", keys)

    def put(name: str, body: str) -> None:
        path = folder / name
        path.write_text("#!/bin/bash\n" + body)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)

    return put


# The archive's path is the last argument before the package lists ("deb ...").
FAKE = 'for a in "$@"; do case $a in *rootfs.tar) echo "made $SOURCE_DATE_EPOCH" > "$a";; esac; done; echo "I: done"\n'


def test_a_base_is_pulled_once() -> None:
    engine = Shelf("debian:bookworm-slim")
    base = Base(name="debian-12", source="registry", reference="debian:bookworm-slim")
    assert ensure(engine, base) == ensure(engine, base)
    assert engine.asked == ["debian:bookworm-slim"]


def test_an_image_that_no_registry_has_is_unavailable() -> None:
    base = Base(name="ubuntu-22.04", source="registry", reference="nvidia/cuda:11.7.1-devel-ubuntu22.04")
    with pytest.raises(Unsupported, match=r"^base-unavailable: the registry has no image nvidia/cuda:11\.7\.1-devel"):
        ensure(Shelf(), base)
    with pytest.raises(Unsupported, match=r"^base-unavailable: environment\.image own:1: neither this engine nor its"):
        ensure(Shelf(), Base(name="own:1", source="image", reference="own:1"))


BOOKWORM = Base(name="debian-12", source="registry", reference="debian:bookworm-slim")
OLD, NEW = "sha256:" + "a" * 64, "sha256:" + "b" * 64


class Tagged(Shelf):
    """An engine whose registry has tags, each of an image with a digest, and images that no tag names any more."""

    def __init__(self, **tags: str) -> None:
        super().__init__()
        self.tags = {"debian:bookworm-slim": OLD, **tags}
        self.held = {OLD, NEW}
        self.reachable = True

    def pull(self, reference: str, trust: Trust, cancel: threading.Event) -> ImageInfo | None:
        self.asked.append(reference)
        if not self.reachable:
            raise EngineError("base-unavailable: the registry does not answer")
        name, _, digest = reference.partition("@")
        digest = digest or self.tags.get(name, "")
        if digest not in self.held:
            return None
        found = ImageInfo(tag=reference, id=f"sha256:image-of-{digest}", digest=digest)
        self.images[reference] = found
        return found


def met(engine: Shelf, folder: Path, since: float = 0.0, base: Base = BOOKWORM) -> ImageInfo:
    seen = SeenBases(folder)
    return bases.ensure(engine, base, Trust.OWN, threading.Event(), lambda progress: None, seen=seen, since=since)  # type: ignore[arg-type]


def test_a_base_stays_the_one_that_was_first_seen(tmp_path: Path) -> None:
    engine = Tagged()
    first = met(engine, tmp_path)
    assert (first.tag, first.digest) == (bases.own_name(OLD), OLD)
    engine.tags["debian:bookworm-slim"] = NEW
    assert met(engine, tmp_path) == first
    assert engine.asked == ["debian:bookworm-slim"]
    # An engine that never held it, or no longer does, gets the same one, by its digest.
    other = Tagged(**{"debian:bookworm-slim": NEW})
    assert met(other, tmp_path) == first
    assert other.asked == [f"debian@{OLD}"]
    # A user pulled the tag again: what was seen first counts all the same.
    other = Tagged(**{"debian:bookworm-slim": NEW})
    other.pull("debian:bookworm-slim", Trust.OWN, threading.Event())
    assert met(other, tmp_path).digest == OLD


@pytest.mark.parametrize("held", ["", "by its tag", "by its digest", "seen in another run", "of this engine alone"])
def test_an_image_that_an_untrusted_case_names_is_what_its_registry_gives_to_anyone(held: str, tmp_path: Path) -> None:
    """What the engine has of a private image was fetched by a login, which an untrusted case must not use."""

    class Private(Tagged):
        logins: ClassVar[list[Trust]] = []

        def pull(self, reference: str, trust: Trust, cancel: threading.Event) -> ImageInfo | None:
            self.logins.append(trust)
            return super().pull(reference, trust, cancel) if trust is not Trust.STRANGER else None

    image = Base(name="x", source="image", reference="corp.example/private:1" + f"@{OLD}" * (held == "by its digest"))
    engine = Private(**{"corp.example/private:1": OLD})
    seen = SeenBases(tmp_path)
    if held == "of this engine alone":
        engine.images[image.reference] = ImageInfo(tag=image.reference, id="sha256:built-here")
    elif held:
        own = bases.ensure(engine, image, Trust.OWN, threading.Event(), lambda _: None, seen=seen)  # type: ignore[arg-type]
        assert own.digest == OLD
    engine.logins.clear()
    with pytest.raises(Unsupported, match="private"):
        bases.ensure(engine, image, Trust.STRANGER, threading.Event(), lambda _: None, seen=seen)  # type: ignore[arg-type]
    assert set(engine.logins) <= {Trust.STRANGER}
    public = Tagged(**{"corp.example/private:1": NEW})
    for _ in range(2):
        found = bases.ensure(public, image, Trust.STRANGER, threading.Event(), lambda _: None, seen=seen)  # type: ignore[arg-type]
        assert found.digest in (NEW, OLD)


def test_a_tag_that_vanished_changes_nothing_as_long_as_its_image_is_available(tmp_path: Path) -> None:
    engine = Tagged()
    first = met(engine, tmp_path)
    engine.tags.clear()
    engine.reachable = False
    assert met(engine, tmp_path) == first
    with pytest.raises(EngineError, match="base-unavailable"):
        met(engine, tmp_path, since=time.time() + 1)
    empty = Tagged()
    empty.held = {NEW}
    with pytest.raises(Unsupported, match=rf"^base-unavailable: .*bookworm-slim was \({OLD}\); --refresh-bases"):
        met(empty, tmp_path)


def test_a_refresh_takes_what_the_tag_is_now_once(tmp_path: Path) -> None:
    engine = Tagged()
    met(engine, tmp_path)
    engine.tags["debian:bookworm-slim"] = NEW
    asked = time.time()
    assert met(engine, tmp_path, since=asked).digest == NEW
    assert met(engine, tmp_path, since=asked).digest == NEW
    assert met(engine, tmp_path).digest == NEW
    assert len(engine.asked) == 2


def test_an_image_without_a_registry_is_taken_as_it_is(tmp_path: Path) -> None:
    engine = Tagged()
    engine.images["debian:bookworm-slim"] = ImageInfo(tag="debian:bookworm-slim", id="sha256:made-here")
    assert met(engine, tmp_path).id == "sha256:made-here"
    assert not (tmp_path / "bases.json").exists()


def test_a_refresh_asks_no_registry_for_a_cases_image_that_was_built_here(tmp_path: Path) -> None:
    engine = Tagged()
    engine.reachable = False
    engine.images["mine:dev"] = ImageInfo(tag="mine:dev", id="sha256:made-here")
    mine = Base(name="mine:dev", source="image", reference="mine:dev")
    assert met(engine, tmp_path, since=time.time(), base=mine).id == "sha256:made-here"


def test_a_memory_that_is_not_json_is_started_again(tmp_path: Path) -> None:
    (tmp_path / "bases.json").write_text("{")
    assert met(Tagged(), tmp_path).digest == OLD
    assert SeenBases(tmp_path).digest("debian:bookworm-slim") == OLD


@pytest.mark.parametrize(
    ("reference", "registry", "expected"),
    [
        ("debian:12", "", ("debian:12",)),
        ("debian:12", "mirror.example", ("mirror.example/debian:12", "mirror.example/library/debian:12")),
        ("nvidia/cuda:1", "https://mirror.example/hub/", ("mirror.example/hub/nvidia/cuda:1",)),
        ("quay.io/x:1", "mirror.example", ("quay.io/x:1",)),
        ("localhost/x:1", "mirror.example", ("localhost/x:1",)),
    ],
)
def test_a_mirror_stands_in_for_docker_hub_alone(reference: str, registry: str, expected: tuple[str, ...]) -> None:
    assert bases.places(reference, registry) == expected


def test_what_a_mirror_serves_gets_a_name_of_ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bases, "_site_setting", lambda name: "mirror.example")
    engine = Tagged(**{"mirror.example/library/debian:bookworm-slim": NEW})
    named = met(engine, tmp_path)
    assert (named.tag, named.id) == (bases.own_name(NEW), f"sha256:image-of-{NEW}")
    assert engine.asked == ["mirror.example/debian:bookworm-slim", "mirror.example/library/debian:bookworm-slim"]
    again = Tagged()
    assert met(again, tmp_path).id == named.id
    assert again.asked == [f"mirror.example/debian@{NEW}"]


def test_a_base_is_made_from_packages_once(tools: Callable[[str, str], None]) -> None:
    tools("mmdebstrap", FAKE)
    engine = Shelf()
    threads = [threading.Thread(target=ensure, args=(engine, DEBIAN)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert engine.imported == [f"made {OURS.releases()['debian-12'].epoch}\n"]
    assert engine.images[DEBIAN.reference].labels[bases.LABEL_RECIPE] == bootstrap.RECIPE


def test_a_base_of_an_older_recipe_is_made_again(tools: Callable[[str, str], None]) -> None:
    tools("mmdebstrap", FAKE)
    engine = Shelf()
    engine.images[DEBIAN.reference] = ImageInfo(tag=DEBIAN.reference, id="sha256:old", labels={bases.LABEL_RECIPE: "0"})
    ensure(engine, DEBIAN)
    assert len(engine.imported) == 1


@pytest.mark.parametrize(
    "labels",
    [
        {bases.LABEL_RECIPE: bootstrap.RECIPE, bases.LABEL_RELEASE: "ubuntu-22.04"},
        {bases.LABEL_RECIPE: bootstrap.RECIPE, bases.LABEL_RELEASE: "debian-12", "org.reprokit.image": "1"},
    ],
)
def test_another_image_under_the_name_of_a_base_is_not_the_base(
    tools: Callable[[str, str], None], labels: dict[str, str]
) -> None:
    tools("mmdebstrap", FAKE)
    engine = Shelf()
    engine.images[DEBIAN.reference] = ImageInfo(tag=DEBIAN.reference, id="sha256:another", labels=labels)
    ensure(engine, DEBIAN)
    assert len(engine.imported) == 1


@pytest.mark.parametrize("other", [{"digest": NEW}, {"labels": {"org.reprokit.image": "1"}}])
def test_another_image_under_our_name_of_a_registrys_is_not_that_one(tmp_path: Path, other: dict[str, Any]) -> None:
    engine = Tagged()
    first = met(engine, tmp_path)
    engine.images[first.tag] = ImageInfo(tag=first.tag, id="sha256:another", **other)
    assert bases.standing(engine, BOOKWORM, SeenBases(tmp_path)) is None  # type: ignore[arg-type]
    assert met(engine, tmp_path).id == first.id


def test_no_tool_at_all_names_what_to_install(tools: Callable[[str, str], None]) -> None:
    with pytest.raises(Unsupported, match="install mmdebstrap or debootstrap"):
        ensure(Shelf(), DEBIAN)


def test_missing_keys_name_their_package(tools: Callable[[str, str], None]) -> None:
    tools("mmdebstrap", FAKE)
    (bootstrap.KEYRINGS / "debian-archive-keyring.gpg").unlink()
    with pytest.raises(Unsupported, match="install the package debian-archive-keyring"):
        ensure(Shelf(), DEBIAN)


def test_ubuntus_keys_come_along_and_those_of_the_host_come_first(tools: Callable[[str, str], None]) -> None:
    tools(
        "mmdebstrap", 'for a in "$@"; do case $a in --keyring=*) cat "${a#*=}";; *rootfs.tar) touch "$a";; esac; done'
    )
    base = Base(name="ubuntu-22.04", source="bootstrap", reference="reprokit/base:ubuntu-22.04")

    def read() -> str:
        seen: list[Progress] = []
        bases.ensure(Shelf(), base, Trust.OWN, threading.Event(), seen.append)  # type: ignore[arg-type]
        return "".join(progress.log for progress in seen)

    assert "Ubuntu Archive Automatic Signing Key (2018)" in read()
    (bootstrap.KEYRINGS / "ubuntu-archive-keyring.gpg").write_text("the host's own\n")
    assert read() == "the host's own\n"


def test_a_failure_shows_the_tools_last_words_and_leaves_nothing(
    tools: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    tools("mmdebstrap", "touch $TMPDIR/half; echo 'E: cannot reach the archive' >&2; exit 7\n")
    with pytest.raises(EngineError, match=r"exit status 7.*\n.*E: cannot reach the archive"):
        ensure(Shelf(), DEBIAN)
    assert list(scratch.iterdir()) == []


def test_stopping_ends_the_tool_and_what_it_started(tools: Callable[[str, str], None], tmp_path: Path) -> None:
    # Found by its name, since the tool may have a numbering of processes of its own.
    tools(
        "mmdebstrap", f"ln -s $(command -v sleep) {tmp_path}/child; {tmp_path}/child 600 & echo > {tmp_path}/on; wait\n"
    )
    cancel = threading.Event()

    def stop() -> None:
        while not (tmp_path / "on").exists() or not children():
            time.sleep(0.05)
        cancel.set()

    def children() -> list[str]:
        commands = []
        for file in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                commands.append(file.read_bytes().split(b"\0")[0].decode(errors="replace"))
        return [one for one in commands if one == f"{tmp_path}/child"]

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(Cancelled):
        bases.ensure(Shelf(), DEBIAN, Trust.OWN, cancel, lambda progress: None)  # type: ignore[arg-type]
    deadline = time.monotonic() + 60
    while children():
        assert time.monotonic() < deadline, "what the tool started outlived it"
        time.sleep(0.1)


def test_progress_tells_what_the_tool_says(tools: Callable[[str, str], None]) -> None:
    tools("mmdebstrap", FAKE)
    seen: list[Progress] = []
    bases.ensure(Shelf(), DEBIAN, Trust.OWN, threading.Event(), seen.append)  # type: ignore[arg-type]
    assert ["I: done" in progress.log for progress in seen].count(True) == 1
    assert seen[-1].name == "import reprokit/base:debian-12"


def test_sources_of_a_release_and_of_a_mirror() -> None:
    release = OURS.releases()["debian-11"]
    assert bootstrap.sources_list(release, bootstrap.archive_of(release)) == (
        "deb http://deb.debian.org/debian bullseye main contrib non-free\n"
        "deb http://deb.debian.org/debian bullseye-updates main contrib non-free\n"
        "deb http://deb.debian.org/debian-security bullseye-security main contrib non-free\n"
    )
    mirror = bootstrap.archive_of(release, "http://mirror.example/debian/")
    assert (mirror.main, mirror.security) == ("http://mirror.example/debian", "http://mirror.example/debian-security")
    ubuntu = OURS.releases()["ubuntu-22.04"]
    assert bootstrap.archive_of(ubuntu, "http://mirror.example/debian") == bootstrap.OFFICIAL["ubuntu"]


class Registry(Quiet):
    """Answers as registries and gateways do."""

    status = 401

    def do_GET(self) -> None:
        self.answer(self.status)


@pytest.fixture
def registry() -> Iterator[str]:
    with serving(Registry) as address:
        yield f"http://{address}/hub"


@pytest.mark.parametrize(("status", "answers"), [(401, True), (200, True), (502, False), (404, False)])
def test_401_is_an_answer_and_a_gateways_error_is_not(
    registry: str, monkeypatch: pytest.MonkeyPatch, status: int, answers: bool
) -> None:
    monkeypatch.setattr(Registry, "status", status)
    assert bases.answering(registry, seconds=60) is answers


def test_silence_is_not_an_answer_and_costs_little() -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        started = time.monotonic()
        assert bases.answering(f"http://127.0.0.1:{silent.getsockname()[1]}", seconds=0.3) is False
        assert time.monotonic() - started < 60


def test_auto_asks_once_and_remembers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[str] = []
    monkeypatch.setattr(bases, "_site_setting", lambda name: "")
    monkeypatch.setattr(bases, "answering", lambda host, seconds: bool(asked.append(host)) or len(asked) > 1)
    assert [bases.detect_source("auto") for _ in range(3)] == ["bootstrap"] * 3
    assert asked == [bases.REGISTRY]
    memory = tmp_path / "cache/reprokit/registry/answers.json"
    memory.write_text(json.dumps({**json.loads(memory.read_text()), "at": time.time() - 700}))
    assert bases.detect_source("auto") == "registry"
    memory.write_text("not json")
    assert bases.detect_source("auto") == "registry"
    monkeypatch.setattr(bases, "_site_setting", lambda name: "mirror.example")
    bases.detect_source("auto")
    assert asked[-1] == "mirror.example"


def test_a_source_that_is_said_is_not_asked_for() -> None:
    assert bases.detect_source("bootstrap") == "bootstrap"
    assert bases.detect_source("registry") == "registry"
    with pytest.raises(UsageError, match="expected auto, registry or bootstrap"):
        bases.detect_source("docker.io")


def test_a_cache_that_cannot_be_written_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", os.fspath(tmp_path / "file"))
    monkeypatch.setattr(bases, "answering", lambda host, seconds: True)
    assert bases.detect_source("auto") == "registry"

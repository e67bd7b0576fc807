"""``reprokit gc`` and the budget of a run on a Docker Engine of the test's own, with a disk that no one else uses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from reprokit.core.files import used_bytes
from reprokit.engine import site
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.protocol import BUILD_CACHE, IMAGE, Build
from reprokit.run.keeping import TEMPORARY, Keeper, RemovalRequest
from tests.conftest import import_tiny, never
from tests.private_engine import private_engine

pytestmark = [pytest.mark.integration, pytest.mark.engines]

MB = 1024 * 1024
OURS = "RUN --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh . /run/reprokit/site.sh && "
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def own_engine() -> Iterator[DockerEngine]:
    """An engine with a folder of its own; stopped and removed afterwards."""
    with private_engine() as own:
        yield DockerEngine({"DOCKER_HOST": own.url})


@pytest.fixture
def base(own_engine: DockerEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A base image; whatever else the test makes goes at its end, the build cache too: the engine is the tests' own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield import_tiny(own_engine, tmp_path)
    client = own_engine.wire.client()
    for _ in range(5):  # an image goes after its children, and those of one second are listed in any order
        for one in client.images():
            with suppress(docker.errors.APIError):
                client.remove_image(one["Id"], force=True)
    assert client.images() == []
    client.prune_builds(all=True)


def build(engine: DockerEngine, base: str, tag: str, *steps: str, ours: bool = True) -> None:
    """Build an image of which the engine's own books are right.

    Docker 29 on a busy host now and then says of a layer that no image has it, or has two records of one step (about 1
    of 30 builds with 2.5 processes per processor): what gc frees and counts is not what these tests planted then.
    """
    for _ in range(5):
        engine.build(
            Build(
                tag=tag,
                dockerfile="\n".join([f"FROM {base}", *steps, ""]),
                context={"reprokit/site.sh": b"true\n"},
                labels={"org.reprokit.image": "1"} if ours else {},
            ),
            site.current(),
            lambda progress: None,
            threading.Event(),
        )
        commands = [step.removeprefix(OURS) for step in steps if step.startswith(OURS)]
        listed = [(one["Description"], one["Shared"]) for one in records(engine)]
        if all([shared for text, shared in listed if command in text] == [True] for command in commands):
            return
        engine.wire.client().remove_image(tag, force=True)
        engine.wire.client().prune_builds(all=True)
    pytest.fail(f"the engine's records of {tag} were wrong five times: {listed}")


def blob(name: str, megabytes: int, prefix: str = OURS) -> str:
    return f"{prefix}dd if=/dev/urandom of=/{name} bs=1M count={megabytes}"


def disk(engine: DockerEngine) -> int:
    """Bytes that the engine takes on the disk, by no account of its own."""
    root, found = Path(engine.wire.details().root), -1
    while found != (found := used_bytes(root)):
        time.sleep(0.5)  # containerd removes content behind the answer
    return found


def copies(engine: DockerEngine) -> int:
    """How often a built layer is on the disk: in containerd's image store unpacked, as build cache, and compressed."""
    return 1 if engine.wire.details().containerd is None else 3


def records(engine: DockerEngine) -> list[dict[str, Any]]:
    """The build cache, private or not, as the engine lists it."""
    # Only these: with images, Docker 29 answers 404 where a build has just removed a view that it had listed.
    asked = {"type": "build-cache", "verbose": "1"}
    found = engine.wire.client().get(engine.wire.url("/system/df"), params=asked).json()
    return list(found.get("BuildCache") or (found.get("BuildCacheUsage") or {}).get("Items") or [])


def tags(engine: DockerEngine) -> set[str]:
    return {name for one in engine.wire.client().images() for name in one["RepoTags"] or []}


NOBODY = 65534
# Who may read everything, since the Python of these tests may lie in root's home.
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")


def gc(engine: DockerEngine, tmp_path: Path, *words: str, through: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    environ = {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "DOCKER_HOST": engine.wire.endpoint.url,
        "TMPDIR": str(tmp_path),
        "REPROKIT_CONFIG": os.devnull,
    }
    command = [*through, sys.executable, "-m", "reprokit", "gc", "--store", str(tmp_path / "store"), *words]
    return subprocess.Popen(
        command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def answer(process: subprocess.Popen[str], status: int = 0) -> dict[str, Any]:
    out, errors = process.communicate(timeout=120)
    assert process.returncode == status, errors
    found: dict[str, Any] = json.loads(out)
    # Folders that a killed process of another test left go too.
    found["removed"] = [one for one in found["removed"] if one["kind"] != TEMPORARY]
    return found


def test_a_removed_image_frees_its_layers_and_no_one_elses(own_engine: DockerEngine, base: str, tmp_path: Path) -> None:
    client, each = own_engine.wire.client(), copies(own_engine) * MB
    volume = client.create_volume("theirs")["Name"]
    for name in "ab":
        build(own_engine, base, f"reprokit/img:{name}", blob("common", 8), blob(name, 10))
    build(own_engine, base, "another:image", blob("theirs", 6, "RUN "), ours=False)
    build(own_engine, base, "another:gone", blob("cached", 6, "RUN "), ours=False)
    client.remove_image("another:gone")
    before, budget = disk(own_engine), f"{20 * copies(own_engine)}m"
    shown = answer(gc(own_engine, tmp_path, "--budget", budget, "--dry-run", "--json"))
    assert shown["total"] == pytest.approx(28 * each, rel=0.01)
    assert disk(own_engine) == pytest.approx(before, abs=100_000), "a dry run removes nothing"
    done = answer(gc(own_engine, tmp_path, "--budget", budget, "--json"))
    assert [one["name"] for one in done["removed"]] == [one["name"] for one in shown["removed"]]
    assert [one["freed"] for one in done["removed"]] == [pytest.approx(10 * each, rel=0.01)]
    assert before - disk(own_engine) == pytest.approx(10 * each, rel=0.02)
    answer(gc(own_engine, tmp_path, "--budget", "1m", "--json"))
    assert before - disk(own_engine) == pytest.approx(28 * each, rel=0.02)
    assert {"another:image", base} <= tags(own_engine)
    assert volume in {one["Name"] for one in client.volumes()["Volumes"]}
    assert any("cached" in one["Description"] for one in records(own_engine)), "another program's build cache stays"
    answer(gc(own_engine, tmp_path, "--budget", "1m", "--build-cache", "--json"))
    assert not any("cached" in one["Description"] for one in records(own_engine))


def test_an_image_of_ours_with_another_name_or_a_container_stays(
    own_engine: DockerEngine, base: str, tmp_path: Path
) -> None:
    client = own_engine.wire.client()
    for name in ("named", "busy", "free"):
        build(own_engine, base, f"reprokit/img:{name}", blob(name, 2))
    client.tag("reprokit/img:named", "mine", "latest")
    container = client.create_container("reprokit/img:busy", "true")["Id"]
    committed = client.commit(container)["Id"]  # without a name, and with our labels
    try:
        found = answer(gc(own_engine, tmp_path, "--budget", "1m", "--json"), status=3)
    finally:
        client.remove_container(container)
    assert [one["name"] for one in found["removed"]] == ["reprokit/img:free"]
    assert committed in {one["Id"] for one in client.images()}
    whys = {one["why"] for one in found["stays"]}
    assert whys == {"a container uses it", "it has a name that is not reprokit's: mine:latest"}


def test_the_cache_of_a_failed_build_is_ours(own_engine: DockerEngine, base: str, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="exit code"):
        build(own_engine, base, "reprokit/img:failed", blob("half", 5), "RUN false")
    (kept,) = [one for one in own_engine.kept() if one.kind == BUILD_CACHE]
    assert 5 * MB <= kept.bytes < 6 * MB
    assert own_engine.discard([kept])
    assert not [one for one in own_engine.kept() if one.kind == BUILD_CACHE]


def test_the_budget_is_kept_while_images_are_built(own_engine: DockerEngine, base: str) -> None:
    each = 10 * copies(own_engine)
    budget = 6 * each * MB + MB
    keeper = Keeper(RemovalRequest(budget=budget), lambda: [own_engine])
    before, after = disk(own_engine), []
    for number in range(14):
        tag = f"reprokit/img:{number}"
        with keeper.uses:
            keeper.uses.begin(tag)
            with keeper.room(tag, never()):
                build(own_engine, base, tag, blob(f"own{number}", 10))
                after.append(disk(own_engine) - before)
            assert tag in tags(own_engine), "what is in use stays"
    contexts = 14 * 30_000 + 2 * MB  # and the engine's own records
    assert max(after) <= budget + contexts
    assert min(after[8:]) > budget - 2 * each * MB, "no more is removed than has to be"
    assert len([one for one in own_engine.kept() if one.kind == IMAGE]) == 6


def test_ages_are_this_hosts_where_the_engine_has_another_clock(
    own_engine: DockerEngine, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build(own_engine, base, "reprokit/img:fresh", blob("fresh", 2))
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 40 * 86400)
    later = DockerEngine({"DOCKER_HOST": own_engine.wire.endpoint.url})
    assert "is 960 h behind this host's" in later.info().clocks
    ages = {one.name: time.time() - one.used for one in later.kept()}
    assert -5 < ages["reprokit/img:fresh"] < 3600
    assert max(ages.values()) < 30 * 86400


LEASED = """
import sys, time
from reprokit.engine.docker.engine import DockerEngine
engine = DockerEngine()
engine.lease(engine.image(sys.argv[1]).id)
print("leased", flush=True)
time.sleep(600)
"""


def test_what_a_run_of_another_user_uses_stays_until_that_run_has_exited(
    own_engine: DockerEngine, base: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("used", "unused"):
        build(own_engine, base, f"reprokit/img:{name}", blob(name, 2))
    environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), "DOCKER_HOST": own_engine.wire.endpoint.url}
    words = [sys.executable, "-c", LEASED, "reprokit/img:used"]
    run = subprocess.Popen(words, env=environ, stdout=subprocess.PIPE, text=True)
    socket = Path(own_engine.wire.endpoint.url.removeprefix("unix://"))
    socket.chmod(0o666)
    socket.parent.chmod(0o711)
    with tempfile.TemporaryDirectory() as folder:
        theirs = Path(folder)
        os.chown(theirs, NOBODY, NOBODY)
        monkeypatch.setenv("XDG_CACHE_HOME", str(theirs / "cache"))
        monkeypatch.setenv("HOME", folder)

        def collect() -> dict[str, Any]:
            return answer(gc(own_engine, theirs, "--older-than", "1s", "--json", through=AS_NOBODY))

        try:
            assert run.stdout is not None
            assert run.stdout.readline() == "leased\n"
            first = collect()
            assert [one["name"] for one in first["removed"] if one["kind"] == IMAGE] == ["reprokit/img:unused"]
            [why] = (one["why"] for one in first["stays"] if one["name"] == "reprokit/img:used")
            assert why.startswith(f"a container uses it, of a run of process {run.pid} on ")
            assert "reprokit/img:used" in tags(own_engine)
        finally:
            run.kill()
            run.communicate()
        assert [one["name"] for one in collect()["removed"] if one["kind"] == IMAGE] == ["reprokit/img:used"]
        assert own_engine.wire.client().containers(all=True) == []


def test_two_at_once_and_one_that_is_killed(own_engine: DockerEngine, base: str, tmp_path: Path) -> None:
    for number in range(8):
        build(own_engine, base, f"reprokit/img:{number}", blob(f"k{number}", 2))
    killed = gc(own_engine, tmp_path, "--budget", "1m")
    assert killed.stdout is not None
    while "removed: image" not in killed.stdout.readline():
        pass
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    both = [gc(own_engine, tmp_path, "--budget", "1m", "--json") for _ in range(2)]
    for one in both:
        assert answer(one)["left"] <= MB
    assert not any(tag.startswith("reprokit/img:") for tag in tags(own_engine))

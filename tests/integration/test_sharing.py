"""Images that two engines share through a real registry: what one has built, no other builds again."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprokit.engine.disk import Disk, _in_turn
from reprokit.engine.wire import Wire
from tests.integration.test_run import User
from tests.registry_server import LOGIN, Registry, registry_server

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not shutil.which("docker-registry"), reason="docker-registry is not installed"),
]

CASE = """\
schema: reprokit/v1
id: {id}
title: An image that machines share
matrix: {{os: [debian-12], how: [good, bad]}}
environment: {{setup: "cat /proc/sys/kernel/random/uuid > /made-once # {id}"}}
command: cat /made-once; test {{{{ how }}}} = good
expect: {{failure: {{exit_code: 1}}, reproduces: [{{how: bad}}]}}
"""

LAST = """\
schema: reprokit/v1
id: {id}
title: Images that differ in their last step
matrix: {{os: [debian-12]}}
workdir: /{id}
environment: {{setup: cat /proc/sys/kernel/random/uuid > /made-once}}
datasets: {{data: {{path: data, generate: echo {last} > /{id}/data/last}}}}
command: cat /made-once; grep -q {last} data/last
expect: {{reproduces: none}}
"""
HELPER = """\
#!/bin/sh
read -r server
echo "$1 $server" >> {log}
if [ "$1" != get ] || [ "$server" != "{address}" ]; then echo "credentials not found in native keychain"; exit 1; fi
echo '{{"ServerURL": "{address}", "Username": "{user}", "Secret": "{secret}"}}'
"""


class Machines:
    """Machines that share a registry: each a store and a cache of its own; those of Docker share this host's engine."""

    def __init__(self, folder: Path, registry: str) -> None:
        self.case_id = f"shared-{uuid.uuid4().hex[:12]}"
        self._folder = folder
        self._registry = registry
        self.tags: set[str] = set()

    def machine(self, name: str, engine: str = "docker", **environment: str) -> User:
        folder = self._folder / name
        folder.mkdir()
        user = User(folder)
        user.write("case.yaml", CASE.format(id=self.case_id))
        user.environment |= {
            "XDG_CACHE_HOME": str(folder / "cache"),
            "REPROKIT_CONFIG": "/dev/null",
            "REPROKIT_REGISTRY_IMAGES": f"{self._registry}/team",
            "REPROKIT_ENGINE": engine,
            "REPROKIT_BASE_IMAGES": "bootstrap",
            "REPROKIT_CONFIRM": "never",
            **environment,
        }
        return user

    def run(self, user: User, *options: str) -> tuple[str, list[dict[str, Any]]]:
        """What a run said, and its cells, whose verdicts are as the case expects."""
        said = user.types("run", "case.yaml", *options)
        cells = user.cells()
        self.tags |= {cell["image"]["tag"] for cell in cells}
        assert [cell["verdict"] for cell in cells] == ["not-reproduced", "reproduced"]
        return said, cells

    def forget(self) -> None:
        """This host's Docker Engine has none of the images any more, as on a new machine."""
        subprocess.run(["docker", "rmi", "-f", *self.tags], capture_output=True, check=False)

    def forget_steps(self, word: str) -> None:
        """Nor has BuildKit the steps whose text has a word of this test's own, and those that lie on them."""
        wire = Wire()
        client = wire.client()
        records = _in_turn(lambda: client.get(wire.url("/system/df"))).json()["BuildCache"]
        found: set[str] = set()
        while more := {
            one["ID"]
            for one in records
            if one["ID"] not in found and (word in one["Description"] or one.get("Parent") in found)
        }:
            found |= more
        assert found
        Disk(wire)._prune(found)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Registry]:
    with registry_server(tmp_path / "registry") as found:
        yield found


@pytest.fixture
def machines(tmp_path: Path, server: Registry) -> Iterator[Machines]:
    found = Machines(tmp_path, server.address)
    yield found
    found.forget()


def made_once(user: User) -> str:
    """What the build wrote, which no other build writes."""
    return user.types("show", "last", "1", "--log").strip()


def names(image: str) -> list[str]:
    """All names of an image of this host's engine."""
    words = ["docker", "image", "inspect", "-f", "{{json .RepoTags}} {{json .RepoDigests}}", image]
    tags, digests = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    return [*json.loads(tags), *json.loads(digests)]


def test_what_docker_built_podman_and_another_docker_fetch(
    machines: Machines, server: Registry, podman_service: str
) -> None:
    one = machines.machine("one")
    said, cells = machines.run(one)
    assert cells[0]["image"]["built"]
    assert "registry" not in said
    tag = cells[0]["image"]["tag"]
    assert server.tags("team/own") == [f"amd64-{tag.partition(':')[2]}"]
    assert names(tag) == [tag]  # gc removes an image by our names alone
    made = made_once(one)

    two = machines.machine("two", "podman", CONTAINER_HOST=podman_service)
    said, fetched = machines.run(two)
    assert not any(cell["image"]["built"] for cell in fetched)
    assert all(cell["image"]["fetched"] and cell["image"]["digest"].startswith("sha256:") for cell in fetched)
    assert fetched[0]["image"]["id"] == cells[0]["image"]["id"]
    assert made_once(two) == made
    assert [cell["details"]["engine_kind"] for cell in fetched] == ["podman"] * 2

    machines.forget()
    three = machines.machine("three")
    _, again = machines.run(three)
    assert all(cell["image"].get("fetched") and not cell["image"]["built"] for cell in again)
    assert made_once(three) == made
    assert names(tag) == [tag]
    _, there = machines.run(three)  # it is there by now
    assert not any(cell["image"].get("fetched") or cell["image"]["built"] for cell in there)


def test_what_is_corrupt_or_another_image_is_built_here(
    machines: Machines, server: Registry, podman_service: str
) -> None:
    one = machines.machine("one")
    _, cells = machines.run(one)
    made = made_once(one)
    (version,) = server.tags("team/own")

    blobs = server.data / "docker/registry/v2/blobs/sha256"
    kept = {path: path.read_bytes() for path in blobs.glob("*/*/data") if path.stat().st_size < 100_000}
    for path, content in kept.items():
        if content[:2] == b"\x1f\x8b":  # a layer
            path.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    # Docker has the layers still, and would not fetch them.
    two = machines.machine("two", "podman", CONTAINER_HOST=podman_service, REPROKIT_REGISTRY_PUSH="never")
    said, broken = machines.run(two)
    assert broken[0]["image"]["built"]
    assert "cannot be fetched, and is built here" in said
    for path, content in kept.items():
        path.write_bytes(content)

    machines.forget()
    # Whoever may push puts another image under the name.
    false = f"{server.address}/team/own:{version}"
    build = ["docker", "build", "-q", "-t", false, "-"]
    subprocess.run(build, input=b"FROM reprokit/base:debian-12\nRUN true\n", capture_output=True, check=True)
    subprocess.run(["docker", "push", "-q", false], capture_output=True, check=True)
    subprocess.run(["docker", "rmi", false], capture_output=True, check=True)
    said, cells = machines.run(machines.machine("three", REPROKIT_REGISTRY_PUSH="never"))
    assert cells[0]["image"]["built"]
    assert "is another image than its name says" in said
    machines.forget()
    _, pinned = machines.run(one)  # a store that has seen the image takes it by its digest, whatever the name means
    assert pinned[0]["image"].get("fetched")
    assert made_once(one) == made


def test_a_registry_that_asks_for_a_login_gets_the_one_of_the_engine(machines: Machines, tmp_path: Path) -> None:
    with registry_server(tmp_path / "closed", login=True) as closed:
        prefix = {"REPROKIT_REGISTRY_IMAGES": f"{closed.address}/team"}
        said, cells = machines.run(machines.machine("one", **prefix))
        assert cells[0]["image"]["built"]
        assert "does not serve images" in said
        assert "no basic auth credentials" in said
        assert said.count("registry_images") == 1
        machines.forget()
        login = base64.b64encode(":".join(LOGIN).encode()).decode()
        docker = tmp_path / "docker"
        docker.mkdir()
        (docker / "config.json").write_text(json.dumps({"auths": {closed.address: {"auth": login}}}))
        _, cells = machines.run(machines.machine("two", DOCKER_CONFIG=str(docker), **prefix))
        assert cells[0]["image"]["built"]
        machines.forget()
        said, cells = machines.run(machines.machine("three", DOCKER_CONFIG=str(docker), **prefix))
        assert cells[0]["image"].get("fetched")
        assert "registry" not in said


def test_a_registry_that_takes_nothing_or_is_not_there_never_fails_a_run(machines: Machines, tmp_path: Path) -> None:
    with registry_server(tmp_path / "full", read_only=True) as full:
        said, cells = machines.run(machines.machine("one", REPROKIT_REGISTRY_IMAGES=f"{full.address}/team"))
        assert cells[0]["image"]["built"]
        assert said.count("did not take an image, and this run pushes no more") == 1
    machines.forget()
    said, cells = machines.run(machines.machine("two", REPROKIT_REGISTRY_IMAGES=f"{full.address}/team"))
    assert cells[0]["image"]["built"]
    assert said.count("does not serve images, and they are built here") == 1


@pytest.mark.nightly
def test_an_image_that_differs_in_its_last_step_takes_the_others_from_the_registry(
    machines: Machines, server: Registry
) -> None:
    made: list[str] = []
    for name in ("one", "two"):
        user = machines.machine(name)
        user.write("case.yaml", LAST.format(id=machines.case_id, last=name))
        said = user.types("run", "case.yaml")
        (cell,) = user.cells()
        machines.tags.add(cell["image"]["tag"])
        assert (cell["verdict"], cell["image"]["built"]) == ("not-reproduced", True)
        assert "registry" not in said
        made.append(made_once(user))
        machines.forget()
        machines.forget_steps(machines.case_id)
    assert made[0] == made[1]
    assert len(server.tags("team/own")) == 2
    assert server.tags("team/steps")


@pytest.mark.nightly
def test_a_credential_helper_gives_the_login_and_one_that_fails_is_named(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with registry_server(tmp_path / "closed", login=True) as closed:
        programs, log = tmp_path / "bin", tmp_path / "asked"
        programs.mkdir()
        helper = programs / "docker-credential-test"
        user, secret = LOGIN
        helper.write_text(HELPER.format(log=log, address=closed.address, user=user, secret=secret))
        helper.chmod(0o755)
        prefix = {
            "REPROKIT_REGISTRY_IMAGES": f"{closed.address}/team",
            "PATH": f"{programs}:{os.environ['PATH']}",
        }
        configurations = {
            "helper": {"credHelpers": {closed.address: "test"}},
            "store": {"credsStore": "test"},
            "broken": {"credHelpers": {closed.address: "missing"}},
        }
        for name, configuration in configurations.items():
            place = tmp_path / f"docker-{name}"
            place.mkdir()
            (place / "config.json").write_text(json.dumps(configuration))
            said, cells = machines.run(machines.machine(name, DOCKER_CONFIG=str(place), **prefix))
            machines.forget()
            assert bool(cells[0]["image"].get("fetched")) is (name == "store")
            if name == "broken":
                assert said.count("registry_images") == 1
                assert "docker-credential-missing" in said
            else:
                assert "registry_images" not in said
        assert set(log.read_text().split("\n")) == {f"get {closed.address}", ""}


@pytest.mark.nightly
def test_a_registry_whose_disk_fills_costs_no_verdict_and_the_next_run_pushes_what_is_missing(
    machines: Machines, tmp_path: Path
) -> None:
    with registry_server(tmp_path / "small", size="8m") as small:
        one = machines.machine("one", REPROKIT_REGISTRY_IMAGES=f"{small.address}/team")
        said, cells = machines.run(one)
        assert cells[0]["image"]["built"]
        assert said.count("did not take an image, and this run pushes no more") == 1
        assert "its disk may be full" in said
        assert small.tags("team/own") == []
        small.grow("1g")
        said, cells = machines.run(one)
        assert not cells[0]["image"]["built"]
        assert "registry_images" not in said
        assert len(small.tags("team/own")) == 1

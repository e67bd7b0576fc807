"""A run on a Ray cluster of three nodes of this machine, of which one is killed. The logic alone: tests/unit/run."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ray_cluster import RayCluster, ray_cluster

pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: fleet-%(pid)s
title: A toy
matrix: {a: ["1", "2"], b: [u, v, w, x, y]}
environment: {image: "%(image)s"}
env: {A: "{{ a }}"}
command: [sh, -c, 'date +%%s; sleep 3; date +%%s; test "$A" = 1 || { echo boom; exit 3; }']
expect:
  failure: {exit_code: 3, output: boom}
  reproduces: [{a: "2"}]
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RayCluster]:
    with ray_cluster(tmp_path) as cluster:
        yield cluster


def test_a_node_that_is_killed_loses_nothing_and_doubles_nothing(
    cluster: RayCluster, tiny: str, tmp_path: Path
) -> None:
    (tmp_path / "toy.yaml").write_text(CASE % {"pid": os.getpid(), "image": tiny})
    nodes = [cluster.add() for _ in range(3)]
    run = cluster.run(tmp_path, "toy.yaml", "--confirm", "never", "-v")
    deadline = time.monotonic() + 240
    while "not-reproduced" not in (tmp_path / "log").read_text() and run.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    nodes[2].kill()
    said = f"it said:\n{(tmp_path / 'log').read_text()}"
    assert run.wait(timeout=300) == 0, said
    cells = json.loads((tmp_path / "result.json").read_text())["cases"][0]["cells"]
    assert [cell["verdict"] for cell in cells] == ["not-reproduced"] * 5 + ["reproduced"] * 5
    assert all((tmp_path / "store" / cell["trials"][0]["log"]).exists() for cell in cells)
    assert {cell["details"]["node"]["id"] for cell in cells} <= {node.id for node in nodes}
    ran: dict[str, list[tuple[int, int]]] = {}
    for cell in cells:
        began, ended = (tmp_path / "store" / cell["trials"][0]["log"]).read_text().split()[:2]
        ran.setdefault(cell["details"]["node"]["id"], []).append((int(began), int(ended)))
    # A node of one CPU has one cell at a time, also while the cell talks to the driver.
    assert all(a[1] <= b[0] for some in ran.values() for a, b in itertools.pairwise(sorted(some)))
    assert all(one["id"] in ("", nodes[2].id) for cell in cells for one in cell["details"]["node"].get("lost", ()))


@pytest.mark.nightly
def test_podman_takes_the_image_that_docker_has(
    cluster: RayCluster, tiny: str, podman_service: str, tmp_path: Path
) -> None:
    """Its base image is in Docker alone, so that Podman could not build it."""
    (tmp_path / "toy.yaml").write_text(CASE % {"pid": f"{os.getpid()}-peers", "image": tiny})
    docker = cluster.add({"REPROKIT_ENGINE": "docker"})
    podman = cluster.add({"REPROKIT_ENGINE": "podman", "CONTAINER_HOST": podman_service})
    run = cluster.run(tmp_path, "toy.yaml", "--confirm", "never")
    status = run.wait(timeout=300)
    said = (tmp_path / "log").read_text()
    assert status == 0, said
    cells = json.loads((tmp_path / "result.json").read_text())["cases"][0]["cells"]
    where = {cell["details"]["node"]["id"]: cell["details"]["engine_kind"] for cell in cells}
    assert where == {docker.id: "docker", podman.id: "podman"}, said
    assert len({cell["image"]["tag"] for cell in cells}) == 1
    fetched = [cell for cell in cells if cell["image"].get("fetched")]
    assert {cell["details"]["engine_kind"] for cell in fetched} == {"podman"}


def test_without_a_cluster_the_message_says_how_to_start_one(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(CASE % {"pid": os.getpid(), "image": "none"})
    words = [sys.executable, "-m", "reprokit", "run", "toy.yaml", "--on", "ray", "--store", str(tmp_path / "store")]
    environ = {**os.environ, "RAY_ADDRESS": "127.0.0.1:1"}  # no one listens there
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 3
    assert "no Ray cluster answers" in done.stderr
    assert "ray start --head" in done.stderr
    assert not (tmp_path / "store").exists()

"""A run on a Ray cluster of three nodes of this machine, of which one is killed. The logic alone: tests/unit/run."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprokit.engine.docker.engine import DockerEngine

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
CLUSTER = """
import json, os, sys
from ray.cluster_utils import Cluster
memory = 100 * 1024 ** 2
cluster = Cluster(initialize_head=True, head_node_args={
    "num_cpus": 1, "object_store_memory": memory, "include_dashboard": False})
nodes = [cluster.head_node, *(cluster.add_node(num_cpus=1, object_store_memory=memory) for _ in range(2))]
pids = [[one.process.pid for some in node.all_processes.values() for one in some] for node in nodes]
print(json.dumps({"address": cluster.address, "ids": [node.node_id for node in nodes], "pids": pids}), flush=True)
sys.stdin.read()
cluster.shutdown()
"""


@pytest.fixture
def cluster(engine: DockerEngine, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Three nodes with the engine of this host; skipped where Ray does not come up on this machine in its own time."""
    environ = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_health_check_failure_threshold": "10"}
    environ |= {"RAY_health_check_period_ms": "1000", "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [sys.executable, "-c", CLUSTER]
    started = subprocess.Popen(
        words, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert started.stdin is not None
    assert started.stdout is not None
    try:
        line = started.stdout.readline()
        if not line:
            pytest.skip(f"Ray does not start here: {started.communicate()[1][-300:]}")
        yield json.loads(line)
    finally:
        started.stdin.close()
        try:
            started.wait(timeout=60)
        except subprocess.TimeoutExpired:
            started.kill()


def _children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(one) for one in found.split()]


def _kill(pids: list[int]) -> None:
    for pid in [one for parent in pids for one in (parent, *_children(parent))]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def test_a_node_that_is_killed_loses_nothing_and_doubles_nothing(
    cluster: dict[str, Any], tiny: str, tmp_path: Path
) -> None:
    (tmp_path / "toy.yaml").write_text(CASE % {"pid": os.getpid(), "image": tiny})
    words = [sys.executable, "-m", "reprokit", "run", "toy.yaml", "--on", "ray", "--confirm", "never"]
    words += ["--store", str(tmp_path / "store"), "--json", "result.json", "-v"]
    environ = {**os.environ, "RAY_ADDRESS": cluster["address"]}
    with (tmp_path / "log").open("wb") as log:
        run = subprocess.Popen(words, cwd=tmp_path, env=environ, stdout=log, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 240
    while "not-reproduced" not in (tmp_path / "log").read_text() and run.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.2)
    _kill(cluster["pids"][2])
    said = f"it said:\n{(tmp_path / 'log').read_text()}"
    assert run.wait(timeout=300) == 0, said
    cells = json.loads((tmp_path / "result.json").read_text())["cases"][0]["cells"]
    assert [cell["verdict"] for cell in cells] == ["not-reproduced"] * 5 + ["reproduced"] * 5
    assert all((tmp_path / "store" / cell["trials"][0]["log"]).exists() for cell in cells)
    assert {cell["details"]["node"]["id"] for cell in cells} <= set(cluster["ids"])
    ran: dict[str, list[tuple[int, int]]] = {}
    for cell in cells:
        began, ended = (tmp_path / "store" / cell["trials"][0]["log"]).read_text().split()[:2]
        ran.setdefault(cell["details"]["node"]["id"], []).append((int(began), int(ended)))
    # A node of one CPU has one cell at a time, also while the cell talks to the driver.
    assert all(a[1] <= b[0] for some in ran.values() for a, b in itertools.pairwise(sorted(some)))
    assert all(
        one["id"] in ("", cluster["ids"][2]) for cell in cells for one in cell["details"]["node"].get("lost", ())
    )


def test_without_a_cluster_the_message_says_how_to_start_one(tmp_path: Path) -> None:
    (tmp_path / "toy.yaml").write_text(CASE % {"pid": os.getpid(), "image": "none"})
    words = [sys.executable, "-m", "reprokit", "run", "toy.yaml", "--on", "ray", "--store", str(tmp_path / "store")]
    environ = {**os.environ, "RAY_ADDRESS": "127.0.0.1:1"}  # no one listens there
    done = subprocess.run(words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 3
    assert "no Ray cluster answers" in done.stderr
    assert "ray start --head" in done.stderr
    assert not (tmp_path / "store").exists()

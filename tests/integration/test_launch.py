"""Cells as jobs of real launchers on a real engine, which are killed, cut and left alone. The logic: tests/unit/run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.ray_cluster import RayCluster, ray_cluster
from tests.sshd_server import REPOSITORY, ssh_hosts

pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: launched-%(pid)s
title: A toy
matrix: {a: ["1", "2"], b: [%(values)s]}
environment: {image: "%(image)s"}
env: {A: "{{ a }}"}
command: [sh, -c, 'sleep 1; test "$A" = 1 || { echo boom; exit 3; }']
expect:
  failure: {exit_code: 3, output: boom}
  reproduces: [{a: "2"}]
"""
EACH = 15
AT_WORK = "**/jobs/**/journal.jsonl"
"""The journals of jobs, in the store and in the cache of nodes."""
CUT = "sh {job}/job.sh; case {id} in *-1-1) truncate -s 300 archive.tar.gz;; esac"


@dataclass
class Place:
    """A folder with the case, and what runs it."""

    folder: Path
    on: str
    environ: Mapping[str, str] = field(default_factory=dict)

    def start(self, *words: str, on: str = "") -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "reprokit", "run", *words, "--on", on or self.on, "-v"]
        command += ["--store", str(self.folder / "store"), "--json", "result.json"]
        environ = {**os.environ, "PYTHONPATH": str(REPOSITORY), **self.environ}
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(command, cwd=self.folder, env=environ, stdout=log, stderr=subprocess.STDOUT)

    def run(self, *words: str, on: str = "") -> None:
        run = self.start(*words, on=on)
        assert run.wait(timeout=240) == 0, self.said

    @property
    def said(self) -> str:
        return (self.folder / "log").read_text()

    @property
    def cells(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads((self.folder / "result.json").read_text())["cases"][0]["cells"]
        return found

    def wait_for(self, happens: Callable[[], object]) -> Any:
        deadline = time.monotonic() + 120
        while not (found := happens()):
            assert time.monotonic() < deadline, self.said
            time.sleep(0.1)
        return found

    def first_job(self) -> dict[str, Any]:
        """What the run remembers of a job that it started and that works."""
        found = self.wait_for(lambda: [one for one in self.jobs() if one["ident"]])
        self.wait_for(lambda: any('"decide"' in path.read_text() for path in self.folder.glob(AT_WORK)))
        return dict(found[0])

    def jobs(self) -> list[dict[str, Any]]:
        return [json.loads(path.read_text()) for path in sorted((self.folder / "store" / "jobs").glob("*/*/job.json"))]

    def check(self) -> None:
        """No cell is lost, double or false."""
        assert [cell["verdict"] for cell in self.cells] == ["not-reproduced"] * EACH + ["reproduced"] * EACH, self.said
        [journal] = (self.folder / "store" / "runs").glob("*/journal.jsonl")
        entries = [json.loads(line) for line in journal.read_text().splitlines()]
        decided = Counter(json.dumps(one["cell"]["cell"]) for one in entries if "cell" in one)
        assert set(decided.values()) == {1}
        assert len(decided) == 2 * EACH
        assert all((self.folder / "store" / cell["trials"][0]["log"]).exists() for cell in self.cells)


@pytest.fixture
def write(tiny: str, tmp_path: Path) -> None:
    values = {"pid": os.getpid(), "image": tiny, "values": ", ".join(f"v{number}" for number in range(EACH))}
    (tmp_path / "toy.yaml").write_text(CASE % values)


@pytest.fixture(params=["command", "ssh"])
def place(request: pytest.FixtureRequest, write: None, tmp_path: Path) -> Iterator[Place]:
    if request.param == "command":
        yield Place(tmp_path, "command:sh {job}/job.sh")
    else:
        with ssh_hosts(tmp_path / "ssh", "one", "two") as environ:
            yield Place(tmp_path, "ssh one,two", environ)


def test_a_killed_job_and_a_cut_archive_lose_no_cell(place: Place) -> None:
    """Where jobs go through a stream, what is cut is what ssh writes."""
    run = place.start("toy.yaml", "--confirm", "never", on=f"command:{CUT}" if "ssh" not in place.on else "")
    job = place.first_job()
    pid = int(job["ident"].split(" ")[1])
    if "ssh" in place.on:
        os.kill(pid, signal.SIGKILL)
    assert run.wait(timeout=240) == 0, place.said
    place.check()
    lost = [cell["details"]["node"]["lost"][0] for cell in place.cells if "lost" in cell["details"]["node"]]
    assert lost, place.said
    assert all("no whole archive came back" in one["why"] for one in lost)


def test_a_killed_submitter_finds_its_jobs_again(place: Place) -> None:
    run = place.start("toy.yaml", "--confirm", "never")
    job = place.first_job()
    run.send_signal(signal.SIGKILL)
    run.wait()
    place.run("--resume")
    place.check()
    assert "found again" in place.said
    first = {place.cells[number - 1]["details"]["node"]["id"] for number in job["numbers"]}
    assert all(one.endswith("-1-1") for one in first), place.said


def test_an_interrupt_stops_the_jobs_and_keeps_what_they_decided(place: Place) -> None:
    run = place.start("toy.yaml", "--confirm", "never")
    place.first_job()
    run.send_signal(signal.SIGINT)
    assert run.wait(timeout=120) == 130, place.said
    kept = Counter(cell["verdict"] for cell in place.cells)
    assert 0 < kept["cancelled"] < 2 * EACH, place.said
    place.run("--resume")
    assert [cell["verdict"] for cell in place.cells] == ["not-reproduced"] * EACH + ["reproduced"] * EACH


@pytest.fixture
def cluster(write: None, tmp_path: Path) -> Iterator[RayCluster]:
    pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
    with ray_cluster(tmp_path) as cluster:
        yield cluster


def test_a_node_of_ray_that_is_killed_loses_nothing_and_doubles_nothing(cluster: RayCluster, tmp_path: Path) -> None:
    nodes = [cluster.add({"PYTHONPATH": str(REPOSITORY)}) for _ in range(3)]
    place = Place(tmp_path, "ray", {"RAY_ADDRESS": cluster.address})
    run = place.start("toy.yaml", "--confirm", "never")
    place.first_job()
    nodes[2].kill()
    assert run.wait(timeout=300) == 0, place.said
    place.check()


def test_without_a_cluster_the_message_says_how_to_start_one(write: None, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs Ray: pip install '.[ray]'")
    place = Place(tmp_path, "ray", {"RAY_ADDRESS": "127.0.0.1:1"})  # no one listens there
    assert place.start("toy.yaml").wait(timeout=120) == 3
    assert "no Ray cluster answers" in place.said
    assert "ray start --head" in place.said
    assert not (tmp_path / "store").exists()

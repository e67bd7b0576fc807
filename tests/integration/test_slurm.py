"""Runs on a Slurm of three nodes of this machine, whose nodes, jobs and controller are killed."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.slurm_cluster import SlurmCluster, slurm_cluster

pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: slurm-%(pid)s
title: A toy
matrix: {a: ["1", "2"], b: [u, v, w]}
environment: {image: "%(image)s"}
env: {A: "{{ a }}"}
command: [sh, -c, 'echo began; sleep %(seconds)s; test "$A" = 1 || { echo boom; exit 3; }']
expect:
  failure: {exit_code: 3, output: boom}
  reproduces: [{a: "2"}]
"""
CELLS = ("toy.yaml", "--confirm", "never", "-v", "--trials", "5", "--jobs", "3")
"""Three jobs: of no cell the time is known."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture
def place(tmp_path: Path, tiny: str) -> Path:
    folder = tmp_path / "a b%j"  # a name that Slurm would read a pattern in
    folder.mkdir()
    (folder / "toy.yaml").write_text(CASE % {"pid": os.getpid(), "image": tiny, "seconds": 1})
    return folder


def ended(folder: Path, run: Any) -> list[dict[str, Any]]:
    """The cells of a run that ended, which are those of this host: each once."""
    said = "it said:\n"
    assert run.wait(timeout=120) == 0, said + (folder / "log").read_text()
    cells = json.loads((folder / "result.json").read_text())["cases"][0]["cells"]
    said += (folder / "log").read_text()
    assert [cell["verdict"] for cell in cells] == ["not-reproduced"] * 3 + ["reproduced"] * 3, said
    logs = [folder / "store" / trial["log"] for cell in cells for trial in cell["trials"]]
    assert [log.read_text().count("began") for log in logs] == [1] * len(set(logs)) == [1] * 30, said
    assert not (folder / "store" / "jobs").exists()
    return cells


def until(true: Callable[[], Any], folder: Path, run: Any = None) -> Any:
    """What an expression gives, once it is true, while a run goes on."""
    deadline = time.monotonic() + 60
    while not (found := true()):
        assert time.monotonic() < deadline, (folder / "log").read_text()
        assert run is None or run.poll() is None, (folder / "log").read_text()
        time.sleep(0.1)
    return found


def running(cluster: SlurmCluster) -> list[list[str]]:
    """Number, node and name of each job that runs."""
    return [line.split() for line in cluster.call("squeue", "-h", "-t", "running", "-o", "%i %N %j").splitlines()]


def node_killed(cluster: SlurmCluster, job: str, node: str, name: str) -> None:
    """A power cut; the node comes back."""
    cluster.kill_node(node)
    time.sleep(1)
    cluster.start_node(node)


def node_down(cluster: SlurmCluster, job: str, node: str, name: str) -> None:
    """An administrator takes the node out."""
    cluster.call("scontrol", "update", f"nodename={node}", "state=down", "reason=test")


def cancelled(cluster: SlurmCluster, job: str, node: str, name: str) -> None:
    """Another hand cancels the job."""
    cluster.call("scancel", job)


def killed(cluster: SlurmCluster, job: str, node: str, name: str) -> None:
    """The node's memory ran out, say."""
    cluster.call("pkill", "-KILL", "-f", f"{name}/job.sh")


def requeued(cluster: SlurmCluster, job: str, node: str, name: str) -> None:
    """Slurm starts the job again, in the same folder."""
    cluster.call("scontrol", "requeue", job)


def controller_killed(cluster: SlurmCluster, job: str, node: str, name: str) -> None:
    """Slurm's controller is away while jobs run."""
    cluster.kill_controller()
    time.sleep(6)
    cluster.start_controller()


FAULTS = [(node_killed, 1), (node_down, 1), (cancelled, 1), (killed, 1), (requeued, 0), (controller_killed, 0)]
"""What happens to a job, and whether its cells need another job."""


@pytest.mark.nightly
@pytest.mark.parametrize(("fault", "lost"), FAULTS, ids=[fault.__name__ for fault, _ in FAULTS])
def test_what_a_job_loses_is_run_again_and_counts_once(
    cluster: SlurmCluster, place: Path, fault: Callable[[SlurmCluster, str, str, str], None], lost: int
) -> None:
    options = "--requeue" if fault is requeued else ""
    run = cluster.run(place, *CELLS, options=options)
    found = until(lambda: running(cluster), place, run)[0]
    until(lambda: list(place.glob("store/jobs/*/*/store/runs/*/*/trial-2.log")), place, run)
    fault(cluster, *found)
    cells = ended(place, run)
    losses = {(one["node"], one["why"]) for cell in cells for one in cell["details"]["node"].get("lost", ())}
    assert len(losses) >= lost


@pytest.mark.nightly
def test_an_archive_that_is_cut_does_not_count(cluster: SlurmCluster, place: Path) -> None:
    program = place / "bin" / "sha256sum"
    program.parent.mkdir()
    once = 'mkdir "$0.once" 2>/dev/null && truncate -s 1000 "$1"; exit 0'
    program.write_text(f'#!/bin/sh\n/usr/bin/sha256sum "$@"\n{once}\n')
    program.chmod(0o755)
    environ = {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    cells = ended(place, cluster.run(place, *CELLS, **environ))
    lost = {one["why"] for cell in cells for one in cell["details"]["node"].get("lost", ())}
    assert lost


def test_a_run_whose_process_was_killed_takes_its_jobs_over(cluster: SlurmCluster, place: Path) -> None:
    run = cluster.run(place, *CELLS)
    until(lambda: len(running(cluster)) == 3, place, run)
    run.kill()
    run.wait()
    jobs = running(cluster)
    node_killed(cluster, *jobs[0])
    until(lambda: not running(cluster), place)  # Slurm ends them meanwhile
    cells = ended(place, cluster.run(place, "-v", "--resume"))
    served = {cell["details"]["node"]["id"] for cell in cells}
    assert len(served) == 3
    assert {name for _, _, name in jobs[1:]} < served, "what they decided was not decided again"
    assert {one["id"] for cell in cells for one in cell["details"]["node"].get("lost", ())} == {jobs[0][2]}


def test_ctrl_c_cancels_the_jobs_and_keeps_what_they_decided(cluster: SlurmCluster, place: Path) -> None:
    run = cluster.run(place, *CELLS)
    until(lambda: running(cluster), place, run)
    run.send_signal(signal.SIGINT)
    assert run.wait(timeout=60) == 130
    assert until(lambda: not running(cluster), place)


def test_a_job_that_no_node_can_take_says_why(cluster: SlurmCluster, place: Path) -> None:
    run = cluster.run(place, *CELLS, options="--partition=short --time=10")
    assert run.wait(timeout=60) == 3, (place / "log").read_text()
    said = (place / "log").read_text()
    assert "pending (Partition" in said
    assert not cluster.call("squeue", "-h")

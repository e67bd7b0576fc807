"""A run of cells that only wait, on the workers of a real Ray cluster of this machine, two of which are killed."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
WORKERS, KILLED, SECONDS = 8, 2, 2.0
SLOTS = 2
"""Cells that a worker runs at a time."""

_CLUSTER = """
import json, sys
from ray.cluster_utils import Cluster
memory = 80 * 1024 ** 2
cluster = Cluster(initialize_head=True, head_node_args={
    "num_cpus": 0, "object_store_memory": memory, "include_dashboard": False})
nodes = [cluster.add_node(num_cpus=int(sys.argv[2]), object_store_memory=memory) for _ in range(int(sys.argv[1]))]
pids = [[one.process.pid for some in node.all_processes.values() for one in some] for node in nodes]
print(json.dumps({"address": cluster.address, "pids": pids}), flush=True)
sys.stdin.read()
cluster.shutdown()
"""
_BARE = """
import ray, sys, time
ray.init(address="auto", log_to_driver=False)
cells, seconds, workers = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
@ray.remote(num_cpus=1)
def cell():
    time.sleep(seconds)
ray.get([cell.remote() for _ in range(workers)])
began = time.monotonic()
ray.get([cell.remote() for _ in range(cells)])
print(time.monotonic() - began)
"""


def simulate(seconds: float) -> None:
    """In a process of a node: every engine is a simulated one, whose trials take so many seconds."""
    from reprokit.engine import registry
    from reprokit.evidence.model import Ending
    from tests.unit.fakes import FakeEngine

    def behave(trial: object, sink: object) -> Ending:
        time.sleep(seconds)
        return Ending(exit_code=0, seconds=seconds)

    registry.make = lambda name, environ=None: FakeEngine(behave)


def report(folder: Path, cells: int, workers: int = WORKERS, killed: int = KILLED) -> Iterator[str]:
    """Lines of figures."""
    seconds = SECONDS
    code = folder / "code"
    code.mkdir()
    lines = ("import sys", "if any('default_worker' in word for word in sys.orig_argv):")
    text = "\n".join((*lines, "    from tests.bench.fleet import simulate", f"    simulate({seconds})", ""))
    (code / "sitecustomize.py").write_text(text)
    environ = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "XDG_CACHE_HOME": str(folder / "cache")}
    words = [sys.executable, "-c", _CLUSTER, str(workers), str(SLOTS)]
    nodes = {**environ, "PYTHONPATH": f"{code}:{REPOSITORY}"}
    with subprocess.Popen(words, env=nodes, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdin is not None
        assert started.stdout is not None
        cluster = json.loads(started.stdout.readline())
        environ["RAY_ADDRESS"] = cluster["address"]
        tasks = 5 * workers * SLOTS
        bare = [sys.executable, "-c", _BARE, str(tasks), str(seconds), str(workers * SLOTS)]
        said = subprocess.run(bare, env=environ, capture_output=True, text=True, check=True).stdout
        took = float(said.split()[-1])
        yield f"{tasks} bare tasks of Ray: {_share(tasks * seconds, took * workers * SLOTS, tasks)}"
        yield from _run(folder, environ, cluster["pids"], cells, killed, seconds)
        started.stdin.close()


def _run(
    folder: Path,
    environ: Mapping[str, str],
    pids: Sequence[Sequence[int]],
    cells: int,
    killed: int,
    seconds: float,
) -> Iterator[str]:
    case = {
        "schema": "reprokit/v1",
        "id": "fleet",
        "title": "Cells that wait",
        "matrix": {"n": [str(number) for number in range(cells)]},
        "environment": {"image": "simulated:1"},
        "env": {"N": "{{ n }}"},
        "command": "sleep 1",
        "expect": {"reproduces": "none"},
    }
    (folder / "fleet.yaml").write_text(json.dumps(case))
    words = [sys.executable, "-m", "reprokit", "run", "fleet.yaml", "--on", "ray", "--confirm", "never"]
    words += ["--store", str(folder / "store"), "--json", "result.json"]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.monotonic()
    dead: list[float] = []
    decided, first = 0, began
    with subprocess.Popen(
        words, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if re.match(r"\[\d+/\d+\]", line):
                decided += 1
                if decided == 1:
                    first = time.monotonic() - seconds
                if len(dead) < killed and decided >= cells * (len(dead) + 1) // (killed + 2):
                    dead.append(time.monotonic())
                    _kill(pids[len(dead) - 1])
                last = time.monotonic()
        run.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    slots = SLOTS * (len(pids) * (last - first) - sum(last - one for one in dead))
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    found: list[dict[str, Any]] = json.loads((folder / "result.json").read_text())["cases"][0]["cells"]
    lost = sum(bool(cell["details"]["node"].get("lost")) for cell in found)
    assert len({cell["cell"]["n"] for cell in found}) == len(found) == cells
    assert {cell["verdict"] for cell in found} == {"not-reproduced"}
    what = f"{cells:,} cells of {seconds:g} s on {len(pids)} workers, {killed} killed"
    yield f"{what}: {_share(cells * seconds, slots, cells)}"
    yield (
        f"from the first cell to the last {last - first:.0f} s, before that {first - began:.0f} s; "
        f"{lost} cells repeated; the driver took {1000 * cpu / cells:.0f} ms of processor time per cell "
        f"and {after.ru_maxrss / 1e3:.0f} MB"
    )


def _share(work: float, available: float, cells: int) -> str:
    return f"{work / available:.2f} of the ideal, {1000 * (available - work) / cells:.0f} ms beside each cell"


def _kill(pids: Sequence[int]) -> None:
    """Kill a node with its workers."""
    children = [subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout for pid in pids]
    for pid in [*pids, *(int(one) for said in children for one in said.split())]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue

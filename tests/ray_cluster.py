"""A Ray cluster of several nodes on this machine, each with an environment of its own; nodes join and die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[1]
MEMORY = 100 * 1024**2

_CODE = """
import json, sys
from ray.cluster_utils import Cluster
cluster = Cluster()
for line in sys.stdin:
    node = cluster.add_node(include_dashboard=False, **json.loads(line))
    pids = [one.process.pid for some in node.all_processes.values() for one in some]
    print(json.dumps({"address": cluster.address, "id": node.node_id, "pids": pids}), flush=True)
cluster.shutdown()
"""


@dataclass(eq=False)
class RayNode:
    """A node of the cluster. ``pids``: its processes, without workers."""

    id: str
    pids: list[int]

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the node, and to its workers."""
        for pid in [one for parent in self.pids for one in (parent, *_children(parent))]:
            with suppress(OSError):
                if b"ray" in Path(f"/proc/{pid}/cmdline").read_bytes():  # and no other, which has its number by now
                    os.kill(pid, number)

    def kill(self) -> None:
        """End the node as a power cut does."""
        self.signal(signal.SIGKILL)


@dataclass(eq=False)
class RayCluster:
    """The cluster; its first node is the head."""

    process: subprocess.Popen[str]
    address: str = ""
    nodes: list[RayNode] = field(default_factory=list)

    def add(self, environ: Mapping[str, str] | None = None, **options: Any) -> RayNode:
        """Start a node, with variables of its own and options of ``ray start``."""
        wanted = {"num_cpus": 1, "object_store_memory": MEMORY, "env_vars": dict(environ or {}), **options}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(wanted) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            pytest.skip(f"Ray does not start here: {self.process.communicate()[1][-300:]}")
        said = json.loads(line)
        self.address = said["address"]
        self.nodes.append(RayNode(said["id"], said["pids"]))
        return self.nodes[-1]

    def run(self, folder: Path, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        """Start ``reprokit run`` on the cluster in a folder; what it says is in the file ``log`` there."""
        command = [sys.executable, "-m", "reprokit", "run", *words, "--on", "ray"]
        command += ["--store", str(folder / "store"), "--json", "result.json"]
        environ = {**os.environ, "RAY_ADDRESS": self.address, **environ}
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(command, cwd=folder, env=environ, stdout=log, stderr=subprocess.STDOUT)


def _children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout
    return [int(one) for one in found.split()]


@contextmanager
def ray_cluster(folder: Path) -> Iterator[RayCluster]:
    """A cluster without nodes, which ends with the block. ``folder``: for the cache of nodes that name none."""
    environ = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_health_check_failure_threshold": "10"}
    environ |= {"RAY_health_check_period_ms": "1000", "XDG_CACHE_HOME": str(folder / "cache")}
    words = [sys.executable, "-c", _CODE]
    pipe = subprocess.PIPE
    started = subprocess.Popen(words, env=environ, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    cluster = RayCluster(started)
    try:
        yield cluster
    finally:
        assert started.stdin is not None
        with suppress(BrokenPipeError):
            started.stdin.close()
        try:
            started.wait(timeout=60)
        except subprocess.TimeoutExpired:
            started.kill()
        for node in cluster.nodes:
            node.kill()


def with_engine(folder: Path, module: str, made: str) -> dict[str, str]:
    """The environment of a node whose jobs have the engine that the expression ``made`` gives, with ``module``."""
    folder.mkdir(parents=True)
    lines = [
        "import sys",
        "if 'reprokit' in sys.orig_argv:",
        "    from reprokit.engine import registry",
        f"    import {module} as module",
        f"    registry.make = lambda name, environ=None: {made}",
    ]
    (folder / "sitecustomize.py").write_text("\n".join((*lines, "")))
    return {"PYTHONPATH": f"{folder}:{REPOSITORY}", "XDG_CACHE_HOME": str(folder / "cache")}

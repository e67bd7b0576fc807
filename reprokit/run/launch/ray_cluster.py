"""A Ray cluster: each job is a task. Ray hands out CPUs, GPUs and memory; of ours, bytes of job and archive travel."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from reprokit.case.limits import shown_bytes
from reprokit.core import version
from reprokit.core.errors import EngineError, Unsupported, UsageError
from reprokit.core.text import one_line, whole_number
from reprokit.run.launch import ray_node
from reprokit.run.launch.job import Job, cancel
from reprokit.run.launch.launcher import JobState, Launcher, Phase

HERE = "ray"
"""The cluster of this machine, or of RAY_ADDRESS."""
KNOCK = 10.0
"""Seconds that a cluster has to take a connection."""
EXTRA = f"install the extra 'ray': {version.install_line('ray')}"


class RayLauncher(Launcher):
    """Its jobs end with this process: a resumed run starts them again."""

    def __init__(self, on: str) -> None:
        try:
            import ray
        except ImportError:
            raise UsageError(f"--on {on} needs Ray, which is not installed: {EXTRA}") from None
        os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
        self.name = on
        self._ray = ray
        self._ours = not ray.is_initialized()
        if self._ours:
            _init(ray, on)
        with suppress(AttributeError, ValueError):
            ray.cloudpickle.register_pickle_by_value(ray_node)
        # On the head node, which lives as long as the cluster.
        head = {"node:__internal_head__": 0.001}
        self._begun = ray.remote(ray_node.Begun).options(num_cpus=0, resources=head).remote()
        self._tasks: dict[str, Any] = {}
        self._done: dict[str, bytes] = {}
        self._over: dict[str, JobState] = {}
        self._where: dict[str, list[str]] = {}
        self._names: dict[str, str] = {}
        self._alive()

    def _alive(self) -> list[dict[str, Any]]:
        try:
            alive = [node for node in self._ray.nodes() if node["Alive"]]
        except Exception as error:
            raise EngineError(f"the Ray cluster does not answer any more: {one_line(str(error), 200)}") from error
        cpus = {_name(node): node["Resources"].get("CPU", 0.0) for node in alive}
        self.nodes = tuple(name for name, count in cpus.items() if count)
        self.slots = max(1, int(2 * sum(cpus.values())))  # a job for each CPU, and one that waits for it
        return alive

    def start(self, job: Job) -> str:
        """See :class:`.Launcher`. Raises Unsupported where no node has what the job needs, or all refused it."""
        needs = {"CPU": job.cpus, "GPU": job.gpus, "memory": job.memory or 0}
        offers = [(node, node["Resources"]) for node in self._alive()]
        fit = [node for node, has in offers if all(has.get(name, 0) >= need for name, need in needs.items())]
        able = [node["NodeID"] for node in fit if _name(node) not in job.avoid] or [node["NodeID"] for node in fit]
        if not able:
            what = f"{job.cpus} CPUs, {job.gpus} GPUs, {shown_bytes(job.memory or 0)} of memory"
            raise Unsupported(f"no node of the cluster offers Ray {what} (ray start --num-cpus, --num-gpus, --memory)")
        options = {"num_cpus": job.cpus, "num_gpus": job.gpus, "max_retries": 0, "name": job.id}
        options |= {"memory": job.memory} if job.memory else {}
        options["label_selector"] = {"ray.io/node-id": f"in({','.join(able)})"}
        try:
            task = self._ray.remote(ray_node.serve).options(**options)
            scripts = job.stream, cancel(job.id)
            self._tasks[job.id] = task.remote(job.id, self._begun, job.packed(), scripts, job.cpus)
        except Exception as error:
            raise EngineError(f"the Ray cluster went away: {one_line(str(error), 200)}") from error
        self._where[job.id] = able
        return job.id

    def states(self, idents: Sequence[str]) -> Mapping[str, JobState]:
        """See :class:`.Launcher`."""
        alive = {node["NodeID"]: _name(node) for node in self._alive()}
        self._names |= alive
        try:
            begun = self._ray.get(self._begun.nodes.remote(), timeout=KNOCK)
        except Exception as error:
            raise EngineError(f"the Ray cluster does not answer: {one_line(str(error), 200)}") from error
        return {ident: self._state_of(ident, begun.get(ident, ""), alive) for ident in idents}

    def _state_of(self, ident: str, node: str, alive: Mapping[str, str]) -> JobState:
        name = self._names.get(node, node)
        if ident in self._over:
            return self._over[ident]
        if ident not in self._tasks:
            return JobState(phase=Phase.LOST, words="it ended with the process that gave it to Ray")
        task, words = self._tasks[ident], "the node died"
        try:
            if self._ray.wait([task], timeout=0)[0]:
                self._done[ident] = self._ray.get(task)
                words = ""
            elif node in alive or (not node and not alive.keys().isdisjoint(self._where[ident])):
                return JobState(phase=Phase.RUNNING if node else Phase.WAITING, node=name)
        except self._ray.exceptions.NodeDiedError:
            pass
        except Exception as error:  # Ray's, or what the task raised
            words = one_line(" ".join(str(error).split()), 300)
        self._over[ident] = JobState(phase=Phase.LOST if words else Phase.ENDED, words=words, node=name)
        return self._over[ident]

    def cancel(self, ident: str) -> None:
        """See :class:`.Launcher`."""
        if ident in self._tasks and ident not in self._over:
            with suppress(Exception):
                self._ray.cancel(self._tasks[ident])

    def bring(self, ident: str, job: Job) -> None:
        """See :class:`.Launcher`."""
        if ident in self._done:
            output = job.folder / "here" / "output"
            output.write_bytes(self._done.pop(ident))
            job.unpack(output)

    def close(self) -> None:
        """Leave the cluster."""
        if self._ours:
            with suppress(Exception):
                self._ray.shutdown()


def _name(node: Mapping[str, Any]) -> str:
    """One line: it is the word of a machine that may be another user's."""
    return f"{one_line(str(node['NodeManagerHostname']), 60)} (node {node['NodeID'][:8]})"


def _init(ray: Any, on: str) -> None:
    address = os.environ.get("RAY_ADDRESS") or "auto" if on == HERE else on
    try:
        _knock(address)
        ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, configure_logging=True)
    except (ConnectionError, OSError) as error:
        start = "start one with `ray start --head`, or name another with --on ray://HOST:PORT"
        where = "RAY_ADDRESS" if on == HERE and os.environ.get("RAY_ADDRESS") else f"--on {on}"
        raise EngineError(f"{where}: no Ray cluster answers ({one_line(str(error), 200)}): {start}") from None
    except Exception as error:  # Ray has no class of its own for another version, and gRPC several
        said = one_line(" ".join(str(error).split()), 400)
        if "version" in said.lower() and "mismatch" in said.lower().replace("versions", ""):
            raise UsageError(
                f"--on {on}: the cluster has another Python or Ray than this machine ({said}): install the cluster's "
                "versions here, or run reprokit on a node"
            ) from None
        raise EngineError(f"--on {on}: the Ray cluster cannot be used: {said}") from None


def _knock(address: str) -> None:
    """Raise OSError where nothing listens at an address with a port: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and (number := whole_number(port)) is not None:
        socket.create_connection((host.strip("[]"), number), KNOCK).close()

"""Which nodes of a cluster can serve a run or a cell, what a cell asks of Ray, and when it leaves its image. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reprokit.case.limits import shown_bytes
from reprokit.core.errors import EngineError, Unsupported
from reprokit.core.text import one_line, pluralize
from reprokit.engine.protocol import EngineInfo
from reprokit.environment import preflighting
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.catalog import Catalog
from reprokit.environment.dockerfile import build_reads_files
from reprokit.environment.host import HostFacts
from reprokit.environment.preflighting import preflight
from reprokit.run.admitting import check_limits
from reprokit.run.task import Task

MOST_BYTES = 1 << 30
"""The largest image that nodes give each other: of larger ones a copy on both disks and a transfer take too long."""
TAKE_SECONDS, TAKE_SPEED = 5.0, 20e6
"""What it takes to take an image from another node: a guess, until one was taken. Saving and loading it count."""
QUEUED = 2
"""Tasks that Ray is given for each that its nodes can run at a time: the next one is there when one ends."""


@dataclass(frozen=True, kw_only=True)
class NodeReport:
    """What a node says of itself. ``facts``: with the GPUs that it leases; ``trouble``: why it serves no cell."""

    facts: HostFacts = field(default_factory=HostFacts)
    engine: EngineInfo | None = None
    trouble: str = ""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A node that is alive. ``name``: of its host. What it offers Ray: ``cpus``, ``gpus``, ``memory`` in bytes."""

    id: str
    name: str
    cpus: float
    gpus: float = 0.0
    memory: float = 0.0
    report: NodeReport = field(default_factory=NodeReport)

    def __str__(self) -> str:
        return f"{self.host} (node {self.id[:8]})"

    @property
    def host(self) -> str:
        """Its name, on one line: it is the word of a machine that may be another user's."""
        return one_line(self.name, 100)

    @property
    def trouble(self) -> str:
        """Why it serves no cell, '' where it does."""
        return " ".join(self.report.trouble.split()) or ("" if self.cpus >= 1 else "it offers Ray no CPU")


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a cell asks of Ray: whole CPUs, whole GPUs, and bytes of memory."""

    cpus: int = 1
    gpus: int = 0
    memory: int = 0

    @property
    def options(self) -> Mapping[str, float]:
        """As options of a Ray task."""
        return {"num_cpus": self.cpus, "num_gpus": self.gpus, **({"memory": self.memory} if self.memory else {})}


def refusal(task: Task, node: Node, catalog: Catalog) -> str:
    """Why a node cannot serve a task, as far as it is known here; '' where it can."""
    if node.trouble or node.report.engine is None:
        return node.trouble or "no engine answers"
    try:
        preflight(task.spec, node.report.facts, catalog)
        check_limits(task.spec.limits, node.report.engine)
    except Unsupported as error:
        return str(error)
    needs = needs_of(task, [node], catalog)
    for what, asked, offered in (("CPUs", needs.cpus, node.cpus), ("GPUs", needs.gpus, node.gpus)):
        if asked > offered:
            return f"the cell needs {asked} {what}, and the node offers Ray {offered:g}"
    if needs.memory > node.memory:
        return (
            f"the cell needs {shown_bytes(needs.memory)} of memory, and the node offers Ray {shown_bytes(node.memory)} "
            "(ray start --memory)"
        )
    return ""


def makes_images(node: Node) -> bool:
    """Whether a build there may change all of the system: a virtual environment lacks much that an image has."""
    return node.report.engine is not None and node.report.engine.capabilities.images


def takes_images(node: Node, homes: Iterable[Node]) -> bool:
    """Whether a node can take images of one of ``homes`` as they are there."""
    engines = [one.report.engine for one in (node, *homes)]
    architectures = {engine.architecture for engine in engines[1:] if engine and engine.capabilities.archives}
    return engines[0] is not None and engines[0].capabilities.archives and engines[0].architecture in architectures


def take_seconds(size: int) -> float:
    """How long it probably takes to take an image of so many bytes from another node."""
    return TAKE_SECONDS + size / TAKE_SPEED if size <= MOST_BYTES else math.inf


def needs_of(task: Task, nodes: Sequence[Node], catalog: Catalog) -> Needs:
    """What a task asks of Ray so that each of ``nodes`` can serve it.

    Ray hands out any GPU of a node: where some cannot run the cell, as many more are asked for. A cell that is measured
    against another has a node to itself.
    """
    limits = task.spec.limits
    gpus = limits.gpus and limits.gpus + max((_unfit(task, node, catalog) for node in nodes), default=0)
    cpus = max(1, math.ceil(limits.cpus or 1))
    if task.reference is not None:
        cpus = max(cpus, int(min((node.cpus for node in nodes), default=1)))
    return Needs(cpus=cpus, gpus=gpus, memory=limits.memory or 0)


def _unfit(task: Task, node: Node, catalog: Catalog) -> int:
    facts = node.report.facts
    return len(facts.gpus) - len(preflighting.able(task.spec, facts, catalog))


def places(task: Task, nodes: Iterable[Node], catalog: Catalog, refused: Mapping[str, str]) -> list[Node]:
    """The nodes that can serve a task and have not refused it, by id: of those, Ray chooses.

    Those of which one GPU is as good as the other come before those of which Ray might hand out a wrong one; a cell
    that has a node to itself goes to nodes of one size.
    """
    able = [node for node in nodes if node.id not in refused and not refusal(task, node, catalog)]
    if task.spec.limits.gpus:
        least = min((_unfit(task, node, catalog) for node in able), default=0)
        able = [node for node in able if _unfit(task, node, catalog) == least]
    if task.reference is not None:
        most = max((node.cpus for node in able), default=0)
        able = [node for node in able if node.cpus == most]
    return sorted(able, key=lambda node: node.id)


def unserved(task: Task, nodes: Sequence[Node], catalog: Catalog, refused: Mapping[str, str]) -> str:
    """Why no node serves a task, in words: each reason once, with its nodes. ``refused``: what nodes said, by id."""
    reasons: dict[str, list[str]] = {}
    for node in nodes:
        why = refused.get(node.id) or refusal(task, node, catalog)
        if why:
            reasons.setdefault(why, []).append(str(node))
    if not reasons:
        return "the cluster has no node that is alive"
    words = [
        f"{', '.join(names) if len(names) < 4 else pluralize(len(names), 'node')}: {why}"
        for why, names in reasons.items()
    ]
    return f"no node of the cluster can serve it: {'; '.join(words)}"


def slots(nodes: Iterable[Node], needs: Needs) -> int:
    """How many cells with these needs the nodes run at a time."""
    return sum(int(min([node.cpus / needs.cpus, *([node.gpus / needs.gpus] if needs.gpus else [])])) for node in nodes)


def image_key(task: Task) -> str:
    """Equal for tasks that most probably share an image: a guess, by which one of them goes first and builds it."""
    spec = task.spec
    files = sorted(spec.files.items()) if build_reads_files(spec, task.datasets) else ()
    axes = {name: task.cell.get(name) for name in AXIS_NAMES}
    held = task.held and task.held.entry
    inside = (spec.environment, sorted(spec.sources.items()), files, axes, spec.workdir, sorted(task.datasets), held)
    return repr((inside, task.file.trust))


def leaves_home(*, waiting: int, slots: int, cell_seconds: float, image_seconds: float) -> bool:
    """Whether cells that wait for the nodes that have their image are done sooner where it has to be made first."""
    return waiting * cell_seconds / max(1, slots) > image_seconds


def check_nodes(nodes: Sequence[Node], on: str) -> list[str]:
    """What the user should know of the nodes. Raises EngineError where none can serve a cell."""
    able = [node for node in nodes if not node.trouble]
    troubles = [f"{node}: {node.trouble}" for node in nodes if node.trouble]
    if not able:
        raise EngineError("\n  ".join([f"--on {on}: no node of the cluster can serve a cell", *troubles]))
    counts: dict[str, int] = {}
    for node in able:
        counts[str(node.report.engine)] = counts.get(str(node.report.engine), 0) + 1
    words = ", ".join(f"{pluralize(count, 'node')} with {engine}" for engine, count in sorted(counts.items()))
    return [f"{on}: {words}", *(f"not used: {trouble}" for trouble in troubles)]


def describe_cluster(nodes: Sequence[Node], version: str) -> EngineInfo:
    """The engines of a cluster as the one engine that the record of a run names."""
    engines = {str(node.report.engine): node.report.engine for node in nodes if node.report.engine and not node.trouble}
    kinds = {engine.kind for engine in engines.values() if engine}
    return EngineInfo(
        kind=kinds.pop() if len(kinds) == 1 else "ray",
        name="Ray",
        version=f"{version} over {pluralize(len(nodes), 'node')}: {', '.join(sorted(engines))}",
    )

"""Whether a cluster can serve a run at all, and what is said of it. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from reprokit.core.errors import EngineError
from reprokit.core.text import pluralize
from reprokit.engine.protocol import EngineInfo
from reprokit.run.fleet.placing import Node


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


def described(nodes: Sequence[Node], version: str) -> EngineInfo:
    """The engines of a cluster as the one engine that the record of a run names."""
    engines = {str(node.report.engine): node.report.engine for node in nodes if node.report.engine and not node.trouble}
    kinds = {engine.kind for engine in engines.values() if engine}
    return EngineInfo(
        kind=kinds.pop() if len(kinds) == 1 else "ray",
        name="Ray",
        version=f"{version} over {pluralize(len(nodes), 'node')}: {', '.join(sorted(engines))}",
    )

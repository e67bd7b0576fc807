"""Which cells share images, known from their Dockerfiles before a source is fetched or an engine is asked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.core.errors import ReprokitError
from reprokit.environment.model import SourceTree
from reprokit.run.images import SourceTrees, wanted

if TYPE_CHECKING:
    from reprokit.case.cellspec import SourceSpec
    from reprokit.case.trust import Trust
    from reprokit.environment.supply import Supply
    from reprokit.run.task import Task


class UnfetchedTrees(SourceTrees):
    """Sources that are named and not fetched: which images are the same depends on what they are asked to be."""

    def __init__(self, empty: Path) -> None:
        super().__init__(lambda trust: {}, lambda note: None)
        self._empty = empty

    def _fetch(self, name: str, source: SourceSpec, trust: Trust) -> SourceTree:
        return SourceTree(name=name, commit="", digest="", archive=self._empty, path=source.path)


def image_and_layers(task: Task, supply: Supply, trees: UnfetchedTrees) -> tuple[str, tuple[str, ...]] | None:
    """The key of a task's image, and its layers; None where the cell is refused before anything is built."""
    try:
        image = wanted(task, supply, trees)
    except ReprokitError:
        return None
    sources = [f"COPY {name} {source.git} {source.ref} {source.patch}" for name, source in task.spec.sources.items()]
    return " ".join([image.key, *sources]), (*steps(image.rendered.dockerfile), *sources, image.key)


def steps(dockerfile: str) -> tuple[str, ...]:
    """The instructions of a Dockerfile; each with all before it is a layer."""
    lines = [line for line in dockerfile.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    return tuple(line for line in lines if line.split()[0] in ("FROM", "RUN", "COPY", "ADD"))

"""What a cell costs before its program runs: nothing where its image exists, else the build steps not cached yet."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from reprokit.core.errors import Unsupported
from reprokit.run.images import SourceTrees, bases_here, wanted
from reprokit.run.sources import SourceError

if TYPE_CHECKING:
    from reprokit.engine.protocol import Engine
    from reprokit.environment.supply import Supply
    from reprokit.run.task import Task
    from reprokit.store.folder import SeenBases

NEW_BASE = 100
"""Added to the steps where the engine has to get a base image first."""
NOT_SERVED = 1000
"""The cost of a cell that this host cannot serve: it is tried last."""


def cost(
    task: Task, engine: Engine, supply: Supply, trees: SourceTrees, seen: SeenBases, known: Collection[str]
) -> tuple[int, str]:
    """The cost of a task, and its Dockerfile ('' where it has none). ``known``: Dockerfiles of images that exist.

    0 where its image exists; else 1 for each instruction, from the first that no Dockerfile of ``known`` shares.
    ``seen``: the digests of base images seen before. Raises EngineError.
    """
    try:
        image = wanted(task, supply, trees)
    except (Unsupported, SourceError):
        return NOT_SERVED, ""
    text = image.rendered.dockerfile
    standing = bases_here(engine, image, seen)
    if standing is None:
        return NEW_BASE + unshared(text, known), text
    return (0 if engine.image(image.name(standing)) else unshared(text, known)), text


def unshared(dockerfile: str, known: Collection[str]) -> int:
    """How many instructions of a Dockerfile follow the longest beginning that it shares with one of ``known``."""
    own = _instructions(dockerfile)
    return len(own) - max((_alike(own, _instructions(other)) for other in known), default=0)


def _instructions(dockerfile: str) -> list[str]:
    found: list[str] = []
    for line in dockerfile.splitlines():
        if line.partition(" ")[0].isupper() or not found:
            found.append(line)
        else:
            found[-1] += "\n" + line
    return found


def _alike(one: Sequence[str], other: Sequence[str]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

"""A locked cell's environment, sources, base and build: what its lock holds, and nothing beside."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from reprokit.case.cellspec import CellSpec
from reprokit.core.errors import BuildFailed
from reprokit.engine import site
from reprokit.engine.protocol import Build, Engine, ImageInfo, Progress
from reprokit.environment import bootstrap
from reprokit.environment.lock import PinnedEnvironment
from reprokit.environment.model import Environment, SourceTree
from reprokit.environment.resolving import resolve
from reprokit.run import sources
from reprokit.run.locking import verify
from reprokit.run.locking.bases import ensure as ensure_base
from reprokit.run.supplying import site_catalog

__all__ = ["applied", "build", "ensure_base"]


def applied(
    held: PinnedEnvironment, spec: CellSpec, trees: Callable[[CellSpec], dict[str, SourceTree]]
) -> tuple[Environment, dict[str, SourceTree]]:
    """The environment on the lock's base, and the sources at the lock's commits.

    Raises Unsupported, and sources.SourceError where a tree is not the one that was locked.
    """
    entry = held.entry
    environment = resolve(spec, replace(entry.supply(), catalog=site_catalog()))
    base = replace(environment.base, reference=entry.pins.base.reference)
    at_commits = {
        name: replace(source, ref=entry.sources[name].commit)
        if name in entry.sources and sources.COMMIT.fullmatch(entry.sources[name].commit)
        else source
        for name, source in spec.sources.items()
    }
    fetched = trees(replace(spec, sources=at_commits))
    for name, tree in fetched.items():
        locked = entry.sources.get(name)
        if locked is None or tree.digest != locked.digest:
            raise sources.SourceError(
                f"{held.lock.where(entry, 'sources', name)}: source {name!r} is not the tree that was locked: "
                f"{tree.commit or 'a folder'} {tree.digest}"
            )
    return replace(environment, base=base), fetched


def build(
    engine: Engine,
    request: Build,
    held: PinnedEnvironment,
    environment: Environment,
    on_progress: Callable[[Progress], None],
    cancel: threading.Event,
) -> ImageInfo:
    """Build a locked image; a failure names the lock's line where it is about one."""
    own = site.current()
    secrets = dict(own.secrets)
    if (release := site_catalog().releases().get(environment.os)) is not None:
        there = bootstrap.snapshot_of(release, held.entry.pins.date, site.settings().apt_snapshot)
        secrets["apt_snapshot"] = f"{there.main}\n{there.security}\n".encode()
    try:
        return engine.build(request, replace(own, secrets=secrets), on_progress, cancel)
    except BuildFailed as error:
        raise verify.explained(error, held.lock, held.entry) from error

"""Every kind of engine, the engine for a name that the user gave, and ``auto``: the one that answers."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from reprokit.core.errors import EngineError, UsageError
from reprokit.core.near_match import near
from reprokit.engine import kinds
from reprokit.engine.entry import EngineEntry
from reprokit.engine.kinds import Capabilities

if TYPE_CHECKING:
    from reprokit.engine.docker.engine import DockerEngine
    from reprokit.engine.protocol import Engine
    from reprokit.engine.wire import Endpoint


def entries() -> tuple[EngineEntry, ...]:
    """What each kind of engine declares, the reference first."""
    return tuple(entry(kind) for kind in kinds.KINDS)


def entry(kind: str) -> EngineEntry:
    """What that kind of engine declares. Raises UsageError for a name that is not a kind."""
    if kind not in kinds.KINDS:
        hint = near(kind, kinds.CHOICES, prefix="; ")
        raise UsageError(f"engine {kind!r}: expected {', '.join((kinds.AUTO, *kinds.KINDS))}{hint}")
    found = importlib.import_module(f"reprokit.engine.{kind}").ENTRY
    assert isinstance(found, EngineEntry)
    return found


def capabilities(name: str) -> Capabilities:
    """What an engine of that name can do.

    ``auto`` chooses among engines that can do what the reference can. A kind that is unknown here, as in a record of a
    newer reprokit, is taken for one of those too.
    """
    return entry(name if name in kinds.KINDS else kinds.KINDS[0]).capabilities


def is_reference(kind: str) -> bool:
    """Whether a verdict of that kind of engine needs no mention of it; so too where no engine was needed ('')."""
    return kind in ("", kinds.KINDS[0])


def make(name: str, environ: Mapping[str, str] | None = None) -> Engine:
    """The engine of that name, a kind or ``auto``: see :func:`reprokit.engine.registry.find_engine`.

    Raises EngineError, with what to do, when none answers; UsageError for a name that is not an engine's.
    """

    environ = os.environ if environ is None else environ
    chosen = None if name == kinds.AUTO else entry(name)
    try:
        return chosen.open(environ) if chosen else find_engine(environ)
    except EngineError as error:
        raise EngineError(f"{error}{_instead(capabilities(name))}") from error


def _instead(failed: Capabilities) -> str:
    """What can be done without the engine that does not answer, '' where nothing can."""
    others = [one for one in entries() if failed.images and not one.capabilities.images]
    return "".join(f"; '--engine {one.kind}' runs {one.help}" for one in others)


def find_engine(environ: Mapping[str, str]) -> DockerEngine:
    """The engine that DOCKER_HOST or the docker context names, else CONTAINER_HOST, else the one at the default socket.

    It is spoken to as what it is. If nothing was named and nothing answers there, a Podman service, one of this
    process's own where Podman is installed. Raises EngineError when none answers.
    """
    from reprokit.engine.podman.engine import endpoints, find_podman  # most commands ask engines for nothing
    from reprokit.engine.wire import DEFAULTS, endpoint

    where = endpoint(environ)
    if where.source in DEFAULTS and environ.get("CONTAINER_HOST"):
        where = next(endpoints(environ))
    try:
        return connect(where)
    except EngineError as error:
        other, why = find_podman(environ) if where.source in DEFAULTS else (None, [])
        if other is None:
            raise EngineError("; ".join((str(error), *why))) from error
        return other


def unused_engine(environ: Mapping[str, str]) -> str:
    """In words, which engine the environment names that :func:`find_engine` does not take; '' for none."""
    from reprokit.engine.wire import DEFAULTS, endpoint

    other, where = environ.get("CONTAINER_HOST"), endpoint(environ)
    if not other or where.source in DEFAULTS or where.url == other:
        return ""
    return (
        f"the engine at {where.url} is used, because {where.source} comes before CONTAINER_HOST: for that one "
        f"({other}), use --engine podman"
    )


def connect(where: Endpoint) -> DockerEngine:
    """The engine that listens there. Raises EngineError when none does."""
    from reprokit.engine.docker.engine import DockerEngine
    from reprokit.engine.podman.engine import PodmanEngine
    from reprokit.engine.wire import Wire

    wire = Wire(where=where)
    return PodmanEngine(wire=wire) if wire.is_podman() else DockerEngine(wire=wire)

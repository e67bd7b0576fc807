"""``--engine auto``: the engine that answers."""

from __future__ import annotations

from collections.abc import Mapping

from reprokit.core.errors import EngineError
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.podman import finding
from reprokit.engine.podman.engine import PodmanEngine
from reprokit.engine.wire import DEFAULTS, Endpoint, Wire, endpoint


def answering(environ: Mapping[str, str]) -> DockerEngine:
    """The engine that DOCKER_HOST, the docker context or the default socket leads to, spoken to as what it is.

    If nothing was named and nothing answers there, a Podman service, one of this process's own where Podman is
    installed. Raises EngineError when none answers.
    """
    where = endpoint(environ)
    try:
        return connect(where)
    except EngineError as error:
        other, why = finding.answering(environ) if where.source in DEFAULTS else (None, [])
        if other is None:
            raise EngineError("; ".join((str(error), *why))) from error
        return other


def connect(where: Endpoint) -> DockerEngine:
    """The engine that listens there. Raises EngineError when none does."""
    wire = Wire(where=where)
    return PodmanEngine(wire=wire) if wire.is_podman() else DockerEngine(wire=wire)

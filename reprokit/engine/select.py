"""Which engine serves a run: the one that was asked for, or the one that answers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.core.errors import EngineError, UsageError
from reprokit.engine.failure import START_PODMAN
from reprokit.engine.wire import DEFAULTS, Endpoint, Wire, endpoint

if TYPE_CHECKING:
    from reprokit.engine.docker import DockerEngine
    from reprokit.engine.protocol import Engine

NAMES = ("auto", "docker", "podman", "venv")
_SYSTEM_SOCKET = Path("/run/podman/podman.sock")
_VENV = "'--engine venv' runs without any container engine what a virtual environment can serve"


def make(name: str, environ: Mapping[str, str] | None = None) -> Engine:
    """The engine of that name. ``auto``: what DOCKER_HOST, the docker context or the default socket leads to; if
    nothing was named and nothing answers there, a Podman service that answers.

    Raises EngineError, with what to do, when none answers; UsageError for a name that is none of ``NAMES``.
    """
    if name not in NAMES:
        raise UsageError(f"engine {name!r}: expected {', '.join(NAMES)}")
    environ = os.environ if environ is None else environ
    if name == "venv":
        from reprokit.engine.venv import VenvEngine

        return VenvEngine()
    return container_engine(name, environ)


def container_engine(name: str, environ: Mapping[str, str]) -> DockerEngine:
    """Like :func:`make`, for ``auto``, ``docker`` and ``podman``."""
    if name == "podman":
        return _podman(environ)
    where = endpoint(environ)
    try:
        found = connect(where)
    except EngineError as error:
        other = _answering(environ)[0] if name == "auto" and where.source in DEFAULTS else None
        if other is None:
            raise EngineError(f"{error}; {_VENV}") from error
        return other
    if name == "docker" and found.is_podman:
        raise EngineError(f"what answers at {where.url} ({where.source}) is Podman: --engine podman takes it")
    return found


def connect(where: Endpoint) -> DockerEngine:
    """The engine that listens there, spoken to as what it is. Raises EngineError when none does."""
    from reprokit.engine.docker import DockerEngine
    from reprokit.engine.podman import PodmanEngine

    wire = Wire(where=where)
    return PodmanEngine(wire=wire) if wire.is_podman() else DockerEngine(wire=wire)


def podman_endpoints(environ: Mapping[str, str]) -> Iterator[Endpoint]:
    """Where Podman's service may listen: CONTAINER_HOST alone if set, else DOCKER_HOST, this user's and the system's
    sockets, as far as they exist.
    """
    if named := environ.get("CONTAINER_HOST"):
        yield Endpoint(url=named, source="CONTAINER_HOST")
        return
    if environ.get("DOCKER_HOST"):
        yield endpoint(environ)
    runtime = environ.get("XDG_RUNTIME_DIR")
    own = [Path(runtime, "podman", "podman.sock")] if runtime else []
    for socket in (*own, _SYSTEM_SOCKET):
        if os.access(socket, os.F_OK):  # not exists(), which raises for a folder that this user may not look into
            yield Endpoint(url=f"unix://{socket}", source="Podman's socket")


def _answering(environ: Mapping[str, str]) -> tuple[DockerEngine | None, list[str]]:
    """The first Podman service that answers, and why those before it do not serve, in words."""
    why = []
    for where in podman_endpoints(environ):
        try:
            found = connect(where)
        except EngineError as error:
            why.append(str(error))
            continue
        if found.is_podman:
            return found, why
        why.append(f"what answers at {where.url} ({where.source}) is Docker, not Podman")
    return None, why


def _podman(environ: Mapping[str, str]) -> DockerEngine:
    found, why = _answering(environ)
    if found is not None:
        return found
    if not why:
        tried = "CONTAINER_HOST, $XDG_RUNTIME_DIR/podman/podman.sock and /run/podman/podman.sock"
        raise EngineError(f"Podman's service listens nowhere (looked for {tried}): {START_PODMAN}")
    text = "; ".join(dict.fromkeys(why))
    raise EngineError(text if START_PODMAN in text else f"{text}; {START_PODMAN}")

"""Where Podman's service listens, and the engine there."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprokit.core.errors import EngineError
from reprokit.engine import private_socket
from reprokit.engine.failure import START_PODMAN
from reprokit.engine.podman.engine import PodmanEngine
from reprokit.engine.wire import Endpoint, Wire, endpoint, endpoint_at

SYSTEM_SOCKET = Path("/run/podman/podman.sock")


def open_engine(environ: Mapping[str, str]) -> PodmanEngine:
    """The first Podman service that answers. Raises EngineError, with what to do, when none does."""
    found, why = answering(environ)
    if found is not None:
        return found
    if not why:
        tried = f"CONTAINER_HOST, $XDG_RUNTIME_DIR/podman/podman.sock and {SYSTEM_SOCKET}"
        raise EngineError(f"Podman is not installed, and its service listens nowhere ({tried}): {START_PODMAN}")
    text = "; ".join(dict.fromkeys(why))
    raise EngineError(text if START_PODMAN in text else f"{text}; {START_PODMAN}")


def endpoints(environ: Mapping[str, str]) -> Iterator[Endpoint]:
    """Where Podman's service may listen: CONTAINER_HOST alone if set, else DOCKER_HOST, this user's and the system's
    sockets, as far as they exist, and last one that is started for this process, where Podman is installed.
    """
    if named := environ.get("CONTAINER_HOST"):
        yield endpoint_at(named, "CONTAINER_HOST", environ, socket=str(SYSTEM_SOCKET))
        return
    if environ.get("DOCKER_HOST"):
        yield endpoint(environ)
    runtime = environ.get("XDG_RUNTIME_DIR")
    own = [Path(runtime, "podman", "podman.sock")] if runtime else []
    for socket in (*own, SYSTEM_SOCKET):
        if os.access(socket, os.F_OK):  # not exists(), which raises for a folder that this user may not look into
            yield Endpoint(url=f"unix://{socket}", source="Podman's socket")
    if podman := shutil.which("podman", path=environ.get("PATH", "")):
        yield Endpoint(
            url="podman system service", source="started by reprokit", via=private_socket.podman_service(podman)
        )


def answering(environ: Mapping[str, str]) -> tuple[PodmanEngine | None, list[str]]:
    """The first Podman service that answers, and why those before it do not serve, in words."""
    why: list[str] = []
    for where in endpoints(environ):
        wire = Wire(where=where)
        try:
            if wire.is_podman():
                return PodmanEngine(wire=wire), why
        except EngineError as error:
            why.append(str(error))
        else:
            why.append(f"what answers at {where.url} ({where.source}) is Docker, not Podman")
    return None, why

"""``--engine podman``: containers of a Podman service, images built by buildah."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from reprokit.engine.entry import EngineEntry
from reprokit.engine.kinds import Capabilities

if TYPE_CHECKING:
    from reprokit.engine.podman.engine import PodmanEngine


def _open(environ: Mapping[str, str]) -> PodmanEngine:
    from reprokit.engine.podman import engine

    return engine.open_engine(environ)


def _start(environ: Mapping[str, str]) -> str:
    # Where Podman is installed, reprokit starts a service itself: what failed then is Podman's to say.
    return "podman info" if shutil.which("podman", path=environ.get("PATH")) else ""


ENTRY = EngineEntry(
    kind="podman",
    help="containers of the Podman service that CONTAINER_HOST, DOCKER_HOST or Podman's own socket leads to, or of one "
    "that is started for the command",
    open=_open,
    capabilities=Capabilities(docker_api=True, terminals=True, archives=True),
    start=_start,
    package="podman",
)

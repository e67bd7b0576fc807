"""``--engine podman``: containers of a Podman service, images built by buildah."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.engine.capabilities import Capabilities
from reprokit.engine.entry import EngineEntry

if TYPE_CHECKING:
    from reprokit.engine.podman.engine import PodmanEngine


def _open(environ: Mapping[str, str]) -> PodmanEngine:
    from reprokit.engine.podman import finding

    return finding.open_engine(environ)


def _start(environ: Mapping[str, str]) -> str:
    if not shutil.which("podman", path=environ.get("PATH")):
        return ""
    if not Path("/run/systemd/system").is_dir():
        return "podman system service --time=0 &"
    return "systemctl --user start podman.socket" if os.getuid() else "systemctl start podman.socket"


ENTRY = EngineEntry(
    kind="podman",
    help="containers of the Podman service that CONTAINER_HOST, DOCKER_HOST or Podman's own socket leads to",
    open=_open,
    capabilities=Capabilities(docker_api=True, terminals=True, archives=True),
    start=_start,
    package="podman",
)

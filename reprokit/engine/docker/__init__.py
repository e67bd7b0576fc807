"""``--engine docker``: containers of a Docker Engine, images built by its BuildKit."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.core.errors import EngineError
from reprokit.engine.entry import EngineEntry
from reprokit.engine.kinds import Capabilities

if TYPE_CHECKING:
    from reprokit.engine.docker.engine import DockerEngine


def _open(environ: Mapping[str, str]) -> DockerEngine:
    from reprokit.engine.docker import engine

    return engine.open_engine(environ)


def _start(environ: Mapping[str, str]) -> str:
    from reprokit.engine.wire import endpoint

    named = environ.get("DOCKER_HOST", "")
    with suppress(EngineError):
        named = named or endpoint(environ).url
    if named.startswith("ssh://"):
        host = shlex.quote("/".join(named.split("/")[:3]))
        return f"ssh -o BatchMode=yes -- {host} docker version   # has to work without a password"
    if environ.get("DOCKER_HOST"):
        return "unset DOCKER_HOST   # or name the address of an engine that runs"
    if not shutil.which("dockerd", path=environ.get("PATH")):
        return ""
    return "sudo systemctl start docker" if Path("/run/systemd/system").is_dir() else "sudo service docker start"


ENTRY = EngineEntry(
    kind="docker",
    help="containers of the Docker Engine that DOCKER_HOST, the docker context or the default socket leads to",
    open=_open,
    capabilities=Capabilities(docker_api=True, terminals=True, archives=True, steps=True),
    start=_start,
    package="docker.io",
)

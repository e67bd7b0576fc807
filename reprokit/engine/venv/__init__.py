"""``--engine venv``: the embedded engine, for machines without any container engine.

An image is a folder with a virtual environment and the work folder; a container is a process of this host in a sandbox
of bubblewrap, which shows it nothing that is not named, held by cgroups as far as the host permits them. What it cannot
set (operating system, C library, compilers, driver, packages) is the host's, measured and recorded;
:mod:`reprokit.environment.on_host` refuses the cells that ask otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from reprokit.core.errors import EngineError
from reprokit.engine.capabilities import Capabilities
from reprokit.engine.entry import EngineEntry

if TYPE_CHECKING:
    from reprokit.engine.venv.engine import VenvEngine
    from reprokit.environment.host import Host


def _open(environ: Mapping[str, str]) -> VenvEngine:
    from reprokit.engine.venv import host

    if why := host.refusal():
        raise EngineError(why)
    return _keeps()


def _keeps() -> VenvEngine:
    from reprokit.engine.venv.engine import VenvEngine

    return VenvEngine()


def _host() -> Host:
    from reprokit.engine.venv import host

    return host.host()


ENTRY = EngineEntry(
    kind="venv",
    help="without any container engine what a virtual environment of this host can serve",
    open=_open,
    capabilities=Capabilities(recipe="script", images=False, locks=False, terminals=True),
    host=_host,
    keeps=_keeps,
)

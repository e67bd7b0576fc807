"""``--engine venv``: the embedded engine, for the user's own cases on machines without any container engine.

An image is a folder with a virtual environment and the work folder; a container is a process of this host, which may do
all that the user may. :mod:`reprokit.environment.on_host` refuses cells that ask for what the host does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from reprokit.engine.entry import EngineEntry
from reprokit.engine.kinds import Capabilities

if TYPE_CHECKING:
    from reprokit.engine.venv.engine import VenvEngine
    from reprokit.environment.host import Host


def _open(environ: Mapping[str, str]) -> VenvEngine:
    from reprokit.engine.venv.engine import VenvEngine

    return VenvEngine()


def _measure_host() -> Host:
    from reprokit.engine.venv.host import measure_host

    return measure_host()


ENTRY = EngineEntry(
    kind="venv",
    help="your own cases without any container engine, as far as a virtual environment of this host serves them",
    open=_open,
    capabilities=Capabilities(recipe="script", images=False, locks=False),
    host=_measure_host,
)

"""What this host makes environments of: its settings, and whether a registry answers."""

from __future__ import annotations

from reprokit.engine import site
from reprokit.engine.bases import detect_source
from reprokit.engine.venv.host import host
from reprokit.environment import tables
from reprokit.environment.supply import Supply
from reprokit.run.request import Request


def supply_of(request: Request) -> Supply:
    """The host's supply for a request. Asks the registry where the request leaves it open. Raises UsageError."""
    if request.engine == "venv":
        return Supply(base_source="bootstrap", host=host())
    settings = site.settings()
    tables.override(settings.compatibility)
    return Supply(
        base_source=detect_source(request.base_images),
        python=settings.python_providers,
        gcc=settings.gcc_providers,
    )

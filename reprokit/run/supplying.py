"""What this host makes environments of: its settings, and whether a registry answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reprokit.engine import registry, site
from reprokit.environment.catalog import Catalog
from reprokit.environment.supply import Supply

if TYPE_CHECKING:
    from reprokit.run.request import Request


def site_catalog() -> Catalog:
    """The compatibility data, with this site's own rows."""
    return Catalog(site.settings().compatibility)


def supply_of(request: Request) -> Supply:
    """The host's supply for a request. Asks the registry where the request leaves it open. Raises UsageError."""
    if registry.capabilities(request.engine).recipe == "script":
        measure = registry.entry(request.engine).host
        assert measure is not None, f"the engine {request.engine} makes environments by a script, and measures no host"
        return Supply(base_source="bootstrap", host=measure(), catalog=site_catalog())
    from reprokit.engine.bases import detect_source

    settings = site.settings()
    return Supply(
        base_source=detect_source(request.base_images),
        python=settings.python_providers,
        gcc=settings.gcc_providers,
        catalog=site_catalog(),
    )

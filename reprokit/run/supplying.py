"""What this host makes environments of: its settings, and whether a registry answers."""

from __future__ import annotations

from reprokit.environment.catalog import Catalog
from reprokit.environment.supply import Supply
from reprokit.run.request import Request


def site_catalog() -> Catalog:
    """The compatibility data, with this site's own rows."""
    from reprokit.engine import site

    return Catalog(site.settings().compatibility)


def supply_of(request: Request) -> Supply:
    """The host's supply for a request. Asks the registry where the request leaves it open. Raises UsageError."""
    from reprokit.engine import site

    settings = site.settings()
    catalog = site_catalog()
    if request.engine == "venv":
        from reprokit.engine.venv.host import host

        return Supply(base_source="bootstrap", host=host(), catalog=catalog)
    from reprokit.engine.bases import detect_source

    return Supply(
        base_source=detect_source(request.base_images),
        python=settings.python_providers,
        gcc=settings.gcc_providers,
        catalog=catalog,
    )

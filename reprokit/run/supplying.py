"""What this host makes environments of: its settings, and whether a registry answers."""

from __future__ import annotations

from reprokit.environment import tables
from reprokit.environment.supply import Supply
from reprokit.run.request import Request


def supply_of(request: Request) -> Supply:
    """The host's supply for a request. Asks the registry where the request leaves it open. Raises UsageError."""
    from reprokit.engine import registry

    recipe = registry.capabilities(request.engine).recipe
    if recipe == "script":
        measure = registry.entry(request.engine).host
        assert measure is not None, f"the engine {request.engine} makes environments by a script, and measures no host"
        return Supply(base_source="bootstrap", recipe=recipe, host=measure())
    from reprokit.engine import site
    from reprokit.engine.bases import detect_source

    settings = site.settings()
    tables.override(settings.compatibility)
    return Supply(
        recipe=recipe,
        base_source=detect_source(request.base_images),
        python=settings.python_providers,
        gcc=settings.gcc_providers,
    )

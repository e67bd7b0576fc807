"""What of this host's own settings a build receives, without any of it staying in the image.

``current()`` reads the host's pip configuration, CA bundle, credentials, proxies, apt proxy and reprokit.toml;
:meth:`Site.serving` holds ready what builds need. What the host's pip can install, a build can install, with these
limits: a keyring's passwords stay on the host, and local folders are out of reach for an engine on another machine.

Names are imported on first use: most runs build nothing, and need the settings alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprokit.engine.site.assembly import Served, Site, current
    from reprokit.engine.site.config import Settings
    from reprokit.engine.site.config import load as settings
    from reprokit.environment.catalog import Catalog

__all__ = ["Served", "Settings", "Site", "catalog", "current", "settings"]


def catalog() -> Catalog:
    """The compatibility data, with this site's own rows."""
    from reprokit.engine.site import config
    from reprokit.environment.catalog import Catalog

    return Catalog(config.load().compatibility)


def __getattr__(name: str) -> Any:
    if name in ("Served", "Site", "current"):
        from reprokit.engine.site import assembly

        return getattr(assembly, name)
    if name in ("Settings", "settings"):
        from reprokit.engine.site import config

        return config.Settings if name == "Settings" else config.load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

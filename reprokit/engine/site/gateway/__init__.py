"""The build gateway: what a build fetches, fetched for it by this host, on a Unix socket while the build runs.

``connections`` reads a request, ``routes`` says what it is about, ``access`` whether the build may have it,
``upstream`` asks servers, ``pages`` and ``downloads`` make an answer of what came. It never hands out a credential, and
never connects to an address of this host or its networks that the site's own configuration does not name.
"""

# Not an ASGI server: pip and apt show the reason of a status line, builds use CONNECT, and neither exists in ASGI.

from __future__ import annotations

from reprokit.engine.site.gateway.access import RELAY_PORT, Allowed, SiteAccess

__all__ = ["RELAY_PORT", "Allowed", "SiteAccess"]

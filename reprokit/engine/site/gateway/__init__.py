"""The build gateway: what a build fetches, fetched for it by this host.

It takes the site's access (indexes, credentials, authorities, proxies) and what a build is allowed, and serves, on a
Unix socket of a private folder while the build runs: index and find-links pages whose links lead through it, files,
which it keeps for further builds of the same trust domain, and a forward proxy for allowed hosts. It never hands out a
credential, never connects to an address of this host or its networks that the site's own configuration does not name,
and never keeps a file that is not what its page says.

h11 reads what builds send, and httpcore asks servers. :mod:`~reprokit.engine.site.gateway.server` has the way of a
request: ``client`` reads it, ``routes`` says what it is about, ``allowed`` whether the build may have it, ``upstream``
asks, ``pages`` and ``downloads`` make an answer of what came.
"""

from __future__ import annotations

from reprokit.engine.site.gateway.access import RELAY_PORT, SiteAccess
from reprokit.engine.site.gateway.allowed import Allowed

__all__ = ["RELAY_PORT", "Allowed", "SiteAccess"]

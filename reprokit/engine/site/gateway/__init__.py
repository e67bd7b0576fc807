"""The build gateway: what a build fetches, fetched for it by this host.

It takes the site's access (indexes, credentials, authorities, proxies) and what a build is allowed, and serves, on a
Unix socket of a private folder while the build runs: index and find-links pages whose links lead through it, files
that are verified against the hash that the page states and kept in a cache of this host, and a forward proxy for
allowed hosts. It never hands out a credential, never connects to an address of this host or its networks that the
site's own configuration does not name, and never keeps a file that it has not verified.
"""

from __future__ import annotations

from reprokit.engine.site.gateway.access import SiteAccess
from reprokit.engine.site.gateway.allowed import Allowed
from reprokit.engine.site.gateway.server import RELAY_PORT, Address, Gateway

__all__ = ["RELAY_PORT", "Address", "Allowed", "Gateway", "SiteAccess"]

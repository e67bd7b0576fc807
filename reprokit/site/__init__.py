"""What of this host's own settings a build receives, without any of it staying in the image.

``current()`` reads the host's pip configuration, CA bundle, credentials, proxies, apt proxy and reprokit's config file;
:meth:`Site.serving` holds ready what builds need. What the host's pip can install, a build can install, with these
limits: a keyring's passwords stay on the host, and local folders are out of reach for an engine on another machine.
"""

from __future__ import annotations

from reprokit.site.assembly import Served, Site, current
from reprokit.site.settings import Settings
from reprokit.site.settings import load as settings

__all__ = ["Served", "Settings", "Site", "current", "settings"]

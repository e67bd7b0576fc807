"""Web addresses: which of them are this host's own, and which belong to other hosts."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_LOOPBACK = re.compile(r"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{0,5})?", re.ASCII | re.IGNORECASE)


def is_loopback(url: str) -> bool:
    """Whether an address is one of this host itself: localhost, 127.0.0.0/8 or ::1, and nothing beside a port."""
    try:
        return _LOOPBACK.fullmatch(urlsplit(url).netloc) is not None
    except ValueError:
        return False


def is_from_another_host(path: str) -> bool:
    """Whether the case at that path came from a web address of another host: its author is not who runs it."""
    return path.lower().startswith(("http://", "https://")) and not is_loopback(path)

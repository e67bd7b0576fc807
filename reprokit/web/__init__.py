"""Texts at web addresses: files as they are, and issues through the interfaces of those who host them."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def is_loopback(url: str) -> bool:
    """Whether an address is one of this host itself: localhost, 127.0.0.0/8 or ::1."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_strangers(path: str) -> bool:
    """Whether the case at that path came from a web address of another host: its author is not who runs it."""
    return path.lower().startswith(("http://", "https://")) and not is_loopback(path)

"""Web addresses: which of them are this host's own, which belong to other hosts, and what a name leads to.

A name is looked up once: what it gave is checked, and the connection goes to an address that was checked. So a name
whose address changes in between (DNS rebinding) gains nothing, however an address is written.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Collection, Mapping, Sequence
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


Resolver = Callable[[str, int], Sequence[str]]
"""Host and port -> addresses; raises OSError where there are none."""

THIS_HOST = "of this host itself"

# Not by ipaddress: before Python 3.12, its is_global holds for 192.0.0.192, where Oracle's cloud has metadata.
_NOT_PUBLIC = {
    THIS_HOST: ("0.0.0.0/8", "127.0.0.0/8", "::/127"),
    "link-local, where clouds keep metadata": ("169.254.0.0/16", "168.63.129.16/32", "fe80::/10"),
    "of a private network": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
    "not a public one": (
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    ),
}
_PUBLIC_6 = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class NotPublic(Exception):
    """No address of a host may be connected to; the text says which it has."""


def networks(
    host: str, port: int, resolve: Resolver | None = None, own: Callable[[str], bool] | None = None
) -> dict[str, str]:
    """The addresses of a host, each with the kind of network that it is in; '' for a public one. Raises OSError.

    ``resolve``, ``own``: how the name is looked up, and an interface of this host recognised; by default, as here.
    """
    try:
        found = (resolve or look_up)(host, port)
    except UnicodeError:
        raise OSError(0, "the name cannot be looked up") from None
    return {one: not_public(one) or (THIS_HOST if (own or is_of_this_host)(one) else "") for one in found}


def permitted(host: str, port: int, found: Mapping[str, str], kinds: Collection[str] = ("",)) -> list[str]:
    """Of what :func:`networks` found, the addresses in networks of these kinds. Raises NotPublic where none is."""
    if good := [one for one, kind in found.items() if kind in kinds]:
        return good
    one, kind = next(iter(found.items()), ("", "not known"))
    raise NotPublic(f"{host}:{port} has the address {one}, which is {kind or 'a public one'}")


def not_public(address: str) -> str:
    """The kind of network that an address is in, as the end of a sentence; '' for a public one."""
    try:
        one = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "not one that can be checked"
    if isinstance(one, ipaddress.IPv6Address) and one in _NAT64:
        one = ipaddress.IPv4Address(int(one) & 0xFFFFFFFF)
    elif isinstance(one, ipaddress.IPv6Address) and one.ipv4_mapped is not None:
        one = one.ipv4_mapped
    for kind, networks in _NOT_PUBLIC.items():
        if any(one in ipaddress.ip_network(network) for network in networks):
            return kind
    return "" if one.version == 4 or one in _PUBLIC_6 else "not a public one"


def read_address(host: str, port: int) -> Sequence[str]:
    """The address of a host that is written as one, or named localhost (RFC 6761, 6.3). Raises OSError for others."""
    if re.fullmatch(r"(.+\.)?localhost\.?", host, re.IGNORECASE):
        return ["127.0.0.1"]
    return look_up(host, port, socket.AI_NUMERICHOST)


def look_up(host: str, port: int, flags: int = 0) -> Sequence[str]:
    """The addresses of a host, as the system resolves it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_of_this_host(address: str) -> bool:
    """Whether an interface of this host has an address: only such a one can be bound to. Sends nothing."""
    return _can_bind(address) and not _can_bind("192.0.2.1")  # where everything can be bound to, that says nothing


def _can_bind(address: str) -> bool:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as one:
            one.bind((address, 0))
    except OSError:
        return False
    return True

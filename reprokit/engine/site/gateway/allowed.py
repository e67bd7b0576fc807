"""Which hosts a build reaches through the gateway, and at which addresses they may be.

A name is looked up once; what it gave is checked, and the connection goes to the address that was checked. So a name
whose address changes in between (DNS rebinding) gains nothing, however an address is written.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from reprokit.engine.site.gateway.access import HostPort, endpoint, parsed_host, same_origin, shown
from reprokit.engine.site.links import ARCHIVES

Resolver = Callable[[str, int], Sequence[str]]
"""Host and port -> addresses; raises OSError where there are none."""

_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})|[0-9A-Fa-f:.]{2,45}")
_USUAL_PORTS = (80, 443)
_PROJECT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?/?")
MAX_LINKED = 8
"""Other hosts from which one build gets files that pages of its case's indexes link to: an index has one or two."""

_NOT_PUBLIC = {
    "of this host itself": ("0.0.0.0/8", "127.0.0.0/8", "::/127"),
    "link-local, where clouds keep metadata": ("169.254.0.0/16", "168.63.129.16/32", "fe80::/10"),
    "of a private network": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7"),
    "not a public one": (
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
        *("224.0.0.0/3", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"),
    ),
}
_PUBLIC_6 = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class NotServed(Exception):
    """The build does not get what it asked for; the text is one sentence for its log, ``status`` is HTTP's."""

    status = 502

    def __init__(self, sentence: str, status: int = 0) -> None:
        super().__init__(sentence)
        self.status = status or self.status


class HostRefused(NotServed):
    """The build may not have it."""

    status = 403


class Unreachable(NotServed):
    """A server does not answer as it should."""


@dataclass(frozen=True, kw_only=True)
class Allowed:
    """What one build gets. ``credentials``: the site's logins are used for it. ``any_host``: it reaches every public
    host; otherwise ``hosts`` (HOST or HOST:PORT) and what the site names for builds, and the files that pages of
    ``places`` (indexes and find-links pages that the case names) link to: see :meth:`Guard.check_link`.
    """

    credentials: bool
    any_host: bool
    hosts: frozenset[str] = frozenset()
    places: frozenset[str] = frozenset()


def not_public(address: str) -> str:
    """Why a build must not reach an address, as the end of a sentence; '' for a public one."""
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


def look_up(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, as the system resolves it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
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


class Guard:
    """The rules for one build. ``named``: what the site's configuration names; ``direct``: of these, what every build
    may connect to itself. ``own``: whether an address is one of this host's interfaces.
    """

    def __init__(
        self,
        allowed: Allowed,
        named: frozenset[HostPort],
        direct: frozenset[HostPort],
        *,
        resolve: Resolver = look_up,
        own: Callable[[str], bool] = is_of_this_host,
    ) -> None:
        self.allowed = allowed
        self._named, self._direct, self.resolve, self._own = named, direct, resolve, own
        self._hosts = {parsed_host(host) for host in allowed.hosts}
        self._linked: set[str] = set()

    def check_name(self, host: str, port: int) -> None:
        """Raises HostRefused unless a build may ask for that host by itself."""
        if not _HOST.fullmatch(host) or not 0 < port < 65536:
            raise HostRefused("what the build asks for is not the name of a host and a port")
        if not self._reaches(host, port):
            raise HostRefused(
                f"{host}:{port} is not among the hosts that builds of an untrusted case reach; if they should, "
                f'set build_hosts = ["{host}:{port}"] in reprokit.toml'
            )

    def _reaches(self, host: str, port: int) -> bool:
        listed = (host, port) in self._hosts or ((host, None) in self._hosts and port in _USUAL_PORTS)
        return self.allowed.any_host or listed or _holds(self._direct, host, port)

    def place_of(self, url: str) -> str:
        """The index or find-links page of the case that has the page at ``url``. Raises HostRefused."""
        asked = unquote(url)
        for place in self.allowed.places:
            root = f"{unquote(place).rstrip('/')}/"
            if asked == unquote(place) or (asked.startswith(root) and _PROJECT.fullmatch(asked[len(root) :])):
                return place
        raise HostRefused(f"{shown(url)} is not a page of an index that the case names")

    def check_link(self, url: str) -> None:
        """Raises HostRefused for a file that a page of a case's place may not lead a build to.

        Whoever wrote the case may have written that page. So of hosts that the build does not reach by itself it gets
        archives alone, over https at its usual port, by an address without a query, and of few of them. Addresses are
        checked like those of every host that a build chose, redirects like hosts.
        """
        host, port = endpoint(url)
        if self._reaches(host, port):
            return
        parts = urlsplit(url)
        archive = unquote(parts.path).lower().removesuffix(".metadata").endswith(ARCHIVES)
        if (parts.scheme, port, parts.query) != ("https", 443, "") or not archive:
            self.check_name(host, port)
        if len(self._linked | {host}) > MAX_LINKED:
            raise HostRefused(f"{host}:{port}: pages of packages lead to more than {MAX_LINKED} other hosts")
        self._linked.add(host)

    def check_redirect(self, before: str, after: str) -> None:
        """Raises HostRefused where a page or file of a case's place redirects to what its build does not reach."""
        if not same_origin(before, after):
            self.check_name(*endpoint(after))

    def is_named(self, host: str, port: int) -> bool:
        """Whether the site's configuration names a host."""
        return _holds(self._named, host, port)

    def addresses(self, host: str, port: int, *, of_build: bool, by_proxy: bool = False) -> list[str]:
        """The addresses at which a host may be connected to. ``of_build``: the build chose the host, not the site.

        ``by_proxy``: a proxy of the site connects, and may know names that this host does not: then () is an answer,
        unless only a page led to the host. Raises HostRefused, and Unreachable when it has no address.
        """
        named = self._named if not of_build or self.allowed.any_host else self._direct
        if by_proxy and _holds(named, host, port):
            return []
        try:
            found = self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            if by_proxy and not (of_build and host in self._linked):
                return []
            why = getattr(error, "strerror", "") or "the name cannot be looked up"
            raise Unreachable(f"{host} has no address: {why}") from None
        if _holds(named, host, port):
            return list(found)
        kinds = {one: not_public(one) or ("of this host itself" if self._own(one) else "") for one in found}
        good = [one for one, kind in kinds.items() if not kind]
        if not good:
            one, kind = next(iter(kinds.items()), ("", "not known"))
            raise HostRefused(
                f"{host}:{port} has the address {one}, which is {kind}; if builds should reach it, "
                f'set build_hosts = ["{host}:{port}"] in reprokit.toml'
            )
        return good


def _holds(endpoints: frozenset[HostPort], host: str, port: int) -> bool:
    return (host, port) in endpoints or (host, None) in endpoints

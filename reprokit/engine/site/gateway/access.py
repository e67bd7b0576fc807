"""What the gateway fetches with, and for whom: the site's places, logins and proxies, and the rules for one build."""

from __future__ import annotations

import base64
import ipaddress
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from reprokit.core import addresses
from reprokit.core.addresses import Resolver, is_loopback, is_of_this_host, look_up
from reprokit.engine.site.links import ARCHIVES, local_path

RELAY_PORT = 17890
"""The port on a build's loopback at which its relay to the gateway listens. Everywhere the same: an image does not
tell where it was built."""
ROOT = f"http://127.0.0.1:{RELAY_PORT}"

DEFAULT_INDEX = "https://pypi.org/simple"
"""pip's own, read where the site names no other."""
_FILES_OF_DEFAULT = ("files.pythonhosted.org", 443)

LOCATIONS = ("index-url", "extra-index-url", "find-links", "constraint")
_PORTS = {"http": 80, "https": 443}

HostPort = tuple[str, int | None]
"""A host, in lower case, and a port; None = any."""


@dataclass(frozen=True, kw_only=True)
class SiteAccess:
    """The host's settings, as far as fetching needs them."""

    pip: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    """Option -> values of the host's pip, passwords in URLs included."""
    logins: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    """Host -> login and password, of the netrc."""
    bundle: str = field(default="", repr=False)
    """Authorities as PEM, besides the system's own."""
    client_cert: Path | None = None
    """File with certificate and key."""
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables as :func:`reprokit.engine.site.network.proxies` has them."""
    apt_proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    archives: tuple[str, ...] = field(default=(), repr=False)
    """URLs that builds read themselves, such as mirrors of a distribution."""
    hosts: tuple[str, ...] = ()
    """HOST or HOST:PORT that builds may reach besides."""

    @property
    def indexes(self) -> tuple[str, ...]:
        """The package indexes, in pip's order: ``index-url`` (or pip's own), then ``extra-index-url``."""
        if "no-index" in self.pip:
            return ()
        return (*(self.pip.get("index-url", ())[-1:] or (DEFAULT_INDEX,)), *self.pip.get("extra-index-url", ()))

    @property
    def named(self) -> frozenset[HostPort]:
        """What the site's configuration names: these may have addresses of this host or its networks."""
        places = [url for name in LOCATIONS for url in self.pip.get(name, ()) if local_path(url) is None]
        found: set[HostPort] = {endpoint(url) for url in places}
        found |= {parsed_host(host) for host in self.pip.get("trusted-host", ())}
        if DEFAULT_INDEX in self.indexes:
            found |= {endpoint(DEFAULT_INDEX), _FILES_OF_DEFAULT}
        return frozenset(found) | self.direct

    @property
    def direct(self) -> frozenset[HostPort]:
        """Of these, what builds may connect to themselves, whoever wrote the case."""
        return frozenset({endpoint(url) for url in self.archives} | {parsed_host(host) for host in self.hosts})

    def unverified(self, host: str, port: int) -> bool:
        """Whether pip's ``trusted-host`` says that the certificate of a host need not be verified."""
        trusted = {parsed_host(one) for one in self.pip.get("trusted-host", ())}
        return (host, port) in trusted or (host, None) in trusted

    def authorization(self, place: str, url: str) -> str:
        """The ``Authorization`` header for ``url``, which ``place`` (an index, a page, a mirror) led to; '' = none.

        A login goes to the server that it is for, by scheme, host and port, and to no other; that of an archive, such
        as a mirror, to what lies below its path alone. Files of an index may be beside it.
        """
        parts, asked = urlsplit(place), unquote(urlsplit(url).path)
        below = f"{asked}/".startswith(f"{parts.path.rstrip('/')}/") and ".." not in asked
        if not same_origin(place, url) or not (below or place not in self.archives):
            return ""
        if parts.username is not None:
            login, password = unquote(parts.username), unquote(parts.password or "")
        else:
            login, password = self.logins.get((parts.hostname or "").lower(), ("", ""))
        return basic(login, password) if login or password else ""

    def proxy(self, url: str, *, apt: bool = False) -> SplitResult | None:
        """The proxy for ``url``, if any. ``apt``: whether apt asks, which may have a proxy of its own."""
        parts = urlsplit(url)
        host, scheme = (parts.hostname or "").lower(), parts.scheme
        if apt:
            keys = {key.lower(): value for key, value in self.apt_proxies.items()}
            mine = keys.get(f"acquire::{scheme}::proxy::{host}", keys.get(f"acquire::{scheme}::proxy", ""))
            if mine:
                return None if mine == "DIRECT" else urlsplit(mine)
        chosen = self.proxies.get(f"{scheme}_proxy") or self.proxies.get("all_proxy") or ""
        if is_loopback(without_login(url)):  # a proxy's localhost is another host
            return None
        if not chosen or bypasses(host, endpoint(url)[1], self.proxies.get("no_proxy", "")):
            return None
        return urlsplit(chosen if "://" in chosen else f"http://{chosen}")


def basic(login: str, password: str) -> str:
    """The value of an ``Authorization`` header."""
    return "Basic " + base64.b64encode(f"{login}:{password}".encode()).decode()


def endpoint(url: str) -> tuple[str, int]:
    """Host and port of a URL. Raises ValueError for a port that is not a number."""
    parts = urlsplit(url)
    return (parts.hostname or "").lower(), parts.port or _PORTS.get(parts.scheme, 0)


def same_origin(one: str, other: str) -> bool:
    """Whether two URLs have one scheme, host and port."""
    return urlsplit(one).scheme == urlsplit(other).scheme and endpoint(one) == endpoint(other)


def parsed_host(text: str) -> HostPort:
    """HOST or HOST:PORT; an IPv6 address with a port is in brackets."""
    if text.count(":") > 1 and not text.startswith("["):
        return text.lower(), None
    parts = urlsplit(f"//{text}")
    return (parts.hostname or "").lower(), parts.port


def without_login(url: str) -> str:
    """A URL without user and password."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def shown(url: str) -> str:
    """A URL as messages show it: without login, and without its query, which may hold a signature that lets in."""
    return without_login(url).partition("?")[0].partition("#")[0]


def bypasses(host: str, port: int | None, no_proxy: str) -> bool:
    """Whether ``no_proxy`` exempts a host: names and their subdomains, with a port or without, networks, ``*``."""
    for item in no_proxy.lower().replace(" ", "").split(","):
        name = item.lstrip(".")
        if item == "*" or (item and item in (f"{host}:{port}", host)) or (name and f".{host}".endswith(f".{name}")):
            return True
        with suppress(ValueError):
            if ipaddress.ip_address(host) in ipaddress.ip_network(item, strict=False):
                return True
    return False


_HOST = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252})|[0-9A-Fa-f:.]{2,45}")
_USUAL_PORTS = (80, 443)
_PROJECT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,200}[A-Za-z0-9])?/?")
MAX_LINKED = 8
"""Other hosts from which one build gets files that pages of its case's indexes link to: an index has one or two."""


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
    """What one build gets."""

    credentials: bool
    """Whether the site's logins are used for it."""
    any_host: bool
    """Whether it reaches every public host; otherwise the following, and what the site names for builds."""
    hosts: frozenset[str] = frozenset()
    """HOST or HOST:PORT."""
    places: frozenset[str] = frozenset()
    """Indexes and find-links pages that the case names, and the files that these link to: Guard.check_link."""


class Guard:
    """The rules for one build. ``own``: whether an address is one of this host's interfaces."""

    def __init__(
        self,
        allowed: Allowed,
        access: SiteAccess,
        *,
        resolve: Resolver = look_up,
        own: Callable[[str], bool] = is_of_this_host,
    ) -> None:
        self.allowed = allowed
        self._named, self._direct, self.resolve, self._own = access.named, access.direct, resolve, own
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

        ``by_proxy``: a proxy of the site connects, and looks names up: then () is an answer. What an untrusted case
        chose is looked up here, too, since this host may know a name of its networks; where it knows none, () is an
        answer unless only a page led to the host. Raises HostRefused, and Unreachable when it has no address.
        """
        named = self._named if not of_build or self.allowed.any_host else self._direct
        if by_proxy and _holds(named, host, port):
            return []
        try:
            resolve = addresses.read_address if by_proxy and self.allowed.credentials else self.resolve
            found = addresses.networks(host, port, resolve, self._own)
            return list(found) if _holds(named, host, port) else addresses.permitted(host, port, found)
        except addresses.NotPublic as error:
            raise HostRefused(
                f'{error}; if builds should reach it, set build_hosts = ["{host}:{port}"] in reprokit.toml'
            ) from None
        except OSError as error:
            if by_proxy and not (of_build and host in self._linked):
                return []
            raise Unreachable(f"{host} has no address: {error.strerror or error}") from None


def _holds(endpoints: frozenset[HostPort], host: str, port: int) -> bool:
    return (host, port) in endpoints or (host, None) in endpoints

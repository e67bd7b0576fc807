"""What of this host's settings the gateway uses for builds: places, logins, authorities and proxies. Pure."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from reprokit.core.addresses import is_loopback
from reprokit.engine.site.links import local_path

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
    """The host's settings, as far as fetching needs them.

    ``pip``: option -> values of the host's pip, passwords in URLs included. ``logins``: host -> login and password, of
    the netrc. ``bundle``: authorities as PEM, besides the system's own. ``client_cert``: file with certificate and key.
    ``proxies``: variables as :func:`reprokit.engine.site.network.proxies` has them. ``apt_proxies``: apt's settings.
    ``archives``: URLs that builds read themselves, such as mirrors of a distribution. ``hosts``: HOST or HOST:PORT that
    builds may reach besides.
    """

    pip: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    logins: Mapping[str, tuple[str, str]] = field(default_factory=dict, repr=False)
    bundle: str = field(default="", repr=False)
    client_cert: Path | None = None
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    apt_proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    archives: tuple[str, ...] = field(default=(), repr=False)
    hosts: tuple[str, ...] = ()

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

        A login goes to the server that it is for and to no other: ``url`` has to be at the place's scheme, host and
        port.
        """
        if not same_origin(place, url):
            return ""
        parts = urlsplit(place)
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

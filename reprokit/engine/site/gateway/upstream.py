"""What the gateway asks servers: at addresses that were checked, by the site's proxies, within limits.

httpcore speaks HTTP and keeps connections. Each of them is made by :class:`_Network`, which looks a name up, checks
what that gave, and connects there.
"""

from __future__ import annotations

import functools
import re
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

import httpcore

from reprokit.core.text import whole_number
from reprokit.engine.site.gateway.access import (
    Allowed,
    Guard,
    HostRefused,
    SiteAccess,
    Unreachable,
    basic,
    endpoint,
    shown,
    without_login,
)

CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 60.0
PAGE_SECONDS = 120.0
MAX_PAGE = 32 * 1024 * 1024
MAX_REDIRECTS = 10
_IDLE, _IDLE_SECONDS = 8, 5.0
"""Connections that wait for a next request, and how long: servers end them after some seconds."""

_CONNECT = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):(?P<port>[0-9]{1,5})")
_FAILURES = (
    *(httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, httpcore.ProxyError),
    httpcore.UnsupportedProtocol,
    ValueError,  # of an address that no request can have
)


class Answer:
    """What a server answered. Close it; read in full it leaves the connection for the next request."""

    def __init__(self, url: str, response: httpcore.Response) -> None:
        self.url, self.status, self.close = url, response.status, response.close
        self.headers = {name.decode().lower(): _clean(value.decode("latin-1")) for name, value in response.headers}
        self._response = response

    @property
    def length(self) -> int | None:
        """Bytes of the body, where the server says so."""
        said = self.headers.get("content-length", "")
        return None if "transfer-encoding" in self.headers else whole_number(said)

    def blocks(self) -> Iterator[bytes]:
        """The body, as it comes. Raises Unreachable where it ends early or the server falls silent."""
        try:
            yield from self._response.iter_stream()
        except _FAILURES as error:
            raise Unreachable(f"{shown(self.url)} ended after part of its answer: {_why(error)}") from None

    def page(self) -> bytes:
        """The whole body, unpacked. Raises Unreachable for one that is too large, too slow or not what it says."""
        where = shown(self.url)
        until, found = time.monotonic() + PAGE_SECONDS, bytearray()
        packed = self.headers.get("content-encoding", "identity").lower()
        if packed not in ("identity", "gzip", "deflate"):
            raise Unreachable(f"{where} is packed as {packed}, which was not asked for")
        unpack = None if packed == "identity" else zlib.decompressobj(47)  # gzip and zlib
        for block in self.blocks():
            try:
                found += block if unpack is None else unpack.decompress(block, MAX_PAGE + 1 - len(found))
            except zlib.error:
                raise Unreachable(f"{where} says that it is packed as {packed}, and is not") from None
            if len(found) > MAX_PAGE:
                raise Unreachable(f"{where} is larger than {MAX_PAGE // 2**20} MB")
            if time.monotonic() > until:
                raise Unreachable(f"{where} was not read in full after {PAGE_SECONDS:g} s")
        if unpack is not None and not unpack.eof:
            raise Unreachable(f"{where} ended after part of its answer")
        return bytes(found)


class _Network(httpcore.NetworkBackend):
    """Connects to the first that answers of the addresses which ``find`` gives for a name, once, after its checks.

    ``what``: put before the name in messages.
    """

    def __init__(self, backend: httpcore.NetworkBackend, find: Callable[[str, int], Sequence[str]], what: str) -> None:
        self._backend, self._find, self._what = backend, find, what

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, *_: object, **__: object
    ) -> httpcore.NetworkStream:
        """A connection to a host."""
        failed = None
        for address in self._find(host, port)[:4]:
            try:
                return self._backend.connect_tcp(address, port, timeout or CONNECT_SECONDS)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
        raise Unreachable(f"{self._what}{host}:{port} cannot be connected to: {_why(failed)}")


class _Way(NamedTuple):
    """How servers are asked: requests share connections with those that are asked in the same way."""

    proxy: SplitResult | None
    of_build: bool
    scheme: str
    unverified: bool
    own: bool


class Upstream:
    """The servers that one build reads from. Safe for threads."""

    def __init__(
        self, access: SiteAccess, guard: Guard, backend: httpcore.NetworkBackend, seconds: float | None = None
    ) -> None:
        self._access, self._guard, self._backend = access, guard, backend
        seconds = seconds or SILENCE_SECONDS
        self._timeout = {"connect": min(seconds, CONNECT_SECONDS), "read": seconds, "write": seconds}
        self._lock = threading.Lock()
        self._pools: dict[_Way, httpcore.ConnectionPool] = {}
        self._checked: set[tuple[str, int, bool]] = set()

    def close(self) -> None:
        """Close the connections."""
        with self._lock:
            pools = list(self._pools.values())
        for pool in pools:
            pool.close()

    def is_of_case(self, place: str) -> bool:
        """Whether the case alone names an index or page: the site's own may be on its networks, whoever names it."""
        own = (*self._access.indexes, *self._access.pip.get("find-links", ()))
        return place in self._guard.allowed.places and place not in own

    def follow(self, url: str, headers: Mapping[str, str], *, place: str) -> Answer:
        """GET a file or page that ``place``, a page of the site's configuration, led to, through its redirects.

        The site's login for ``place`` goes to its own server only. A place of the case is as what its build chose:
        addresses are public, and redirects lead to what the build reaches. Raises HostRefused and Unreachable.
        """
        of_build = self.is_of_case(place)
        for _ in range(MAX_REDIRECTS + 1):
            login = self._access.authorization(place, url) if self._guard.allowed.credentials else ""
            sent = {**headers, "User-Agent": "reprokit", **({"Authorization": login} if login else {})}
            answer = self.ask("GET", url, sent, of_build=of_build)
            target = answer.headers.get("location")
            if answer.status not in (301, 302, 303, 307, 308) or not target:
                return answer
            answer.close()
            before, url = url, redirected(url, target)
            if of_build:
                self._guard.check_redirect(before, url)
        raise Unreachable(f"{shown(url)} redirects more than {MAX_REDIRECTS} times")

    def ask(self, method: str, url: str, headers: Mapping[str, str], *, of_build: bool, apt: bool = False) -> Answer:
        """One request, without following a redirect. ``of_build``: the build chose the URL. Raises as above."""
        parts = urlsplit(url)
        host, port = endpoint(url)
        proxy = self._proxy(url, host, port, of_build=of_build, apt=apt)
        own = self._guard.allowed.credentials and self._guard.is_named(host, port)
        pool = self._pool(_Way(proxy, of_build, parts.scheme, self._access.unverified(host, port), own))
        target = _target(parts)
        sent = {"Host": parts.netloc.rpartition("@")[2], "Accept-Encoding": "identity", **headers}
        for again in (True, False):
            try:
                name = host.encode("idna")
                request = httpcore.Request(
                    method,
                    httpcore.URL(scheme=parts.scheme, host=name, port=parts.port, target=target),
                    headers=[(name, value.encode("latin-1", "replace")) for name, value in sent.items()],
                    extensions={"timeout": self._timeout},
                )
                return Answer(url, pool.handle_request(request))
            except _FAILURES as error:
                # A server may end a connection in the moment in which it is used again.
                if not again or not isinstance(error, (httpcore.ReadError, httpcore.RemoteProtocolError)):
                    raise Unreachable(f"{shown(url)} does not answer: {_why(error)}") from None
        raise AssertionError

    def tunnel(self, target: str) -> httpcore.NetworkStream:
        """A connection to the ``HOST:PORT`` of a CONNECT, which the build chose, for its own bytes. Raises as above."""
        if (named := _CONNECT.fullmatch(target)) is None:
            raise HostRefused("CONNECT names no host and port", 400)
        host, port = named["host"].strip("[]").lower(), int(named["port"])
        self._guard.check_name(host, port)
        name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        proxy = self._proxy(f"https://{name}", host, port, of_build=True)
        if proxy is None:
            return self._network(None, of_build=True).connect_tcp(host, port)
        place = httpcore.URL(scheme="http", host=proxy.hostname or "", port=proxy.port, target=name)
        headers = [("Host", name), *_login_for(proxy)]
        try:
            pool = httpcore.ConnectionPool(network_backend=self._network(proxy, of_build=True))
            answer = pool.handle_request(
                httpcore.Request("CONNECT", place, headers=headers, extensions={"timeout": self._timeout})
            )
        except _FAILURES as error:
            raise Unreachable(f"the proxy of this site did not answer for {name}: {_why(error)}") from None
        if answer.status != 200:
            answer.close()
            raise Unreachable(f"the proxy of this site does not connect to {name}: it answers {answer.status}")
        stream: httpcore.NetworkStream = answer.extensions["network_stream"]
        return stream

    def _proxy(self, url: str, host: str, port: int, *, of_build: bool, apt: bool = False) -> SplitResult | None:
        """The proxy that is asked, if any: it connects by the name, of which the guard says what is refused."""
        proxy = self._access.proxy(url, apt=apt)
        if proxy is None:
            return None
        if proxy.scheme != "http" or not proxy.hostname:
            raise Unreachable(f"the proxy of this site is {shown(proxy.geturl())}; builds need an http:// one")
        if (host, port, of_build) not in self._checked:  # the proxy looks it up again, whatever is found here
            self._guard.addresses(host, port, of_build=of_build, by_proxy=True)
            self._checked.add((host, port, of_build))
        return proxy

    def _network(self, proxy: SplitResult | None, *, of_build: bool) -> _Network:
        if proxy is not None:
            return _Network(self._backend, self._find_proxy, "the proxy of this site at ")
        return _Network(self._backend, functools.partial(self._guard.addresses, of_build=of_build), "")

    def _find_proxy(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a proxy. The site's configuration names it: it may be anywhere."""
        try:
            return self._guard.resolve(host, port)
        except OSError:
            raise Unreachable(f"the proxy of this site, {host}, has no address") from None

    def _pool(self, way: _Way) -> httpcore.ConnectionPool:
        with self._lock:
            if way not in self._pools:
                self._pools[way] = httpcore.ConnectionPool(
                    ssl_context=self._context(way) if way.scheme == "https" else None,
                    proxy=httpcore.Proxy(_origin(way.proxy), headers=_login_for(way.proxy)) if way.proxy else None,
                    max_connections=None,
                    max_keepalive_connections=_IDLE,
                    keepalive_expiry=_IDLE_SECONDS,
                    network_backend=self._network(way.proxy, of_build=way.of_build),
                )
            return self._pools[way]

    def _context(self, way: _Way) -> ssl.SSLContext:
        """How a server is verified: as the host's pip would; the client's certificate goes to the site's own hosts."""
        context = ssl.create_default_context()
        if self._access.bundle:
            context.load_verify_locations(cadata=self._access.bundle)
        if way.own and self._access.client_cert is not None:
            context.load_cert_chain(self._access.client_cert)
        if way.unverified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def of_host(access: SiteAccess, seconds: float, places: frozenset[str] = frozenset()) -> Upstream:
    """As this host itself asks; ``places``: those of an untrusted case, at public addresses and without logins."""
    guard = Guard(Allowed(credentials=not places, any_host=True, places=places), access)
    return Upstream(access, guard, httpcore.SyncBackend(), seconds)


def redirected(url: str, target: str) -> str:
    """Where ``url`` redirects to, without a login. Raises Unreachable for what is not secured as ``url`` is."""
    try:
        after = urljoin(url, target)
        parts = urlsplit(after)
        endpoint(after)
    except ValueError:
        raise Unreachable(f"{shown(url)} redirects to what is not an address") from None
    if parts.scheme not in ("https", urlsplit(url).scheme) or parts.scheme not in ("http", "https"):
        raise Unreachable(f"{shown(url)} redirects to an address that is not secured as it is")
    return without_login(after)


def _target(parts: SplitResult) -> str:
    """What a request names of a URL, quoted as pip does: links of pages have spaces and other letters in them."""
    path, query = (quote(text, safe="/%~!$&'()*+,;=:@?") for text in (parts.path or "/", parts.query))
    return f"{path}?{query}" if query else path


def _login_for(proxy: SplitResult) -> list[tuple[str, str]]:
    if proxy.username is None:
        return []
    return [("Proxy-Authorization", basic(unquote(proxy.username), unquote(proxy.password or "")))]


def _origin(proxy: SplitResult) -> str:
    return f"http://{proxy.netloc.rpartition('@')[2]}"


def _clean(text: str) -> str:
    """A header's value on one line, printable."""
    return re.sub(r"[^\t\x20-\x7e\xa0-\xff]+", " ", text)[:8000].strip()


def _why(error: BaseException | None) -> str:
    """Why a connection failed, in one line without addresses of this host."""
    if isinstance(error, (httpcore.NetworkError, httpcore.TimeoutException)):
        error = error.__cause__ or error.__context__ or error  # what httpcore made it from
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); ca_bundle names this site's authorities"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return _clean(error.strerror)[:200]
    return _clean(str(error) or type(error).__name__)[:200]

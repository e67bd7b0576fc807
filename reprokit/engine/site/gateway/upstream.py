"""What the gateway asks servers: to addresses that were checked, by the site's proxies, within limits."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from reprokit.engine.site.gateway.access import SiteAccess, basic, endpoint, shown, without_login
from reprokit.engine.site.gateway.allowed import Guard, Unreachable
from reprokit.engine.site.gateway.deadlines import Deadlines

CONNECT_SECONDS = 15.0
SILENCE_SECONDS = 60.0
HEAD_SECONDS = 90.0
PAGE_SECONDS = 120.0
MAX_PAGE = 32 * 1024 * 1024
MAX_REDIRECTS = 10
MAX_HEAD = 65536
_IDLE = 4
"""Connections to one server that are kept for its next request."""
_BLOCK = 64 * 1024

Connector = Callable[[str, int, float], socket.socket]
"""Address, port and seconds -> a connection; raises OSError."""


def connect(address: str, port: int, seconds: float) -> socket.socket:
    """A TCP connection to an address."""
    return socket.create_connection((address, port), seconds)


class Answer:
    """What a server answered. Close it; read in full it leaves the connection for the next request."""

    def __init__(
        self, url: str, response: http.client.HTTPResponse, connection: _Connection, keep: Callable[[], None]
    ) -> None:
        self.url, self.status = url, response.status
        self.headers = {name.lower(): _clean(value) for name, value in response.getheaders()}
        self._response, self._connection, self._keep = response, connection, keep

    @property
    def length(self) -> int | None:
        """Bytes of the body, where the server says so."""
        return self._response.length

    def blocks(self) -> Iterator[bytes]:
        """The body, as it comes. Raises Unreachable where it ends early or the server falls silent."""
        try:
            while block := self._response.read(_BLOCK):
                yield block
            if self._response.length:  # http.client reports an early end of a sized body by read() alone
                raise Unreachable(f"{shown(self.url)} ended after part of its answer")
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise Unreachable(f"{shown(self.url)} stopped sending: {_why(error)}") from None

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
            if len(found) > MAX_PAGE or (unpack is not None and unpack.unconsumed_tail):
                raise Unreachable(f"{where} is larger than {MAX_PAGE // 2**20} MB")
            if time.monotonic() > until:
                raise Unreachable(f"{where} was not read in full after {PAGE_SECONDS:g} s")
        if unpack is not None and not unpack.eof:
            raise Unreachable(f"{where} ended after part of its answer")
        return bytes(found)

    def close(self) -> None:
        """Let the connection go, to the next request if this answer was read in full."""
        if self._response.isclosed() and not self._response.will_close:
            self._keep()
        else:
            self._connection.close()


class _Connection(http.client.HTTPConnection):
    """A connection that is made by ``dial``, once."""

    def __init__(self, host: str, port: int, dial: Callable[[], socket.socket]) -> None:
        super().__init__(host, port)
        self._dial = dial

    def connect(self) -> None:
        """Connect where the caller checked."""
        self.sock = self._dial()


class Upstream:
    """The servers that one build reads from. Safe for threads; :meth:`close` ends what is under way."""

    def __init__(
        self, access: SiteAccess, guard: Guard, deadlines: Deadlines, *, connector: Connector = connect
    ) -> None:
        self._access, self._guard, self._deadlines, self._connect = access, guard, deadlines, connector
        self._lock = threading.Lock()
        self._idle: dict[tuple[object, ...], list[_Connection]] = {}
        self._contexts: dict[tuple[bool, bool], ssl.SSLContext] = {}

    def close(self) -> None:
        """Close the connections that wait for a next request."""
        with self._lock:
            for connection in [one for idle in self._idle.values() for one in idle]:
                connection.close()
            self._idle.clear()

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
            answer = self.ask("GET", url, {**headers, **({"Authorization": login} if login else {})}, of_build=of_build)
            target = answer.headers.get("location")
            if answer.status not in (301, 302, 303, 307, 308) or not target:
                return answer
            answer.close()
            before, url = url, self._redirected(url, target)
            if of_build:
                self._guard.check_redirect(before, url)
        raise Unreachable(f"{shown(url)} redirects more than {MAX_REDIRECTS} times")

    def _redirected(self, url: str, target: str) -> str:
        try:
            after = urljoin(url, target)
            parts = urlsplit(after)
            endpoint(after)
        except ValueError:
            raise Unreachable(f"{shown(url)} redirects to what is not an address") from None
        if parts.scheme not in ("https", urlsplit(url).scheme) or parts.scheme not in ("http", "https"):
            raise Unreachable(f"{shown(url)} redirects to an address that is not secured as it is")
        return without_login(after)

    def ask(self, method: str, url: str, headers: Mapping[str, str], *, of_build: bool, apt: bool = False) -> Answer:
        """One request, without following a redirect. ``of_build``: the build chose the URL. Raises as above."""
        parts = urlsplit(url)
        host, port = endpoint(url)
        proxy = self._access.proxy(url, apt=apt)
        key = (parts.scheme, host, port, of_build, proxy)
        sent = {"Host": _host_header(parts.scheme, host, port), "Accept-Encoding": "identity", **headers}
        target = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
        if proxy is not None and parts.scheme == "http":
            target = without_login(parts._replace(fragment="").geturl())
            if login := _proxy_login(proxy):
                sent["Proxy-Authorization"] = login
        where = shown(url)
        while True:
            connection, fresh = self._connection(key, parts.scheme, host, port, proxy, of_build)
            try:
                return self._answer(connection, key, method, url, target, sent)
            except (http.client.HTTPException, OSError, ValueError) as error:
                connection.close()
                if fresh or isinstance(error, TimeoutError):
                    raise Unreachable(f"{where} does not answer: {_why(error)}") from None

    def _answer(
        self,
        connection: _Connection,
        key: tuple[object, ...],
        method: str,
        url: str,
        target: str,
        headers: Mapping[str, str],
    ) -> Answer:
        if connection.sock is None:
            connection.connect()
        with self._deadlines.limit(connection.sock, HEAD_SECONDS):
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            response = connection.getresponse()
        return Answer(url, response, connection, lambda: self._keep(key, connection))

    def _connection(
        self, key: tuple[object, ...], scheme: str, host: str, port: int, proxy: SplitResult | None, of_build: bool
    ) -> tuple[_Connection, bool]:
        with self._lock:
            if idle := self._idle.get(key):
                return idle.pop(), False

        def dial() -> socket.socket:
            plain = self.dial(host, port, proxy if scheme == "https" else None, of_build=of_build, http_proxy=proxy)
            if scheme != "https":
                return plain
            secured = self._context(host, port).wrap_socket(plain, server_hostname=host, do_handshake_on_connect=False)
            try:
                with self._deadlines.limit(secured, CONNECT_SECONDS):
                    secured.do_handshake()
            except BaseException:
                secured.close()
                raise
            return secured

        return _Connection(host, port, dial), True

    def _keep(self, key: tuple[object, ...], connection: _Connection) -> None:
        with self._lock:
            idle = self._idle.setdefault(key, [])
            if len(idle) < _IDLE:
                idle.append(connection)
                return
        connection.close()

    def dial(
        self,
        host: str,
        port: int,
        tunnel: SplitResult | None,
        *,
        of_build: bool,
        http_proxy: SplitResult | None = None,
    ) -> socket.socket:
        """A connection to a host, or to the proxy that asks it (``http_proxy``) or tunnels to it (``tunnel``).

        Raises Refused, Unreachable and OSError.
        """
        proxy = tunnel or http_proxy
        found = self._guard.addresses(host, port, of_build=of_build, by_proxy=proxy is not None)
        if proxy is None:
            return self._first(found, host, port)
        if proxy.scheme != "http" or not proxy.hostname:
            raise Unreachable(f"the proxy of this site is {shown(proxy.geturl())}; builds need an http:// one")
        made = self._connect_proxy(proxy)
        if tunnel is not None:
            try:
                with self._deadlines.limit(made, HEAD_SECONDS):
                    _ask_tunnel(made, host, port, _proxy_login(proxy))
            except BaseException:
                made.close()
                raise
        return made

    def _connect_proxy(self, proxy: SplitResult) -> socket.socket:
        # The site's configuration names its proxy: it may be anywhere.
        try:
            found = self._guard.resolve(proxy.hostname or "", proxy.port or 80)
        except OSError:
            raise Unreachable(f"the proxy of this site, {proxy.hostname}, has no address") from None
        return self._first(found, proxy.hostname or "", proxy.port or 80)

    def _first(self, addresses: Sequence[str], host: str, port: int) -> socket.socket:
        """A connection to the first address that answers."""
        last: OSError | None = None
        for address in addresses[:4]:
            try:
                made = self._connect(address, port, CONNECT_SECONDS)
            except OSError as error:
                last = error
            else:
                made.settimeout(SILENCE_SECONDS)
                with suppress(OSError):
                    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                return made
        raise Unreachable(f"{host}:{port} cannot be connected to: {_why(last)}")

    def _context(self, host: str, port: int) -> ssl.SSLContext:
        """How a server is verified: as the host's pip would; the client's certificate goes to the site's own hosts."""
        unverified = self._access.unverified(host, port)
        own = self._guard.allowed.credentials and self._guard.is_named(host, port)
        with self._lock:
            if (unverified, own) not in self._contexts:
                self._contexts[unverified, own] = self._make_context(unverified, own)
            return self._contexts[unverified, own]

    def _make_context(self, unverified: bool, own: bool) -> ssl.SSLContext:
        context = ssl.create_default_context()
        if self._access.bundle:
            context.load_verify_locations(cadata=self._access.bundle)
        if own and self._access.client_cert is not None:
            context.load_cert_chain(self._access.client_cert)
        if unverified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


def _ask_tunnel(made: socket.socket, host: str, port: int, login: str) -> None:
    """Ask a proxy for a connection to a host. Raises Unreachable."""
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {name} HTTP/1.1", f"Host: {name}", *([f"Proxy-Authorization: {login}"] if login else [])]
    made.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    head = bytearray()
    while not head.endswith(b"\r\n\r\n"):
        if not (byte := made.recv(1)) or len(head) > MAX_HEAD:  # not one byte of what comes after
            raise Unreachable(f"the proxy of this site did not answer for {name}")
        head += byte
    status = re.match(rb"HTTP/1\.[01] (\d{3})([^\r\n]*)", head)
    if status is None or status[1] != b"200":
        said = _clean(status[1].decode() + status[2].decode("latin-1")) if status else "no status"
        raise Unreachable(f"the proxy of this site does not connect to {name}: {said}")


def _proxy_login(proxy: SplitResult) -> str:
    return "" if proxy.username is None else basic(unquote(proxy.username), unquote(proxy.password or ""))


def _host_header(scheme: str, host: str, port: int) -> str:
    name = f"[{host}]" if ":" in host else host
    return name if port == {"http": 80, "https": 443}[scheme] else f"{name}:{port}"


def _clean(text: str) -> str:
    """A header's value on one line, printable."""
    return re.sub(r"[^\t\x20-\x7e\xa0-\xff]+", " ", text).strip()[:8000]


def _why(error: BaseException | None) -> str:
    """Why a connection failed, in one line without addresses of this host."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message}); ca_bundle names this site's authorities"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return _clean(error.strerror)[:200]
    return _clean(str(error) or type(error).__name__)[:200]


@contextmanager
def closing(answer: Answer) -> Iterator[Answer]:
    """Close an answer at the end of the block."""
    try:
        yield answer
    finally:
        answer.close()

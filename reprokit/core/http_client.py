"""One HTTP request, sent as this host sends its own: its proxies, its certificates, within limits of size and time."""

from __future__ import annotations

import functools
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from reprokit.core import addresses
from reprokit.core.addresses import is_loopback

if TYPE_CHECKING:
    import httpx

MAX_REDIRECTS = 10


class NoAnswer(Exception):
    """No complete answer came; the text says why."""


class TooLarge(NoAnswer):
    """The answer is larger than the caller accepts."""


@dataclass(frozen=True, kw_only=True)
class Response:
    """What a server answered, whatever its status. ``headers``: their names in any case."""

    status: int
    reason: str
    headers: Mapping[str, str]
    data: bytes

    @property
    def ok(self) -> bool:
        """Whether the request succeeded."""
        return 200 <= self.status < 300

    @property
    def media_type(self) -> str:
        """The media type without its parameters; ``text/plain`` where the server names none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower() or "text/plain"


def send(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    max_bytes: int,
    silence: float,
    seconds: float = float("inf"),
    allow_redirect: Callable[[str, str], None] = lambda before, after: None,
) -> Response:
    """Send a request and follow redirects; the ``Authorization`` header goes to no other server than the first.

    Args:
        max_bytes: the largest answer that is read; an error's answer is cut off there.
        silence: seconds without a byte after which the server counts as gone.
        seconds: how long the answer may take in all.
        allow_redirect: called with both addresses before a redirect is followed; raises to refuse it.

    Raises:
        NoAnswer: nothing answers, or not in full.
        TooLarge: the answer is larger than ``max_bytes``.
    """
    until, data = time.monotonic() + seconds, bytearray()
    with _answered(method, url, headers=headers, body=body, silence=silence, allow_redirect=allow_redirect) as answer:
        try:
            for block in _blocks(answer, max_bytes, until, seconds):
                data += block
        except TooLarge:
            if not answer.is_error:
                raise
        return Response(
            status=answer.status_code, reason=answer.reason_phrase, headers=answer.headers, data=bytes(data)
        )


def download(
    url: str,
    target: BinaryIO,
    *,
    max_bytes: int,
    silence: float,
    seconds: float,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> int:
    """Write what an address answers to a file; the status of the answer, of which only 200 is written.

    A user and a password in the address go to its server alone.

    Args:
        max_bytes: the largest answer that is read.
        silence: seconds without a byte after which the server counts as gone.
        seconds: how long the answer may take in all.
        is_cancelled: asked as it comes; the file is then left as it is.

    Raises:
        NoAnswer: nothing answers, or not in full, or it was cancelled.
        TooLarge: the answer is larger than ``max_bytes``.
    """
    until = time.monotonic() + seconds
    with _answered("GET", url, headers={}, silence=silence) as answer:
        for block in _blocks(answer, max_bytes, until, seconds) if answer.status_code == 200 else ():
            if is_cancelled():
                raise NoAnswer("cancelled")
            target.write(block)
        return answer.status_code


@contextmanager
def _answered(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    silence: float,
    body: bytes | None = None,
    allow_redirect: Callable[[str, str], None] = lambda before, after: None,
) -> Iterator[httpx.Response]:
    """The answer after its redirects, of which the block reads the body; what fails meanwhile raises NoAnswer."""
    import httpx  # takes as long to import as all of `reprokit --help`

    try:
        # Unpacking could turn a small answer into one of any size.
        request = httpx.Request(
            method, url, headers={"User-Agent": "reprokit", **headers, "Accept-Encoding": "identity"}, content=body
        )
        kinds: set[str] | None = None
        for _ in range(MAX_REDIRECTS + 1):
            proxy = _proxy(request.url)
            found, kinds = _addresses(request.url, kinds, by_proxy=proxy is not None)
            transport = httpx.HTTPTransport(verify=_certificates(), proxy=proxy, trust_env=False)
            client = httpx.Client(transport=_pinned(transport, found), timeout=httpx.Timeout(silence))
            with client:
                answer = client.send(request, stream=True)
                if answer.next_request is None:
                    yield answer
                    return
            allow_redirect(str(request.url), str(answer.next_request.url))
            request = answer.next_request
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
        raise NoAnswer(str(error) or type(error).__name__) from None
    raise NoAnswer(f"more than {MAX_REDIRECTS} redirects")


def _addresses(url: httpx.URL, kinds: set[str] | None, *, by_proxy: bool) -> tuple[list[str], set[str]]:
    """The addresses at which a server is connected to, none where a proxy does that, and the kinds of their networks.

    ``kinds``: those of the address that was asked for first, None for that itself. It may be anywhere, since the user
    named it; a redirect leads to public addresses and to those kinds alone. A name that a proxy looks up is not looked
    up here: of it, the proxy alone can say where it leads. Raises NoAnswer, OSError.
    """
    if url.scheme not in ("http", "https") or not url.host:
        return [], kinds or set()  # httpx says what is wrong with it
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        found = addresses.networks(url.host, port, addresses.read_address if by_proxy else None)
        good = list(found) if kinds is None else addresses.permitted(url.host, port, found, {"", *kinds})
    except addresses.NotPublic as error:
        raise NoAnswer(f"it redirects to another network: {error}; name that address if it is meant") from None
    except OSError:
        if by_proxy:
            return [], kinds or set()
        raise
    return [] if by_proxy else good, set(found.values()) if kinds is None else kinds


def _pinned(transport: httpx.BaseTransport, found: Sequence[str]) -> httpx.BaseTransport:
    """The transport, which connects to the first of these addresses that answers, without looking the name up again."""
    import httpx

    class Pinned(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            for place, address in enumerate(found, 1):
                # By httpx's documentation ("Extensions", sni_hostname): certificates are those of the name.
                request.extensions["sni_hostname"] = request.url.host
                pinned = httpx.Request(
                    request.method,
                    request.url.copy_with(host=address),
                    headers=request.headers,
                    stream=request.stream,
                    extensions=request.extensions,
                )
                try:
                    return transport.handle_request(pinned)
                except httpx.ConnectError:
                    if place == len(found):
                        raise
            return transport.handle_request(request)

        def close(self) -> None:
            transport.close()

    return Pinned()


def _proxy(url: httpx.URL) -> str | None:
    from urllib.request import getproxies, proxy_bypass

    # A proxy's localhost is another host.
    if is_loopback(str(url)) or proxy_bypass(url.netloc.decode()):
        return None
    return getproxies().get(url.scheme)


@functools.cache
def _certificates() -> ssl.SSLContext:
    """Those that the system trusts: httpx alone would not know a site's own authority."""
    return ssl.create_default_context()


def _blocks(response: httpx.Response, max_bytes: int, until: float, seconds: float) -> Iterator[bytes]:
    """The body as it comes, up to ``max_bytes``. Raises NoAnswer, and TooLarge where there is more."""
    left = max_bytes
    for block in response.iter_raw():
        yield block[:left]
        left -= len(block)
        if left < 0:
            raise TooLarge(f"the answer is larger than {max_bytes / 1e6:g} MB")
        if time.monotonic() > until:
            raise NoAnswer(f"has not answered in full after {seconds:.0f} s")

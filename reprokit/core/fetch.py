"""One text from one address, within limits of size and time, and only where the address says."""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from email.message import Message
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from reprokit.core.addresses import is_loopback
from reprokit.core.errors import UsageError

MAX_BYTES = 1_000_000
"""Largest text that is read from an address."""
SOCKET_SECONDS = 20.0
"""Seconds that an address may be silent."""
ALL_SECONDS = 60.0
"""Seconds that an answer may take in all."""

_BLOB = re.compile(r"(/[^/]+/[^/]+(?:/[^/]+)*?)(/-)?/blob/(.+)")
_GIST = re.compile(r"/([^/]+/)?[0-9a-f]{20,40}/?")


@dataclass(frozen=True, kw_only=True)
class Page:
    """What an address answered; ``kind``: its media type."""

    data: bytes
    kind: str


def raw(url: str) -> str:
    """The address of the text itself, for a file or a gist as the sites of GitHub, GitLab and Gitee show it."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    if parts.hostname == "gist.github.com" and _GIST.fullmatch(parts.path):
        return parts._replace(path=parts.path.rstrip("/") + "/raw", query="", fragment="").geturl()
    shown = _BLOB.fullmatch(parts.path)
    if shown:
        return parts._replace(path=f"{shown[1]}{shown[2] or ''}/raw/{shown[3]}", query="", fragment="").geturl()
    return url


class _Careful(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but not to where an address of that kind does not lead by itself."""

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Message, newurl: str
    ) -> urllib.request.Request | None:
        before = req.full_url
        if urlsplit(newurl).scheme not in ("http", "https"):
            raise UsageError(f"{before}: redirects to something that is no web address")
        if is_loopback(before) != is_loopback(newurl):
            raise UsageError(f"{before}: redirects to {urlsplit(newurl).netloc}; name that address if it is meant")
        if urlsplit(before).scheme == "https" and urlsplit(newurl).scheme == "http":
            raise UsageError(f"{before}: redirects to an address without encryption: {newurl}")
        return super().redirect_request(req, fp, code, msg, headers, newurl)  # type: ignore[arg-type]


def get(url: str, accept: str = "text/plain, */*;q=0.5") -> Page:
    """What an address answers. Raises UsageError when it cannot be had, or is larger than ``MAX_BYTES``."""
    request = urllib.request.Request(url, headers={"User-Agent": "reprokit", "Accept": accept})
    # A proxy's localhost is another host.
    proxies = [urllib.request.ProxyHandler({})] if is_loopback(url) else []
    try:
        with urllib.request.build_opener(_Careful, *proxies).open(request, timeout=SOCKET_SECONDS) as answer:
            return Page(data=_read(url, answer), kind=answer.headers.get_content_type())
    except urllib.error.HTTPError as error:
        with error:
            raise UsageError(f"{url}: the server answers {error.code} {error.reason}") from None
    except urllib.error.URLError as error:
        raise UsageError(f"{url}: cannot be fetched: {error.reason}") from None
    except (OSError, ValueError, HTTPException) as error:
        raise UsageError(f"{url}: cannot be fetched: {error or type(error).__name__}") from None


def _read(url: str, answer: Any) -> bytes:
    until = time.monotonic() + ALL_SECONDS
    data = bytearray()
    while block := answer.read1(64 * 1024):
        data += block
        if len(data) > MAX_BYTES:
            raise too_large(url)
        if time.monotonic() > until:
            raise UsageError(f"{url}: has not answered in full after {ALL_SECONDS:.0f} s")
    return bytes(data)


def too_large(url: str) -> UsageError:
    """The error for a text that is too large to come from an address."""
    return UsageError(f"{url}: more than {MAX_BYTES / 1e6:g} MB is no case; large data belongs in a dataset")

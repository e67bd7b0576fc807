"""One text from one address, within limits of size and time, and only where the address says."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from reprokit.core import http_client
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


def get(url: str, accept: str = "text/plain, */*;q=0.5") -> http_client.Response:
    """What an address answers. Raises UsageError when it is not available, or is larger than ``MAX_BYTES``."""
    try:
        answer = http_client.send(
            "GET",
            url,
            headers={"Accept": accept},
            max_bytes=MAX_BYTES,
            silence=SOCKET_SECONDS,
            seconds=ALL_SECONDS,
            allow_redirect=_allow_redirect,
        )
    except http_client.TooLarge:
        raise too_large(url) from None
    except http_client.NoAnswer as error:
        raise UsageError(f"{url}: cannot be fetched: {error}") from None
    if not answer.ok:
        raise UsageError(f"{url}: the server answers {answer.status} {answer.reason}")
    return answer


def _allow_redirect(before: str, after: str) -> None:
    """Refuse a redirect to where an address of that kind does not lead by itself. Raises UsageError."""
    if urlsplit(after).scheme not in ("http", "https"):
        raise UsageError(f"{before}: redirects to something that is not a web address")
    if is_loopback(before) != is_loopback(after):
        raise UsageError(f"{before}: redirects to {urlsplit(after).netloc}; name that address if it is meant")
    if urlsplit(before).scheme == "https" and urlsplit(after).scheme == "http":
        raise UsageError(f"{before}: redirects to an address without encryption: {after}")


def too_large(url: str) -> UsageError:
    """The error for a text that is too large to come from an address."""
    return UsageError(f"{url}: more than {MAX_BYTES / 1e6:g} MB is not a case; large data belongs in a dataset")

"""A small client of GitHub's REST API, for one repository. The token is in no message, no log and no ``repr``.

A second implementation. Library: PyGithub, githubkit.
Why not: a dozen more packages for five calls, and logins of several kinds where we have one token.
Owner of ours: the room ``core``.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from reprokit.core import http_client, json_text
from reprokit.core.addresses import is_loopback
from reprokit.core.errors import ReprokitError, UsageError
from reprokit.core.text import whole_number

TIMEOUT = 30.0
"""Seconds that one answer may take."""
TRIES = 5
"""How often a request is sent at most."""
LONGEST_WAIT = 90.0
"""Seconds that are waited at most before a request is sent again; a limit that lasts longer is reported instead."""
MAX_BYTES = 32 * 1024**2
"""Largest answer that is read."""
PER_PAGE = 100
MAX_PAGES = 100
"""Most pages that :meth:`Repository.all` follows: 10,000 entries."""

_REPOSITORY = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+")
_NEXT = re.compile(r'<([^<>]+)>\s*;[^,]*\brel="?next"?')


class ApiError(ReprokitError):
    """GitHub refused a request, or could not be reached; ``status`` is HTTP's, 0 without an answer."""

    exit_status = 3

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


class Repository:
    """One repository's part of the API. Paths are segments below ``/repos/OWNER/NAME``; each is quoted."""

    def __init__(
        self,
        name: str,
        token: str = "",
        *,
        url: str = "https://api.github.com",
        sleep: Callable[[float], None] = time.sleep,
        tries: int = TRIES,
    ) -> None:
        if not _REPOSITORY.fullmatch(name):
            raise UsageError(f"{name!r} is not a repository: OWNER/NAME is expected")
        if not url.startswith(("http://", "https://")):
            raise UsageError(f"{url!r} is not an address of an API")
        if any(not " " < sign <= "~" for sign in token):
            raise UsageError("the token holds signs that no token has (a line break at its end?)")
        self.name = name
        self._url = f"{url.rstrip('/')}/repos/{name}"
        self._token = token
        self._sleep = sleep
        self._tries = tries

    def __repr__(self) -> str:
        return f"Repository({self.name!r})"

    def get(self, *path: str | int, **query: str | int) -> Any:
        """What is there, parsed. Raises ApiError, with ``status`` 404 where there is nothing."""
        return self._json(self._send("GET", self._address(path, query)))

    def all(self, *path: str | int, **query: str | int) -> Iterator[Any]:
        """The entries of a list, page after page; where a list is in an object beside a count, as of artifacts, too."""
        address = self._address(path, {"per_page": PER_PAGE, **query})
        for _ in range(MAX_PAGES):
            answer = self._send("GET", address)
            entries = self._json(answer)
            lists = entries.values() if isinstance(entries, dict) else [entries]
            yield from next((found for found in lists if isinstance(found, list)), ())
            following = _NEXT.search(answer.headers.get("Link", ""))
            if not following:
                return
            if urlsplit(following[1])[:2] != urlsplit(self._url)[:2]:
                raise ApiError(f"GET {urlsplit(address).path}: the next page is said to be on another server")
            address = following[1]

    def post(self, *path: str | int, body: Mapping[str, Any]) -> Any:
        """Create something; returns it."""
        return self._json(self._send("POST", self._address(path, {}), body))

    def patch(self, *path: str | int, body: Mapping[str, Any]) -> Any:
        """Change something; returns it."""
        return self._json(self._send("PATCH", self._address(path, {}), body))

    def delete(self, *path: str | int) -> bool:
        """Remove something; whether it was there."""
        try:
            self._send("DELETE", self._address(path, {}))
        except ApiError as error:
            if error.status == 404:
                return False
            raise
        return True

    def _address(self, path: tuple[str | int, ...], query: Mapping[str, str | int]) -> str:
        # A segment of dots would be another path: servers and proxies resolve it even when it is quoted.
        segments = [quote(str(segment), safe="").replace(".", "%2E") for segment in path]
        return "/".join([self._url, *segments]) + (f"?{urlencode(query)}" if query else "")

    def _send(self, method: str, address: str, body: Mapping[str, Any] | None = None) -> http_client.Response:
        what = f"{method} {urlsplit(address).path}"
        for attempt in range(1, self._tries + 1):
            try:
                answer = self._ask(method, address, body)
            except http_client.TooLarge:
                raise ApiError(f"{what}: GitHub's answer is larger than {MAX_BYTES // 1024**2} MiB") from None
            except http_client.NoAnswer as error:
                failure = ApiError(f"{what}: GitHub cannot be reached: {error}")
                wait = None if method == "POST" else _backoff(attempt)
            else:
                if answer.ok:
                    return answer
                failure = ApiError(f"{what}: GitHub answers {answer.status}{_reason(answer)}", answer.status)
                wait = _wait(answer, method, attempt)
            if wait is None or attempt == self._tries:
                raise failure
            if wait > LONGEST_WAIT:
                raise ApiError(f"{failure}; it would answer again in {wait:.0f} s", failure.status)
            self._sleep(wait)
        raise AssertionError("the last try returns or raises")

    def _ask(self, method: str, address: str, body: Mapping[str, Any] | None) -> http_client.Response:
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        if self._token:
            headers["Authorization"] = f"Bearer {self._token}"
        if body is not None:
            headers["Content-Type"] = "application/json"
        return http_client.send(
            method,
            address,
            headers=headers,
            body=None if body is None else json.dumps(body).encode(),
            max_bytes=MAX_BYTES,
            silence=TIMEOUT,
            allow_redirect=_allow_redirect,
        )

    def _json(self, answer: http_client.Response) -> Any:
        try:
            return json_text.loads(answer.data) if answer.data.strip() else None
        except ValueError:
            raise ApiError(f"{self.name}: GitHub's answer is not JSON ({answer.media_type})") from None


def from_environment(environ: Mapping[str, str] = os.environ) -> Repository:
    """The repository of the workflow that runs: GITHUB_REPOSITORY, GITHUB_API_URL and GITHUB_TOKEN.

    Raises UsageError when one of them is missing.
    """
    name, token = environ.get("GITHUB_REPOSITORY", ""), environ.get("GITHUB_TOKEN", "")
    if not name:
        raise UsageError("GITHUB_REPOSITORY is not set: this runs in a workflow of GitHub Actions")
    if not token:
        raise UsageError("GITHUB_TOKEN is not set: the step needs `env: {GITHUB_TOKEN: ${{ github.token }}}`")
    return Repository(name, token, url=environ.get("GITHUB_API_URL") or "https://api.github.com")


def _allow_redirect(before: str, after: str) -> None:
    """Refuse to go from this host to another, or back: what this host says is trusted, see reprokit.core.addresses."""
    if is_loopback(before) != is_loopback(after):
        raise ApiError(f"{before}: redirects to {urlsplit(after).netloc}")


def _reason(answer: http_client.Response) -> str:
    """What the server says, on one line."""
    try:
        message = json_text.loads(answer.data)["message"]
    except (ValueError, LookupError, TypeError):
        message = answer.reason
    words = " ".join(str(message).split())[:300]
    return f": {words}" if words else ""


def _backoff(attempt: int) -> float:
    """Seconds before try ``attempt + 1``: 1, 2, 4, 8."""
    return float(2 ** (attempt - 1))


def _wait(answer: http_client.Response, method: str, attempt: int) -> float | None:
    """Seconds after which the request may be sent again; None: it may not.

    Rate limits: https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api. A request
    that was refused by one did nothing, so that even a POST may be repeated; after a 5xx it may have been carried out.
    """
    headers = answer.headers
    if answer.status in (403, 429):
        if (after := whole_number(headers.get("Retry-After", ""))) is not None:
            return float(after)
        reset = whole_number(headers.get("X-RateLimit-Reset", ""))
        if headers.get("X-RateLimit-Remaining") == "0" and reset is not None:
            return max(1.0, reset - time.time() + 1)
        return 60.0 if answer.status == 429 else None
    return _backoff(attempt) if answer.status >= 500 and method != "POST" else None

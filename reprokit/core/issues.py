"""Issues, pull requests and their comments as texts: GitHub (docs.github.com/en/rest/issues), Gitee, Gitea and
Forgejo answer alike; GitLab is asked for the description alone. A token goes to the one interface that it belongs to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from reprokit.core import fetch, json_text
from reprokit.core.errors import UsageError
from reprokit.core.github_api import ApiError, Repository

GITHUB = "https://github.com"
API = "https://api.github.com"
MAX_COMMENTS = 1000
"""Comments of an issue that are looked through."""
INSTEAD = "save its text as a Markdown file and name that, or hand it over by -"
"""What to do with an issue that cannot be read."""

_PATH = re.compile(r"/(?P<name>[^/]+/[^/]+)/(?:issues|pulls?)/(?P<number>[A-Za-z0-9]+)(?:/[a-z]*)?/?")
_GITLAB = re.compile(r"/(?P<project>.+?)/-/(?:issues|work_items)/(?P<number>[0-9]+)/?")
_COMMENT = re.compile(r"(?:issuecomment-|note_)(?P<id>[0-9]+)(?:_link)?")
_REVIEW = re.compile(r"discussion_r(?P<id>[0-9]+)")


@dataclass(frozen=True, kw_only=True)
class IssuePart:
    """The body of an issue, or one comment: its Markdown, with LF alone, and its own address.

    ``created``: when it was written, RFC 3339; '' where the server does not say.
    """

    url: str
    author: str
    text: str
    created: str = ""


@dataclass(frozen=True, kw_only=True)
class Issue:
    """An issue or pull request as it stands now. ``body``: its own text, or the one comment that was asked for."""

    url: str
    title: str
    body: IssuePart
    _more: Any = field(default=None, repr=False)

    def comments(self) -> Iterator[IssuePart]:
        """Its comments in their order, fetched when asked for; none where one comment was asked for."""
        if self._more is not None:
            yield from self._more()


@dataclass(frozen=True, kw_only=True)
class _Place:
    """Which issue, on which server; ``apis``: the interfaces to try."""

    url: str
    server: str
    name: str
    number: str
    comment: str
    review: str
    apis: tuple[str, ...]
    token: str = field(default="", repr=False)

    @property
    def what(self) -> str:
        return f"issue {self.number} of {self.name}"


def is_issue(url: str) -> bool:
    """Whether an address is that of an issue, by its host or its path."""
    place = _place(url)
    return place is not None and len(place.apis) == 1


def may_be_issue(url: str) -> bool:
    """Whether a web page at an address may be an issue on a server that is not known."""
    return _place(url) is not None


def read(url: str) -> Issue:
    """The issue at an address. Raises UsageError where it cannot be read, saying what to do."""
    place = _place(url)
    if place is None:
        raise UsageError(f"{url}: is not an address of an issue")
    if "/-/" in urlsplit(url).path:
        return _gitlab(place)
    for number, api in enumerate(place.apis, 1):
        try:
            return _read(place, api)
        except ApiError as error:
            if number == len(place.apis):
                raise UsageError(_refusal(place, error)) from None
    raise AssertionError("there is an interface to try")


def is_discussion(url: str) -> bool:
    """Whether an address is a discussion on GitHub, which no REST interface serves."""
    parts = urlsplit(url)
    return parts.hostname == urlsplit(_server()).hostname and bool(
        re.match(r"/[^/]+/[^/]+/discussions/\d+", parts.path)
    )


def _server() -> str:
    return (os.environ.get("GITHUB_SERVER_URL") or GITHUB).rstrip("/")


def _place(url: str) -> _Place | None:
    try:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2].removeprefix("www.").lower()
    except ValueError:
        return None
    found = _GITLAB.fullmatch(parts.path) or _PATH.fullmatch(parts.path)
    if not found or parts.scheme not in ("http", "https"):
        return None
    scheme = "https" if host in ("github.com", "gitee.com") else parts.scheme
    server = f"{scheme}://{host}"
    apis, token = _apis(server, found)
    comment, review = _COMMENT.fullmatch(parts.fragment), _REVIEW.fullmatch(parts.fragment)
    return _Place(
        url=url,
        server=server,
        name=found.groupdict().get("name") or found["project"],
        number=found["number"],
        comment=comment["id"] if comment else "",
        review=review["id"] if review else "",
        apis=apis,
        token=token,
    )


def _apis(server: str, found: re.Match[str]) -> tuple[tuple[str, ...], str]:
    """The interfaces of a server, and the token for the first of them."""
    if "project" in found.groupdict():
        return (f"{server}/api/v4",), ""
    if server == _server():
        default = API if server == GITHUB else f"{server}/api/v3"
        token = os.environ.get("GH_TOKEN") or os.environ.get("GITHUB_TOKEN") or ""
        return ((os.environ.get("GITHUB_API_URL") or default).rstrip("/"),), token.strip()
    if server == GITHUB:
        return (API,), ""
    if server == "https://gitee.com":
        return (f"{server}/api/v5",), ""
    return (f"{server}/api/v3", f"{server}/api/v1"), ""


def _read(place: _Place, api: str) -> Issue:
    repository = Repository(place.name, place.token, url=api, tries=1)
    found = _mapping(place, repository.get("issues", place.number))
    shown = urlsplit(str(found.get("html_url") or place.url)).hostname
    if shown and shown.removeprefix("www.") != urlsplit(place.server).hostname:
        raise UsageError(
            f"{place.url}: GITHUB_API_URL ({api}) answers for {shown}; set GITHUB_SERVER_URL to the server of that API"
        )
    title = str(found.get("title") or "")
    if place.comment or place.review:
        where = ("pulls", "comments", place.review) if place.review else ("issues", "comments", place.comment)
        body = _part(place.url, _mapping(place, repository.get(*where)))
        return Issue(url=place.url, title=title, body=body)
    body = _part(place.url, found)

    def comments() -> Iterator[IssuePart]:
        for number, one in enumerate(repository.all("issues", place.number, "comments"), 1):
            if number > MAX_COMMENTS:
                return
            one = _mapping(place, one)
            anchor = f"note_{one.get('id')}" if "gitee" in place.server else f"issuecomment-{one.get('id')}"
            yield _part(f"{place.url.partition('#')[0]}#{anchor}", one)

    return Issue(url=place.url, title=title, body=body, _more=_in_words(place, comments))


def _in_words(place: _Place, comments: Any) -> Any:
    def parts() -> Iterator[IssuePart]:
        try:
            yield from comments()
        except ApiError as error:
            raise UsageError(_refusal(place, error)) from None

    return parts


def _gitlab(place: _Place) -> Issue:
    address = f"{place.apis[0]}/projects/{quote(place.name, safe='')}/issues/{place.number}"
    try:
        found = _mapping(place, json_text.loads(fetch.get(address, "application/json").data))
    except ValueError:
        raise UsageError(f"{place.url}: {urlsplit(address).netloc} does not answer as GitLab does; {INSTEAD}") from None
    body = _part(place.url, {**found, "body": found.get("description"), "user": found.get("author")})
    return Issue(url=place.url, title=str(found.get("title") or ""), body=body)


def _mapping(place: _Place, found: Any) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise UsageError(f"{place.url}: the server's answer is not an issue; {INSTEAD}")
    return found


def _part(url: str, found: Mapping[str, Any]) -> IssuePart:
    text = str(found.get("body") or "").replace("\r\n", "\n")
    if len(text.encode("utf-8", "replace")) > fetch.MAX_BYTES:
        raise fetch.too_large(url)
    user = found.get("user")
    login = (user.get("login") or user.get("username") or "") if isinstance(user, dict) else ""
    return IssuePart(url=url, author=str(login), text=text, created=str(found.get("created_at") or ""))


def _refusal(place: _Place, error: ApiError) -> str:
    """Why an issue cannot be read, and what to do."""
    token = "GH_TOKEN or GITHUB_TOKEN"
    if len(place.apis) > 1:
        return (
            f"{place.url}: answers with a web page, not with a case, and no public issue is there by the interface of "
            f"GitHub Enterprise, Gitea or Forgejo: set GITHUB_SERVER_URL={place.server} and {token} for the first, or "
            f"{INSTEAD}"
        )
    limited = error.status == 429 or (error.status == 403 and "rate limit" in str(error).lower())
    if error.status in (404, 410):
        what = "the comment" if place.comment or place.review else place.what
        hint = "the token may not read it" if place.token else f"it needs a token in {token}"
        return f"{place.url}: {what} is not there, or it is private ({hint}); {INSTEAD}"
    if error.status == 401:
        return f"{place.url}: the token is refused: renew it, or unset {token}"
    if limited:
        more = "wait" if place.token else f"wait, or set {token}, with which more may be asked"
        return f"{place.url}: too much was asked from here lately: {more}; or {INSTEAD} ({error})"
    if error.status == 403:
        return f"{place.url}: {error}; {INSTEAD}"
    return f"{place.url}: {error}"

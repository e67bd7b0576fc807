"""Package pages, rewritten so that their files come through the gateway. Pure.

HTML (PEP 503) stays HTML and JSON (PEP 691) stays JSON; what says which files fit (``data-requires-python``, yanked,
metadata) is kept, and so are the hashes, which pip checks as well.
"""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from reprokit.engine.site.gateway.access import shown, without_login
from reprokit.engine.site.gateway.allowed import Unreachable
from reprokit.engine.site.links import AnchorParser, Link, links_of_anchors

MAX_LINKS = 100_000
MAX_PARTS = 30 * MAX_LINKS
"""Values in a page of JSON: a short text of many small ones would take a hundred times its size in memory."""
PARSE_SECONDS = 10.0
_BLOCK = 65536
_UNFINISHED = 4 * _BLOCK
"""Characters of one element that a page may have; a parser reads an unfinished one again and again."""

JSON = re.compile(r"application/vnd\.pypi\.simple\.v1\+json|application/json")
HTML = re.compile(r"text/html|application/xhtml\+xml|application/vnd\.pypi\.simple\.v1\+html")

_LENGTHS = {"sha512": 128, "sha384": 96, "sha256": 64}
"""Hashes that are worth checking, strongest first, and how long they are in hexadecimal."""
_HASH = re.compile(r"(sha\d{3})=([0-9a-fA-F]+)")
_NAME = {"core-metadata", "dist-info-metadata", "data-core-metadata", "data-dist-info-metadata"}


@dataclass(frozen=True, kw_only=True)
class Hash:
    """A hash that a page states: its algorithm, and its value in lower-case hexadecimal."""

    algorithm: str
    value: str


Put = Callable[[str, "Hash | None", "Hash | bool | None"], str]
"""URL, hash of the file, and hash of the metadata beside it (True: it has none; False: there is no metadata) -> the
file's path on the gateway."""


def path_of(url: str) -> str:
    """The path on the gateway of a file at ``url``: ``/file/SCHEME/HOST/...``. It contains the URL."""
    parts = urlsplit(without_login(url))
    path = quote(parts.path or "/", safe="/%~!$&'()*+,;=:@")
    query = "?" + quote(parts.query, safe="/%~!$&'()*+,;=:@?") if parts.query else ""
    return f"/file/{parts.scheme}/{parts.netloc}{path}{query}"


def key_of(path: str) -> str:
    """What stays the same however a client quotes a path: pip quotes as it likes."""
    return unquote(path)


def hash_of(found: Iterable[tuple[str, str]]) -> Hash | None:
    """The strongest of some hashes (algorithm, value) that is worth checking."""
    good = {name: value.lower() for name, value in found if len(value) == _LENGTHS.get(name, -1)}
    return next((Hash(algorithm=name, value=good[name]) for name in _LENGTHS if name in good), None)


def rewritten(kind: str, body: bytes, address: str, put: Put) -> tuple[str, bytes]:
    """Content type and body of a page that was read from ``address``, with links to the gateway's paths.

    Raises Unreachable for what is not a page of packages, or too large.
    """
    media = kind.partition(";")[0].strip().lower()
    where = shown(address)
    if JSON.fullmatch(media):
        return media, _json(body, address, where, put)
    if HTML.fullmatch(media):
        parser = _parsed(body.decode("utf-8", errors="replace"), where)
        links = [link for link in links_of_anchors(parser, address) if link.path is None]
        return "text/html; charset=utf-8", rendered(links, lambda link: put_link(link, put))
    raise Unreachable(f"{where} answers with {media or 'no content type'}, which is not a page of packages")


def rendered(links: Iterable[Link], put: Callable[[Link], str | None]) -> bytes:
    """An HTML page of those links for which ``put`` knows an address."""
    lines = ["<!DOCTYPE html><html><body>"]
    for link in links:
        if (address := put(link)) is None:
            continue
        extra = "".join(f' {name}="{html.escape(value)}"' for name, value in link.attributes)
        whole = f"{address}#{link.fragment}" if link.fragment else address
        name = unquote(urlsplit(address).path.rpartition("/")[2])
        lines.append(f'<a href="{html.escape(whole)}"{extra}>{html.escape(name)}</a><br>')
    return "\n".join([*lines, "</body></html>\n"]).encode("utf-8", errors="replace")


def _parsed(text: str, where: str) -> AnchorParser:
    parser, until = AnchorParser(), time.monotonic() + PARSE_SECONDS
    for start in range(0, len(text), _BLOCK):
        parser.feed(text[start : start + _BLOCK])
        if len(parser.found) > MAX_LINKS:
            raise Unreachable(f"{where} lists more than {MAX_LINKS} files")
        if len(parser.rawdata) > _UNFINISHED or time.monotonic() > until:
            raise Unreachable(f"{where} is not HTML that can be read")
    parser.close()
    return parser


def put_link(link: Link, put: Put) -> str | None:
    """The path on the gateway of what a link leads to; None for what is not on the web."""
    if urlsplit(link.url).scheme not in ("http", "https"):
        return None
    attributes = dict(link.attributes)
    stated = next((attributes[name] for name in sorted(_NAME) if name in attributes), None)
    return put(link.url, hash_of(_HASH.findall(link.fragment)), _metadata(stated))


def _metadata(stated: Any) -> Hash | bool | None:
    """What a page says about the metadata beside a file: its hash, True or False."""
    if isinstance(stated, str):
        found = hash_of(_HASH.findall(stated))
        return found if found else stated.lower() not in ("", "false")
    if isinstance(stated, Mapping):
        return hash_of(_pairs(stated)) or True
    return bool(stated)


def _pairs(found: Any) -> list[tuple[str, str]]:
    if not isinstance(found, Mapping):
        return []
    return [(name, value) for name, value in found.items() if isinstance(name, str) and isinstance(value, str)]


def _json(body: bytes, address: str, where: str, put: Put) -> bytes:
    if sum(body.count(sign) for sign in (b"[", b"{", b",")) > MAX_PARTS:
        raise Unreachable(f"{where} lists more than {MAX_LINKS} files")
    try:
        page = json.loads(body)
        files = page["files"]
        if not isinstance(files, list):
            raise TypeError
        if len(files) > MAX_LINKS:
            raise Unreachable(f"{where} lists more than {MAX_LINKS} files")
        page["files"] = [one for one in (_json_file(file, address, put) for file in files) if one is not None]
        return json.dumps(page).encode()
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Unreachable(f"{where} answers with JSON that is not a list of files") from None


def _json_file(file: Any, address: str, put: Put) -> dict[str, Any] | None:
    """One file with its URL replaced; None for one that is not on the web."""
    if not isinstance(file, dict) or not isinstance(file.get("url"), str):
        raise TypeError
    try:
        url = urljoin(address, file["url"]).partition("#")[0]
        if urlsplit(url).scheme not in ("http", "https"):
            return None
        urlsplit(url).port  # noqa: B018 - raises for what is not a port
    except ValueError:
        return None
    stated = next((file[name] for name in ("core-metadata", "dist-info-metadata") if name in file), None)
    return {**file, "url": put(url, hash_of(_pairs(file.get("hashes"))), _metadata(stated))}

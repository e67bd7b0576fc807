"""Package pages, of servers and of folders of this host, rewritten so that their files come through the gateway.

HTML (PEP 503) stays HTML and JSON (PEP 691) stays JSON; what says which files fit (``data-requires-python``, yanked,
metadata) is kept, and so are the hashes, which pip checks as well.
"""

from __future__ import annotations

import html
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from reprokit.engine.site.gateway.access import Unreachable, shown, without_login
from reprokit.engine.site.links import AnchorParser, Link, links_in, links_of, links_of_anchors, local_path

MAX_LINKS = 100_000
MAX_PARTS = 30 * MAX_LINKS
"""Values in a page of JSON: a short text of many small ones would take a hundred times its size in memory."""
PARSE_SECONDS = 10.0
_BLOCK = 65536
_UNFINISHED = 4 * _BLOCK
"""Characters of one element that a page may have; a parser reads an unfinished one again and again."""

JSON = ("application/vnd.pypi.simple.v1+json", "application/json")
HTML = ("text/html", "application/xhtml+xml", "application/vnd.pypi.simple.v1+html")

_SHA256 = re.compile(r"sha256=([0-9a-fA-F]{64})(?![0-9a-fA-F])")
_METADATA = ("core-metadata", "dist-info-metadata")

Put = Callable[["str | Path", str, "str | None"], "str | None"]
"""URL, or path on this host; SHA-256 of the file ('' = the page states none), and that of the metadata beside it (None:
there is none) -> the file's path on the gateway; None for what the build does not get."""


def path_of(url: str) -> str:
    """The path on the gateway of a file at ``url``: ``/file/SCHEME/HOST/...``. It contains the URL."""
    parts = urlsplit(without_login(url))
    path = quote(parts.path or "/", safe="/%~!$&'()*+,;=:@")
    query = "?" + quote(parts.query, safe="/%~!$&'()*+,;=:@?") if parts.query else ""
    return f"/file/{parts.scheme}/{parts.netloc}{path}{query}"


def rewritten(kind: str, body: bytes, address: str, put: Put) -> tuple[str, bytes]:
    """Content type and body of a page that was read from ``address``, with links to the gateway's paths.

    Raises Unreachable for what is not a page of packages, or too large.
    """
    media, where = kind.partition(";")[0].strip().lower(), shown(address)
    if media in JSON:
        return media, _json(body, address, where, put)
    if media in HTML:
        parser = _parsed(body.decode("utf-8", errors="replace"), where)
        links = [link for link in links_of_anchors(parser, address) if link.path is None]
        return rendered(links, put)
    raise Unreachable(f"{where} answers with {media or 'no content type'}, which is not a page of packages")


def rendered(links: Iterable[Link], put: Put) -> tuple[str, bytes]:
    """Content type and body of a page of links, without those that lead neither to the web nor to this host."""
    lines = ["<!DOCTYPE html><html><body>"]
    for link in links:
        if link.path is None and urlsplit(link.url).scheme not in ("http", "https"):
            continue
        stated = {name.removeprefix("data-"): value for name, value in link.attributes}
        address = put(link.path or link.url, _sha256(link.fragment), _metadata(stated))
        if address is None:
            continue
        extra = "".join(f' {name}="{html.escape(value)}"' for name, value in link.attributes)
        whole = f"{address}#{link.fragment}" if link.fragment else address
        name = unquote(urlsplit(address).path.rpartition("/")[2])
        lines.append(f'<a href="{html.escape(whole)}"{extra}>{html.escape(name)}</a><br>')
    body = "\n".join([*lines, "</body></html>\n"]).encode("utf-8", errors="replace")
    return "text/html; charset=utf-8", body


class LocalPlaces:
    """Folders of this host that the configuration names: find-links places and PEP 503 trees.

    A build sees what pip on the host would find, and nothing else: archives that lie in these folders, or beside one
    where a tree's pages link to them. A link out of there, symbolic or not, is not followed. ``roots``: where files may
    lie, by number.
    """

    def __init__(self, indexes: Iterable[str], links: Iterable[str]) -> None:
        # A PEP 503 tree keeps its files below itself or in a folder beside it.
        found = [place.resolve().parent for place in map(local_path, indexes) if place is not None]
        for place in map(local_path, links):
            if place is not None:
                found.append(place.resolve() if place.is_dir() else place.resolve().parent)
        self.roots = tuple(dict.fromkeys(found))

    def links(self, place: Path, project: str) -> list[Link] | None:
        """The links of a tree's page of a project, or of a find-links place (project ''); None where it is missing."""
        if not project:
            return links_in(place) if place.exists() else None
        page = place / project / "index.html"
        return links_of(page) if page.is_file() and self.root_of(page) else None

    def root_of(self, file: Path) -> Path | None:
        """The root that holds a file, wherever symbolic links lead; None where there is none."""
        place = file.resolve()
        return next((root for root in self.roots if place.is_relative_to(root) and place.is_file()), None)

    def path_of(self, file: Path) -> str | None:
        """The path on the gateway of a file; None for one that lies elsewhere."""
        if (root := self.root_of(file)) is None:
            return None
        # Named as the link names it, where it is below the root as well: a symbolic link may be what has the name.
        path = Path(file.parent.resolve(), file.name)
        path = path if path.is_relative_to(root) else file.resolve()
        return f"/local/{self.roots.index(root)}/{quote(str(path.relative_to(root)))}"


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


def _sha256(stated: object) -> str:
    """The hash in a fragment or attribute (``sha256=...``), or in JSON's table of hashes; '' where there is none."""
    if isinstance(stated, Mapping):
        stated = f"sha256={stated.get('sha256')}"
    found = _SHA256.search(stated) if isinstance(stated, str) else None
    return found[1].lower() if found else ""


def _metadata(stated: Mapping[str, Any]) -> str | None:
    """What a page says about the metadata beside a file: its hash, '' without one, None where it has none."""
    said = next((stated[name] for name in _METADATA if name in stated), None)
    return _sha256(said) if said and str(said).lower() != "false" else None


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
    return {**file, "url": put(url, _sha256(file.get("hashes")), _metadata(file))}

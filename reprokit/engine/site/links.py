"""The links of package pages, and the files that they lead to on this host: PEP 503 trees and find-links places."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from urllib.request import url2pathname

ARCHIVES = (".whl", ".tar.gz", ".tgz", ".zip", ".tar.bz2", ".tar.xz", ".tar.lzma", ".tlz", ".tar")
"""What pip takes for a distribution (``pip/_internal/utils/filetypes.py``)."""

_PAGES = (".html", ".htm")
_KEPT = ("data-requires-python", "data-yanked")
_METADATA = ("data-core-metadata", "data-dist-info-metadata")
_READ = ("href", *_KEPT, *_METADATA)


def local_path(location: str) -> Path | None:
    """The path that a find-links or index location names on this host; None for what lies on the network."""
    if location.startswith("file:"):
        return Path(url2pathname(urlsplit(location).path))
    if "://" in location:
        return None
    return Path(location).expanduser().absolute()


@dataclass(frozen=True, kw_only=True)
class Link:
    """One link of a page."""

    path: Path | None
    """On this host; None for what lies on the network."""
    url: str
    fragment: str
    """Such as "sha256=..."."""
    attributes: tuple[tuple[str, str], ...]


class AnchorParser(HTMLParser):
    """The attributes of a page's ``a`` elements, in ``found``, and the address of its ``base``."""

    def __init__(self) -> None:
        super().__init__()
        self.base = ""
        self.found: list[dict[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect ``a`` elements, and the first ``base``."""
        attributes = {name: value or "" for name, value in attrs if name in _READ}
        if tag == "a" and "href" in attributes:
            self.found.append(attributes)
        elif tag == "base" and not self.base:
            self.base = attributes.get("href", "")


def links_of(page: Path) -> list[Link]:
    """The links of an HTML page of this host, in page order."""
    return links_in_text(page.read_text("utf-8", errors="replace"), page.absolute().as_uri())


def links_in_text(text: str, address: str) -> list[Link]:
    """The links of an HTML page that was read from ``address``, in page order."""
    parser = AnchorParser()
    parser.feed(text)
    return links_of_anchors(parser, address)


def links_of_anchors(parser: AnchorParser, address: str) -> list[Link]:
    """The links that a parser found on a page from ``address``, in page order; what is not an address is left out."""
    found = []
    for attributes in parser.found:
        try:
            url, _, fragment = urljoin(urljoin(address, parser.base), attributes["href"].strip()).partition("#")
            urlsplit(url).port  # noqa: B018 - raises for what is not a port
        except ValueError:
            continue
        path = local_path(url) if url.startswith("file:") else None
        if path is not None and not path.name.lower().endswith(ARCHIVES):
            continue  # pip would pass over it, and nothing else of the host is given out
        bare = path is not None and not Path(f"{path}.metadata").is_file()
        kept = tuple((name, attributes[name]) for name in (_KEPT if bare else _READ[1:]) if name in attributes)
        found.append(Link(path=path, url=url, fragment=fragment, attributes=kept))
    return found


def links_in(place: Path) -> list[Link]:
    """What pip finds in a find-links location: a folder's archives and pages, a page's links, or one archive."""
    if place.is_dir():
        return [link for child in sorted(place.iterdir()) if child.is_file() for link in links_in(child)]
    if place.name.lower().endswith(_PAGES):
        return links_of(place)
    if place.name.lower().endswith(ARCHIVES) and place.is_file():
        return [Link(path=place, url="", fragment="", attributes=())]
    return []

"""Package folders of this host, as the gateway serves them: find-links places, PEP 503 trees, constraint files.

A build sees what pip on the host would find, and nothing else: archives that lie in a folder which the configuration
names, or beside it where a tree's pages link to them. A link out of there, symbolic or not, is not followed.
"""

from __future__ import annotations

import threading
from pathlib import Path
from urllib.parse import quote

from reprokit.engine.site.gateway.files import Stored
from reprokit.engine.site.gateway.pages import Put, put_link, rendered
from reprokit.engine.site.links import Link, links_in, links_of

_HTML = "text/html; charset=utf-8"


class LocalPlaces:
    """The folders that the configuration names. ``roots``: where files may lie, by number. Safe for threads."""

    def __init__(self, indexes: tuple[Path, ...], links: tuple[Path, ...]) -> None:
        # A PEP 503 tree keeps its files below itself or in a folder beside it.
        roots = [*(place.resolve().parent for place in indexes), *(_folder_of(place) for place in links)]
        self.roots = tuple(dict.fromkeys(roots))
        self._lock = threading.Lock()
        self._given: set[Path] = set()

    def index_page(self, tree: Path, project: str, put: Put) -> tuple[str, bytes] | None:
        """The page of a project; None when the tree has none. ``put``: for links to the web."""
        page = tree / project / "index.html"
        if not page.is_file() or not self._number(page.resolve()):
            return None
        return self._page(links_of(page), put)

    def links_page(self, place: Path, put: Put) -> tuple[str, bytes] | None:
        """The page of a find-links place."""
        return self._page(links_in(place), put) if place.exists() else None

    def file(self, kind: str, number: str, relative: str) -> Stored | None:
        """A file that a page given out links to, or the metadata beside it; None for any other."""
        if kind != "local" or not number.isdecimal() or len(number) > 3 or int(number) >= len(self.roots):
            return None
        path = self.roots[int(number)] / relative
        listed = path.with_name(path.name.removesuffix(".metadata")) if path.name.endswith(".metadata") else path
        with self._lock:
            if listed not in self._given:
                return None
        return self._opened(path)

    def plain(self, path: Path) -> Stored | None:
        """A file that the configuration names itself."""
        return _open(path.resolve())

    def _opened(self, path: Path) -> Stored | None:
        resolved = path.resolve()
        return _open(resolved) if self._number(resolved) else None

    def _number(self, resolved: Path) -> str:
        """The number of the root that holds a path without symbolic links; '' where none does."""
        found = (str(number) for number, root in enumerate(self.roots) if resolved.is_relative_to(root))
        return next(found, "")

    def _page(self, links: list[Link], put: Put) -> tuple[str, bytes]:
        return _HTML, rendered(links, lambda link: put_link(link, put) if link.path is None else self._put(link.path))

    def _put(self, file: Path) -> str | None:
        resolved = file.resolve()
        number = self._number(resolved)
        if not number or not resolved.is_file():
            return None
        # Named as the link names it, where it is below the root as well: a symbolic link may be what has the name.
        path = Path(file.parent.resolve(), file.name)
        path = path if path.is_relative_to(self.roots[int(number)]) else resolved
        with self._lock:
            self._given.add(path)
        return f"/local/{number}/{quote(str(path.relative_to(self.roots[int(number)])))}"


def _folder_of(place: Path) -> Path:
    resolved = place.resolve()
    return resolved if resolved.is_dir() else resolved.parent


def _open(path: Path) -> Stored | None:
    try:
        stat = path.stat()
        return Stored(path.open("rb"), f"{stat.st_mtime_ns:x}-{stat.st_size:x}") if path.is_file() else None
    except OSError:
        return None

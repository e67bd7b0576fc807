"""The server of local package folders: what it gives out, and what it does not."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urljoin

import pytest

from reprokit.engine.site.links import links_in, links_of, local_path
from reprokit.engine.site.local_index import LocalIndexServer


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A PEP 503 tree, a find-links folder, and something private beside them."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files/pkg-1.0+cpu-py3-none-any.whl").write_bytes(b"wheel")
    (tmp_path / "files/pkg-1.0+cpu-py3-none-any.whl.metadata").write_bytes(b"Name: pkg")
    (tmp_path / "files/pkg-0.9.tar.gz").write_bytes(b"sdist")
    (tmp_path / "files/unlinked-1.0.whl").write_bytes(b"unlinked")
    (tmp_path / "private.txt").write_text("private")
    (tmp_path / "simple/pkg").mkdir(parents=True)
    (tmp_path / "simple/index.html").write_text('<a href="pkg/">pkg</a>')
    (tmp_path / "simple/pkg/index.html").write_text(
        '<html><body><a href="../../files/pkg-1.0%2Bcpu-py3-none-any.whl#sha256=ab" data-requires-python="&gt;=3.8"'
        ' data-core-metadata="sha256=cd">pkg</a>'
        '<a href="../../files/pkg-0.9.tar.gz" data-core-metadata="true" data-yanked="">old</a>'
        '<a href="../../private.txt">private</a><a href="/etc/passwd">passwd</a>'
        '<a href="https://files.example/pkg-2.0.zip#sha256=ef">remote</a></body></html>'
    )
    (tmp_path / "links").mkdir()
    (tmp_path / "links/other-1.0-py3-none-any.whl").write_bytes(b"x" * 3_000_000)
    (tmp_path / "links/notes.txt").write_text("notes")
    (tmp_path / "links/more.html").write_text('<base href="../files/"><a href="pkg-0.9.tar.gz">pkg</a>')
    return tmp_path


@pytest.fixture
def server(tree: Path) -> LocalIndexServer:
    """A server of that tree."""
    return LocalIndexServer(indexes=(tree / "simple",), links=(tree / "links",), plain=(tree / "private.txt",))


@pytest.fixture
def root(server: LocalIndexServer) -> Iterator[str]:
    """The address of the running server."""
    with server.open() as address:
        yield address


def get(url: str, method: str = "GET") -> tuple[bytes, dict[str, str]]:
    with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=5) as answer:
        return answer.read(), dict(answer.headers)


def status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def anchors(tree: Path, page: bytes) -> list[tuple[str, dict[str, str]]]:
    path = tree / "page.html"
    path.write_bytes(page)
    from reprokit.engine.site.links import Anchors

    parser = Anchors()
    parser.feed(page.decode())
    return [(found.pop("href"), found) for found in parser.found]


def test_index_pages_link_into_the_server(tree: Path, root: str) -> None:
    url = f"{root}/index/0/pkg/"
    page, headers = get(url)
    assert headers["Cache-Control"] == "no-store"
    assert str(tree) not in page.decode()
    (wheel, data), (sdist, old), (remote, _) = anchors(tree, page)
    assert wheel.endswith("/pkg-1.0%2Bcpu-py3-none-any.whl#sha256=ab")
    assert data == {"data-requires-python": ">=3.8", "data-core-metadata": "sha256=cd"}
    assert old == {"data-yanked": ""}  # no metadata lies beside the sdist, whatever the page says
    assert remote == "https://files.example/pkg-2.0.zip#sha256=ef"
    file, headers = get(urljoin(url, wheel))
    assert file == b"wheel"
    assert headers["Cache-Control"] == "no-store"
    assert get(urljoin(url, wheel.partition("#")[0] + ".metadata"))[0] == b"Name: pkg"
    assert get(urljoin(url, sdist))[0] == b"sdist"


def test_find_links_folders_list_archives_and_pages(tree: Path, root: str) -> None:
    url = f"{root}/links/0/"
    found = anchors(tree, get(url)[0])
    assert [link.rpartition("/")[2] for link, _ in found] == ["pkg-0.9.tar.gz", "other-1.0-py3-none-any.whl"]
    assert len(get(urljoin(url, found[1][0]))[0]) == 3_000_000
    body, headers = get(urljoin(url, found[1][0]), "HEAD")
    assert (body, headers["Content-Length"]) == (b"", "3000000")


def test_nothing_else_is_given_out(tree: Path, server: LocalIndexServer, root: str) -> None:
    page = f"{root}/index/0/pkg/"
    wheel = urljoin(page, anchors(tree, get(page)[0])[0][0]).partition("#")[0]
    beside = wheel.rpartition("/")[0]
    assert get(wheel)[0] == b"wheel"
    for url in (
        f"{root}/index/0/absent/",
        f"{root}/index/0/../files/",
        f"{root}/index/0/%2e%2e/",
        f"{root}/index/0/..%2f..%2fprivate/",
        f"{root}/index/1/pkg/",
        f"{root}/index/x/pkg/",
        f"{root}/links/0/notes.txt",
        f"{root}/index/0/",
        f"{root}/",
        f"{root}/file/0/pkg-1.0.whl",
        f"{beside}/unlinked-1.0.whl",
        f"{beside}/..%2f..%2fprivate.txt",
        page.replace(server.token, "guess"),
        page.replace(server.token, ""),
        page.replace(server.token, "%C3%A9"),
    ):
        assert status(url) == 404, url
    assert status(f"{root}/links/0/") == 200


def test_constraint_files_are_served_when_asked_for(tree: Path, server: LocalIndexServer) -> None:
    with server.open() as root:
        url = server.addresses(root)["plain", tree / "private.txt"]
        assert get(url)[0] == b"private"


def test_builds_share_one_server_which_ends_with_the_last(server: LocalIndexServer) -> None:
    with server.open() as first:
        with server.open() as second:
            assert first == second
        assert status(f"{first}/links/0/") == 200
    with pytest.raises(urllib.error.URLError):
        get(f"{first}/links/0/")
    with server.open() as again:
        assert status(f"{again}/links/0/") == 200


def test_places(tree: Path) -> None:
    assert local_path("file:///a%20b/c") == Path("/a b/c")
    assert local_path("https://x/y") is None
    assert local_path("/x") == Path("/x")
    assert [link.path for link in links_in(tree / "files/pkg-0.9.tar.gz")] == [tree / "files/pkg-0.9.tar.gz"]
    assert links_in(tree / "private.txt") == []
    assert [link.path for link in links_of(tree / "links/more.html")] == [tree / "files/pkg-0.9.tar.gz"]

"""Package folders of this host: which places they are, and what pip finds there. The gateway's tests serve them."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.engine.site.links import links_in, links_of, local_path


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


def test_places(tree: Path) -> None:
    assert local_path("file:///a%20b/c") == Path("/a b/c")
    assert local_path("https://x/y") is None
    assert local_path("/x") == Path("/x")
    assert [link.path for link in links_in(tree / "files/pkg-0.9.tar.gz")] == [tree / "files/pkg-0.9.tar.gz"]
    assert links_in(tree / "private.txt") == []
    assert [link.path for link in links_of(tree / "links/more.html")] == [tree / "files/pkg-0.9.tar.gz"]

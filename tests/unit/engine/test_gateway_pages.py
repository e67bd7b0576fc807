"""What a build gets from the site's indexes through the gateway: pages, verified files, local folders, logins."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
import re
import socket
import threading
import time
from pathlib import Path

import pytest

from reprokit.engine.site.gateway import Allowed, SiteAccess, server
from tests.unit.engine.gateway_world import ROOT, Build, Server, World, gateway, plain, redirect

WHEEL = os.urandom(300_000)
DIGEST = hashlib.sha256(WHEEL).hexdigest()
INDEX = "http://index.example/simple"
OCTETS = "application/octet-stream"


def page(*links: str) -> bytes:
    return plain(("<!DOCTYPE html><html><body>" + "".join(links) + "</body></html>").encode())


def link(address: str, digest: str = "", more: str = "") -> str:
    return f'<a href="{address}{f"#sha256={digest}" if digest else ""}" {more}>x</a>'


def at(index: str = INDEX, **more: str | tuple[str, ...]) -> SiteAccess:
    """A site with that index alone, and further options of pip."""
    options = {name.replace("_", "-"): (value,) if isinstance(value, str) else value for name, value in more.items()}
    return SiteAccess(pip={"index-url": (index,), **options})


def path_on_page(body: bytes) -> list[str]:
    return [found.partition("#")[0] for found in re.findall(r'href="([^"]*)"', body.decode())]


@pytest.fixture
def index(world: World) -> Server:
    """An index with one project: a wheel with its hash."""
    return world.serve({"/simple/pkg/": page(link("/files/pkg-1.0.whl", DIGEST)), "/files/pkg-1.0.whl": plain(WHEEL)})


def test_a_page_leads_to_the_gateway_and_keeps_what_says_which_file_fits(world: World, tmp_path: Path) -> None:
    attributes = 'data-requires-python="&gt;=3.8" data-yanked="broken" data-core-metadata="sha256=00"'
    world.serve({"/simple/pkg/": page(link("../../f/pkg-1.0%2Bcpu.whl", DIGEST, attributes))})
    with gateway(world, tmp_path, at()) as build:
        got = build.get("/index/0/pkg/", Accept="text/html")
    text = got.body.decode()
    assert f'href="/file/http/index.example/f/pkg-1.0%2Bcpu.whl#sha256={DIGEST}"' in text
    assert 'data-requires-python="&gt;=3.8"' in text
    assert 'data-yanked="broken"' in text
    assert 'data-core-metadata="sha256=00"' in text
    assert got.headers["cache-control"] == "no-store"


def test_json_stays_json_with_all_that_it_says(world: World, tmp_path: Path) -> None:
    kind = "application/vnd.pypi.simple.v1+json"
    file = {
        "filename": "pkg-1.0.whl",
        "url": "https://files.example/pkg-1.0.whl",
        "hashes": {"sha256": DIGEST, "md5": "x"},
        "requires-python": ">=3.8",
        "yanked": False,
        "core-metadata": {"sha256": DIGEST},
        "size": 3,
        "upload-time": "2024-01-01T00:00:00Z",
    }
    body = json.dumps({"meta": {"api-version": "1.1"}, "name": "pkg", "files": [file], "versions": ["1.0"]}).encode()
    server = world.serve({"/simple/pkg/": plain(gzip.compress(body), kind, Content_Encoding="gzip")})
    with gateway(world, tmp_path, at()) as build:
        got = build.get("/index/0/pkg/", Accept=f"{kind}, text/html;q=0.1")
    assert got.headers["content-type"] == kind
    found = json.loads(got.body)
    assert found["files"] == [{**file, "url": "/file/https/files.example/pkg-1.0.whl"}]
    assert (found["meta"], found["versions"]) == ({"api-version": "1.1"}, ["1.0"])
    assert f"Accept: {kind}, text/html;q=0.1" in server.seen[0]


def test_a_verified_file_is_fetched_once(world: World, index: Server, tmp_path: Path) -> None:
    for _ in range(2):  # the second build reads the page again, and not the file
        with gateway(world, tmp_path, at(), cache=tmp_path / "cache") as build:
            [target] = path_on_page(build.get("/index/0/pkg/").body)
            whole = build.get(target)
            assert (whole.status, whole.body == WHEEL, whole.headers["content-length"]) == (200, True, "300000")
    assert index.paths().count("GET /files/pkg-1.0.whl") == 1


def test_builds_that_want_a_file_at_once_fetch_it_once(world: World, tmp_path: Path) -> None:
    ready, go = threading.Event(), threading.Event()

    def slowly(connection: socket.socket, head: bytes) -> None:
        connection.sendall(plain(WHEEL)[:1000])
        ready.set()
        go.wait(10)
        connection.sendall(plain(WHEEL)[1000:])

    index = world.serve({"/simple/pkg/": page(link("/files/pkg-1.0.whl", DIGEST)), "/files/pkg-1.0.whl": slowly})
    found: list[bytes] = []
    with (
        gateway(world, tmp_path / "1", at(), cache=tmp_path) as one,
        gateway(world, tmp_path / "2", at(), cache=tmp_path) as two,
    ):
        targets = [path_on_page(build.get("/index/0/pkg/").body)[0] for build in (one, two)]
        threads = [
            threading.Thread(target=lambda build=build, target=target: found.append(build.get(target).body))
            for build, target in zip((one, two, two), (*targets, targets[1]), strict=True)
        ]
        for thread in threads:
            thread.start()
            ready.wait(10)
        go.set()
        for thread in threads:
            thread.join(20)
    assert found == [WHEEL] * 3
    assert index.paths().count("GET /files/pkg-1.0.whl") == 1


@pytest.mark.parametrize("length", [True, False], ids=["sized", "chunked"])
def test_a_file_that_is_not_what_the_page_says_is_never_whole_and_never_kept(
    world: World, tmp_path: Path, length: bool
) -> None:
    forged = b"forged" * 50_000
    sent = plain(forged)
    if not length:
        sent = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(forged), forged)
    index = world.serve({"/simple/pkg/": page(link("/files/pkg-1.0.whl", DIGEST)), "/files/pkg-1.0.whl": sent})
    with gateway(world, tmp_path, at()) as build:
        [target] = path_on_page(build.get("/index/0/pkg/").body)
        for _ in range(2):
            got = build.get(target)
            assert got.status == 502 or not got.whole  # which of both depends on how fast it came
            assert len(got.body) < len(forged)
        assert "it was not kept" in build.address.notes[0]
        index.replies["/files/pkg-1.0.whl"] = plain(WHEEL)
        assert build.get(target).body == WHEEL
    assert not [file for file in tmp_path.glob("cache/own/parts/*") if file.suffix != ".lock"]


def test_a_file_that_ends_early_is_not_kept(world: World, index: Server, tmp_path: Path) -> None:
    index.replies["/files/pkg-1.0.whl"] = lambda connection, head: connection.sendall(plain(WHEEL)[:-1])
    with gateway(world, tmp_path, at()) as build:
        [target] = path_on_page(build.get("/index/0/pkg/").body)
        got = build.get(target)
        assert got.status == 502 or not got.whole
        assert "ended after part" in build.address.notes[0]
    assert not list(tmp_path.glob("cache/own/sha256/*/*"))


def test_a_file_that_comes_slowly_is_reported_with_its_time(world: World, index: Server, tmp_path: Path) -> None:
    def slowly(connection: socket.socket, head: bytes) -> None:
        connection.sendall(plain(WHEEL)[:1000])
        time.sleep(1)
        connection.sendall(plain(WHEEL)[1000:])

    index.replies["/files/pkg-1.0.whl"] = slowly
    with gateway(world, tmp_path, at()) as build:
        [target] = path_on_page(build.get("/index/0/pkg/").body)
        assert build.get(target).body == WHEEL
        [file] = build.address.fetched
        assert (file.name, file.size, file.seconds >= 1) == ("pkg-1.0.whl", len(WHEEL), True)


def test_a_build_waits_for_another_that_reads_the_file_no_longer_than_apt_does(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "OTHERS_WAIT", 0.2)
    begun, go = threading.Event(), threading.Event()

    def once_slowly(connection: socket.socket, head: bytes) -> None:
        slow = head.startswith(b"GET") and not begun.is_set()
        connection.sendall(plain(WHEEL, Last_Modified="x")[: 1000 if slow else None])
        if slow:
            begun.set()
            go.wait(20)

    world.serve({"/debian/pool/x.deb": once_slowly})
    access = SiteAccess(archives=("http://deb.example/debian/",))
    with gateway(world, tmp_path, access) as build:
        first = threading.Thread(target=build.get, args=("http://deb.example/debian/pool/x.deb",))
        first.start()
        assert begun.wait(20)
        assert build.get("http://deb.example/debian/pool/x.deb").body == WHEEL
        go.set()
        first.join()


def test_a_cache_that_cannot_be_written_is_named(world: World, index: Server, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with gateway(world, tmp_path, at()) as build:
        [target] = path_on_page(build.get("/index/0/pkg/").body)
        assert "the cache of downloads on the host cannot be written" in build.get(target).reason


def test_without_a_hash_nothing_is_kept(world: World, tmp_path: Path) -> None:
    links = page(link("/files/pkg-1.0.whl"), link("/files/pkg-2.0.whl#md5=0123456789abcdef0123456789abcdef"))
    replies = {"/simple/pkg/": links, "/files/pkg-1.0.whl": plain(WHEEL), "/files/pkg-2.0.whl": plain(b"two")}
    index = world.serve(replies)
    with gateway(world, tmp_path, at()) as build:
        one, two = path_on_page(build.get("/index/0/pkg/").body)
        assert [build.get(target).body for target in (one, one, two)] == [WHEEL, WHEEL, b"two"]
    assert index.paths().count("GET /files/pkg-1.0.whl") == 2
    assert not list(tmp_path.glob("cache/own/*/*/*"))


def test_metadata_beside_a_file_is_verified_as_the_page_says(world: World, tmp_path: Path) -> None:
    data = b"Name: pkg\n"
    stated = f'data-core-metadata="sha256={hashlib.sha256(data).hexdigest()}"'
    replies = {"/simple/pkg/": page(link("/p.whl", DIGEST, stated)), "/p.whl.metadata": plain(data)}
    index = world.serve(replies)
    with gateway(world, tmp_path, at()) as build:
        [target] = path_on_page(build.get("/index/0/pkg/").body)
        assert build.get(f"{target}.metadata").body == data
        assert build.get(f"{target}.metadata").body == data
    assert index.paths().count("GET /p.whl.metadata") == 1


def test_a_file_is_found_however_a_client_quotes_its_path(world: World, tmp_path: Path) -> None:
    world.serve({"/simple/pkg/": page(link("/f/pkg-1.0+cpu.whl", DIGEST)), "/f/pkg-1.0+cpu.whl": plain(WHEEL)})
    with gateway(world, tmp_path, at()) as build:
        [target] = path_on_page(build.get("/index/0/pkg/").body)
        assert build.get(target.replace("+", "%2B")).body == WHEEL
        assert build.get(target.replace("%2B", "+")).body == WHEEL


def test_a_file_is_asked_for_as_pip_quotes_it_however_its_page_names_it(world: World, tmp_path: Path) -> None:
    html = '<a href="/f/a b-é-1.0.whl">x</a>'.encode()
    index = world.serve({"/simple/pkg/": plain(html), "/f/a%20b-%C3%A9-1.0.whl": plain(WHEEL)})
    with gateway(world, tmp_path, at()) as build:
        [target] = path_on_page(build.get("/index/0/pkg/").body)
        assert build.get(target).body == WHEEL
    assert index.paths()[1:] == ["GET /f/a%20b-%C3%A9-1.0.whl"]


def test_old_clients_and_absolute_addresses_of_the_relay_are_served(
    world: World, index: Server, tmp_path: Path
) -> None:
    with gateway(world, tmp_path, at()) as build:
        assert build.raw(b"GET /index/0/pkg/ HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
        assert build.get(f"{ROOT}/index/0/pkg/").status == 200
        assert build.get("/index/0/pkg", "HEAD").status == 200
        assert build.get("/index/0/absent/").status == 404
    # One connection, several requests at once, as apt sends them.
    with gateway(world, tmp_path, at()) as build:
        twice = b"GET /index/0/pkg/ HTTP/1.1\r\nHost: x\r\n\r\n" * 2
        assert build.raw(twice).count(b"HTTP/1.1 200 OK") == 2


def basic(login: str) -> str:
    return f"Authorization: Basic {base64.b64encode(login.encode()).decode()}"


def test_logins_go_to_their_own_server_only(world: World, tmp_path: Path) -> None:
    links = [link("/mine.whl", DIGEST), link("http://cdn.example/a.whl", DIGEST), link("http://index.example:81/b.whl")]
    world.names["cdn.example"] = ["93.184.215.15"]
    index = world.serve({"/simple/pkg/": page(*links), "/mine.whl": redirect("http://cdn.example/moved.whl")})
    other = world.serve({"/b.whl": plain(b"b")}, port=81)
    cdn = world.serve({"/moved.whl": plain(WHEEL), "/a.whl": plain(WHEEL)}, address="93.184.215.15")
    with gateway(world, tmp_path, at("http://me:s3cret%21@index.example/simple")) as build:
        got = build.get("/index/0/pkg/")
        assert b"s3cret" not in got.body
        targets = path_on_page(got.body)
        assert [build.get(target).status for target in targets] == [200, 200, 200]
        assert "s3cret" not in str(build.address)
    assert all(basic("me:s3cret!") in head for head in index.seen)
    assert len(index.seen) == 2
    assert other.seen
    assert not any("Authorization" in head for head in (*other.seen, *cdn.seen))


@pytest.mark.parametrize("credentials", [True, False], ids=["own", "stranger"])
def test_the_netrc_is_used_for_builds_that_may_use_it(
    world: World, index: Server, tmp_path: Path, credentials: bool
) -> None:
    access = SiteAccess(pip={"index-url": (INDEX,)}, logins={"index.example": ("ann", "w0rd"), "x.example": ("a", "b")})
    with gateway(world, tmp_path, access, Allowed(credentials=credentials, any_host=False)) as build:
        [target] = path_on_page(build.get("/index/0/pkg/").body)
        build.get(target)
    assert [basic("ann:w0rd") in head for head in index.seen] == [credentials] * 2
    assert [file.parts[-4] for file in tmp_path.glob("cache/*/sha256/*/*")] == ["own" if credentials else "open"]


def test_what_was_read_with_a_login_is_not_for_builds_without(world: World, index: Server, tmp_path: Path) -> None:
    with gateway(world, tmp_path / "1", at(), cache=tmp_path) as own:
        own.get(path_on_page(own.get("/index/0/pkg/").body)[0])
    index.replies["/files/pkg-1.0.whl"] = plain(b"", status="401 Unauthorized")
    with gateway(world, tmp_path / "2", at(), Allowed(credentials=False, any_host=False), cache=tmp_path) as other:
        assert other.get(path_on_page(other.get("/index/0/pkg/").body)[0]).status == 401


def test_indexes_and_pages_have_their_numbers(world: World, tmp_path: Path) -> None:
    world.names["more.example"] = ["93.184.215.15"]
    world.serve({"/simple/pkg/": page(link("/one.whl"))})
    world.serve({"/x/pkg/": page(link("two.whl")), "/wheels.html": page(link("three.whl"))}, address="93.184.215.15")
    options = {"extra_index_url": "http://more.example/x/", "find_links": "http://more.example/wheels.html"}
    with gateway(world, tmp_path, at(**options)) as build:
        targets = [path_on_page(build.get(path).body)[0] for path in ("/index/0/pkg/", "/index/1/pkg/", "/links/0/")]
        pip, known = build.address.pip, build.address.known
    assert targets == [
        "/file/http/index.example/one.whl",
        "/file/http/more.example/x/pkg/two.whl",
        "/file/http/more.example/three.whl",
    ]
    assert pip["index-url"] == (f"{ROOT}/index/0",)
    assert pip["extra-index-url"] == (f"{ROOT}/index/1",)
    assert pip["find-links"] == (f"{ROOT}/links/0/",)
    assert known[f"{ROOT}/index/1"] == "http://more.example/x"
    assert known[f"{ROOT}/file/https/"] == "https://"


def test_options_that_the_gateway_follows_itself_stay_on_the_host(world: World, tmp_path: Path) -> None:
    more = {"cert": "/x.pem", "client_cert": "/key.pem", "proxy": "http://u:p@proxy", "timeout": "15", "pre": "true"}
    with gateway(world, tmp_path, at(**more)) as build:
        assert build.address.pip == {"index-url": (f"{ROOT}/index/0",), "timeout": ("120",), "pre": ("true",)}
    with gateway(world, tmp_path, SiteAccess(pip={"no-index": ("true",), "timeout": ("500",)})) as build:
        assert build.address.pip == {"no-index": ("true",), "timeout": ("500",)}
        assert build.get("/index/0/pkg/").status == 404
    with gateway(world, tmp_path, SiteAccess()) as build:
        assert build.address.known[f"{ROOT}/index/0"] == "https://pypi.org/simple"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A PEP 503 tree, a find-links folder, a constraint file, and private things beside and behind links."""
    top = tmp_path / "site"
    (top / "index/simple/pkg").mkdir(parents=True)
    (top / "index/files").mkdir()
    (top / "index/files/pkg-1.0.whl").write_bytes(WHEEL)
    (top / "index/files/pkg-1.0.whl.metadata").write_bytes(b"Name: pkg")
    (top / "index/files/unlinked-1.0.whl").write_bytes(b"unlinked")
    (top / "links").mkdir()
    (top / "links/other-1.0.whl").write_bytes(b"other")
    (top / "links/notes.txt").write_text("notes")
    (top / "private.whl").write_text("canary")
    (top / "links/out-1.0.whl").symlink_to(top / "private.whl")
    (top / "links/within-1.0.whl").symlink_to(top / "links/other-1.0.whl")
    (top / "constraints.txt").write_text("six<2")
    (top / "index/simple/pkg/index.html").write_text(
        f'<a href="../../files/pkg-1.0.whl#sha256={DIGEST}" data-core-metadata="true">x</a>'
        '<a href="../../../private.whl">x</a><a href="file:///etc/passwd">x</a><a href="/etc/x.whl">x</a>'
        f'<a href="http://files.example/r.whl#sha256={DIGEST}">x</a>'
    )
    (top / "index/simple/linked").symlink_to(top)
    (top / "index.html").write_text(link("private.whl"))
    return top


def of_tree(tree: Path) -> SiteAccess:
    pip = {"index-url": (f"file://{tree}/index/simple",), "find-links": (str(tree / "links"),)}
    return SiteAccess(pip={**pip, "constraint": (str(tree / "constraints.txt"),)})


def test_local_trees_and_folders_are_served(world: World, tree: Path, tmp_path: Path) -> None:
    world.serve({"/r.whl": plain(WHEEL)})
    with gateway(world, tmp_path, of_tree(tree)) as build:
        page = build.get("/index/0/pkg/").body
        wheel, remote = path_on_page(page)
        assert (remote, f"#sha256={DIGEST}".encode() in page) == ("/file/http/files.example/r.whl", True)
        assert [build.get(target).body == WHEEL for target in (wheel, remote)] == [True, True]
        assert build.get(f"{wheel}.metadata").body == b"Name: pkg"
        links = build.get("/links/0/").body
        assert [target.rpartition("/")[2] for target in path_on_page(links)] == ["other-1.0.whl", "within-1.0.whl"]
        assert [build.get(target).body for target in path_on_page(links)] == [b"other", b"other"]
        assert build.get("/plain/0/constraints.txt").body == b"six<2"
        assert str(tree).encode() not in page + links
        assert build.address.known[f"{ROOT}/local/0"] == str(tree / "index")


@pytest.mark.parametrize(
    "target",
    [
        "/index/0/linked/",
        "/index/0/../",
        "/index/0/%2e%2e/",
        "/index/0/..%2f..%2flinks/",
        "/index/0/.%00/",
        "/index/0/",
        "/index/1/pkg/",
        "/index/-1/pkg/",
        "/index/0x0/pkg/",
        "/index/٠/pkg/".encode().decode("latin-1"),
        "/index/0/pkg/index.html",
        "/links/0/notes.txt",
        "/links/0/../",
        "/links/1/",
        "/local/0/files/unlinked-1.0.whl",
        "/local/0/files/../../private.whl",
        "/local/0/files/%2e%2e/%2e%2e/private.whl",
        "/local/0/..%2fprivate.whl",
        "/local/0//etc/passwd",
        "/local/0/%2fetc%2fpasswd",
        "/local/0/files/pkg-1.0.whl%00.txt",
        "/local/0/files/pkg-1.0.whl.metadata.metadata",
        "/local/1/notes.txt",
        "/local/1/out-1.0.whl",
        "/local/9/x",
        "/local/-1/x",
        "/plain/1/x",
        "/plain/x/x",
        "/plain/0",
        "/file/",
        "/file/file/etc/passwd",
        "/file/http/files.example/other.whl",
        "/file/http/127.0.0.1:22/x.whl",
        "/file/http/files.example/r.whl?x=1",
        "/",
        "//",
        "/unknown/0/",
        "/gateway.sock",
        "/index",
        "/?index/0/pkg/",
    ],
)
def test_nothing_else_is_given_out(world: World, tree: Path, tmp_path: Path, target: str) -> None:
    with gateway(world, tmp_path, of_tree(tree)) as build:
        for path in ("/index/0/pkg/", "/links/0/"):
            assert build.get(path).status == 200
        got = parsed = build.get(target)
        assert parsed.status in (400, 404), got
        assert b"canary" not in got.body
    assert world.dialled == []


def test_the_socket_is_private_and_goes_with_the_build(world: World, index: Server, tmp_path: Path) -> None:
    before = threading.active_count()
    with gateway(world, tmp_path, at()) as build:
        path = build.address.socket
        assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
        waiting = build.connect()
        assert build.get("/index/0/pkg/").status == 200
    assert waiting.recv(1) == b""
    assert not path.exists()
    for thread in threading.enumerate():
        if thread.name.startswith("gateway"):
            thread.join(60)
    assert threading.active_count() <= before + 2  # the server of this test
    with pytest.raises(OSError, match=r"."):
        Build(build.address).connect()

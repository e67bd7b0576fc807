"""The gateway between a hostile build and hostile servers: each probe is refused in one sentence, or bounded."""

from __future__ import annotations

import gzip
import json
import re
import socket
import time
from pathlib import Path

import pytest

from reprokit.core import addresses
from reprokit.core.addresses import not_public
from reprokit.engine.site.gateway import RELAY_PORT, Allowed, SiteAccess, access, connections, server, upstream
from reprokit.engine.site.gateway.access import Guard, HostRefused
from tests.unit.engine.gateway_world import PUBLIC, Server, World, gateway, plain, redirect

INDEX = SiteAccess(pip={"index-url": ("http://index.example/simple",)})
STRANGER = Allowed(
    credentials=False, any_host=False, hosts=frozenset({"git.example", "git.example:8443", "evil.example"})
)
OWN = Allowed(credentials=True, any_host=True)


ADDRESSES = {
    "loopback": "127.0.0.1",
    "loopback-net": "127.8.8.8",
    "this-host": "0.0.0.0",
    "this-net": "0.1.2.3",
    "private-10": "10.0.0.5",
    "private-172": "172.17.0.1",
    "private-192": "192.168.1.1",
    "carrier": "100.64.0.1",
    "metadata": "169.254.169.254",
    "metadata-task": "169.254.170.2",
    "metadata-azure": "168.63.129.16",
    "metadata-alibaba": "100.100.100.200",
    "metadata-oracle": "192.0.0.192",
    "documentation": "203.0.113.80",
    "benchmark": "198.18.0.1",
    "multicast": "224.0.0.251",
    "broadcast": "255.255.255.255",
    "v6-loopback": "::1",
    "v6-any": "::",
    "v6-mapped-loopback": "::ffff:127.0.0.1",
    "v6-mapped-metadata": "::ffff:169.254.169.254",
    "v6-mapped-private": "::ffff:10.0.0.1",
    "v6-compatible": "::127.0.0.1",
    "v6-link-local": "fe80::1",
    "v6-zone": "fe80::1%eth0",
    "v6-unique-local": "fc00::1",
    "v6-metadata": "fd00:ec2::254",
    "v6-nat64-loopback": "64:ff9b::7f00:1",
    "v6-nat64-private": "64:ff9b::a00:1",
    "v6-nat64-local": "64:ff9b:1::1",
    "v6-6to4-loopback": "2002:7f00:1::",
    "v6-teredo": "2001:0:7f00:1::",
    "v6-documentation": "2001:db8::1",
    "v6-multicast": "ff02::1",
    "v6-site-local": "fec0::1",
    "no-address": "nonsense",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
@pytest.mark.parametrize(
    "way", ["get", "connect", *(pytest.param(way, marks=pytest.mark.nightly) for way in ("redirect", "link"))]
)
def test_addresses_that_are_not_public_are_never_connected_to(
    world: World, tmp_path: Path, way: str, address: str
) -> None:
    world.names["evil.example"] = [address]
    target = "http://evil.example/x.whl"
    world.serve({"/simple/moved/": redirect(target), "/simple/linked/": plain(f'<a href="{target}">x</a>'.encode())})
    with gateway(world, tmp_path, INDEX, STRANGER) as build:
        if way == "get":
            got = build.get(target)
        elif way == "connect":
            got = build.get("evil.example:443", "CONNECT")
        elif way == "redirect":
            got = build.get("/index/0/moved/")
        else:
            assert build.get("/index/0/linked/").status == 200
            got = build.get("/file/http/evil.example/x.whl")
    assert got.status == 403
    assert got.reason.startswith("reprokit: evil.example:")
    assert 'set build_hosts = ["evil.example:' in got.reason
    assert set(world.dialled) <= {(PUBLIC, 80)}


@pytest.mark.parametrize("address", ["93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c", "64:ff9b::5db8:d70e"])
def test_public_addresses_are_public(address: str) -> None:
    assert not not_public(address)


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1", "127.1", "127.0.1", "017700000001", "0", "localhost"],
)
def test_no_way_of_writing_loopback_gets_through(host: str, tmp_path: Path, world: World) -> None:
    """With the system's own reading of addresses; nothing is connected to."""
    guard = Guard(OWN, SiteAccess(pip={"no-index": ("1",)}))
    guard.check_name(host, 80)
    with pytest.raises(HostRefused, match=r"of this host itself"):
        guard.addresses(host, 80, of_build=True)


def test_an_interface_of_this_host_is_not_public() -> None:
    guard = Guard(
        OWN, SiteAccess(pip={"no-index": ("1",)}), resolve=lambda host, port: [PUBLIC], own=lambda address: True
    )
    with pytest.raises(HostRefused, match=r"has the address 93.184.215.14, which is of this host itself"):
        guard.addresses("me.example", 22, of_build=True)
    assert addresses.is_of_this_host("127.0.0.1")
    assert not addresses.is_of_this_host(PUBLIC)


def test_a_name_that_changes_its_address_gains_nothing(world: World, tmp_path: Path) -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"], ["127.0.0.1"]])
    world.serve({"/": plain(b"public")})
    world.resolve = lambda host, port: next(answers)  # type: ignore[method-assign]
    with gateway(world, tmp_path, INDEX) as build:
        assert build.get("http://rebind.example/").body == b"public"
        assert build.get("rebind.example:80", "CONNECT").status == 403
    assert world.dialled == [(PUBLIC, 80)]


def test_of_several_addresses_the_public_ones_are_used(world: World, tmp_path: Path) -> None:
    world.names["mixed.example"] = ["127.0.0.1", "10.0.0.1", PUBLIC, "::1"]
    world.serve({"/": plain(b"public")})
    with gateway(world, tmp_path, INDEX) as build:
        assert build.get("http://mixed.example/").body == b"public"
    assert world.dialled == [(PUBLIC, 80)]


@pytest.mark.parametrize(
    "target",
    [
        "other.example:443",
        "index.example:443",
        "git.example:22",
        "git.example:8444",
        "sub.git.example:443",
        "git.example.other.example:443",
        "xgit.example:443",
        f"{PUBLIC}:443",
        "[2606:2800::1]:443",
        "git.example.:443",
    ],
)
def test_an_untrusted_build_reaches_what_is_named_and_no_more(world: World, tmp_path: Path, target: str) -> None:
    with gateway(world, tmp_path, INDEX, STRANGER) as build:
        got = build.get(target, "CONNECT")
    assert got.status == 403
    assert "is not among the hosts that builds of an untrusted case reach" in got.reason
    assert world.dialled == []
    assert world.asked == []  # not even the name is looked up


@pytest.mark.parametrize(
    ("target", "port"), [("git.example:443", 443), ("git.example:8443", 8443), ("GIT.example:443", 443)]
)
def test_what_is_named_is_reached(world: World, tmp_path: Path, target: str, port: int) -> None:
    world.serve({"/": plain(b"here")}, port=port)
    with gateway(world, tmp_path, INDEX, STRANGER) as build:
        said = build.raw(f"CONNECT {target} HTTP/1.1\r\nHost: x\r\n\r\nGET / HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert said.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert said.endswith(b"here")


def test_what_the_site_names_may_be_anywhere(world: World, tmp_path: Path) -> None:
    world.names |= {"index.local": ["10.1.1.1"], "mirror.local": ["127.0.0.1"], "git.local": ["192.168.0.9"]}
    world.serve({"/simple/pkg/": plain(b'<a href="/x.whl">x</a>'), "/x.whl": plain(b"wheel")}, 3141, "10.1.1.1")
    world.serve({"/debian/x": plain(b"debian")}, 8080, "127.0.0.1")
    world.serve({"/": plain(b"git")}, 3000, "192.168.0.9")
    access = SiteAccess(
        pip={"index-url": ("http://index.local:3141/simple",)},
        archives=("http://mirror.local:8080/debian",),
        hosts=("git.local:3000",),
    )
    for who in (STRANGER, OWN):
        with gateway(world, tmp_path, access, who) as build:
            assert build.get("/index/0/pkg/").status == 200
            assert build.get("/file/http/index.local:3141/x.whl").body == b"wheel"
            assert build.get("http://mirror.local:8080/debian/x").body == b"debian"
            assert build.get("http://git.local:3000/").body == b"git"
            assert build.get("http://git.local:3001/").status == 403
            # An index may take uploads: an untrusted build asks it for pages and files only.
            assert build.get("index.local:3141", "CONNECT").status == (200 if who is OWN else 403)


REDIRECTS = {
    "to-itself": "/simple/pkg/",
    "to-a-file": "file:///etc/passwd",
    "to-ftp": "ftp://index.example/x",
    "to-gopher": "gopher://index.example/x",
    "to-a-bad-port": "http://index.example:99999/",
    "to-no-host": "http:///x",
    "to-brackets": "http://[::1/x",
    "to-a-data-url": "data:text/html,x",
    "with-a-login": "http://user:word@evil.example/",
    "to-unix": "unix:///var/run/docker.sock",
}


@pytest.mark.parametrize("target", REDIRECTS.values(), ids=REDIRECTS)
def test_redirects_are_checked_and_counted(world: World, tmp_path: Path, target: str) -> None:
    world.names["evil.example"] = ["127.0.0.1"]
    world.serve({"/simple/pkg/": redirect(target)})
    with gateway(world, tmp_path, INDEX) as build:
        got = build.get("/index/0/pkg/")
    assert got.status in (403, 404, 424, 502)
    assert got.reason.startswith("reprokit: ")
    assert set(world.dialled) <= {(PUBLIC, 80)}
    assert len(world.dialled) <= 11


def test_a_redirect_never_leaves_tls() -> None:
    with pytest.raises(access.Unreachable, match=r"not secured"):
        upstream.redirected("https://index.example/simple/pkg/", "http://index.example/x")


def endless(connection: socket.socket, head: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
    while True:
        connection.sendall(b"<a href=x.whl>x</a>" * 1000)


def endless_head(connection: socket.socket, head: bytes) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-More: " + b"y" * 1000 + b"\r\n")


def silent(connection: socket.socket, head: bytes) -> None:
    time.sleep(60)


def sent(data: bytes) -> object:
    return lambda connection, head: connection.sendall(data)


JSON = "application/vnd.pypi.simple.v1+json"
HTML = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
SERVERS = {
    "endless-page": endless,
    "endless-head": endless_head,
    "silent": silent,
    "a-million-links": plain(b"<a href=x.whl>" * 1_000_000),
    "a-million-files": plain(json.dumps({"files": [{"url": "x"}] * 200_000}).encode(), JSON),
    "broken-gzip": plain(b"not gzip", Content_Encoding="gzip"),
    "cut-gzip": plain(gzip.compress(b"x" * 100_000)[:-20], Content_Encoding="gzip"),
    "gzip-bomb": plain(gzip.compress(b"\0" * 60_000_000), Content_Encoding="gzip"),
    "unknown-packing": plain(b"x", Content_Encoding="br"),
    "no-type": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
    "image": plain(b"x", "image/png"),
    "script": plain(b"x", "text/javascript"),
    "json-list": plain(b"[]", JSON),
    "json-no-files": plain(b"{}", JSON),
    "json-files-text": plain(b'{"files": "x"}', JSON),
    "json-file-number": plain(b'{"files": [1]}', JSON),
    "json-url-number": plain(b'{"files": [{"url": 1}]}', JSON),
    "json-deep": plain(b"[" * 200_000, JSON),
    "json-many-lists": plain(b'{"files": [' + b"[]," * 4_000_000 + b"{}]}", JSON),
    "json-many-texts": plain(b'{"files": [' + b'"a",' * 3_500_000 + b"{}]}", JSON),
    "many-attributes": plain(b"<a href=x " + b"".join(b"a%x " % n for n in range(100_000)) + b">"),
    "json-cut": plain(b'{"files": [', JSON),
    "json-bytes": plain(b"\xff\xfe\x00", JSON),
    "unclosed-tag": plain(b"<a href='" + b"x" * 2_000_000),
    "unclosed-comment": plain(b"<!--" * 500_000),
    "cut": sent(HTML + b"Content-Length: 100\r\n\r\nhalf"),
    "cut-chunk": sent(HTML + b"Transfer-Encoding: chunked\r\n\r\nff\r\nhalf"),
    "bad-chunk": sent(HTML + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nhalf\r\n0\r\n\r\n"),
    "no-http": sent(b"SSH-2.0-OpenSSH_9.2\r\n"),
    "nothing": sent(b""),
    "bad-status": sent(b"HTTP/1.1 99999 X\r\n\r\n"),
    "informed": sent(b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    "401": plain(b"", status="401 Unauthorized"),
    "403": plain(b"", status="403 Forbidden"),
    "500": plain(b"", status="500 Oops"),
    "204": sent(b"HTTP/1.1 204 No Content\r\n\r\n"),
}


@pytest.mark.parametrize("reply", SERVERS.values(), ids=SERVERS)
def test_an_index_that_answers_badly_ends_in_one_sentence(
    world: World, tmp_path: Path, reply: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upstream, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(upstream, "MAX_PAGE", 16_000_000)
    world.serve({"/simple/pkg/": reply})  # type: ignore[dict-item]
    with gateway(world, tmp_path, INDEX) as build:
        got = build.get("/index/0/pkg/")
        assert got.status in (401, 403, 424, 502, 503)
        assert got.body.startswith(b"reprokit: ")
        assert got.body.count(b"\n") == 1
        assert len(got.body) < 1000
        assert build.address.notes == [got.body.decode()[len("reprokit: ") : -1]]
        assert b"Traceback" not in got.body


LINKS = {
    "javascript": "javascript:alert(1)",
    "file": "file:///etc/secret-1.0.whl",
    "relative-file": "file:../x-1.0.whl",
    "bad-brackets": "http://[bad/x-1.0.whl",
    "bad-port": "http://index.example:x/x-1.0.whl",
    "data": "data:application/zip,x-1.0.whl",
    "git": "git+https://git.example/x",
    "unix": "unix:/run/docker.sock/x-1.0.whl",
    "ftp": "ftp://index.example/x-1.0.whl",
}


@pytest.mark.parametrize("address", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("kind", ["html", "json"])
def test_links_that_lead_nowhere_on_the_web_are_left_out(world: World, tmp_path: Path, kind: str, address: str) -> None:
    html = f'<a href="{address}">x</a><a href="/good-1.0.whl">x</a>'.encode()
    both = json.dumps({"files": [{"url": address}, {"url": "/good-1.0.whl"}]}).encode()
    world.serve({"/simple/pkg/": plain(html) if kind == "html" else plain(both, JSON)})
    with gateway(world, tmp_path, INDEX) as build:
        got = build.get("/index/0/pkg/")
    assert got.status == 200
    assert b"/file/http/index.example/good-1.0.whl" in got.body
    assert got.body.count(b"whl") == (1 if kind == "json" else 2)


def test_long_links_do_not_fill_the_memory(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_LINKS", 100_000)
    names = [f"{number}{'a' * 30_000}.whl" for number in range(3)]
    for number, name in enumerate(names):
        page = plain(json.dumps({"files": [{"url": f"http://any.example/{name}"}]}).encode(), JSON)
        world.servers.setdefault((PUBLIC, 80), Server({})).replies[f"/simple/p{number}/"] = page
    with gateway(world, tmp_path, INDEX) as build:
        for page_of in ("p0", "p1", "p1", "p2"):
            build.get(f"/index/0/{page_of}/")
        answers = [build.get(f"/file/http/any.example/{name}").reason for name in names]
    assert ["links to such a file" in one for one in answers] == [True, True, False]


INJECTED = {
    "new-header": "x\r\n Set-Evil: 1",
    "folded": "x\r\n\tSet-Evil: 1",
    "bare-cr": "x\rSet-Evil: 1",
    "nul": "x\0Set-Evil: 1",
    "escape": "x\x1b[31mSet-Evil: 1",
    "c1": "x\x85Set-Evil: 1",
    "letter": "é",
    "space-at-the-limit": f"{'a' * 7999} b",
}


@pytest.mark.parametrize("value", INJECTED.values(), ids=INJECTED)
@pytest.mark.parametrize("name", ["Location", "ETag", "Content-Type", "Last-Modified"])
def test_a_servers_headers_stay_on_their_lines(world: World, tmp_path: Path, name: str, value: str) -> None:
    head = f"HTTP/1.1 200 OK\r\n{name}: {value}\r\nX-Other: 1\r\nContent-Length: 2\r\n\r\nhi"
    world.serve({"/x": head.encode("latin-1")})
    with gateway(world, tmp_path, INDEX) as build:
        said = build.raw(b"GET http://any.example/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    head_lines = said.partition(b"\r\n\r\n")[0].split(b"\r\n")
    assert all(re.fullmatch(rb"[A-Za-z-]+: [\t\x20-\x7e\xa0-\xff]*", line) for line in head_lines[1:])
    assert head_lines[0].split(b" ")[1] == (b"502" if re.search(r"\r(?!\n)|\0", value) else b"200")
    assert not any(line.lower().startswith((b"set-evil", b"x-other")) for line in head_lines)


def test_a_builds_headers_are_cut_where_a_server_can_read_them(world: World, tmp_path: Path) -> None:
    world.serve({"/x": plain(b"hi")})
    with gateway(world, tmp_path, INDEX) as build:
        assert build.get("http://any.example/x", User_Agent=f"{'a' * 999} b").body == b"hi"


def test_a_request_names_a_path_whatever_the_address_has(world: World, tmp_path: Path) -> None:
    server = world.serve({})
    with gateway(world, tmp_path, INDEX) as build:
        for target in ("http://any.example?q=1", "http://any.example//x", "http://any.example"):
            build.get(target)
    assert server.paths() == ["GET /?q=1", "GET //x", "GET /"]


REQUESTS = {
    "length-and-chunks": b"GET / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two-lengths": b"GET / HTTP/1.1\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
    "length": b"GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    "chunks": b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "odd-chunks": b"GET / HTTP/1.1\r\nTransfer-Encoding: xchunked\r\n\r\n",
    "length-sign": b"GET / HTTP/1.1\r\nContent-Length: +0\r\n\r\n",
    "space-before-colon": b"GET / HTTP/1.1\r\nContent-Length : 5\r\n\r\nhello",
    "folded": b"GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n",
    "no-colon": b"GET / HTTP/1.1\r\nnonsense\r\n\r\n",
    "nul-in-header": b"GET / HTTP/1.1\r\nX: a\0b\r\n\r\n",
    "bare-cr": b"GET / HTTP/1.1\r\nX: a\rTransfer-Encoding: chunked\r\n\r\n",
    "bare-lf": b"GET / HTTP/1.1\nX: a\r\n\r\n",
    "lf-in-header": b"GET / HTTP/1.1\r\nX: a\nContent-Length: 3\r\n\r\n",
    "two-hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "two-ranges": b"GET / HTTP/1.1\r\nRange: bytes=0-1\r\nRange: bytes=2-3\r\n\r\n",
    "http09": b"GET /\r\n\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "http3": b"GET / HTTP/3.0\r\n\r\n",
    "two-spaces": b"GET  / HTTP/1.1\r\n\r\n",
    "tab": b"GET\t/ HTTP/1.1\r\n\r\n",
    "small-letters": b"get / HTTP/1.1\r\n\r\n",
    "control-in-target": b"GET /\x01 HTTP/1.1\r\n\r\n",
    "bytes-in-target": b"GET /\xff HTTP/1.1\r\n\r\n",
    "crlf-before": b"\r\n\r\nGET / HTTP/1.1\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "long-line": b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\n\r\n",
    "long-head": b"GET / HTTP/1.1\r\n" + b"X: " + b"a" * 60_000 + b"\r\n\r\n",
    "endless-head": b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 20_000,
    "many-headers": b"GET / HTTP/1.1\r\n" + b"X: a\r\n" * 101 + b"\r\n",
    "post": b"POST / HTTP/1.1\r\n\r\n",
    "put": b"PUT /index/0/pkg/ HTTP/1.1\r\n\r\n",
    "delete": b"DELETE http://git.example/ HTTP/1.1\r\n\r\n",
    "trace": b"TRACE / HTTP/1.1\r\n\r\n",
    "options": b"OPTIONS * HTTP/1.1\r\n\r\n",
    "star": b"GET * HTTP/1.1\r\n\r\n",
    "https-as-proxy": b"GET https://git.example/ HTTP/1.1\r\n\r\n",
    "ftp-as-proxy": b"GET ftp://git.example/ HTTP/1.1\r\n\r\n",
    "file-as-proxy": b"GET file:///etc/passwd HTTP/1.1\r\n\r\n",
    "unix-as-proxy": b"GET unix:///run/docker.sock HTTP/1.1\r\n\r\n",
    "login-as-proxy": b"GET http://a:b@git.example/ HTTP/1.1\r\n\r\n",
    "at-host": b"GET http://git.example@127.0.0.1/ HTTP/1.1\r\n\r\n",
    "bad-port": b"GET http://git.example:x/ HTTP/1.1\r\n\r\n",
    "huge-port": b"GET http://git.example:99999/ HTTP/1.1\r\n\r\n",
    "no-host": b"GET http:///x HTTP/1.1\r\n\r\n",
    "brackets": b"GET http://[::1/ HTTP/1.1\r\n\r\n",
    "backslash": b"GET http://git.example\\@127.0.0.1/ HTTP/1.1\r\n\r\n",
    "connect-no-port": b"CONNECT git.example HTTP/1.1\r\n\r\n",
    "connect-port-0": b"CONNECT git.example:0 HTTP/1.1\r\n\r\n",
    "connect-path": b"CONNECT /index/0/pkg/ HTTP/1.1\r\n\r\n",
    "connect-url": b"CONNECT http://git.example/ HTTP/1.1\r\n\r\n",
    "connect-login": b"CONNECT a@git.example:443 HTTP/1.1\r\n\r\n",
    "connect-two-ports": b"CONNECT git.example:443:22 HTTP/1.1\r\n\r\n",
    "connect-hash": b"CONNECT git.example:443#@x:22 HTTP/1.1\r\n\r\n",
    "connect-query": b"CONNECT git.example:443?x HTTP/1.1\r\n\r\n",
    "connect-percent": b"CONNECT git%2eexample:443 HTTP/1.1\r\n\r\n",
    "connect-unicode-digit": "CONNECT git.example:٤٤٣ HTTP/1.1\r\n\r\n".encode(),
    "connect-itself": f"CONNECT 127.0.0.1:{RELAY_PORT} HTTP/1.1\r\n\r\n".encode(),
}


@pytest.mark.parametrize("data", REQUESTS.values(), ids=REQUESTS)
def test_a_request_that_is_not_plain_is_refused(world: World, tmp_path: Path, data: bytes) -> None:
    with gateway(world, tmp_path, INDEX, STRANGER) as build:
        said = build.raw(data if b"Host:" in data else data.replace(b"HTTP/1.1\r\n", b"HTTP/1.1\r\nHost: x\r\n", 1))
        assert build.get("/index/0/pkg/").status in (404, 424)  # it still serves
    assert re.match(rb"HTTP/1\.1 (400|403|404|405|431) reprokit: [\x20-\x7e]+\r\n", said), said[:200]
    assert said.count(b"HTTP/1.1 ") == 1  # nothing in it was taken for a second request
    assert set(world.dialled) <= {(PUBLIC, 80)}


def test_a_build_that_sends_slowly_is_hung_up_on(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    with gateway(world, tmp_path, INDEX) as build, build.connect() as one:
        one.sendall(b"GET / HT")
        one.settimeout(60)
        assert one.recv(1) == b""


def test_a_defect_is_one_line_with_what_to_do_and_no_traceback(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(server.Routes, "_own", fails)
    with gateway(world, tmp_path, INDEX) as build:
        answers = [build.get("/index/0/pkg/") for _ in range(2)]
        notes = build.address.notes
    assert [(one.status, "please report it" in one.reason) for one in answers] == [(500, True)] * 2
    assert [
        re.search(r"failed with KeyError: 'x' \(test_gateway_hostile\.py:\d+\)", note) is not None for note in notes
    ] == [True]
    assert capfd.readouterr().err == ""


def test_a_build_that_opens_many_connections_waits_for_itself_alone(world: World, tmp_path: Path) -> None:
    world.serve({"/simple/pkg/": plain(b"<a href=x.whl>x</a>")})
    with gateway(world, tmp_path / "1", INDEX) as greedy, gateway(world, tmp_path / "2", INDEX) as other:
        held = [greedy.connect() for _ in range(80)]
        assert other.get("/index/0/pkg/").status == 200
        for one in held:
            one.close()
        assert greedy.get("/index/0/pkg/").status == 200


def test_messages_show_neither_logins_nor_signatures(world: World, tmp_path: Path) -> None:
    world.serve({"/simple/pkg/": redirect("http://cdn.example/x?signature=canary"), "/x?signature=canary": plain(b"")})
    world.servers[PUBLIC, 80].replies["/x?signature=canary"] = plain(b"x", "image/png")
    access = SiteAccess(pip={"index-url": ("http://me:canary@index.example/simple",)})
    with gateway(world, tmp_path, access) as build:
        got = build.get("/index/0/pkg/")
        assert got.status == 502
        assert "http://cdn.example/x answers with image/png" in got.reason
        assert "canary" not in repr(got) + repr(build.address)


def test_a_server_that_is_gone_is_asked_once_in_a_build(world: World, tmp_path: Path) -> None:
    with gateway(world, tmp_path, INDEX) as build:
        assert [build.get(f"/index/0/{name}/").status for name in ("a", "b", "c")] == [424] * 3
        assert build.address.notes == ["index.example:80 cannot be connected to: Connection refused"]
    assert len(world.dialled) == 1

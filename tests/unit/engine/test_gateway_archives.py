"""What builds fetch themselves through the gateway: archives of distributions, the site's proxies, TLS of its own."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import pytest

from reprokit.engine.site.gateway import Allowed, SiteAccess
from reprokit.engine.site.gateway.access import bypasses, parsed_host
from tests.unit.engine.gateway_world import PUBLIC, Server, World, gateway, plain

ARCHIVE = "http://deb.example/debian"
DEB = os.urandom(200_000)
LISTS = b"Packages" * 10_000
BY_HASH = f"/debian/dists/x/by-hash/SHA256/{hashlib.sha256(LISTS).hexdigest()}"
SITE = SiteAccess(pip={"no-index": ("true",)}, archives=(ARCHIVE,))
STRANGER = Allowed(credentials=False, any_host=False)
OWN = Allowed(credentials=True, any_host=True)
WHEN = {"Last_Modified": "Mon, 06 Jan 2025 00:00:00 GMT"}


@pytest.fixture
def mirror(world: World) -> Server:
    """A mirror of a distribution."""
    replies = {
        "/debian/pool/main/p/pkg_1.0_amd64.deb": plain(DEB, **WHEN),
        BY_HASH: plain(LISTS),
        "/debian/dists/x/InRelease": plain(b"signed", **WHEN, ETag='"1"'),
    }
    return world.serve(replies)


def test_packages_are_kept_until_they_change(world: World, mirror: Server, tmp_path: Path) -> None:
    target = f"{ARCHIVE}/pool/main/p/pkg_1.0_amd64.deb"
    with gateway(world, tmp_path, SITE, STRANGER) as build:
        assert [build.get(target).body == DEB for _ in range(3)] == [True] * 3
        gets = [path for path in mirror.paths() if path.startswith("GET")]
        assert len(gets) == 1
        mirror.replies["/debian/pool/main/p/pkg_1.0_amd64.deb"] = plain(b"rebuilt", Last_Modified="later")
        assert build.get(target).body == b"rebuilt"


def test_lists_are_verified_by_the_hash_in_their_name(world: World, mirror: Server, tmp_path: Path) -> None:
    with gateway(world, tmp_path, SITE, STRANGER) as build:
        assert [build.get(f"http://deb.example{BY_HASH}").body for _ in range(2)] == [LISTS] * 2
        assert mirror.paths() == [f"GET {BY_HASH}"]
        forged = BY_HASH.replace("/SHA256/", "/SHA256/")[:-64] + "0" * 64
        mirror.replies[forged] = plain(LISTS)
        got = build.get(f"http://deb.example{forged}")
        assert got.status == 502 or not got.whole


def test_all_else_passes_as_it_is_with_its_conditions(world: World, mirror: Server, tmp_path: Path) -> None:
    target = f"{ARCHIVE}/dists/x/InRelease"
    mirror.replies["/debian/dists/x/Release"] = b'HTTP/1.1 304 Not Modified\r\nETag: "1"\r\n\r\n'
    with gateway(world, tmp_path, SITE, STRANGER) as build:
        got = build.get(target, If_Modified_Since="Mon", User_Agent="Debian APT-HTTP/1.3 é", Cookie="c", X_Any="x")
        assert (got.body, got.headers["last-modified"]) == (b"signed", WHEN["Last_Modified"])
        assert build.get(target).body == b"signed"
        assert build.get(target, "HEAD").headers["content-length"] == "6"
        assert build.get(f"{ARCHIVE}/dists/x/Release", If_None_Match='"1"').status == 304
        assert build.get(f"{ARCHIVE}/dists/x/absent").status == 404
    assert len(mirror.paths()) == 5
    assert "If-Modified-Since: Mon" in mirror.seen[0]
    assert "User-Agent: Debian APT-HTTP/1.3 é" in mirror.seen[0]
    assert not re.search("Cookie|X-Any|Connection", mirror.seen[0])
    assert not list(tmp_path.glob("cache/*/address/*/*"))


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        ("http://deb.example/debian/dists/x", True),
        ("http://deb.example/other", False),
        ("http://deb.example/debian/../other", False),
        ("http://deb.example/debian/%2e%2e/other", False),
        ("http://deb.example/debian-of-others/x", False),
        ("http://deb.example:81/debian/x", False),
        ("http://more.example/debian/x", False),
    ],
)
@pytest.mark.parametrize("who", [OWN, STRANGER], ids=["own", "stranger"])
@pytest.mark.parametrize("end", ["/", ""], ids=["slash", "no-slash"])
def test_a_mirrors_login_is_for_what_lies_below_it(
    world: World, tmp_path: Path, target: str, sent: bool, who: Allowed, end: str
) -> None:
    servers = [world.serve({}), world.serve({}, port=81)]
    access = SiteAccess(pip={"no-index": ("1",)}, archives=(f"http://me:w0rd@deb.example/debian{end}",))
    with gateway(world, tmp_path, access, who) as build:
        status = build.get(target).status
    heads = [head for server in servers for head in server.seen]
    assert status == (404 if heads else 403)
    login = base64.b64encode(b"me:w0rd").decode()
    assert [f"Authorization: Basic {login}" in head for head in heads] == ([sent and who is OWN] if heads else [])


def proxy_of(target: str) -> SiteAccess:
    return SiteAccess(
        pip={"index-url": ("http://index.example/simple",)},
        archives=(ARCHIVE,),
        proxies={"http_proxy": target, "https_proxy": target, "no_proxy": "direct.example,10.0.0.0/8"},
        apt_proxies={
            "Acquire::http::Proxy": "http://apt-proxy.local:3142",
            "Acquire::http::Proxy::near.example": "DIRECT",
        },
    )


def test_the_sites_proxies_are_used_with_their_logins(world: World, tmp_path: Path) -> None:
    world.names |= {"proxy.local": ["10.0.0.1"], "apt-proxy.local": ["127.0.0.1"], "direct.example": ["93.184.215.15"]}
    world.names["unknown.example"] = []  # a site behind a proxy may know no name of the internet

    def tunnels(connection: socket.socket, head: bytes) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        connection.sendall(b"echo " + connection.recv(100))

    replies = {
        "http://index.example/simple/pkg/": plain(b"<a href=x.whl>x</a>"),
        "http://unknown.example/": plain(b"known"),
    }
    proxy = world.serve({**replies, "git.example:443": tunnels}, 8080, "10.0.0.1")
    apt = world.serve({f"{ARCHIVE}/x": plain(b"by apt's")}, 3142, "127.0.0.1")
    near = world.serve({"/": plain(b"near")})
    direct = world.serve({"/": plain(b"direct")}, address="93.184.215.15")
    agent = "Debian APT-HTTP/1.3 (2.6.1)"
    with gateway(world, tmp_path, proxy_of("http://me:w0rd@proxy.local:8080")) as build:
        assert build.get("/index/0/pkg/").status == 200
        assert build.get(f"{ARCHIVE}/x", User_Agent=agent).body == b"by apt's"
        assert build.get("http://near.example/", User_Agent=agent).body == b"near"
        assert build.get("http://direct.example/").body == b"direct"
        assert build.get("http://unknown.example/").body == b"known"
        said = build.raw(b"CONNECT git.example:443 HTTP/1.1\r\nHost: x\r\n\r\nhello")
        assert said == b"HTTP/1.1 200 Connection established\r\n\r\necho hello"
        assert build.get("other.example:443", "CONNECT").status == 502
    login = f"Proxy-Authorization: Basic {base64.b64encode(b'me:w0rd').decode()}"
    assert all(login in head for head in proxy.seen)
    assert {"index.example", "git.example", "unknown.example", "other.example"}.isdisjoint(world.asked)
    assert not any("Proxy-Authorization" in head for head in (*apt.seen, *near.seen, *direct.seen))


@pytest.mark.parametrize(
    "target", ["127.0.0.1", "169.254.169.254", "10.1.2.3", "[::1]", "127.1", "[::ffff:10.1.2.3]", "evil.example"]
)
@pytest.mark.parametrize("method", ["GET", "CONNECT"])
def test_a_proxy_is_not_asked_for_what_is_not_public(world: World, tmp_path: Path, target: str, method: str) -> None:
    """An address for no one; a name that this host knows as one for no untrusted case."""
    world.names |= {name: [name] for name in ("127.0.0.1", "::1")}  # no proxy is asked for these
    world.names |= {"evil.example": ["192.168.0.1"], "proxy.local": ["10.0.0.1"]}
    proxy = world.serve({}, 8080, "10.0.0.1")
    access = SiteAccess(pip={}, proxies={"http_proxy": "http://proxy.local:8080", "https_proxy": "proxy.local:8080"})
    who = Allowed(credentials=False, any_host=True)
    with gateway(world, tmp_path, access, who if target == "evil.example" else None) as build:
        got = build.get(f"http://{target}/" if method == "GET" else f"{target}:443", method)
    assert got.status == 403
    assert proxy.seen == []


def test_no_proxy_is_asked_for_this_host() -> None:
    proxied = proxy_of("http://proxy.local:8080").proxy
    for host in ("127.0.0.1:8080", "localhost", "me:w0rd@[::1]:3141"):
        assert proxied(f"http://{host}/simple") is None
        assert proxied(f"https://{host}/simple") is None
    assert proxied("http://127.0.0.1@index.example/") is not None


@pytest.mark.parametrize("proxy", ["socks5://proxy.local:1080", "https://proxy.local:443", "http://"])
def test_a_proxy_that_cannot_be_used_is_named(world: World, tmp_path: Path, proxy: str) -> None:
    with gateway(world, tmp_path, SiteAccess(proxies={"http_proxy": proxy})) as build:
        got = build.get("http://any.example/")
    assert got.status == 502
    assert "builds need an http:// one" in got.reason


@pytest.mark.parametrize(
    ("no_proxy", "host", "bypassed"),
    [
        ("*", "x.example", True),
        ("x.example", "x.example", True),
        (".example", "x.example", True),
        ("example", "x.example", True),
        ("ample", "x.example", False),
        ("x.example:443", "x.example", True),
        ("x.example:80", "x.example", False),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", False),
        ("::1", "::1", True),
        ("", "x.example", False),
        (" , ,", "x.example", False),
    ],
)
def test_no_proxy(no_proxy: str, host: str, bypassed: bool) -> None:
    assert bypasses(host, 443, no_proxy) is bypassed


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Git.Example", ("git.example", None)),
        ("git.example:8443", ("git.example", 8443)),
        ("[::1]:80", ("::1", 80)),
        ("::1", ("::1", None)),
        ("[::1]", ("::1", None)),
    ],
)
def test_hosts_as_the_configuration_writes_them(text: str, found: tuple[str, int | None]) -> None:
    assert parsed_host(text) == found


# -- TLS ---------------------------------------------------------------------------------------------------------------


class _Authority:
    """A certificate authority of this test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._openssl(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 9 -keyout ca.key -out ca.pem "
            "-subj /CN=test-authority -addext basicConstraints=critical,CA:TRUE -addext keyUsage=keyCertSign"
        )

    def certificate(self, name: str) -> Path:
        """A file with a certificate for a name, and its key."""
        both = self.folder / f"{name}.both"
        if both.is_file():
            return both
        self._openssl(
            f"req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} "
            f"-keyout {name}.key -out {name}.csr"
        )
        (self.folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{name}\n")
        self._openssl(
            f"x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 "
            f"-out {name}.pem -extfile {name}.ext"
        )
        both.write_text((self.folder / f"{name}.pem").read_text() + (self.folder / f"{name}.key").read_text())
        return both

    def _openssl(self, arguments: str) -> None:
        subprocess.run(["openssl", *arguments.split()], cwd=self.folder, check=True, capture_output=True, timeout=30)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> _Authority:
    """An authority that no one but this test knows."""
    if not shutil.which("openssl"):
        pytest.skip("there is no openssl")
    return _Authority(tmp_path_factory.mktemp("authority"))


class _Secured(Server):
    """A server with TLS; ``clients``: subjects of the clients' certificates."""

    def __init__(self, replies: dict[str, bytes], certificate: Path, authority: _Authority) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.context.load_verify_locations(authority.folder / "ca.pem")
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.clients: list[str] = []
        super().__init__(replies)

    def _serve(self, connection: socket.socket) -> None:
        try:
            secured = self.context.wrap_socket(connection, server_side=True)
        except OSError:
            return
        peer = secured.getpeercert() or {}
        self.clients.append(str(peer.get("subject", "")))
        self._open.append(secured)
        super()._serve(secured)


WHEEL = b"a wheel"
PAGE = plain(f'<a href="/x.whl#sha256={hashlib.sha256(WHEEL).hexdigest()}">x</a>'.encode())


def test_the_sites_authorities_and_client_certificate_are_used(
    world: World, authority: _Authority, tmp_path: Path
) -> None:
    world.names["cdn.example"] = ["93.184.215.15"]
    mine = _Secured(
        {"/simple/pkg/": PAGE, "/x.whl": plain(b"", status="302 Found", Location="https://cdn.example/x.whl")},
        authority.certificate("index.example"),
        authority,
    )
    cdn = _Secured({"/x.whl": plain(WHEEL)}, authority.certificate("cdn.example"), authority)
    world.servers |= {(PUBLIC, 443): mine, ("93.184.215.15", 443): cdn}
    access = SiteAccess(
        pip={"index-url": ("https://index.example/simple",)},
        bundle=(authority.folder / "ca.pem").read_text(),
        client_cert=authority.certificate("builder"),
    )
    for who in (OWN, STRANGER):
        with gateway(world, tmp_path, access, who) as build:
            assert build.get("/index/0/pkg/").status == 200, build.address.notes
            assert build.get("/file/https/index.example/x.whl").body == WHEEL
    assert ["builder" in one for one in mine.clients] == [True, False]
    assert ["builder" in one for one in cdn.clients] == [False, False]


def test_a_certificate_of_an_unknown_authority_or_another_name_is_refused(
    world: World, authority: _Authority, tmp_path: Path
) -> None:
    world.servers[PUBLIC, 443] = _Secured({"/simple/pkg/": PAGE}, authority.certificate("index.example"), authority)
    pip = {"index-url": ("https://index.example/simple",)}
    bundle = (authority.folder / "ca.pem").read_text()
    with gateway(world, tmp_path, SiteAccess(pip=pip)) as build:
        got = build.get("/index/0/pkg/")
        assert (got.status, "ca_bundle names this site's authorities" in got.reason) == (424, True)
    other = {"index-url": ("https://other.example/simple",)}
    with gateway(world, tmp_path, SiteAccess(pip=other, bundle=bundle)) as build:
        assert "its certificate is not trusted" in build.get("/index/0/pkg/").reason
    # As pip does where trusted-host says so.
    with gateway(world, tmp_path, SiteAccess(pip={**pip, "trusted-host": ("index.example",)})) as build:
        assert build.get("/index/0/pkg/").status == 200


def test_a_tunnel_carries_bytes_both_ways_at_once(world: World, tmp_path: Path) -> None:
    size = 3_000_000

    def echoes(connection: socket.socket, head: bytes) -> None:
        while block := connection.recv(65536):
            connection.sendall(block)
        connection.close()

    proxyless = world.serve({}, 443)
    proxyless._serve = lambda connection: echoes(connection, b"")  # type: ignore[method-assign]
    with gateway(world, tmp_path, SITE) as build, build.connect() as one:
        one.sendall(b"CONNECT any.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        assert one.recv(39) == b"HTTP/1.1 200 Connection established\r\n\r\n"
        sender = threading.Thread(target=lambda: (one.sendall(DEB * (size // len(DEB))), one.shutdown(socket.SHUT_WR)))
        sender.start()
        found = b""
        while block := one.recv(65536):
            found += block
        sender.join()
    assert found == DEB * (size // len(DEB))


@pytest.mark.parametrize("path", ["/debian-private/x", "/other", "/", "/debian/../x", "/debian/%2e%2e/x", "/Debian/x"])
def test_the_login_of_a_mirror_is_for_its_path_alone(path: str) -> None:
    """Whoever asks for it: a redirect of the mirror leads elsewhere on its server, too."""
    mirror = "https://me:secret@mirror.example/debian"
    access = SiteAccess(archives=(mirror,))
    assert access.authorization(mirror, "https://mirror.example/debian/dists/x")
    assert not access.authorization(mirror, f"https://mirror.example{path}")

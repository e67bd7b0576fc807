"""What pages of an index that an untrusted case names lead its build to: archives at public hosts, and nothing else."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.core.files import shipped
from reprokit.engine.building import named_places
from reprokit.engine.protocol import Build as BuildRequest
from reprokit.engine.site.gateway import Allowed, SiteAccess, access
from tests.unit.engine.gateway_world import PUBLIC, Build, World, gateway, plain, redirect
from tests.unit.engine.test_gateway_archives import _Authority, _Secured, authority  # noqa: F401
from tests.unit.engine.test_gateway_pip import relay, wheel

FILES = "93.184.215.15"
"""The address of the host to which pages lead."""
INDEX, PAGE = "https://index.example/whl/cpu", "https://index.example/stable.html"
STRANGER = Allowed(
    credentials=False, any_host=False, hosts=frozenset({"index.example"}), places=frozenset({INDEX, PAGE})
)
WHEEL = b"a wheel"
DIGEST = hashlib.sha256(WHEEL).hexdigest()


class Net:
    """An index and a server of files, both with TLS; ``links``: what the index's page of ``pkg`` leads to."""

    def __init__(self, world: World, folder: Path, authority: _Authority) -> None:  # noqa: F811
        self.world, self.folder, self.authority = world, folder, authority
        self.access = SiteAccess(
            pip={"index-url": ("https://pypi.example/simple",)}, bundle=(authority.folder / "ca.pem").read_text()
        )

    @contextmanager
    def build(self, *links: str, access: SiteAccess | None = None, **files: bytes) -> Iterator[Build]:
        """A build whose case names the index and the page, where both list ``links``."""
        page = plain("".join(f'<a href="{link}">x</a>' for link in links).encode())
        self.world.names |= {"files.example": [FILES]}
        index = _Secured(
            {"/whl/cpu/pkg/": page, "/stable.html": page, "/f/x.whl": plain(WHEEL), **files},
            self.authority.certificate("index.example"),
            self.authority,
        )
        served = {f"/{name}": body for name, body in {"x.whl": plain(WHEEL), **files}.items()}
        self.files = _Secured(served, self.authority.certificate("files.example"), self.authority)
        self.world.servers |= {(PUBLIC, 443): index, (FILES, 443): self.files}
        with gateway(self.world, self.folder, access or self.access, STRANGER) as build:
            yield build

    def status(self, link: str, access: SiteAccess | None = None, **files: bytes) -> int:
        """The status of a file that a page leads to, asked for as pip does."""
        with self.build(link, access=access, **files) as build:
            page = build.get("/place/https/index.example/whl/cpu/pkg/")
            assert page.status == 200, page.reason
            path = page.body.decode().partition('href="')[2].partition('"')[0].partition("#")[0]
            return build.get(path).status


@pytest.fixture
def net(tmp_path: Path, authority: _Authority) -> Iterator[Net]:  # noqa: F811
    world = World()
    yield Net(world, tmp_path, authority)
    world.close()


@pytest.mark.parametrize("page", ["whl/cpu/pkg/", "stable.html"])
def test_a_file_at_another_host_comes_where_the_index_links_to_it(net: Net, page: str) -> None:
    with net.build(f"https://files.example/x.whl#sha256={DIGEST}") as build:
        assert build.get("/file/https/files.example/x.whl").status == 404  # no page has shown it yet
        body = build.get(f"/place/https/index.example/{page}").body
        assert f"/file/https/files.example/x.whl#sha256={DIGEST}".encode() in body
        got = build.get("/file/https/files.example/x.whl")
        assert (got.status, got.body) == (200, WHEEL)
        assert [file.name for file in build.address.fetched] == ["x.whl"]  # verified, and kept
        assert build.get("files.example:443", "CONNECT").status == 403  # the file, not the host
        assert build.get("/file/https/files.example/y.whl").status == 404
        assert build.address.known["http://127.0.0.1:17890/place/https/"] == "https://"


def test_a_file_that_is_not_what_the_page_says_is_not_kept(net: Net) -> None:
    with net.build(f"https://files.example/x.whl#sha256={'0' * 64}") as build:
        build.get("/place/https/index.example/stable.html")
        got = build.get("/file/https/files.example/x.whl")
        assert got.status == 502 or not got.whole
        assert "is not what the index says" in str(build.address.notes)


@pytest.mark.parametrize(
    "path",
    [
        "https/index.example/other/pkg/",
        "https/index.example/whl/cpu/a/b/",
        "https/index.example/whl/cpu/../x/",
        "https/index.example/whl/cpu/%2e%2e/",
        "https/index.example/stable.html/a/b",
        "https/evil.example/whl/cpu/pkg/",
        "http/index.example/whl/cpu/pkg/",
        "https/index.example:444/whl/cpu/pkg/",
        "https/me@index.example/whl/cpu/pkg/",
        "https",
        "",
    ],
)
def test_only_pages_that_the_case_names_are_read(net: Net, path: str) -> None:
    with net.build("/f/x.whl") as build:
        got = build.get(f"/place/{path}")
        assert (got.status, "not a page of an index that the case names" in got.reason) == (403, True)
    assert net.world.dialled == []


LINKS = {
    "its-own": ("/f/x.whl", 200),
    "another-host": ("https://files.example/x.whl", 200),
    "metadata": ("https://files.example/x.whl.metadata", 404),
    "plain-http": ("http://files.example/x.whl", 403),
    "another-port": ("https://files.example:8443/x.whl", 403),
    "query": ("https://files.example/x.whl?delete=1", 403),
    "no-archive": ("https://files.example/api/delete", 403),
    "page": ("https://files.example/x.html", 403),
    "login": ("https://me:word@files.example/x.whl", 200),  # which is not sent
    "loopback": ("https://127.0.0.1/x.whl", 403),
    "metadata-service": ("https://169.254.169.254/latest/x.whl", 403),
    "private": ("https://10.0.0.5/x.whl", 403),
    "mapped": ("https://[::ffff:10.0.0.5]/x.whl", 403),
    "private-name": ("https://intranet.example/x.whl", 403),
    "index-of-the-site": ("https://pypi.example/secret-1.0.tar.gz", 403),
}


@pytest.mark.parametrize(("link", "status"), LINKS.values(), ids=LINKS)
def test_where_a_hostile_page_may_lead(net: Net, link: str, status: int) -> None:
    net.world.names |= {"intranet.example": ["10.0.0.7"], "pypi.example": ["10.0.0.8"]}
    net.world.names |= {text: [text] for text in ("127.0.0.1", "169.254.169.254", "10.0.0.5", "::ffff:10.0.0.5")}
    assert net.status(link) == status
    assert {address for address, _ in net.world.dialled} <= {PUBLIC, FILES}
    if net.files.seen:
        assert "authorization" not in net.files.seen[0].lower()


REDIRECTS = {
    "to-itself": ("https://files.example/y.whl", 200),
    "to-the-index": ("https://index.example/f/x.whl", 200),
    "to-another-host": ("https://other.example/x.whl", 403),
    "to-private": ("https://10.0.0.5/x.whl", 403),
    "to-http": ("http://files.example/y.whl", 502),
    "to-a-file": ("file:///etc/passwd", 502),
}


@pytest.mark.parametrize(("target", "status"), REDIRECTS.values(), ids=REDIRECTS)
def test_where_a_linked_file_may_redirect(net: Net, target: str, status: int) -> None:
    files = {"x.whl": redirect(target), "y.whl": plain(WHEEL)}
    assert net.status("https://files.example/x.whl", **files) == status
    assert {address for address, _ in net.world.dialled} <= {PUBLIC, FILES}


def test_a_page_that_redirects_away_leads_nowhere(net: Net) -> None:
    with net.build("/f/x.whl", **{"/whl/cpu/moved/": redirect("https://files.example/moved/")}) as build:
        assert build.get("/place/https/index.example/whl/cpu/moved/").status == 403
    assert net.files.seen == []


def test_pages_lead_to_few_other_hosts(net: Net) -> None:
    links = [f"https://h{number}.example/x.whl" for number in range(access.MAX_LINKED + 2)]
    with net.build(*links, "https://files.example/x.whl") as build:
        build.get("/place/https/index.example/stable.html")
        for number in range(access.MAX_LINKED):  # whatever they answer
            assert build.get(f"/file/https/h{number}.example/x.whl").status != 403
        assert build.get("/file/https/files.example/x.whl").status == 403
        assert build.get("/file/https/h0.example/x.whl").status != 403
        assert "more than 8 other hosts" in str(build.address.notes)


def test_a_name_that_only_the_sites_proxy_knows_is_not_asked_for(net: Net) -> None:
    """It may be of the site's own network; a name that the case itself names is left to the proxy."""
    net.world.names |= {"inside.example": [], "index.example": []}
    guard = access.Guard(STRANGER, SiteAccess(), resolve=net.world.resolve, own=lambda _: False)
    assert guard.addresses("index.example", 443, of_build=True, by_proxy=True) == []
    guard.check_link("https://inside.example/x.whl")
    with pytest.raises(access.Unreachable, match="no address"):
        guard.addresses("inside.example", 443, of_build=True, by_proxy=True)


def test_an_index_of_the_site_stays_one_where_the_case_names_it_too(net: Net) -> None:
    net.world.names |= {"index.example": ["10.0.0.7"]}
    access = replace(net.access, pip={"index-url": (INDEX,)})
    with net.build("/f/x.whl", access=access) as build:
        net.world.servers[("10.0.0.7", 443)] = net.world.servers[(PUBLIC, 443)]
        for page in ("/index/0/pkg/", "/place/https/index.example/whl/cpu/pkg/"):
            assert build.get(page).status == 200, build.address.notes
            assert build.get("/file/https/index.example/f/x.whl").body == WHEEL
        assert build.get("/place/https/index.example/stable.html").status == 403, "which the case alone names"


WORDS = {
    "index": ["--index-url", INDEX],
    "index-joined": [f"--index-url={INDEX}"],
    "page": ["--no-index", "--find-links", PAGE],
    "page-joined": ["--no-index", f"-f{PAGE}"],
}


@pytest.mark.system
@pytest.mark.parametrize("places", [f"{INDEX} {PAGE}", ""], ids=["named", "not-named"])
@pytest.mark.parametrize(
    "words",
    [pytest.param(words, id=name, marks=[pytest.mark.nightly] * (name != "index")) for name, words in WORDS.items()],
)
def test_pip_of_an_untrusted_build_installs_what_an_index_links_to(net: Net, words: list[str], places: str) -> None:
    """As a step runs it, whose only way out is the gateway. Without the names it would ask the other host itself."""
    pytest.importorskip("pip")
    data, name = wheel(net.folder, "linked"), "linked-1.0-py3-none-any.whl"
    page = plain(f'<a href="https://files.example/{name}#sha256={hashlib.sha256(data).hexdigest()}">x</a>'.encode())
    files = {"/whl/cpu/linked/": page, "/stable.html": page, name: plain(data)}
    with net.build(**files) as build, relay(build.address) as port:
        script = net.folder / "keeping_pip.py"
        script.write_text((shipped("dockerfiles") / "keeping_pip.py").read_text().replace("17890", str(port)))
        proxies = dict.fromkeys(("http_proxy", "https_proxy"), f"http://127.0.0.1:{port}")
        environ = {"PIP_CONFIG_FILE": os.devnull, "PATH": "/usr/bin:/bin", "HOME": str(net.folder), **proxies}
        environ |= {"no_proxy": "127.0.0.1", "REPROKIT_PLACES": places, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        environ |= {"PIP_CERT": str(net.authority.folder / "ca.pem")}
        options = ["--no-cache-dir", "--retries=0", "--no-deps", "--target", str(net.folder / "t")]
        done = subprocess.run(
            [sys.executable, script, "install", *options, *words, "linked"],
            env=environ,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.returncode == 0) == bool(places), done.stderr
    assert (net.folder / "t" / "linked.py").exists() == bool(places)
    if not places:
        assert "files.example:443 is not among the hosts" in str(build.address.notes)


@pytest.mark.parametrize(
    ("words", "places"),
    [
        ("--extra-index-url https://index.example/whl/cpu x", {"https://index.example/whl/cpu"}),
        (
            "--index-url=https://a.example/simple -f 'https://b.example/x?y&z' x",
            {"https://a.example/simple", "https://b.example/x?y&z"},
        ),
        (
            "'--find-links=https://b.example/stable.html' -ihttps://c.example/s",
            {"https://b.example/stable.html", "https://c.example/s"},
        ),
        ("--find-links https://b.example/x-1.0.tar.gz", set()),  # a file, not a page
        ("--index-url https://me:word@a.example/simple", set()),
        ("--index-url https://a.example:99999/simple", set()),
        ("'x @ https://a.example/x.whl' --log-i https://d.example/", set()),
    ],
)
def test_the_places_that_steps_of_pip_name(words: str, places: set[str]) -> None:
    assert named_places(BuildRequest(tag="t", dockerfile=f"FROM x\nRUN pip install {words}\n", context={})) == places

"""The host's pip configuration on its way into a build."""

from __future__ import annotations

import configparser
import netrc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reprokit.case.trust import Trust
from reprokit.core.errors import UsageError
from reprokit.engine import failure
from reprokit.engine.docker import session
from reprokit.engine.podman import engine
from reprokit.engine.protocol import Progress
from reprokit.engine.site import Settings, Site, assembly, authorities, current, network, pipconfig
from reprokit.engine.site.assembly import RELAYED

LOOPBACK = "127.0.0.1,localhost,::1"


@pytest.fixture(autouse=True)
def _no_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """This machine's own system-wide settings are not part of these tests."""
    monkeypatch.setattr(pipconfig, "SYSTEM", tmp_path / "etc-pip.conf")
    monkeypatch.setattr(authorities, "ANCHORS", ())
    monkeypatch.setattr(network, "APT_FILES", ())


def home(tmp_path: Path, conf: str = "", **environ: str) -> dict[str, str]:
    """The environment of a user with that pip.conf."""
    path = tmp_path / ".config/pip/pip.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(conf)
    return {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path / "xdg"), **environ}


def site(environ: dict[str, str], settings: Settings | None = None) -> Site:
    return current(environ, settings or Settings())


def pip_conf(served_secrets: object) -> dict[str, str]:
    assert isinstance(served_secrets, dict)
    parser = configparser.RawConfigParser()
    parser.read_string(served_secrets["pip_conf"].decode())
    return dict(parser["global"])


def test_own_indexes_stand_in_for_the_hosts(tmp_path: Path) -> None:
    conf = "[global]\nindex-url = https://user\nextra-index-url = https://extra\nno-index = true\ntrusted-host = a b\n"
    own = Settings(pip_index_url="http://me:s3cr3t@plain.example:81/simple")
    with site(home(tmp_path, conf, PIP_INDEX_URL="https://variable"), own).serving() as served:
        found = pip_conf(served.secrets)
    assert found["index-url"] == f"{RELAYED}/index/0"
    assert found["trusted-host"].split() == ["a", "b", "plain.example:81"]
    assert found["extra-index-url"] == f"{RELAYED}/index/1"
    assert "no-index" not in found
    assert "s3cr3t" not in str(served.secrets)
    assert served.redact(f"GET {RELAYED}/index/0/six/") == "GET http://plain.example:81/simple/six/"
    assert served.redact("Looking at http://me:s3cr3t@plain") == "Looking at http://me:<secret>@plain"
    with site(home(tmp_path, conf), Settings(pip_extra_index_urls=("https://x", "https://y"))).serving() as served:
        found = pip_conf(served.secrets)
    assert found["no-index"] == "true"
    assert "index-url" not in found


def test_order_of_files_sections_and_variables(tmp_path: Path) -> None:
    environ = home(tmp_path, "[global]\nindex-url = https://user\ntimeout = 1\nretries = 9\n[install]\nretries = 2\n")
    (tmp_path / ".pip").mkdir()
    (tmp_path / ".pip/pip.conf").write_text("[global]\nindex-url = https://legacy\npre = true\n")
    (tmp_path / "xdg/pip").mkdir(parents=True)
    (tmp_path / "xdg/pip/pip.conf").write_text("[install]\nindex-url = https://system\n[list]\nformat = json\n")
    venv = tmp_path / "venv"
    venv.mkdir()
    (venv / "pip.conf").write_text("[global]\nproxy = venv:1\n")
    found = pipconfig.read({**environ, "VIRTUAL_ENV": str(venv), "PIP_DEFAULT_TIMEOUT": "60"})
    assert found == {
        "index-url": "https://system",  # the section install beats global, whatever the file
        "timeout": "60",
        "retries": "2",
        "pre": "true",
        "proxy": "venv:1",
    }


def test_pip_config_file(tmp_path: Path) -> None:
    environ = home(tmp_path, "[global]\nindex-url = https://user\n")
    named = tmp_path / "named.conf"
    named.write_text("[global]\nextra_index_url = https://a\n  https://b\n")
    assert pipconfig.read({**environ, "PIP_CONFIG_FILE": str(named)}) == {"extra-index-url": "https://a\nhttps://b"}
    assert pipconfig.read({**environ, "PIP_CONFIG_FILE": "/dev/null", "PIP_INDEX_URL": "https://e"}) == {
        "index-url": "https://e"
    }


@pytest.mark.system
def test_it_agrees_with_pip_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipconfig, "SYSTEM", Path("/etc/pip.conf"))  # which pip reads as well
    environ = home(
        tmp_path, "[global]\nindex-url = https://a/%40x\nfind-links =\n    /x\n    /y\n[install]\nno-index = true\n"
    )
    environ |= {"PIP_TRUSTED_HOST": "h1 h2", "PATH": "/usr/bin:/bin"}
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], env=environ, capture_output=True, text=True, check=False
    )
    if listed.returncode:
        pytest.skip("this interpreter has no pip")
    said = {}
    for line in listed.stdout.splitlines():
        key, _, value = line.partition("=")
        if (option := key.rpartition(".")[2]) in pipconfig.KEPT:
            said[option] = value.strip("'").replace("\\n", "\n").split()
    assert {key: value.split() for key, value in pipconfig.read(environ, prefix=sys.prefix).items()} == said


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"pip\.conf cannot be read"):
        pipconfig.read(home(tmp_path, "index-url = x\n"))


def test_a_host_without_settings_has_pips_own_index(tmp_path: Path) -> None:
    bare = site(home(tmp_path))
    with bare.serving() as served:
        assert set(served.secrets) == {"pip_conf", "apt_conf"}
        assert pip_conf(served.secrets)["index-url"] == f"{RELAYED}/index/0"
        assert f'Acquire::http::Proxy "{RELAYED}";' in served.secrets["apt_conf"].decode()
        assert served.environ == {}
        assert served.network == "default"
        assert served.gateway is not None
        assert served.gateway.is_socket()
        assert served.redact("plain text") == "plain text"
    assert not served.gateway.exists()


CREDENTIALS = """\
[global]
index-url = https://u:p%40ss@index.example/simple
extra-index-url = https://t0ken@b.example/s
    https://c.example/s
find-links = https://l:l1nk@links.example/
proxy = http://proxy-user:pr0xy@proxy.example:3128
trusted-host = c.example
"""
SECRET = ("p%40ss", "p@ss", "t0ken", "l1nk", "pr0xy", 's#cr"et', "upl0ad")


@pytest.mark.parametrize("trust", list(Trust))
@pytest.mark.parametrize("reached", [True, False], ids=["gateway", "no-gateway"])
@pytest.mark.parametrize("more", ["", "no-index = true\n"], ids=["index", "no-index"])
def test_no_build_has_a_password_of_the_site(tmp_path: Path, trust: Trust, reached: bool, more: str) -> None:
    (tmp_path / ".netrc").write_text(
        'machine c.example login me password s#cr"et\nmachine git.example login x password upl0ad\n'
    )
    made = site(
        home(tmp_path, CREDENTIALS + more, NO_PROXY="intern"), Settings(apt_mirror="http://a:apt1@mirror.example/d")
    )
    assert "p%40ss" not in repr(made)
    with made.serving(trust, reached=reached) as served:
        seen = str(served.secrets) + str(served.environ)
        assert [word for word in (*SECRET, "apt1") if word in seen] == []
        assert "netrc" not in served.secrets
        assert "proxy" not in pip_conf(served.secrets)
        assert served.redact("GET https://u:p%40ss@x p@ss t0ken") == "GET https://u:<secret>@x <secret> <secret>"
        assert (
            served.redact("clone https://a:b@c.example of /home/ann")
            == "clone https://<credentials>@c.example of /home/ann"
        )
        assert served.redact('401 for me, who said s#cr"et') == "401 for me, who said <secret>"


@pytest.mark.parametrize(
    ("trust", "network", "exempt"),
    [
        (Trust.OWN, "default", f"{LOOPBACK},intern"),
        (Trust.REVIEWED, "default", f"{LOOPBACK},intern"),
        (Trust.STRANGER, "none", LOOPBACK),
    ],
)
def test_network_and_proxy_of_a_build(tmp_path: Path, trust: Trust, network: str, exempt: str) -> None:
    made = site(home(tmp_path, "[global]\nproxy = http://u:pr0xy@proxy.example:3128\n", NO_PROXY="intern"))
    with made.serving(trust) as served:
        assert served.network == network
        assert {served.environ[name] for name in ("http_proxy", "https_proxy", "HTTP_PROXY")} == {RELAYED}
        assert served.environ["no_proxy"] == served.environ["NO_PROXY"] == exempt
        assert f"export http_proxy={RELAYED}\n" in served.secrets["site_env"].decode()
    with made.serving(trust, reached=False) as served:
        assert served.network == network
        assert served.environ["http_proxy"] == "http://proxy.example:3128"
        assert "the engine is on another machine" in served.warnings[0]


def test_without_proxies_only_untrusted_builds_are_led_through_the_gateway(tmp_path: Path) -> None:
    made = site(home(tmp_path))
    with made.serving(Trust.REVIEWED) as served:
        assert served.environ == {}
    with made.serving(Trust.STRANGER) as served:
        assert served.environ["https_proxy"] == RELAYED


def test_what_a_build_writes_holds_no_word_of_the_hosts_netrc(tmp_path: Path) -> None:
    (tmp_path / ".netrc").write_text(
        "machine index.example login build-bot7 password Pa55/word\nmachine other.example login ann password un-told\n"
        "machine api.example login __token__ password pypi-x1\n"
    )
    with site(home(tmp_path, "[global]\nindex-url = https://index.example/simple\n")).serving() as served:
        trace = session.Trace(lambda step: None, served.redact)

        def happens(**fields: Any) -> None:
            status = session.StatusResponse()
            name = "[1/1] RUN curl --user build-bot7:Pa55/word https://other.example"
            status.vertexes.add(digest="a", name=name, **fields).started.seconds = 1
            trace.feed(status.SerializeToString())

        happens()
        for piece in (b"build-bot7 tried Pa5", b"5/word and un-told\n", b"ann@other.example, __token__, Pa55%2Fword"):
            status = session.StatusResponse()
            status.logs.add(vertex="a", msg=piece)
            trace.feed(status.SerializeToString())
        happens(error="exit code 1: Pa55/word is not right")
    step, tail, error = trace.failed()
    assert tail == ("<user> tried <secret> and <secret>", "<user>@other.example, __token__, <secret>")
    raised = failure.of_build(error, step=step, tail=tail)
    assert not [word for word in ("Pa55", "un-told", "build-bot7") if word in str(raised) + repr(vars(raised))]


def test_buildahs_text_is_redacted_by_lines_wherever_it_is_cut() -> None:
    seen: list[Progress] = []
    steps = engine.Steps(seen.append, lambda text: text.replace("s3cret", "-"))
    for piece in ("STEP 1/1: RUN x\nsays s3c", "ret\nand s3", "cret"):
        steps.feed(piece)
    assert steps.last() == ("RUN x", ("says -", "and -"))
    assert seen[-1].log == "says -\n"


def test_settings_win_over_the_environment(tmp_path: Path) -> None:
    made = site(home(tmp_path, HTTPS_PROXY="http://old:1"), Settings(proxy="http://new:2"))
    assert made.access.proxies["HTTPS_PROXY"] == made.access.proxies["https_proxy"] == "http://new:2"


def test_render_keeps_lists_apart() -> None:
    text = pipconfig.render({"find-links": ("a", "b"), "index-url": ("https://x/%40",)})
    assert text == "[global]\nfind-links =\n    a\n    b\nindex-url = https://x/%40\n"


def test_what_does_not_exist_is_left_out_with_a_warning(tmp_path: Path) -> None:
    made = site(home(tmp_path, f"[global]\nfind-links = {tmp_path}/absent https://x/\n"))
    assert made.access.pip["find-links"] == ("https://x/",)
    assert "absent, which does not exist" in made.warnings[0]


def test_local_folders_are_the_gateways(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    made = site(home(tmp_path, f"[global]\nfind-links = {wheels} https://x/\nindex-url = file://{wheels}\n"))
    with made.serving() as served:
        assert pip_conf(served.secrets)["find-links"].split() == [f"{RELAYED}/links/0/", f"{RELAYED}/links/1/"]
        assert str(wheels) not in served.secrets["pip_conf"].decode()
        assert served.redact(f"Looking in links: {RELAYED}/links/0/") == f"Looking in links: {wheels}"
        assert served.network == "default"
    with made.serving(reached=False) as served:
        assert pip_conf(served.secrets) == {"find-links": "https://x/"}
        assert "folders of this host" in served.warnings[0]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="netrc knows quotes since Python 3.11")
@pytest.mark.parametrize("word", ["plain", "a b", 'a"b', '"a', "a\\b", "#a", 'x "\\ y'])
def test_netrc_words_come_back_as_they_were(tmp_path: Path, word: str) -> None:
    path = tmp_path / "netrc"
    path.write_text(f"machine h login l password {assembly._quoted(word)}\n")
    assert assembly.netrc_for(["h"], {"NETRC": str(path)}).decode() == path.read_text()
    assert netrc.netrc(str(path)).hosts["h"] == ("l", "", word)


def test_where_interpreters_and_compilers_come_from_reaches_builds_as_secrets(tmp_path: Path) -> None:
    listing = tmp_path / "downloads.json"
    listing.write_text("{}")
    (tmp_path / ".netrc").write_text("machine uv.example login me password n3trc\nmachine x login y password z\n")
    settings = Settings(
        uv_python_mirror="http://uv.example:8080/it's",
        uv_python_downloads=str(listing),
        conda_channel="https://me:s3cret@mirror.example/conda-forge",
    )
    found = site(home(tmp_path), settings)
    assert "s3cret" in found.known
    with found.serving() as served:
        assert served.secrets["uv_downloads"] == b"{}"
        # The steps that have these run no code of a case.
        assert served.secrets["conda_channel"] == b"https://me:s3cret@mirror.example/conda-forge"
        assert served.secrets["netrc"] == b"machine uv.example login me password n3trc\n"
        said = subprocess.run(
            ["sh", "-c", served.secrets["uv_python"].decode() + "env"], capture_output=True, text=True, check=True
        ).stdout
        assert "UV_PYTHON_INSTALL_MIRROR=http://uv.example:8080/it's\n" in said
        assert "UV_PYTHON_DOWNLOADS_JSON_URL=/run/secrets/uv_downloads\n" in said
    with found.serving(Trust.STRANGER) as served:
        assert served.secrets["conda_channel"] == b"https://mirror.example/conda-forge"
        assert "netrc" not in served.secrets
    with site(home(tmp_path)).serving() as plain:
        assert not {"uv_python", "uv_downloads", "conda_channel"} & set(plain.secrets)


def test_a_listing_that_is_too_large_for_a_secret_is_refused(tmp_path: Path) -> None:
    listing = tmp_path / "downloads.json"
    with pytest.raises(UsageError, match=r"uv_python_downloads: .*downloads.json cannot be read"):
        site(home(tmp_path), Settings(uv_python_downloads=str(listing)))
    listing.write_bytes(b" " * (authorities.MAX_BYTES + 1))
    with pytest.raises(UsageError, match=r"leave out what this site does not serve, or name a URL"):
        site(home(tmp_path), Settings(uv_python_downloads=str(listing)))

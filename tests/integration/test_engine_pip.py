"""What the host's pip can install, a build can install; and nothing of the host's settings stays in the image."""

from __future__ import annotations

import base64
import hashlib
import http.server
import os
import subprocess
import sys
import threading
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from reprokit.case.trust import Trust
from reprokit.engine import bases, site
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.protocol import Progress
from reprokit.engine.site import network, pipconfig
from reprokit.engine.site.config import Settings
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from tests.conftest import docker, never, remove_image, site_build, trial
from tests.unit.environment.builders import cell
from tests.unit.serving import Quiet

pytestmark = pytest.mark.integration

PASSWORD = "p4ss%21w0rd"
PIP = "pip install --break-system-packages"


def wheel(folder: Path, name: str, version: str = "1.0") -> Path:
    """A wheel that holds one module."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"print('{name} {version}')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(file, text)
    return path


@pytest.fixture(scope="module")
def python(engine: DockerEngine) -> Iterator[str]:
    """The tag of a Debian image with pip, made with this host's own settings."""
    spec = cell({"os": "debian-12"})
    base = bases.ensure(
        engine,
        resolve(spec, Supply(base_source=bases.detect_source("auto"))).base,
        Trust.OWN,
        never(),
        lambda _: None,
    )
    tag = f"reprokit-test/python:{uuid.uuid4().hex[:8]}"
    script = (
        "apt-get update && apt-get install -y --no-install-recommends python3-pip && "
        "mkdir -p /workspace && (id repro || useradd -m -u 1000 repro)"
    )
    engine.build(site_build(tag, base.tag, script), site.current(), lambda _: None, never())
    yield tag
    remove_image(tag)


@pytest.fixture
def tag() -> Iterator[str]:
    """A tag of its own, removed afterwards."""
    name = f"reprokit-test/pip:{uuid.uuid4().hex[:12]}"
    yield name
    remove_image(name)


def host(tmp_path: Path, conf: str, settings: Settings | None = None, **environ: str) -> site.Site:
    """The site of a user whose home is ``tmp_path``, whose pip.conf is that text, and who has no other settings.

    What this machine has for all its users is hidden: a proxy of its own on loopback would change the builds' network.
    """
    (tmp_path / "pip.conf").write_text(conf)
    nowhere = {"XDG_CONFIG_DIRS": str(tmp_path / "none"), "VIRTUAL_ENV": str(tmp_path / "none")}
    mine = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PIP_CONFIG_FILE": str(tmp_path / "pip.conf")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipconfig, "SYSTEM", tmp_path / "none")
        patch.setattr(network, "APT_FILES", ())
        return site.current({**mine, **nowhere, **environ}, settings or Settings())


def output_of(engine: DockerEngine, image: str, script: str) -> str:
    out: list[bytes] = []
    engine.run(trial(image, script), out.append, never())
    return b"".join(out).decode()


class _Index(Quiet):
    """A PEP 503 index that asks for a password."""

    root: Path

    def do_GET(self) -> None:
        """Answer with a page, a file, 401 or 404."""
        expected = base64.b64encode(b"deploy:p4ss!w0rd").decode()
        path = self.root / self.path.lstrip("/")
        if self.headers.get("Authorization") != f"Basic {expected}":
            status, body = 401, b""
        elif path.is_dir():
            links = "".join(f'<a href="{file.name}">{file.name}</a>' for file in path.iterdir())
            status, body = 200, links.encode()
        else:
            status, body = (200, path.read_bytes()) if path.is_file() else (404, b"")
        self.send_response(status)
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="index"')
        self.send_header("Content-Type", "text/html" if path.is_dir() else "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[int]:
    """The port of an index on loopback with the project ``guarded``."""
    wheel(tmp_path / "served" / "simple" / "guarded", "guarded")
    handler = type("Handler", (_Index,), {"root": tmp_path / "served"})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def traces_in(image: str, words: list[bytes], folder: Path) -> list[str]:
    """Where those words turn up: history, configuration, or any layer of the image (compressed or not)."""
    found = [word.decode() for word in words if word.decode() in docker("history", "--no-trunc", image)]
    found += [word.decode() for word in words if word.decode() in docker("inspect", image)]
    archive = folder / "image.tar"
    subprocess.run(["docker", "save", "-o", archive, image], check=True)
    overlap = max(map(len, words))
    with archive.open("rb") as reader:
        tail = b""
        while chunk := reader.read(2**22):
            found += [word.decode() for word in words if word in tail + chunk]
            tail = chunk[-overlap:]
    archive.unlink()
    return found


@pytest.mark.parametrize("where", ["url", "netrc"])
def test_an_index_with_a_password_serves_builds_that_do_not_see_it(
    engine: DockerEngine, python: str, tag: str, tmp_path: Path, index: int, where: str
) -> None:
    login = f"deploy:{PASSWORD}@" if where == "url" else ""
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login deploy password p4ss!w0rd\n" if not login else "")
    (tmp_path / ".netrc").chmod(0o600)
    pem = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=site", "-keyout", "/dev/null"],
        capture_output=True,
        check=True,
    ).stdout
    (tmp_path / "ca.pem").write_bytes(pem)
    conf = f"[global]\nindex-url = http://{login}127.0.0.1:{index}/simple\ncert = {tmp_path}/ca.pem\n"
    mine = host(tmp_path, conf)
    log: list[Progress] = []
    script = f"test -s /run/secrets/ca_bundle && ! grep -r p[4]ss /run && {PIP} guarded"
    engine.build(site_build(tag, python, script), mine, log.append, never())
    assert "guarded 1.0" in output_of(engine, tag, "python3 -c 'import guarded'")
    words = [b"p4ss", f"127.0.0.1:{index}".encode(), pem.splitlines()[5], b"deploy:", str(tmp_path).encode()]
    assert traces_in(tag, words, tmp_path) == []
    assert traces_in(tag, [b"print('guarded 1.0')"], tmp_path)  # the search does find what is there
    assert not any("p4ss" in step.log + step.name for step in log)


class _Proxy(_Index):
    """A proxy that asks for a password, and has the index of another host behind it."""

    def do_GET(self) -> None:
        """Answer as that host would, or with 407."""
        if self.headers.get("Proxy-Authorization") != f"Basic {base64.b64encode(b'proxyuser:pr0xy').decode()}":
            self.send_error(407)
            return
        self.path = urlsplit(self.path).path
        super().do_GET()


def test_an_index_behind_a_proxy_with_a_password_serves_builds_that_see_neither(
    engine: DockerEngine, python: str, tag: str, tmp_path: Path
) -> None:
    wheel(tmp_path / "served" / "simple" / "guarded", "guarded")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), type("Handler", (_Proxy,), {"root": tmp_path / "served"})
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    own = tmp_path / "reprokit.toml"
    own.write_text(
        f'pip_index_url = "http://deploy:{PASSWORD}@packages.example/simple"\n'
        f'proxy = "http://proxyuser:pr0xy@127.0.0.1:{server.server_port}"\n'
    )
    settings = site.settings({"HOME": str(tmp_path), "REPROKIT_CONFIG": str(own)})
    # The configuration's index wins over the variable's.
    mine = host(tmp_path, "", settings, PIP_INDEX_URL="https://nowhere.invalid/simple")
    log: list[Progress] = []
    once = uuid.uuid4().hex  # the engine still has the layer of an earlier run
    step = site_build(tag, python, f": {once} && ! grep -r pr[0]xy /run && {PIP} guarded")
    try:
        engine.build(step, mine, log.append, never())
    finally:
        server.shutdown()
        server.server_close()
    assert "guarded 1.0" in output_of(engine, tag, "python3 -c 'import guarded'")
    words = [b"p4ss", b"deploy:", b"packages.example", b"pr0xy", b"proxyuser:", f":{server.server_port}".encode()]
    assert traces_in(tag, words, tmp_path) == []
    assert any("packages.example" in step.log for step in log)  # pip did go there
    assert not any("p4ss" in step.log or "pr0xy" in step.log for step in log)
    # Neither is part of the layer's identity: it serves a site with another index and no proxy.
    steps: list[Progress] = []
    other = host(tmp_path, "[global]\nindex-url = http://127.0.0.1:9/simple\n")
    engine.build(step, other, steps.append, never())
    assert any(step.cached and "guarded" in step.name for step in steps)


def test_local_folders_are_served(engine: DockerEngine, python: str, tag: str, tmp_path: Path) -> None:
    wheel(tmp_path / "wheels", "linked", "2.0+local.1")
    packed = wheel(tmp_path / "tree" / "files", "indexed")
    page = tmp_path / "tree" / "simple" / "indexed"
    page.mkdir(parents=True)
    digest = hashlib.sha256(packed.read_bytes()).hexdigest()
    (page / "index.html").write_text(f'<a href="../../files/{packed.name}#sha256={digest}">{packed.name}</a>')
    (tmp_path / "constraints.txt").write_text("linked<3\n")
    conf = (
        f"[global]\nindex-url = file://{tmp_path}/tree/simple\nfind-links = {tmp_path}/wheels\n"
        f"[install]\nconstraint = {tmp_path}/constraints.txt\n"
    )
    step = site_build(tag, python, f"{PIP} linked indexed")
    engine.build(step, host(tmp_path, conf), lambda _: None, never())
    assert output_of(engine, tag, "python3 -c 'import linked, indexed'") == "linked 2.0+local.1\nindexed 1.0\n"
    assert traces_in(tag, [str(tmp_path).encode()], tmp_path) == []
    # Another gateway, the same layer.
    steps: list[Progress] = []
    engine.build(step, host(tmp_path, conf), steps.append, never())
    assert any(step.cached and "linked" in step.name for step in steps)


def test_this_hosts_own_pip(engine: DockerEngine, python: str, tag: str, tmp_path: Path) -> None:
    """A small wheel from wherever this host's pip finds it: the site's real CA bundle, proxies and indexes."""
    words = [
        "download",
        "--quiet",
        "--retries",
        "1",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--dest",
        str(tmp_path),
        "colorama",
    ]
    if subprocess.run([sys.executable, "-m", "pip", *words], capture_output=True, check=False).returncode:
        pytest.skip("this host's own pip reaches no index that has colorama")
    step = site_build(tag, python, f"{PIP} --only-binary :all: colorama")
    engine.build(step, site.current(), lambda _: None, never())
    assert "colorama" in output_of(engine, tag, "python3 -c 'import colorama; print(colorama)'")

"""pip itself, through a relay, as a build runs it."""

from __future__ import annotations

import hashlib
import json
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reprokit.engine.site import pipconfig
from reprokit.engine.site.gateway import RELAY_PORT, SiteAccess
from reprokit.engine.site.gateway.server import Address
from tests.unit.engine.gateway_world import World, gateway, plain

pytestmark = pytest.mark.system
JSON = "application/vnd.pypi.simple.v1+json"


def wheel(folder: Path, name: str, needs: str = "") -> bytes:
    """A wheel that holds one module."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    more = f"Requires-Dist: {needs}\n" if needs else ""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", f"print('{name}')\n")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{more}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return path.read_bytes()


@contextmanager
def relay(address: Address) -> Iterator[int]:
    """A port of loopback that leads to the gateway's socket: what a build has at the relay's own port."""

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while block := source.recv(65536):
                target.sendall(block)
            target.shutdown(socket.SHUT_WR)

    def accept() -> None:
        with suppress(OSError):
            while True:
                build, _ = listener.accept()
                host = socket.socket(socket.AF_UNIX)
                host.connect(str(address.socket))
                for ends in ((build, host), (host, build)):
                    threading.Thread(target=copy, args=ends, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=accept, daemon=True).start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)


def pip(folder: Path, address: Address, *words: str) -> subprocess.CompletedProcess[str]:
    """pip with the gateway's options and nothing of this host's."""
    with relay(address) as port:
        conf = folder / "pip.conf"
        conf.write_text(pipconfig.render(address.pip).replace(f":{RELAY_PORT}", f":{port}"))
        environ = {"PIP_CONFIG_FILE": str(conf), "HOME": str(folder), "XDG_CONFIG_DIRS": str(folder / "none")}
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--no-cache-dir",
                "--retries=0",
                "--target",
                str(folder / "t"),
                *words,
            ],
            env={**environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


@pytest.fixture
def world() -> Iterator[World]:
    """Nothing but names."""
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False).returncode:
        pytest.skip("this interpreter has no pip")
    world = World()
    yield world
    world.close()


@pytest.mark.parametrize(("kind", "forged"), [("html", False), ("json", True)], ids=["good", "forged"])
def test_pip_installs_what_verifies_and_nothing_else(world: World, tmp_path: Path, kind: str, forged: bool) -> None:
    one, two = wheel(tmp_path, "one", "two>=1"), wheel(tmp_path, "two")
    replies = {
        "/f/one-1.0-py3-none-any.whl": plain(one),
        "/f/two-1.0-py3-none-any.whl": plain(two[::-1] if forged else two),
    }
    for name, data in (("one", one), ("two", two)):
        file, digest = f"{name}-1.0-py3-none-any.whl", hashlib.sha256(data).hexdigest()
        listed = {"filename": file, "url": f"/f/{file}", "hashes": {"sha256": digest}}
        body = json.dumps({"meta": {"api-version": "1.0"}, "name": name, "files": [listed]}).encode()
        html = f'<a href="/f/{file}#sha256={digest}">{file}</a>'.encode()
        replies[f"/simple/{name}/"] = plain(body, JSON) if kind == "json" else plain(html)
    index = world.serve(replies)
    access = SiteAccess(pip={"index-url": ("http://me:w0rd@index.example/simple",)})
    with gateway(world, tmp_path, access) as build:
        done = pip(tmp_path, build.address, "one")
    assert (done.returncode == 0) is not forged, done.stderr
    assert (tmp_path / "t/two.py").exists() is not forged
    assert "w0rd" not in done.stdout + done.stderr + (tmp_path / "pip.conf").read_text()
    assert index.paths()[:2] == ["GET /simple/one/", "GET /f/one-1.0-py3-none-any.whl"]
    if forged:
        assert any("two-1.0-py3-none-any.whl is not what the index says" in note for note in build.address.notes)

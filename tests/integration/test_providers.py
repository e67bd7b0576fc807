"""An interpreter of uv's, from a mirror of this site: uv's own downloads, with the interpreter that runs the tests."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import json
import platform
import shutil
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.environment.catalog import OURS
from tests.conftest import own_cache
from tests.integration.test_run import User
from tests.unit.serving import Quiet, QuietFiles

HERE = Path(sys.base_prefix)
VERSION = platform.python_version()
pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        HERE in {Path("/usr"), Path("/usr/local")} or VERSION not in OURS.uv_pythons(),
        reason="the tests' interpreter is not a tree of its own, or of no version that uv has",
    ),
]

CASE = """\
schema: reprokit/v1
id: by-uv
title: A Python by uv
matrix: {{os: [debian-12], python: ["{version}"]}}
environment: {{pip: ["iniconfig==1.1.1"]}}
command: python -c "import iniconfig, sys; print(sys.version.split()[0], sys.base_prefix)"
expect: {{reproduces: none}}
"""


def archive() -> bytes:
    """This interpreter as a tree that works wherever it is put, packed as uv expects it."""
    minor = VERSION.rpartition(".")[0]
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:

        def keep(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
            left_out = {"__pycache__", "site-packages", "test", "idlelib", "tkinter"} & set(Path(info.name).parts)
            return None if left_out or info.name.endswith(".a") else info

        for folder in ("bin", "include", "lib"):
            tar.add(HERE / folder, f"python/{folder}", filter=keep)
        # Where the program looks for its library: beside itself, whatever folder it was built for.
        binary = (HERE / "bin" / f"python{minor}").read_bytes()
        built_for = f"{HERE}/lib".encode() + b"\0"
        info = tarfile.TarInfo(f"python/bin/python{minor}")
        info.size, info.mode = len(binary), 0o755
        tar.addfile(info, io.BytesIO(binary.replace(built_for, b"$ORIGIN/../lib".ljust(len(built_for), b"\0"))))
    return packed.getvalue()


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Path]:
    """A listing of one interpreter, which this host serves."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    name = f"cpython-{VERSION}-x86_64-unknown-linux-gnu-install_only_stripped.tar.gz"
    (folder / name).write_bytes(content := archive())

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietFiles, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    major, minor, patch = (int(part) for part in VERSION.split("."))
    row = {
        "name": "cpython",
        "arch": {"family": "x86_64", "variant": None},
        "os": "linux",
        "libc": "gnu",
        "major": major,
        "minor": minor,
        "patch": patch,
        "prerelease": "",
        "url": f"http://127.0.0.1:{server.server_port}/{name}",
        "sha256": hashlib.sha256(content).hexdigest(),
        "variant": None,
        "build": "1",
    }
    listing = tmp_path / "downloads.json"
    listing.write_text(json.dumps({f"cpython-{VERSION}-linux-x86_64-gnu": row}))
    yield listing
    server.shutdown()
    server.server_close()


def test_uv_serves_a_python_from_the_sites_mirror(tmp_path: Path, mirror: Path) -> None:
    user = User(tmp_path)
    user.write("case.yaml", CASE.format(version=VERSION))
    user.write("reprokit.toml", f'python_providers = ["uv"]\nuv_python_downloads = "{mirror}"\n')
    user.types("run", "case.yaml", "--base", "bootstrap")
    (cell,) = user.cells()
    assert cell["verdict"] == "not-reproduced", cell["reason"]
    assert user.types("show", "last", "1", "--log").split() == [VERSION, f"/opt/python/{VERSION}"]
    assert cell["details"]["served_by"]["python"].startswith("uv==")
    assert cell["environment"]["python"] == VERSION
    assert not {"python3", "python3-venv"} & set(cell["environment"]["packages"]["apt"])
    assert "http://127.0.0.1" not in user.types("show", "last", "1")  # the site's mirror stays on this site


def test_uv_serves_a_python_to_a_virtual_environment(tmp_path: Path, mirror: Path) -> None:
    uv = shutil.which("uv")
    if uv is None:
        pytest.skip("needs uv")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uv").symlink_to(uv)
    with own_cache() as cache:
        user = User(tmp_path)
        user.environment |= {"PATH": f"{tmp_path}/bin:/usr/bin:/bin", "PYENV_ROOT": "", "HOME": str(tmp_path)}
        user.environment["XDG_CACHE_HOME"] = str(cache)
        text = (
            CASE.format(version=VERSION)
            .replace("os: [debian-12], ", "")
            .replace('environment: {pip: ["iniconfig==1.1.1"]}\n', "")
        )
        user.write("case.yaml", text.replace("import iniconfig, sys", "import sys"))
        user.write("reprokit.toml", f'python_providers = ["uv"]\nuv_python_downloads = "{mirror}"\n')
        user.types("run", "case.yaml", "--engine", "venv")
        (cell,) = user.cells()
        assert cell["verdict"] == "not-reproduced", cell["reason"]
        assert next((cache / "reprokit" / "venv" / "pythons").glob("cpython-*/bin/python3"))
        assert user.types("show", "last", "1", "--log").split()[0] == VERSION


def test_a_conda_channel_of_this_host_is_asked_by_the_build(tmp_path: Path) -> None:
    asked: list[str] = []

    class Empty(Quiet):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_error(404)

        do_HEAD = do_GET

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    user = User(tmp_path)
    case = CASE.format(version="3.11").replace('python: ["3.11"]', 'gcc: ["13.2"]')
    user.write("case.yaml", case)
    channel = f"http://127.0.0.1:{server.server_port}/forge"
    user.write("reprokit.toml", f'gcc_providers = ["conda"]\nconda_channel = "{channel}"\n')
    user.types("run", "case.yaml", "--base", "bootstrap", status=3)
    server.shutdown()
    server.server_close()
    assert any("/repodata" in path for path in asked)


def test_a_python_whose_downloads_do_not_answer_is_unsupported(tmp_path: Path) -> None:
    user = User(tmp_path)
    user.write("case.yaml", CASE.format(version="3.10"))
    user.write("reprokit.toml", 'uv_python_mirror = "http://127.0.0.1:9"\n')
    user.types("run", "case.yaml", "--base", "bootstrap", status=3)
    (cell,) = user.cells()
    assert cell["verdict"] == "unsupported"
    assert "python 3.10 is not available on debian-12: its packages have 3.11.2" in cell["reason"]
    assert "its downloads are not available here (uv_python_mirror" in cell["reason"]

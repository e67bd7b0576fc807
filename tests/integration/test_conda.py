"""CUDA, cuDNN and an interpreter of a conda channel that the test makes and serves on this host."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import json
import tarfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_providers import HERE, VERSION, archive
from tests.integration.test_run import User
from tests.unit.serving import QuietFiles

pytestmark = pytest.mark.integration

CUDNN_H = b"#define CUDNN_MAJOR 7\n#define CUDNN_MINOR 6\n#define CUDNN_PATCHLEVEL 99\n"
LIBRARIES: Mapping[str, bytes | str] = {
    "lib/libcudart.so": "libcudart.so.10.1",
    "lib/libcudart.so.10.1": "libcudart.so.10.1.999",
    "lib/libcudart.so.10.1.999": b"runtime",
    "lib/libnvvm.so": "libnvvm.so.3",
    "lib/libnvvm.so.3": b"nvvm",
    "lib/libdevice.10.bc": b"bitcode",
}

OWN = """\
cuda: {conda: [10.1.999], conda_cudnn: {7.6.99.1: ["10.1"]}}
"""
CASE = """\
schema: reprokit/v1
id: by-conda
title: Libraries by conda
matrix:
  include:
    - {{os: debian-12, cuda: "10.1", cudnn: "7.6"{python}}}
command: |
  python3 -c "import sys; print(sys.version.split()[0], sys.base_prefix)"
  cat $CUDA_HOME/lib64/libcudnn.so
  cd /usr/local/cuda
  cat lib64/libcudart.so nvvm/lib64/libnvvm.so nvvm/libdevice/libdevice.10.bc
  ls lib64/libgcc_s.so.1 || true
expect: {{reproduces: none}}
"""


class Channel:
    """A folder that is a conda channel of packages for linux-64."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "linux-64"
        self.folder.mkdir(parents=True)
        self.packages: dict[str, Any] = {}
        (folder / "noarch").mkdir()
        (folder / "noarch" / "repodata.json").write_text(json.dumps({"packages": {}, "packages.conda": {}}))
        self.write()

    def write(self) -> None:
        index = {"info": {"subdir": "linux-64"}, "packages": self.packages, "packages.conda": {}, "repodata_version": 1}
        (self.folder / "repodata.json").write_text(json.dumps(index))

    def add(
        self,
        name: str,
        version: str,
        build: str,
        depends: Sequence[str],
        files: Mapping[str, bytes | str],
        programs: Sequence[str] = (),
    ) -> None:
        """A package of ``files``, path -> content, or what a link points to."""
        record = {"name": name, "version": version, "build": build, "build_number": 0, "depends": list(depends)}
        paths = [
            {"_path": path, "path_type": "softlink" if isinstance(content, str) else "hardlink"}
            | {"sha256": hashlib.sha256(b"" if isinstance(content, str) else content).hexdigest()}
            | {"size_in_bytes": 0 if isinstance(content, str) else len(content)}
            for path, content in files.items()
        ]
        about: dict[str, Any] = {
            "info/index.json": {**record, "subdir": "linux-64"},
            "info/paths.json": {"paths": paths, "paths_version": 1},
        }
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:bz2", compresslevel=1) as tar:
            for path, content in {**{key: json.dumps(value).encode() for key, value in about.items()}, **files}.items():
                info = tarfile.TarInfo(path)
                info.mode = 0o755 if path in programs else 0o644
                if isinstance(content, str):
                    info.type, info.linkname = tarfile.SYMTYPE, content
                    tar.addfile(info)
                else:
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        file, content = f"{name}-{version}-{build}.tar.bz2", packed.getvalue()
        (self.folder / file).write_bytes(content)
        digests = {"sha256": hashlib.sha256(content).hexdigest(), "md5": hashlib.md5(content).hexdigest()}
        self.packages[file] = {**record, "subdir": "linux-64", "size": len(content), **digests}
        self.write()


def interpreter() -> tuple[dict[str, bytes | str], list[str]]:
    """The files of the tests' interpreter, and which of them are programs."""
    files: dict[str, bytes | str] = {}
    programs = []
    with tarfile.open(fileobj=io.BytesIO(archive())) as tar:
        for info in tar:
            path = info.name.removeprefix("python/")
            if info.issym():
                files[path] = info.linkname
            elif info.isfile() and (stream := tar.extractfile(info)):
                files[path] = stream.read()
                programs += [path] if info.mode & 0o111 else []
    return files, programs


@pytest.fixture
def channel(tmp_path: Path) -> Iterator[tuple[Channel, str]]:
    """A channel with CUDA 10.1 and cuDNN 7.6.99 for it and for 10.2, and its address."""
    made = Channel(tmp_path / "channel")
    made.add("libgcc", "15.2.0", "h_0", (), {"lib/libgcc_s.so.1": b"newer than the image's"})
    made.add("cudatoolkit", "10.1.999", "h_13", ("libgcc >=3.0",), LIBRARIES)
    made.add("cudatoolkit", "10.2.89", "h_13", ("libgcc >=3.0",), {})
    for cuda in ("10.1", "10.2"):
        files = {
            "include/cudnn.h": CUDNN_H,
            "lib/libcudnn.so": "libcudnn.so.7.6.99",
            "lib/libcudnn.so.7.6.99": f"for {cuda}\n".encode(),
        }
        made.add("cudnn", "7.6.99.1", f"h{cuda}_1", (f"cudatoolkit {cuda}|{cuda}.*", "libgcc >=3.0"), files)

    served = functools.partial(QuietFiles, directory=str(tmp_path / "channel"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), served)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_a_channel_serves_cuda_and_cudnn(tmp_path: Path, channel: tuple[Channel, str]) -> None:
    user = User(tmp_path)
    user.write("case.yaml", CASE.format(python=""))
    user.write("own.yaml", OWN)
    user.write("reprokit.toml", f'conda_channel = "{channel[1]}"\ncompatibility = "own.yaml"\n')
    user.types("run", "case.yaml", "--base", "bootstrap")
    (cell,) = user.cells()
    assert cell["verdict"] == "not-reproduced", cell["reason"]
    assert (cell["environment"]["cuda"], cell["environment"]["cudnn"]) == ("10.1", "7.6.99")
    served = cell["details"]["served_by"]
    assert (served["cuda"], served["cudnn"]) == ("conda-forge cudatoolkit 10.1.999", "conda-forge cudnn 7.6.99.1")
    log = user.types("show", "last", "1", "--log")
    # the cuDNN of this CUDA, in its place; and nothing of what the packages depend on
    assert "for 10.1\nruntimenvvmbitcode" in log
    assert "cannot access 'lib64/libgcc_s.so.1'" in log
    assert channel[1] not in user.types("show", "last", "1")  # the site's mirror stays on this site


@pytest.mark.nightly
@pytest.mark.skipif(HERE in {Path("/usr"), Path("/usr/local")}, reason="the tests' interpreter is no tree of its own")
def test_a_channel_serves_an_interpreter(tmp_path: Path, channel: tuple[Channel, str]) -> None:
    made, address = channel
    files, programs = interpreter()
    made.add("python", VERSION, "h_0_cpython", ("libgcc >=3.0",), files, programs)
    made.add("pypy3.7", "7.3.3", "h_0", (), {"bin/pypy3": b"no Python"}, ("bin/pypy3",))
    made.add("python", VERSION, "4_73_pypy", ("pypy3.7 7.3.3",), {"bin/python3": "pypy3"})
    user = User(tmp_path)
    user.write("case.yaml", CASE.format(python=f', python: "{VERSION}"'))
    user.write("own.yaml", f"{OWN}python: {{conda: [{VERSION}]}}\n")
    settings = f'conda_channel = "{address}"\npython_providers = ["conda"]\ncompatibility = "own.yaml"\n'
    user.write("reprokit.toml", settings)
    user.types("run", "case.yaml", "--base", "bootstrap")
    (cell,) = user.cells()
    assert cell["verdict"] == "not-reproduced", cell["reason"]
    assert user.types("show", "last", "1", "--log").split()[:2] == [VERSION, f"/opt/python/{VERSION}"]
    assert cell["environment"]["python"] == VERSION
    assert cell["details"]["served_by"]["python"].startswith("conda-forge python /opt/python/")
    assert not {"python3", "python3-venv"} & set(cell["environment"]["packages"]["apt"])


def test_what_a_silent_channel_would_serve_is_unsupported(tmp_path: Path) -> None:
    user = User(tmp_path)
    user.write("case.yaml", CASE.format(python="").replace("10.1", "10.2"))
    user.write("own.yaml", OWN.replace("10.1", "10.2"))
    user.write("reprokit.toml", 'conda_channel = "http://127.0.0.1:9"\ncompatibility = "own.yaml"\n')
    user.types("run", "case.yaml", "--base", "bootstrap", status=3)
    (cell,) = user.cells()
    assert cell["verdict"] == "unsupported"
    assert "cuda 10.2 is not available on debian-12" in cell["reason"]
    assert "conda-forge would serve 10.2.999, but its downloads are not available here (conda_channel" in cell["reason"]

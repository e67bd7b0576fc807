"""Base images from a registry: a real one, on this host, that holds one release and not the other."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.engine.bases import own_name
from reprokit.environment.catalog import OURS
from tests.integration.test_run import User
from tests.registry_server import registry_server

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(not shutil.which("docker-registry"), reason="docker-registry is not installed"),
]

CASE = """\
schema: reprokit/v1
id: pulled
title: Starts from a registry's image
matrix: {os: [debian-12, debian-13]}
command: cat /from-the-registry
expect: {reproduces: none}
"""


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """The address of an empty registry."""
    with registry_server(tmp_path) as server:
        address = server.address
        yield address
    # What came from it goes with all its names, ours too.
    ids = docker_says("image", "ls", "-q", "--filter", f"reference={address}/*").split()
    subprocess.run(["docker", "rmi", "-f", *ids], capture_output=True, check=False)


def docker(*words: str, text: str | None = None) -> None:
    subprocess.run(["docker", *words], input=text, capture_output=True, text=True, check=True)


def user_of(registry: str, folder: Path, local: str) -> User:
    """Someone whose base images come from ``registry``; skips where the engine has ``local`` already."""
    if subprocess.run(["docker", "image", "inspect", local], capture_output=True, check=False).returncode == 0:
        pytest.skip(f"the engine already has {local}, which is not ours: nothing would be pulled")
    user = User(folder)
    user.write("own.toml", f'registry = "{registry}"\n')
    user.environment["REPROKIT_CONFIG"] = str(folder / "own.toml")
    user.environment["XDG_CACHE_HOME"] = str(folder / "cache")
    return user


def test_a_release_is_pulled_and_one_that_is_missing_is_said(tmp_path: Path, registry: str) -> None:
    local = "debian:bookworm-slim"
    user = user_of(registry, tmp_path, local)
    user.write("case.yaml", CASE)
    pushed = f"{registry}/debian:bookworm-slim"
    # Makes sure of a base to push.
    user.types("run", "--build-only", "case.yaml", "--os", "debian-12", "--base", "bootstrap")
    made = subprocess.run(
        ["docker", "create", "reprokit/base:debian-12", "true"], capture_output=True, text=True, check=True
    ).stdout.strip()
    try:
        (tmp_path / "marker").write_text("pulled\n")
        docker("cp", str(tmp_path / "marker"), f"{made}:/from-the-registry")
        docker("commit", made, pushed)
        docker("push", pushed)
        docker("rmi", pushed)
        said = user.types("run", "case.yaml", status=3)  # auto: the registry answers
        cells = {cell["cell"]["os"]: cell for cell in user.cells()}
        assert cells["debian-12"]["verdict"] == "not-reproduced"
        base = cells["debian-12"]["details"]["base"]
        assert (base["source"], base["reference"]) == ("registry", "debian:bookworm-slim")
        assert base["digest"].startswith("sha256:") or "@sha256:" in base["digest"]
        assert user.types("show", "last", "1", "--log") == "pulled\n"
        assert cells["debian-13"]["verdict"] == "unsupported"
        assert "no image debian:trixie-slim" in said
    finally:
        subprocess.run(["docker", "rm", "-f", made], capture_output=True, check=False)


WITHOUT_TAG = """\
schema: reprokit/v1
id: without-tag
title: A toolkit whose image the registry does not have
matrix: {os: [ubuntu-22.04], cuda: ["11.8"]}
environment: {cuda_libraries: none}
command: ptxas --version
expect: {reproduces: none}
"""


@pytest.mark.nightly
def test_a_toolkit_whose_image_is_gone_comes_from_wheels(tmp_path: Path, registry: str) -> None:
    user = user_of(registry, tmp_path, "ubuntu:22.04")
    user.write("case.yaml", WITHOUT_TAG.replace(', cuda: ["11.8"]', "").replace("ptxas --version", "true"))
    user.types("run", "--build-only", "case.yaml", "--base", "bootstrap")  # makes sure of a base to push
    pushed = f"{registry}/ubuntu:22.04"
    docker("tag", "reprokit/base:ubuntu-22.04", pushed)
    docker("push", pushed)
    docker("rmi", pushed)
    user.write("case.yaml", WITHOUT_TAG)
    user.types("run", "case.yaml")
    [cell] = user.cells()
    assert cell["verdict"] == "not-reproduced"
    assert cell["details"]["base"]["source"] == "registry"
    assert cell["details"]["served_by"]["cuda"].startswith("wheels")
    assert "release 11.8" in user.types("show", "last", "1", "--log")


OLD = """\
schema: reprokit/v1
id: old-python
title: A Python that Debian 12 does not package
matrix: {include: [{os: debian-12, python: "3.9"}]}
environment: {pip: ["iniconfig==1.1.1"]}
command: python -c "import iniconfig, sys; print(sys.version_info[:2], sys.base_prefix)"
expect: {reproduces: none}
"""

LENDER = """\
schema: reprokit/v1
id: lender
title: Has that Python
matrix: {os: [debian-11]}
environment: {pip: ["iniconfig==1.1.1"]}
command: "true"
expect: {reproduces: none}
"""

# What Docker's image is to a build, without a network: Debian 12, and a Python below /usr/local with what it links to.
BORROWED = """\
FROM {lender} AS lender
USER root
RUN mkdir /borrowed && ldd /usr/bin/python3.9 /usr/lib/python3.9/lib-dynload/*.so \\
  | grep -oE '/[^ ]*lib(expat|ssl|crypto|ffi|mpdec)[^ ]*' | sort -u | xargs cp -L -t /borrowed
FROM reprokit/base:debian-12
COPY --from=lender /usr/bin/python3.9 /usr/local/bin/python3
COPY --from=lender /usr/lib/python3.9 /usr/local/lib/python3.9
COPY --from=lender /usr/share/python-wheels /usr/share/python-wheels
COPY --from=lender /borrowed /usr/local/lib
RUN ldconfig && ln -s /usr/share/python-wheels /usr/local/share/python-wheels
"""


@pytest.mark.nightly
def test_a_python_that_debian_lacks_comes_with_an_image(tmp_path: Path, registry: str) -> None:
    local = f"python:{next(v for v in OURS.python_images('debian-12') if v.startswith('3.9.'))}-slim-bookworm"
    user = user_of(registry, tmp_path, local)
    user.write("old.yaml", OLD)
    user.write("lender.yaml", LENDER)
    user.environment["REPROKIT_PYTHON_PROVIDERS"] = "distribution,image"
    assert f"the image {local} would serve it" in user.types("run", "old.yaml", "--base", "bootstrap", status=3)
    user.types("run", "lender.yaml", "--base", "bootstrap")
    lender = user.cells()[0]["image"]["tag"]
    pushed = f"{registry}/{local}"
    build = {**os.environ, "DOCKER_BUILDKIT": "0"}  # a client without buildx can do it, too
    words = ["docker", "build", "-q", "-t", pushed, "-"]
    subprocess.run(words, input=BORROWED.format(lender=lender).encode(), env=build, capture_output=True, check=True)
    docker("push", pushed)
    docker("rmi", pushed)
    user.types("run", "old.yaml")  # auto: the registry answers
    (cell,) = user.cells()
    assert cell["verdict"] == "not-reproduced"
    assert user.types("show", "last", "1", "--log") == "(3, 9) /usr/local\n"
    assert cell["details"]["base"]["reference"] == local
    assert cell["details"]["served_by"]["python"].startswith(f"{local} /usr/local/bin/python3 3.9.")
    measured = cell["environment"]
    assert (measured["os"], measured["python"][:4]) == ("debian-12", "3.9.")
    assert not {"python3", "python3-venv"} & set(measured["packages"]["apt"])


def push_marked(registry: str, local: str, mark: str, folder: Path) -> str:
    """Push debian-12 with that mark as ``local``; nothing of it stays in the engine. Returns its digest."""
    pushed = f"{registry}/{local}"
    made = docker_says("create", "reprokit/base:debian-12", "true")
    try:
        (folder / "marker").write_text(f"{mark}\n")
        docker("cp", str(folder / "marker"), f"{made}:/from-the-registry")
        docker("commit", made, pushed)
        docker("push", pushed)
        return docker_says("image", "inspect", "-f", "{{index .RepoDigests 0}}", pushed).partition("@")[2]
    finally:
        docker("rm", "-f", made)
        docker("rmi", pushed)


def docker_says(*words: str) -> str:
    return subprocess.run(["docker", *words], capture_output=True, text=True, check=True).stdout.strip()


def test_a_base_stays_what_it_was_when_its_tag_moves_or_goes(tmp_path: Path, registry: str) -> None:
    local = "debian:bookworm-slim"
    user = user_of(registry, tmp_path, local)
    user.write("case.yaml", CASE.replace("[debian-12, debian-13]", "[debian-12]"))
    user.types("run", "--build-only", "case.yaml", "--base", "bootstrap")  # makes sure of a base to push
    kept: list[str] = []

    def forgotten() -> None:
        """The engine holds nothing of the registry any more, as on a new host."""
        names = [own_name(digest) for digest in kept]
        subprocess.run(["docker", "rmi", "-f", *names, f"{registry}/{local}"], capture_output=True, check=False)
        for digest in kept:
            subprocess.run(["docker", "rmi", "-f", f"{registry}/debian@{digest}"], capture_output=True, check=False)

    def log(*options: str) -> tuple[str, str]:
        user.types("run", "case.yaml", *options)
        return user.types("show", "last", "1", "--log"), user.cells()[0]["details"]["base"]["digest"]

    try:
        kept.append(push_marked(registry, local, "one", tmp_path))
        assert log() == ("one\n", kept[0])
        image = user.cells()[0]["image"]["tag"]
        kept.append(push_marked(registry, local, "two", tmp_path))
        assert log() == ("one\n", kept[0])
        forgotten()
        assert log() == ("one\n", kept[0])
        assert user.cells()[0]["image"]["tag"] == image
        assert log("--refresh-bases") == ("two\n", kept[1])
        assert log() == ("two\n", kept[1])
        shutil.rmtree(tmp_path / "data" / "docker/registry/v2/repositories/debian")
        assert log() == ("two\n", kept[1])  # the engine still holds it
        forgotten()
        said = user.types("run", "case.yaml", status=3)
        assert user.cells()[0]["verdict"] == "unsupported"
        assert f"base-unavailable: the registry no longer has the image that {local} was ({kept[1]})" in said
        assert "--base bootstrap makes debian-12 from the distribution's packages instead" in said
        user.environment["REPROKIT_REGISTRY"] = "127.0.0.1:9"
        said = user.types("run", "case.yaml", "--base", "registry", status=3)
        assert user.cells()[0]["verdict"] == "engine-error"
        assert "base-unavailable: the registry of 127.0.0.1:9/debian" in said
        assert "--base bootstrap makes debian-12" in said
    finally:
        forgotten()


COMPILED = """\
schema: reprokit/v1
id: compiled
title: A GCC that Debian 12 does not package
matrix: {os: [debian-12], gcc: ["10.2"]}
environment: {apt: [libisl23, libmpc3, libmpfr6]}
files:
  a.cpp: |
    #include <iostream>
    #include <stdexcept>
    int main() {
        try { throw std::runtime_error("caught"); } catch (const std::exception& e) { std::cout << e.what() << " "; }
        std::cout << __VERSION__ << std::endl;
    }
  b.c: |
    #include <Python.h>
    #include <pthread.h>
    int main(void) { return 0; }
command: |
  g++ a.cpp -o a && ./a
  cc -I"$(python -c 'import sysconfig; print(sysconfig.get_path("include"))')" b.c -o b && ./b
  command -v gcc c++ x86_64-linux-gnu-gcc
expect: {reproduces: none}
"""

# What Docker's image is to a build: a compiler below /usr/local.
COMPILER = """\
FROM {lender}
USER root
RUN for tool in gcc g++ cpp gcov gcc-ar gcc-nm gcc-ranlib; do \
      cp -L --remove-destination "/usr/bin/x86_64-linux-gnu-$tool-10" "/usr/local/bin/$tool"; \
    done \
 && mkdir -p /usr/local/lib/gcc/x86_64-linux-gnu /usr/local/include/c++ /usr/local/lib64 \
 && cp -r /usr/lib/gcc/x86_64-linux-gnu/10 /usr/local/lib/gcc/x86_64-linux-gnu/ \
 && mkdir -p /usr/local/lib/gcc/x86_64-linux-gnu/10/include-fixed \
 && echo '#error stale' > /usr/local/lib/gcc/x86_64-linux-gnu/10/include-fixed/pthread.h \
 && cp -r /usr/include/c++/10 /usr/local/include/c++/ \
 && cp -rn /usr/include/x86_64-linux-gnu/c++/10/. /usr/local/include/c++/10/ \
 && cp -L /usr/lib/x86_64-linux-gnu/libstdc++.so.6 /usr/local/lib64/libstdc++.so.6.0.28 \
 && ln -s libstdc++.so.6.0.28 /usr/local/lib64/libstdc++.so.6 \
 && ln -sf ../../../../lib64/libstdc++.so.6 /usr/local/lib/gcc/x86_64-linux-gnu/10/libstdc++.so \
 && cp -L /lib/x86_64-linux-gnu/libgcc_s.so.1 /usr/local/lib64/
"""


@pytest.mark.nightly
def test_a_gcc_that_debian_lacks_is_copied_from_an_image(tmp_path: Path, registry: str) -> None:
    local = "gcc:10.2.0"
    user = user_of(registry, tmp_path, local)
    user.write("case.yaml", COMPILED)
    user.write("lender.yaml", LENDER.replace("matrix: {os: [debian-11]}", 'matrix: {os: [debian-11], gcc: ["10"]}'))
    user.types("run", "lender.yaml", "--base", "bootstrap")
    lender = user.cells()[0]["image"]["tag"]
    pushed = f"{registry}/{local}"
    build = {**os.environ, "DOCKER_BUILDKIT": "0"}
    words = ["docker", "build", "-q", "-t", pushed, "-"]
    subprocess.run(words, input=COMPILER.format(lender=lender).encode(), env=build, capture_output=True, check=True)
    docker("push", pushed)
    digest = docker_says("image", "inspect", "-f", "{{index .RepoDigests 0}}", pushed).partition("@")[2]
    docker("rmi", pushed)
    push_marked(registry, "debian:bookworm-slim", "plain", tmp_path)
    user.types("run", "case.yaml", "-v")
    (cell,) = user.cells()
    assert cell["verdict"] == "not-reproduced", cell["reason"]
    assert user.types("show", "last", "1", "--log").splitlines() == [
        "caught 10.2.1 20210110",
        "/usr/local/bin/gcc",
        "/usr/local/bin/c++",
        "/usr/local/bin/x86_64-linux-gnu-gcc",
    ]
    assert cell["details"]["served_by"]["gcc"] == f"image {local}"
    assert cell["details"]["images"][local]["digest"] == digest
    assert "gcc-10" not in cell["environment"]["packages"]["apt"]

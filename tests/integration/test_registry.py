"""Base images from a registry: a real one, on this host, that holds one release and not the other."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_run import User

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
    """The address of a registry that holds ``debian:bookworm-slim`` only."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    config = tmp_path / "registry.yml"
    config.write_text(
        f"version: 0.1\nstorage: {{filesystem: {{rootdirectory: {tmp_path / 'data'}}}}}\nhttp: {{addr: '{address}'}}\n"
    )
    process = subprocess.Popen(
        ["docker-registry", "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://{address}/v2/", timeout=1).close()
                break
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        process.wait(10)


def docker(*words: str, text: str | None = None) -> None:
    subprocess.run(["docker", *words], input=text, capture_output=True, text=True, check=True)


def test_a_release_is_pulled_and_one_that_is_missing_is_said(tmp_path: Path, registry: str) -> None:
    local = "debian:bookworm-slim"
    if subprocess.run(["docker", "image", "inspect", local], capture_output=True, check=False).returncode == 0:
        pytest.skip(f"the engine already has {local}, which is somebody's: nothing would be pulled")
    user = User(tmp_path)
    (tmp_path / "config.yaml").write_text(f"registry: {registry}\n")
    user.environment["REPROKIT_CONFIG"] = str(tmp_path / "config.yaml")
    user.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    user.write("case.yaml", CASE)
    pushed = f"{registry}/debian:bookworm-slim"
    user.types("build", "case.yaml", "--os", "debian-12", "--base", "bootstrap")  # makes sure of a base to push
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
        subprocess.run(["docker", "rmi", "-f", pushed, local], capture_output=True, check=False)

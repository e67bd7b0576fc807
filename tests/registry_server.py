"""A registry of a test's own, on this host's loopback: Debian's docker-registry."""

from __future__ import annotations

import contextlib
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers import free_port

LOGIN = ("test", "secret")
_HTPASSWD = "test:$2b$05$Q2znJPLUT5T4Dfw7orJ5KOIXwtAkchuVJs.BGE0ZsDGLblc3vXFda\n"


@dataclass(frozen=True)
class Registry:
    """A registry that runs at ``address``, and the folder of its data."""

    address: str
    data: Path
    process: subprocess.Popen[bytes]

    def repository(self, name: str) -> Path:
        """The folder of a repository, which is there once something was pushed; also where its mount is its own."""
        return Path(f"/proc/{self.process.pid}/root{self.data}") / "docker/registry/v2/repositories" / name

    def tags(self, name: str) -> list[str]:
        """The tags of a repository."""
        return sorted(one.name for one in (self.repository(name) / "_manifests/tags").glob("*"))

    def grow(self, size: str) -> None:
        """Give its own disk another size."""
        enter = ["nsenter", f"--target={self.process.pid}", "--mount"]
        subprocess.run([*enter, "mount", "-o", f"remount,size={size}", str(self.data)], check=True)


@contextlib.contextmanager
def registry_server(
    folder: Path, *, login: bool = False, read_only: bool = False, size: str = ""
) -> Iterator[Registry]:
    """A registry over ``folder``/data.

    ``login``: it asks for LOGIN. ``read_only``: it takes nothing. ``size``: of a disk of its own; the test
    is skipped where none can be mounted.
    """
    folder.mkdir(exist_ok=True)
    address = f"127.0.0.1:{free_port()}"
    (folder / "htpasswd").write_text(_HTPASSWD)
    auth = f"auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}\n" if login else ""
    storage = f"filesystem: {{rootdirectory: {folder}/data}}, delete: {{enabled: true}}"
    storage += ", maintenance: {readonly: {enabled: true}}" if read_only else ""
    config = folder / "registry.yml"
    config.write_text(f"version: 0.1\nstorage: {{{storage}}}\nhttp: {{addr: '{address}'}}\n{auth}")
    words = ["docker-registry", "serve", str(config)]
    if size:
        (folder / "data").mkdir()
        mount = f'mount -t tmpfs -o size={size} none "$0"'
        words = ["unshare", "--mount", "sh", "-c", f'{mount} && exec "$@"', str(folder / "data"), *words]
        if subprocess.run([*words[:4], mount, words[5]], capture_output=True, check=False).returncode:
            pytest.skip("a disk of a registry's own needs root, unshare and mount")
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not _answers(address) and time.monotonic() < deadline:
            time.sleep(0.1)
        yield Registry(address=address, data=folder / "data", process=process)
    finally:
        process.terminate()
        process.wait(60)


def _answers(address: str) -> bool:
    try:  # it, and no proxy of this machine, whose error would pass for its answer
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"http://{address}/v2/", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True

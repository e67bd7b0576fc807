"""A registry of a test's own, on this host's loopback: Debian's docker-registry."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LOGIN = ("test", "secret")
_HTPASSWD = "test:$2b$05$Q2znJPLUT5T4Dfw7orJ5KOIXwtAkchuVJs.BGE0ZsDGLblc3vXFda\n"


@dataclass(frozen=True)
class Registry:
    """A registry that runs at ``address``, and the folder of its data."""

    address: str
    data: Path

    def repository(self, name: str) -> Path:
        """The folder of a repository, which is there once something was pushed."""
        return self.data / "docker/registry/v2/repositories" / name

    def tags(self, name: str) -> list[str]:
        """The tags of a repository."""
        return sorted(one.name for one in (self.repository(name) / "_manifests/tags").glob("*"))


@contextlib.contextmanager
def registry_server(folder: Path, *, login: bool = False, read_only: bool = False) -> Iterator[Registry]:
    """A registry over ``folder``/data. ``login``: it asks for LOGIN; ``read_only``: it takes nothing."""
    folder.mkdir(exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (folder / "htpasswd").write_text(_HTPASSWD)
    auth = f"auth: {{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}\n" if login else ""
    storage = f"filesystem: {{rootdirectory: {folder}/data}}, delete: {{enabled: true}}"
    storage += ", maintenance: {readonly: {enabled: true}}" if read_only else ""
    config = folder / "registry.yml"
    config.write_text(f"version: 0.1\nstorage: {{{storage}}}\nhttp: {{addr: '{address}'}}\n{auth}")
    process = subprocess.Popen(
        ["docker-registry", "serve", str(config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while not _answers(address) and time.monotonic() < deadline:
            time.sleep(0.1)
        yield Registry(address=address, data=folder / "data")
    finally:
        process.terminate()
        process.wait(60)


def _answers(address: str) -> bool:
    try:
        urllib.request.urlopen(f"http://{address}/v2/", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True

"""An SSH server of this user on loopback, with keys and a configuration of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers import free_port

REPOSITORY = Path(__file__).parents[1]


@contextmanager
def ssh_hosts(folder: Path, *hosts: str) -> Iterator[dict[str, str]]:
    """The environment in which the program ``ssh`` reaches these names, which are all this machine."""
    server = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
    if server is None or shutil.which("ssh-keygen") is None:
        pytest.skip("needs OpenSSH's server: apt-get install openssh-server")
    folder.mkdir()
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    port = free_port()
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    variables = {"PYTHONPATH": str(REPOSITORY), "XDG_CACHE_HOME": str(folder / "cache")}
    variables |= {name: os.environ[name] for name in ("DOCKER_HOST", "CONTAINER_HOST") if name in os.environ}
    lines = [
        f"Port {port}",
        "ListenAddress 127.0.0.1",
        f"HostKey {folder / 'host'}",
        f"AuthorizedKeysFile {folder / 'user.pub'}",
        "StrictModes no",
        "UsePAM no",
        "PasswordAuthentication no",
        "PermitRootLogin yes",
        f"PidFile {folder / 'pid'}",
        f"SetEnv {' '.join(f'{name}={value}' for name, value in variables.items())}",
    ]
    (folder / "sshd_config").write_text("\n".join((*lines, "")))
    lines = [
        f"Host {' '.join(hosts)}",
        "HostName 127.0.0.1",
        f"Port {port}",
        f"IdentityFile {folder / 'user'}",
        "IdentitiesOnly yes",
        "StrictHostKeyChecking accept-new",
        f"UserKnownHostsFile {folder / 'known'}",
    ]
    (folder / "ssh_config").write_text("\n".join((*lines, "")))
    program = folder / "bin" / "ssh"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder / "ssh_config"} "$@"\n')
    program.chmod(0o755)
    with (folder / "sshd.log").open("wb") as log:
        started = subprocess.Popen([server, "-D", "-e", "-f", folder / "sshd_config"], stdout=log, stderr=log)
    try:
        for _ in range(600):
            with socket.socket() as knock:
                if knock.connect_ex(("127.0.0.1", port)) == 0:
                    break
            if started.poll() is not None:
                pytest.skip(f"sshd does not start here: {(folder / 'sshd.log').read_text()[-300:]}")
            time.sleep(0.1)
        yield {"PATH": f"{program.parent}:{os.environ['PATH']}"}
    finally:
        started.terminate()
        started.wait(10)

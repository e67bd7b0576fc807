"""A Docker Engine of a test's own, which the test may stop, kill, pause and restart, under a socket that stays."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from reprokit.core.errors import EngineError
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.wire import Endpoint, Wire

# The file descriptor of a listening socket as systemd passes it (sd_listen_fds(3)): number 3, for this very process.
_PASS = 'fd=$1; shift; export LISTEN_PID=$$ LISTEN_FDS=1; if [ "$fd" = 3 ]; then exec "$@"; else exec "$@" 3<&$fd; fi'


class PrivateEngine:
    """A dockerd in ``folder``, with a network namespace of its own: in ours it takes the bridge of the host's engine.

    The test holds its listening socket, as systemd's docker.socket does: while no daemon runs, callers wait.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any] | None = None) -> None:
        self._folder = folder
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "sock"))
        self._listening.listen(128)
        self._daemon: subprocess.Popen[bytes] | None = None
        # A daemon that ends with us ends with the very thread that started it.
        self._starter = ThreadPoolExecutor(1)
        self.url = f"unix://{folder}/sock"
        (folder / "daemon.json").write_text(json.dumps(config or {}))

    def start(self) -> None:
        """Start a daemon; callers wait until it answers."""
        place = self._folder
        words = ["dockerd", "--config-file", f"{place}/daemon.json", "-H", "fd://", "--pidfile", f"{place}/pid"]
        words += ["--data-root", f"{place}/data", "--exec-root", f"{place}/exec", "--iptables=false"]
        # Docker 29 takes the containerd of the host where it finds one; and one of its own keeps its sockets there.
        alone = "mkdir -p /run/containerd && mount -t tmpfs none /run/containerd && "
        with_us = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        fd = self._listening.fileno()
        with (place / "log").open("ab") as log:
            self._daemon = self._starter.submit(
                subprocess.Popen,
                [*with_us, "unshare", "--net", "--mount", "bash", "-c", alone + _PASS, "bash", str(fd), *words],
                pass_fds=(fd,),
                stdout=log,
                stderr=subprocess.STDOUT,
            ).result()

    def engine(self) -> DockerEngine:
        """It, as ours."""
        return DockerEngine(wire=Wire(where=Endpoint(url=self.url)))

    def send(self, number: signal.Signals) -> None:
        """Send the daemon a signal."""
        assert self._daemon is not None
        self._daemon.send_signal(number)

    def kill_containerd(self) -> None:
        """Kill the containerd that the daemon has started, which starts another one within a second or two."""
        os.kill(int((self._folder / "exec/containerd/containerd.pid").read_text()), signal.SIGKILL)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon: by SIGTERM it stops its containers, by SIGKILL they outlive it until the next one starts."""
        if self._daemon is None:
            return
        self.send(number)
        self._daemon.wait(timeout=60)
        self._daemon = None
        # One that starts before the containerd of a killed daemon has followed it waits for it in vain.
        with contextlib.suppress(OSError, ValueError):
            containerd = int((self._folder / "exec/containerd/containerd.pid").read_text())
            deadline = time.monotonic() + 20
            while Path(f"/proc/{containerd}").exists() and time.monotonic() < deadline:
                time.sleep(0.05)

    def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the daemon, and start another one at the same socket."""
        self.stop(number)
        self.start()

    def free(self) -> None:
        """The socket goes away: callers are refused from now on, as where no socket is kept for a daemon."""
        self._listening.close()
        (self._folder / "sock").unlink()

    def close(self) -> None:
        """End it."""
        self.stop()
        self._listening.close()
        self._starter.shutdown()
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            # The shim of a container that outlived a daemon that was killed.
            with contextlib.suppress(OSError):
                if f"{self._folder}/exec/".encode() in process.read_bytes():
                    os.kill(int(process.parent.name), signal.SIGKILL)


@contextlib.contextmanager
def private_engine(folder: Path | None = None, config: Mapping[str, Any] | None = None) -> Iterator[PrivateEngine]:
    """A private engine that answers; skips the test where none can be started.

    ``folder``: a new one by default. ``config``: what its daemon.json says.
    """
    if os.getuid() != 0 or not shutil.which("dockerd") or not shutil.which("unshare"):
        pytest.skip("a Docker Engine of our own needs root, dockerd and unshare")
    place = folder or Path(tempfile.mkdtemp(prefix="rk-dockerd-"))
    engine = PrivateEngine(place, config)
    try:
        engine.start()
        try:
            engine.engine().info()
        except EngineError as error:
            pytest.skip(f"a dockerd of our own does not start here: {error}")
        yield engine
    finally:
        engine.close()
        subprocess.run(["umount", "--recursive", "--lazy", f"{place}/data"], capture_output=True, check=False)
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)

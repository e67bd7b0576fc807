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
from reprokit.engine import registry
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.wire import Endpoint, Wire

# The file descriptor of a listening socket as systemd passes it (sd_listen_fds(3)): number 3, for this very process.
_PASS = 'fd=$1; shift; export LISTEN_PID=$$ LISTEN_FDS=1; if [ "$fd" = 3 ]; then exec "$@"; else exec "$@" 3<&$fd; fi'


class PrivateEngine:
    """A dockerd in ``folder``, with a network namespace of its own: in ours it takes the bridge of the host's engine.

    The test holds its listening socket, as systemd's docker.socket does: while no daemon runs, callers wait.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any] | None = None, programs: Path | None = None) -> None:
        self._folder = folder
        self.programs = programs
        """The folder of the next daemon, with ``bin`` and maybe ``lib``; None: the one on the PATH."""
        self.listen()
        self._daemon: subprocess.Popen[bytes] | None = None
        # A daemon that ends with us ends with the very thread that started it.
        self._starter = ThreadPoolExecutor(1)
        self.url = f"unix://{folder}/sock"
        (folder / "daemon.json").write_text(json.dumps(config or {}))

    def listen(self) -> None:
        """Take callers, who wait until a daemon answers."""
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(self._folder / "sock"))
        self._listening.listen(128)

    def _environment(self) -> dict[str, str]:
        if self.programs is None:
            return dict(os.environ)
        paths = {"PATH": self.programs / "bin", "LD_LIBRARY_PATH": self.programs / "lib"}
        return {**os.environ, **{name: f"{at}:{os.environ.get(name, '')}".rstrip(":") for name, at in paths.items()}}

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
                env=self._environment(),
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
        _end_those_of(self._folder / "exec")  # the shim of a container that outlived a daemon that was killed


def _end_those_of(folder: Path) -> None:
    """End the processes whose command line has a path below a folder."""
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if f"{folder}/".encode() in process.read_bytes():
                os.kill(int(process.parent.name), signal.SIGKILL)


class PrivatePodman:
    """A Podman service in ``folder`` with a storage of its own; containers outlive it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = f"unix://{folder}/podman.sock"
        # runc also serves hosts whose cgroups are neither v1 nor v2, as crun does not.
        runtime = ["--runtime", "runc"] if shutil.which("runc") else []
        place = ["--root", f"{folder}/root", "--runroot", f"{folder}/run", "--cgroup-manager", "cgroupfs"]
        self.command = ["podman", *place, *runtime]
        self._service: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the service; wait until it answers. Raises EngineError where it does not within 30 s."""
        (self._folder / "podman.sock").unlink(missing_ok=True)
        # It ends with us, however we end.
        with_us = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
        with (self._folder / "log").open("ab") as log:
            self._service = subprocess.Popen(
                [*with_us, *self.command, "system", "service", "--time=0", self.url],
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._folder,  # where its monitor writes a file that is called "oom"
            )
        deadline = time.monotonic() + 30
        while True:
            try:
                self.engine()
                return
            except EngineError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)

    def engine(self) -> DockerEngine:
        """It, as ours."""
        engine = registry.make("podman", {"CONTAINER_HOST": self.url})
        assert isinstance(engine, DockerEngine)
        return engine

    def send(self, number: signal.Signals) -> None:
        """Send the service a signal."""
        assert self._service is not None
        self._service.send_signal(number)

    def restart(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End the service, and start another one."""
        self.send(number)
        assert self._service is not None
        self._service.wait(timeout=30)
        self.start()

    def close(self) -> None:
        """End it, and its containers."""
        subprocess.run([*self.command, "rm", "--all", "--force"], capture_output=True, check=False, timeout=60)
        self.send(signal.SIGTERM)
        assert self._service is not None
        self._service.wait(timeout=30)
        _end_those_of(self._folder)  # monitors of exec stay for five minutes, and would make the folder again


@contextlib.contextmanager
def private_podman(folder: Path | None = None) -> Iterator[PrivatePodman]:
    """A private Podman service that answers; skips the test where none can be started."""
    if shutil.which("podman") is None:
        pytest.skip("needs podman")
    # Not below pytest's folder: the paths of containers' sockets must stay below 108 bytes.
    place = folder or Path(tempfile.mkdtemp(prefix="rk-podman-"))
    podman = PrivatePodman(place)
    try:
        podman.start()
    except EngineError as error:
        pytest.skip(f"the podman service does not answer: {error}")
    try:
        yield podman
    finally:
        podman.close()
        subprocess.run(["umount", "--lazy", f"{place}/root/overlay"], capture_output=True, check=False)
        if folder is None:
            shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def private_engine(
    folder: Path | None = None, config: Mapping[str, Any] | None = None, programs: Path | None = None
) -> Iterator[PrivateEngine]:
    """A private engine that answers; skips the test where none can be started.

    ``folder``: a new one by default. ``config``: what its daemon.json says. ``programs``: a folder with its ``bin``.
    """
    if os.getuid() != 0 or not shutil.which("dockerd") or not shutil.which("unshare"):
        pytest.skip("a Docker Engine of our own needs root, dockerd and unshare")
    place = folder or Path(tempfile.mkdtemp(prefix="rk-dockerd-"))
    engine = PrivateEngine(place, config, programs)
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

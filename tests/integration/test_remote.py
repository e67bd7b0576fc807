"""An engine behind an ssh server of the test's own on loopback, and Podman without a service."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from reprokit.case.trust import Trust
from reprokit.core.errors import EngineError, EngineLost, Unsupported
from reprokit.engine import private_socket, registry
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.podman import engine
from reprokit.engine.podman.engine import PodmanEngine
from reprokit.engine.protocol import Mount
from reprokit.engine.site import Site
from tests.conftest import build_of, import_tiny, never, trial
from tests.integration.test_engine_lost import run
from tests.integration.test_run import User
from tests.servers import free_port, wait_until

pytestmark = pytest.mark.integration
HOST = "reprokit-far"  # a name that only the client's configuration knows
CASE = """\
schema: reprokit/v1
id: far
title: A case on another machine
matrix: {os: [debian-12], text: ["3", "x"]}
command: test {{ text }} = 3
expect: {failure: {exit_code: 1}, reproduces: [{text: x}]}
"""


@dataclass(frozen=True, kw_only=True)
class Far:
    """A server of ssh. ``environ``: in which ``ssh`` knows it as ``HOST``; ``config``: of that."""

    environ: dict[str, str]
    config: Path
    server: subprocess.Popen[bytes]

    def hang_up(self) -> None:
        """End what serves the connections that there are."""
        for pid in _children(self.server.pid):
            with suppress(OSError):  # it ends by itself
                for one in (*_children(pid), pid):
                    os.kill(one, signal.SIGKILL)


def _children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture(scope="module")
def far() -> Iterator[Far]:
    """A server on a port of its own, with keys of its own, that ends with the tests."""
    path = f"{os.environ['PATH']}:/usr/sbin:/sbin"
    programs = {name: shutil.which(name, path=path) for name in ("sshd", "ssh", "ssh-keygen")}
    if missing := [name for name, program in programs.items() if program is None]:
        pytest.skip(f"needs {', '.join(missing)}: 'apt-get install openssh-server'")
    folder = Path(tempfile.mkdtemp(prefix="rk-ssh-"))
    port = free_port()
    for key in ("host", "user", "other"):
        words = [str(programs["ssh-keygen"]), "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(words, check=True)
    if os.getuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # as the package's service does at its start
    (folder / "server").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPidFile none\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\n"
    )
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "client").write_text(
        f"Host {HOST}\nHostName 127.0.0.1\nPort {port}\nUser {getpass.getuser()}\nIdentityFile {folder}/user\n"
        f"IdentitiesOnly yes\nUserKnownHostsFile {folder}/known\nGlobalKnownHostsFile /dev/null\n"
    )
    # ssh finds its configuration in the home that the system says, and not in $HOME.
    (folder / "bin").mkdir()
    (folder / "bin" / "ssh").write_text(f'#!/bin/sh\nexec {programs["ssh"]} -F {folder}/client "$@"\n')
    (folder / "bin" / "ssh").chmod(0o755)
    with_us = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    words = [*with_us, str(programs["sshd"]), "-D", "-e", "-f", str(folder / "server")]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(words, stderr=log)
    deadline = time.monotonic() + 30
    while b"listening" not in (folder / "log").read_bytes():
        if server.poll() is not None or time.monotonic() > deadline:
            pytest.skip(f"sshd does not start here: {(folder / 'log').read_text()}")
        time.sleep(0.05)
    environ = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "DOCKER_HOST": f"ssh://{HOST}"}
    found = Far(environ=environ, config=folder / "client", server=server)
    try:
        yield found
    finally:
        found.hang_up()
        server.terminate()
        server.wait(30)
        shutil.rmtree(folder)


@pytest.fixture
def engine_there(far: Far, engine: DockerEngine) -> Iterator[DockerEngine]:
    """The Docker Engine of this host, over ssh."""
    there = registry.make("auto", far.environ)
    assert isinstance(there, DockerEngine)
    yield there
    tunnel = there.wire.endpoint.via
    assert tunnel is not None
    tunnel.close()


def test_a_case_runs_over_ssh(far: Far, engine: DockerEngine, tmp_path: Path) -> None:
    user = User(tmp_path)
    user.environment |= far.environ
    user.write("case.yaml", CASE)
    said = user.types("run", "case.yaml", "--json", "result.json")
    assert "all as expected" in said
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if f"--\0{HOST}\0".encode() in _bytes(path)]
    doctor = user.types("doctor")
    assert f"ssh://{HOST}" in doctor
    assert "on another machine" in doctor


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def test_a_build_over_ssh_reaches_this_hosts_gateway_alone(engine_there: DockerEngine, tiny: str) -> None:
    mount = "--mount=type=ssh,id=gateway,target=/run/reprokit/gateway.sock,mode=0666"
    tag = f"reprokit-test/far:{os.getpid()}"
    lines: list[str] = []
    build = build_of(tag, f"FROM {tiny}\nRUN {mount} : {tag}; ls -l /run/reprokit; tail -n +3 /proc/net/dev\n")
    try:
        strangers = type(build)(**{**vars(build), "trust": Trust.STRANGER})
        engine_there.build(strangers, Site(), lambda step: lines.append(step.log), never())
    finally:
        engine_there.remove_image(tag)
    logs = "".join(lines)
    assert "gateway.sock" in logs
    assert "eth0" not in logs


def test_what_is_on_this_host_is_refused(engine_there: DockerEngine, tiny: str, tmp_path: Path) -> None:
    assert engine_there.info().remote == f"ssh://{HOST}"
    assert engine_there.info().storage is None
    with pytest.raises(Unsupported, match=r"another machine.*run reprokit there"):
        engine_there.run(trial(tiny, "true", mounts=(Mount(source=tmp_path, target="/data"),)), print, never())


def test_a_connection_that_ends_is_not_a_finding(far: Far, engine_there: DockerEngine, tiny: str) -> None:
    with pytest.raises(EngineLost):
        run(engine_there, tiny, "echo up; sleep 20; exit 1", far.hang_up)
    # The end of ssh is seen when the shell around it ended, too: a run asks again for as long as an engine is awaited.
    for left in range(50, -1, -1):
        try:
            engine_there.ping()
            break
        except EngineLost:
            assert left
            time.sleep(0.1)
    assert run(engine_there, tiny, "echo again; exit 3", lambda: None).exit_code == 3
    engine_there.sweep()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("/user\n", "/other\n", "Permission denied"),
        ("/known\n", "/absent\n", "Host key verification failed"),
        ("HostName 127.0.0.1", "HostName 127.0.0.2", "Connection refused"),
    ],
)
def test_what_ssh_says_is_repeated(far: Far, old: str, new: str, words: str) -> None:
    text = far.config.read_text()
    far.config.write_text(text.replace(old, new, 1))
    try:
        with pytest.raises(EngineError, match=words) as failed:
            registry.make("docker", far.environ)
        assert not isinstance(failed.value, EngineLost)
    finally:
        far.config.write_text(text)


def test_a_socket_that_no_one_listens_at_is_named(far: Far) -> None:
    with pytest.raises(EngineError, match=r"no engine listens at /nonexistent\.sock there"):
        registry.make("docker", far.environ | {"DOCKER_HOST": f"ssh://{HOST}/nonexistent.sock"})


@pytest.fixture
def no_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A storage of its own, and no service of Podman that answers."""
    if shutil.which("podman") is None:
        pytest.skip("needs podman")
    folder = Path(tempfile.mkdtemp(prefix="rk-podman-"))
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n'
    )
    runtime = 'runtime = "runc"\n' if shutil.which("runc") else ""
    (folder / "containers.conf").write_text(f'[engine]\ncgroup_manager = "cgroupfs"\n{runtime}')
    for name in ("DOCKER_HOST", "CONTAINER_HOST", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", f"{folder}/storage.conf")
    monkeypatch.setenv("CONTAINERS_CONF", f"{folder}/containers.conf")
    monkeypatch.setattr(engine, "SYSTEM_SOCKET", folder / "absent")
    yield folder
    subprocess.run(["umount", "--lazy", f"{folder}/root/overlay"], capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


def _services(storage: Path) -> list[str]:
    """Processes of Podman's service with that configuration; without the shell that waits for our end."""
    return [
        path.parent.name
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if b"system\0service\0--time=0\0" in _bytes(path)
        and not _bytes(path).startswith(b"sh\0")
        and f"{storage}/containers.conf".encode() in _bytes(path.with_name("environ"))
    ]


def test_podman_needs_no_service(no_service: Path, tmp_path: Path) -> None:
    engine = registry.make("podman")
    assert isinstance(engine, PodmanEngine)
    service = engine.wire.endpoint.via
    assert service is not None
    try:
        assert not engine.info().remote
        tiny = import_tiny(engine, tmp_path)
        build = build_of("reprokit-test/own:1", f"FROM {tiny}\nRUN echo made > /made\n")
        built = engine.build(build, Site(), lambda _: None, never())
        said: list[bytes] = []
        assert engine.run(trial(built.tag, "cat /made; exit 3"), said.append, never()).exit_code == 3
        assert b"".join(said) == b"made\n"
        assert registry.make("podman").info().version
        assert len(_services(no_service)) == 1, "one for all of this process"
    finally:
        service.close()
        private_socket.podman_service.cache_clear()
    assert not _services(no_service)


def test_a_service_ends_with_a_process_that_is_killed(no_service: Path) -> None:
    code = (
        "import os, signal\n"
        "from pathlib import Path\n"
        "from reprokit.engine import registry\n"
        "from reprokit.engine.podman import engine\n"
        f"engine.SYSTEM_SOCKET = Path({str(no_service)!r}, 'absent')\n"
        "print(registry.make('podman').info().name, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout == "Podman Engine\n", done.stderr
    wait_until(lambda: not _services(no_service))

"""What happens to the engine during a trial is never a finding; what the program does itself is."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.core.errors import EngineLost
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.site import Site
from reprokit.engine.wire import Endpoint, Wire
from reprokit.evidence.model import Ending
from tests.conftest import build_of, import_tiny, never, trial
from tests.engine_proxy import EngineProxy, engine_proxy
from tests.private_engine import PrivateEngine, private_engine
from tests.servers import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.engines]
MIB = 2**20
NAP = f"sleep 9{os.getpid()}"
"""What a program of these tests does until :func:`wake`; no other process of this machine does just that."""
LONG = "trap 'echo stopped; exit 7' TERM; echo up; i=0; while [ $i -lt 80 ]; do sleep 0.1; i=$((i+1)); done; exit 1"


@pytest.fixture(scope="module")
def private() -> Iterator[PrivateEngine]:
    """An engine that the tests of this file may harm."""
    with private_engine() as engine:
        yield engine


@pytest.fixture
def ours(private: PrivateEngine) -> DockerEngine:
    return private.engine()


@pytest.fixture(scope="module")
def image(private: PrivateEngine, tmp_path_factory: pytest.TempPathFactory) -> str:
    return import_tiny(private.engine(), tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a socket, whose path may not be as long as pytest's."""
    with tempfile.TemporaryDirectory(prefix="rk-proxy-") as name:
        yield Path(name)


def containers(engine: DockerEngine) -> list[dict[str, object]]:
    found: list[dict[str, object]] = engine.wire.client().containers(all=True)
    return found


def run(engine: DockerEngine, image: str, script: str, harm: Callable[[], object], **limits: object) -> Ending:
    """Run a trial; ``harm`` is done in another thread once it has said something."""
    harmed: list[threading.Thread] = []

    def sink(_: bytes) -> None:
        if not harmed:
            harmed.append(threading.Thread(target=harm))
            harmed[0].start()

    try:
        return engine.run(trial(image, script, **limits), sink, never())
    finally:
        for thread in harmed:
            thread.join()


def wake() -> None:
    """Let the program of the trial go on, once it has come so far."""
    wait_until(lambda: subprocess.run(["pkill", "-xf", NAP], check=False).returncode == 0)


def only(engine: DockerEngine) -> str:
    (container,) = containers(engine)
    return str(container["Id"])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_that_is_replaced_at_its_socket(
    private: PrivateEngine, ours: DockerEngine, image: str, number: signal.Signals
) -> None:
    with pytest.raises(EngineLost):
        run(ours, image, LONG, lambda: private.restart(number))
    assert run(ours, image, "echo again; exit 3", lambda: None).exit_code == 3
    assert containers(ours) == []


def test_a_daemon_that_is_stopped(image: str) -> None:
    with private_engine() as other:
        engine = other.engine()
        with tempfile.TemporaryDirectory() as name:
            tag = import_tiny(engine, Path(name))

        def stop() -> None:
            other.free()
            other.stop()

        with pytest.raises(EngineLost):
            run(engine, tag, LONG, stop)
        with pytest.raises(EngineLost):
            engine.ping()


def test_a_daemon_that_stands_still(private: PrivateEngine, ours: DockerEngine, image: str) -> None:
    def pause() -> None:
        private.send(signal.SIGSTOP)
        wake()
        time.sleep(6)
        private.send(signal.SIGCONT)

    # The limit of the program is over while the engine cannot say that it has ended.
    with pytest.raises(EngineLost, match="stood still"):
        run(ours, image, f"echo up; {NAP}; exit 1", pause, timeout=3.0)
    with pytest.raises(EngineLost, match="output may be missing"):
        run(ours, image, f"echo up; {NAP}; exit 1", pause)


def test_output_that_docker_drops_after_the_end_gives_no_verdict(ours: DockerEngine, image: str) -> None:
    """Seen on 20.10: of the 328 lines of 4,000 characters that a program had printed, 13 were missing."""
    waited: list[bytes] = []

    def slow(data: bytes) -> None:
        if not waited:
            time.sleep(9)  # the program ends after 4 s, while no one reads
        waited.append(data)

    with pytest.raises(EngineLost, match="output may be missing"):
        ours.run(trial(image, "yes $(printf %04000d 0) & sleep 4; exit 1"), slow, never())


@pytest.mark.parametrize("ask", ["stop", "kill", "remove", "pause"])
def test_another_process_that_stops_the_container(ours: DockerEngine, image: str, ask: str) -> None:
    client = ours.wire.client()

    def harm() -> None:
        container = only(ours)
        if ask == "stop":
            client.stop(container, timeout=1)
        elif ask == "kill":
            client.kill(container)
        elif ask == "remove":
            client.remove_container(container, force=True)
        else:
            client.pause(container)
            client.unpause(container)
            wake()

    with pytest.raises(EngineLost, match="paused" if ask == "pause" else "from outside"):
        run(ours, image, f"echo up; {NAP}; exit 1", harm)
    assert containers(ours) == []


@pytest.fixture
def proxied(private: PrivateEngine, folder: Path) -> Iterator[tuple[EngineProxy, DockerEngine]]:
    with engine_proxy(Path(private.url.removeprefix("unix://")), folder) as proxy:
        yield proxy, DockerEngine(wire=Wire(where=Endpoint(url=proxy.url)))


@pytest.mark.parametrize("script", [LONG, f"echo up; {NAP}; echo more; exit 1"], ids=["silent", "more"])
def test_a_cut_connection_to_the_output(proxied: tuple[EngineProxy, DockerEngine], image: str, script: str) -> None:
    proxy, engine = proxied

    def cut() -> None:
        proxy.cut("/attach")
        time.sleep(2)
        script == LONG or wake()

    with pytest.raises(EngineLost, match="cut"):
        run(engine, image, script, cut)
    assert containers(engine) == []


def test_a_cut_stream_of_events(proxied: tuple[EngineProxy, DockerEngine], image: str) -> None:
    proxy, engine = proxied
    with pytest.raises(EngineLost, match="event stream"):
        run(engine, image, f"echo up; {NAP}; exit 1", lambda: proxy.cut("/events"))
    assert run(engine, image, "echo again; exit 3", lambda: None).exit_code == 3


def test_all_connections_cut(proxied: tuple[EngineProxy, DockerEngine], image: str) -> None:
    proxy, engine = proxied
    with pytest.raises(EngineLost):
        run(engine, image, LONG, proxy.cut)
    assert containers(engine) == []


def test_a_proxy_that_holds_everything_for_a_while(proxied: tuple[EngineProxy, DockerEngine], image: str) -> None:
    proxy, engine = proxied

    def hold() -> None:
        proxy.hold()
        wake()
        time.sleep(3)
        proxy.let()

    assert run(engine, image, f"echo up; {NAP}; exit 3", hold).exit_code == 3


def test_a_program_that_closes_its_streams_is_found(ours: DockerEngine, image: str) -> None:
    ending = run(ours, image, "exec >&- 2>&-; sleep 1; exit 4", lambda: None)
    assert (ending.exit_code, ending.oom, ending.timed_out) == (4, False, False)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_build_that_a_restart_cut(
    private: PrivateEngine, ours: DockerEngine, image: str, number: signal.Signals
) -> None:
    build = build_of(f"reprokit/img:lost-{number.value}", f"FROM {image}\nRUN echo one\nRUN echo {number}; sleep 8\n")
    harmed: list[threading.Thread] = []

    def progress(step: object) -> None:
        if "sleep 8" in str(step) and not harmed:
            harmed.append(threading.Thread(target=private.restart, args=(number,)))
            harmed[0].start()

    with pytest.raises(EngineLost):
        ours.build(build, Site(), progress, never())
    for thread in harmed:
        thread.join()
    assert ours.image(build.tag) is None


def test_a_build_whose_session_the_engine_gives_up_is_lost_at_once(
    proxied: tuple[EngineProxy, DockerEngine], image: str
) -> None:
    """As it does where this process was stopped (Ctrl-Z): its steps have no gateway any more."""
    proxy, engine = proxied
    build = build_of("reprokit/img:no-session", f"FROM {image}\nRUN echo given up; sleep 60\n")
    cut: list[int] = []

    def progress(step: object) -> None:
        if "sleep 60" in str(step) and not cut:
            cut.append(proxy.cut("/session|/grpc"))

    began = time.monotonic()
    with pytest.raises(EngineLost, match="session"):
        engine.build(build, Site(), progress, never())
    assert time.monotonic() - began < 30
    assert cut > [0]


def test_an_engine_whose_containerd_is_away_is_away(private: PrivateEngine, ours: DockerEngine, image: str) -> None:
    lost, deadline = [], time.monotonic() + 60
    while time.monotonic() < deadline:
        lost or private.kill_containerd()  # again, where another one had started before we asked
        try:
            assert run(ours, image, "exit 3", lambda: None).exit_code == 3
        except EngineLost as error:
            lost.append(str(error))
        else:
            if lost:
                break
    assert lost, "the daemon answers a ping all the time, and starts no container"
    assert containers(ours) == []


@contextlib.contextmanager
def small_disk(size: str) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="rk-disk-"))
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=False).returncode:
        folder.rmdir()
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--recursive", "--lazy", folder], check=False)
        folder.rmdir()


def test_a_full_disk_of_the_engine() -> None:
    with small_disk("80m") as folder, private_engine(folder) as other:
        engine = other.engine()
        with tempfile.TemporaryDirectory() as name:
            tag = import_tiny(engine, Path(name))
        fill = "echo up; dd if=/dev/zero of=/tmp/big bs=64k 2>/dev/null || exit 1"
        with pytest.raises(EngineLost, match="disk is full"):
            run(engine, tag, fill, lambda: None)
        assert run(engine, tag, "echo up; exit 1", lambda: None).exit_code == 1

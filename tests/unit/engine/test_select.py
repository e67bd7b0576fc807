"""Which engine a name leads to, against services that only say what they are."""

from __future__ import annotations

import json
import os
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprokit.core.errors import EngineError, UsageError
from reprokit.engine import registry
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.podman import engine
from reprokit.engine.podman.engine import PodmanEngine
from tests.unit.serving import Quiet

Serve = Callable[[Path, str], None]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a service at a unix socket that answers ``GET /version`` as the named component would."""
    running = []

    def start(path: Path, component: str) -> None:
        about = {
            "Version": "1.2",
            "ApiVersion": "1.41",
            "Components": [{"Name": component, "Version": "1.2"}],
            "host": {},
        }

        class Handler(Quiet):
            def do_GET(self) -> None:
                self.answer(200, json.dumps(about).encode())

        path.parent.mkdir(parents=True, exist_ok=True)
        server = socketserver.ThreadingUnixStreamServer(str(path), Handler)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        running.append((server, thread))

    yield start
    for server, thread in running:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def no_engine_of_this_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("reprokit.engine.wire._DEFAULT_SOCKET", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setattr(engine, "SYSTEM_SOCKET", tmp_path / "system.sock")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"XDG_RUNTIME_DIR": str(tmp_path / "run"), **more}


def test_auto_takes_docker_where_it_answers(serve: Serve, tmp_path: Path) -> None:
    serve(tmp_path / "docker.sock", "Engine")
    serve(tmp_path / "run" / "podman" / "podman.sock", "Podman Engine")
    found = registry.make("auto", environ(tmp_path))
    assert type(found) is DockerEngine
    assert (found.info().name, found.info().version) == ("Docker Engine", "1.2")


def test_auto_falls_back_to_a_podman_that_answers(serve: Serve, tmp_path: Path) -> None:
    serve(tmp_path / "run" / "podman" / "podman.sock", "Podman Engine")
    assert isinstance(registry.make("auto", environ(tmp_path)), PodmanEngine)


def test_auto_knows_podman_behind_docker_host(serve: Serve, tmp_path: Path) -> None:
    serve(tmp_path / "any.sock", "Podman Engine")
    found = registry.make("auto", environ(tmp_path, DOCKER_HOST=f"unix://{tmp_path}/any.sock"))
    assert found.info().name == "Podman Engine"


def test_an_engine_that_was_named_is_not_replaced(serve: Serve, tmp_path: Path) -> None:
    serve(tmp_path / "run" / "podman" / "podman.sock", "Podman Engine")
    with pytest.raises(EngineError, match=r"gone\.sock"):
        registry.make("auto", environ(tmp_path, DOCKER_HOST=f"unix://{tmp_path}/gone.sock"))
    with pytest.raises(EngineError, match=r"docker\.sock"):
        registry.make("docker", environ(tmp_path))


def test_docker_is_not_podman_nor_the_other_way_round(serve: Serve, tmp_path: Path) -> None:
    serve(tmp_path / "docker.sock", "Podman Engine")
    with pytest.raises(EngineError, match="--engine podman"):
        registry.make("docker", environ(tmp_path))
    serve(tmp_path / "run" / "podman" / "podman.sock", "Engine")
    with pytest.raises(EngineError, match=r"podman\.sock .* is Docker, not Podman; .*CONTAINER_HOST"):
        registry.make("podman", environ(tmp_path))


def test_container_host_names_podman(serve: Serve, tmp_path: Path) -> None:
    serve(tmp_path / "elsewhere.sock", "Podman Engine")
    found = registry.make("podman", environ(tmp_path, CONTAINER_HOST=f"unix://{tmp_path}/elsewhere.sock"))
    assert isinstance(found, PodmanEngine)


def test_auto_takes_the_engine_that_container_host_names(serve: Serve, tmp_path: Path) -> None:
    serve(tmp_path / "docker.sock", "Engine")
    serve(tmp_path / "run" / "podman" / "podman.sock", "Podman Engine")
    named = {"CONTAINER_HOST": f"unix://{tmp_path}/named.sock"}
    with pytest.raises(EngineError, match=r"named\.sock"):
        registry.make("auto", environ(tmp_path, **named))
    for component, kind in (("Podman Engine", PodmanEngine), ("Engine", DockerEngine)):
        serve(tmp_path / f"{component}.sock", component)
        (tmp_path / "named.sock").unlink(missing_ok=True)
        (tmp_path / "named.sock").symlink_to(tmp_path / f"{component}.sock")
        found = registry.make("auto", environ(tmp_path, **named))
        assert type(found) is kind
        assert found.wire.endpoint.url == named["CONTAINER_HOST"]
    assert registry.unused_engine(environ(tmp_path, **named)) == ""


def test_of_two_engines_that_are_named_the_unused_one_is_named(serve: Serve, tmp_path: Path) -> None:
    serve(tmp_path / "one.sock", "Engine")
    one, two = f"unix://{tmp_path}/one.sock", f"unix://{tmp_path}/two.sock"
    found = registry.make("auto", environ(tmp_path, DOCKER_HOST=one, CONTAINER_HOST=two))
    assert found.wire.endpoint.url == one
    text = registry.unused_engine(environ(tmp_path, DOCKER_HOST=one, CONTAINER_HOST=two))
    assert f"{one} is used, because DOCKER_HOST" in text
    assert f"({two})" in text
    assert registry.unused_engine(environ(tmp_path, DOCKER_HOST=one, CONTAINER_HOST=one)) == ""


def test_why_a_podman_that_was_named_does_not_serve_is_said(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"Invalid bind address protocol: what.*CONTAINER_HOST"):
        registry.make("podman", environ(tmp_path, CONTAINER_HOST="what:ever"))


def test_a_folder_of_roots_is_not_a_reason_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "system").mkdir(mode=0)
    monkeypatch.setattr(engine, "SYSTEM_SOCKET", tmp_path / "system" / "podman.sock")
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    try:
        with pytest.raises(EngineError, match="not installed"):
            registry.make("podman", environ(tmp_path))
    finally:
        os.seteuid(user)


def test_none_answers(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"apt-get install docker\.io.*--engine venv"):
        registry.make("auto", environ(tmp_path))
    with pytest.raises(EngineError, match=r"not installed.*apt-get install podman"):
        registry.make("podman", environ(tmp_path))


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="lxc"):
        registry.make("lxc", environ(tmp_path))

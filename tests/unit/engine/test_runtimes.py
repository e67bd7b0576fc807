"""The runtime of trials that a site configures: what it cannot serve is unsupported, never a finding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reprokit.core.errors import EngineError, EngineLost, Unsupported, UsageError
from reprokit.engine import container_spec
from reprokit.engine.container_spec import docker_run_line
from reprokit.engine.protocol import EngineInfo
from reprokit.engine.venv.engine import VenvEngine
from tests.conftest import build_of, never, trial


@pytest.fixture(autouse=True)
def config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Sets the runtime of a configuration that names nothing else."""
    monkeypatch.setenv("REPROKIT_CONFIG", "/dev/null")
    monkeypatch.delenv("REPROKIT_RUNTIME", raising=False)
    return lambda name: monkeypatch.setenv("REPROKIT_RUNTIME", name)


def test_a_trial_runs_in_the_runtime_that_is_configured(config: Callable[[str], None]) -> None:
    one = trial("image", "true")
    assert container_spec.configured_runtime() == ""
    assert "Runtime" not in container_spec.create_body(one, {})["HostConfig"]
    assert "--runtime" not in docker_run_line(one)
    config("runsc")
    assert container_spec.configured_runtime() == "runsc"
    assert container_spec.create_body(one, {}, runtime="runsc")["HostConfig"]["Runtime"] == "runsc"
    assert "--runtime=runsc" in docker_run_line(one, runtime="runsc").split()
    assert str(EngineInfo(kind="docker", name="Docker Engine", version="1", runtime="runsc")) == (
        "Docker Engine 1, runtime runsc"
    )


@pytest.mark.parametrize("name", ["--privileged", "a b", "../runc", "/usr/bin/runc", "x" * 101, "r\nx", "ünsc"])
def test_what_is_not_a_name_of_a_runtime_is_refused(config: Callable[[str], None], name: str) -> None:
    config(name)
    with pytest.raises(UsageError, match=r"REPROKIT_RUNTIME: runtime: expected the name of a runtime"):
        container_spec.configured_runtime()


def test_an_engine_without_runtimes_serves_nothing_where_one_is_configured(config: Callable[[str], None]) -> None:
    config("runsc")
    engine = VenvEngine()
    for act in (
        lambda: engine.run(trial("image", "true"), lambda data: None, never()),
        lambda: engine.build(build_of("tag", ""), None, lambda progress: None, never()),  # type: ignore[arg-type]
    ):
        with pytest.raises(Unsupported, match=r"runtime = 'runsc' is configured for trials, which the engine venv"):
            act()


@pytest.mark.parametrize(("runtime", "fits"), [("", True), ("runc", True), ("nvidia", True), ("runsc", False)])
def test_gpus_need_a_runtime_that_gives_them(runtime: str, fits: bool) -> None:
    container_spec.check_runtime_gpus("runsc", ())
    if fits:
        container_spec.check_runtime_gpus(runtime, ("0",))
    else:
        with pytest.raises(Unsupported, match=r"gives them no GPU"):
            container_spec.check_runtime_gpus(runtime, ("0",))


@pytest.mark.parametrize(
    ("runtime", "error", "becomes"),
    [
        ("runsc", EngineError("OCI runtime create failed"), Unsupported),
        ("runsc", EngineLost("gone"), EngineLost),
        ("", EngineError("OCI runtime create failed"), EngineError),
    ],
)
def test_a_start_that_fails_in_a_runtime_is_unsupported(
    runtime: str, error: EngineError, becomes: type[Exception]
) -> None:
    with pytest.raises(becomes) as caught, container_spec.starting_in_runtime(runtime):
        raise error
    assert type(caught.value) is becomes
    assert str(error) in str(caught.value)

"""Trials in gVisor (runsc), on a Docker Engine of the test's own; skipped where there is no runsc."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.core.errors import Unsupported
from reprokit.engine.docker.engine import DockerEngine
from tests.conftest import import_tiny, never, trial
from tests.private_engine import private_engine

pytestmark = pytest.mark.integration
MIB = 2**20


@pytest.fixture(scope="module")
def sandboxed() -> Iterator[tuple[DockerEngine, str]]:
    """An engine that has runsc, and an image on it."""
    if not shutil.which("runsc"):
        pytest.skip("there is no runsc (Debian: apt-get install runsc)")
    folder = Path(tempfile.mkdtemp(prefix="rk-dockerd-"))
    # ptrace needs neither KVM nor a kernel of a kind: it works wherever this test runs.
    known = {"runsc": {"path": shutil.which("runsc"), "runtimeArgs": ["--platform=ptrace", "--network=none"]}}
    try:
        with private_engine(folder, {"runtimes": known}) as private, pytest.MonkeyPatch.context() as patch:
            patch.setenv("REPROKIT_CONFIG", "/dev/null")
            patch.setenv("REPROKIT_RUNTIME", "runsc")
            engine = private.engine()
            yield engine, import_tiny(engine, Path(tempfile.mkdtemp(dir=folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_trials_run_in_gvisor(sandboxed: tuple[DockerEngine, str]) -> None:
    engine, tiny = sandboxed
    out: list[bytes] = []
    ending = engine.run(trial(tiny, "cat /proc/version; id -u; exit 3"), out.append, never())
    assert ending.exit_code == 3
    assert b"Linux version 4.4.0" in b"".join(out)  # the kernel that gVisor says it is
    assert b"1000\n" in b"".join(out)
    assert str(engine.info()).endswith(", runtime runsc")


@pytest.mark.parametrize(
    ("script", "limits", "expected"),
    [
        ("exit 0", {}, {"exit_code": 0}),
        ("kill -SEGV $$", {}, {"exit_code": 139}),
        ("kill -KILL $$", {}, {"exit_code": 137, "oom": False}),
        ("sleep 60", {"timeout": 3.0}, {"timed_out": True}),
        ("head -c 400000000 /dev/zero | tail", {"memory": 64 * MIB}, {"oom": True}),
        ("echo out; echo err >&2; exit 7", {"output": "separate"}, {"exit_code": 7}),
    ],
    ids=["passes", "signal", "killed", "time-limit", "memory-limit", "separate"],
)
def test_endings_are_reported_as_without_it(
    sandboxed: tuple[DockerEngine, str], script: str, limits: dict[str, object], expected: dict[str, object]
) -> None:
    engine, tiny = sandboxed
    ending = engine.run(trial(tiny, script, **limits), lambda data: None, never())
    assert {key: getattr(ending, key) for key in expected} == expected


def test_what_it_cannot_serve_is_unsupported(
    sandboxed: tuple[DockerEngine, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, tiny = sandboxed
    with pytest.raises(Unsupported, match=r"gives them no GPU"):
        engine.run(trial(tiny, "true", gpus=("0",)), lambda data: None, never())
    monkeypatch.setenv("REPROKIT_RUNTIME", "absent")
    with pytest.raises(Unsupported, match=r"in the runtime absent, which reprokit.toml names: .*absent"):
        engine.run(trial(tiny, "true"), lambda data: None, never())

"""GPUs of a real engine: Podman gives a container the devices that CDI describes, here fake ones without hardware."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.core.errors import Unsupported
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.gpus import discovery
from reprokit.engine.protocol import Mount
from tests.conftest import never, trial
from tests.integration.test_podman import engine, tiny  # noqa: F401
from tests.integration.test_run import User

pytestmark = pytest.mark.integration

FOLDER = Path("/var/run/cdi")


def describe(uuids: list[str]) -> str:
    """A CDI specification of GPUs that are an environment variable and a file each."""
    lines = ['cdiVersion: "0.5.0"', "kind: nvidia.com/gpu", "devices:"]
    for name in uuids:
        mount = "{hostPath: /etc/hostname, containerPath: /dev/shm/" + name + ", options: [ro, bind]}"
        lines.append(f'- {{name: "{name}", containerEdits: {{env: ["FAKE_{name[-4:]}={name}"], mounts: [{mount}]}}}}')
    return "\n".join(lines) + "\n"


@pytest.fixture
def gpus() -> Iterator[list[str]]:
    """The UUIDs of two GPUs that this host's CDI files describe while the test runs."""
    if os.getuid() != 0:
        pytest.skip(f"needs root, to write to {FOLDER}")
    FOLDER.mkdir(exist_ok=True)
    uuids = [f"GPU-{uuid.uuid4()}" for _ in range(2)]
    file = FOLDER / f"reprokit-test-{uuid.uuid4().hex}.yaml"
    file.write_text(describe(uuids))
    try:
        yield uuids
    finally:
        file.unlink()


def test_a_container_gets_the_gpus_that_were_leased_and_no_others(
    engine: DockerEngine,  # noqa: F811
    tiny: str,  # noqa: F811
    gpus: list[str],
    shared_folder: Path,
) -> None:
    seen: list[bytes] = []
    used: list[dict[str, str]] = []

    def sink(data: bytes) -> None:
        seen.append(data)
        used.append(engine.gpus_in_use())
        (shared_folder / "looked").touch()

    one = trial(
        tiny,
        "id -u; env; ls /dev/shm; cat /workspace/a; while [ ! -e /in/looked ]; do sleep 0.1; done",
        mounts=(Mount(source=shared_folder, target="/in"),),
        gpus=gpus[:1],
        labels={"org.reprokit.gpus": gpus[0]},
        files={"a": "handed\n"},
    )
    ending = engine.run(one, sink, never())
    said = b"".join(seen).decode()
    assert (ending.exit_code, said.splitlines()[0]) == (0, "1000")
    assert f"FAKE_{gpus[0][-4:]}={gpus[0]}" in said
    assert f"\n{gpus[0]}\n" in said
    assert "handed" in said
    assert gpus[1] not in said
    assert gpus[0] in used[0]
    assert engine.gpus_in_use() == {}, "gone with its container"


def test_a_gpu_that_nothing_describes_is_unsupported(engine: DockerEngine, tiny: str, gpus: list[str]) -> None:  # noqa: F811
    with pytest.raises(Unsupported, match="no CDI specification describes"):
        engine.run(trial(tiny, "true", gpus=("GPU-elsewhere",)), lambda _: None, never())


def test_limits_hold_for_a_container_with_a_gpu(engine: DockerEngine, tiny: str, gpus: list[str]) -> None:  # noqa: F811
    ending = engine.run(trial(tiny, "sleep 60", gpus=gpus, timeout=1.0), lambda _: None, never())
    assert ending.timed_out
    ending = engine.run(
        trial(tiny, "tail /dev/zero", gpus=gpus, memory=32 << 20, timeout=30.0), lambda _: None, never()
    )
    assert ending.oom


REAL = """\
schema: reprokit/v1
id: one-real-gpu
title: A trial sees the GPU that it was leased and no other
matrix: {os: [debian-12]}
command: nvidia-smi -L | tee /dev/stderr | grep -c GPU- | grep -x 1
resources: {gpus: 1}
trials: 2
expect: {failure: {exit_code: nonzero}, reproduces: none}
"""


def test_a_real_gpu_reaches_its_trial(tmp_path: Path) -> None:
    gpus = discovery.facts().gpus
    if not gpus:
        pytest.skip("needs an NVIDIA GPU")
    user = User(tmp_path)
    user.write("case.yaml", REAL)
    user.types("run", "case.yaml")
    (cell,) = user.cells()
    assert cell["environment"]["gpu"][0] in {f"GPU {gpu.index}: {gpu.name}" for gpu in gpus}

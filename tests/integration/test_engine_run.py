"""Trials in real containers, beside what tests/conformance asks of every engine."""

from __future__ import annotations

import shutil
import uuid
from pathlib import Path

import pytest

from reprokit.core import ownership
from reprokit.core.errors import EngineError, Unsupported
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.protocol import Mount
from tests.conftest import build_of, docker, never, remove_image, trial

pytestmark = pytest.mark.integration
MIB = 2**20


def ours(run: str) -> list[str]:
    """Ids of containers, running or not, that carry this run's label."""
    return docker("ps", "-aq", "--filter", f"label={ownership.RUN}={run}").split()


def output_of(engine: DockerEngine, image: str, script: str, **changes: object) -> str:
    out: list[bytes] = []
    engine.run(trial(image, script, **changes), out.append, never())
    return b"".join(out).decode()


def test_a_trial_is_confined(engine: DockerEngine, tiny: str) -> None:
    script = (
        "id -u; cat /proc/sys/kernel/hostname; grep repro /etc/hosts; cat /proc/self/status;"
        "echo pid1 $(cat /proc/1/comm); ls /sys/class/net;"
        'ulimit -c; df -m /dev/shm | tail -1; echo "[$SPACED]"; pwd'
    )
    text = output_of(engine, tiny, script, shm_size=32 * MIB, env={"SPACED": "a  b=c"})
    lines = text.splitlines()
    assert lines[0] == "1000"
    assert lines[1] == "repro"
    assert lines[2].split() == ["127.0.0.1", "repro"]
    assert "CapEff:\t0000000000000000" in text
    assert "CapBnd:\t0000000000000000" in text
    assert "NoNewPrivs:\t1" in text
    assert any(f"pid1 {init}" in text for init in ("docker-init", "tini", "catatonit", "podman-init"))
    assert "eth0" not in text
    assert "[a  b=c]" in lines
    assert "/workspace" in lines
    assert any(line.split()[1:2] == ["32"] for line in lines if "/dev/shm" in line)


def test_what_a_trial_uses_is_read_from_its_control_groups(engine: DockerEngine, tiny: str, tmp_path: Path) -> None:
    # It waits until it was looked at: a container that is over before that has nothing to read.
    wait = "while [ ! -e /in/{0} ]; do sleep 0.1; done"
    script = (
        f"echo first; {wait.format('first')}; x=$(head -c 20000000 /dev/zero | tr '\\000' x);"
        f"echo reprokit: iteration 7; {wait.format('second')}"
    )
    tmp_path.chmod(0o755)

    def sink(data: bytes) -> None:
        (tmp_path / ("second" if b"iteration" in data else "first")).touch()

    mount = Mount(source=tmp_path, target="/in")
    usage = engine.run(trial(tiny, script, mounts=(mount,)), sink, never()).usage
    assert usage is not None
    assert usage.cpu_seconds is not None
    assert usage.cpu_seconds > 0.01
    assert usage.peak_memory is not None
    assert usage.peak_memory > 20_000_000
    [(number, memory)] = usage.iterations
    assert number == 7
    assert memory > 15_000_000


def test_bridge_and_root_when_asked(engine: DockerEngine, tiny: str) -> None:
    text = output_of(engine, tiny, "id -u; ls /sys/class/net", network="bridge", user="root")
    assert text.split()[0] == "0"
    assert "eth0" in text


def test_cpus_and_memory_are_set(engine: DockerEngine, tiny: str) -> None:
    name = f"limits-{uuid.uuid4().hex[:8]}"
    seen: list[str] = []

    def look(_: bytes) -> None:
        wanted = "{{.HostConfig.NanoCpus}} {{.HostConfig.Memory}} {{.HostConfig.MemorySwap}} {{.HostConfig.PidsLimit}}"
        seen.append(docker("inspect", "-f", wanted + " {{.HostConfig.LogConfig.Type}}", *ours(name)).strip())

    asked = trial(tiny, "echo go", cpus=1.5, memory=64 * MIB, pids=77, labels=ownership.ownership(name))
    engine.run(asked, look, never())
    assert seen == [f"1500000000 {64 * MIB} {64 * MIB} 77 none"]


def test_anonymous_volumes_go_too(engine: DockerEngine, tiny: str) -> None:
    tag = f"reprokit-test/volume:{uuid.uuid4().hex[:8]}"
    from reprokit.engine.site import Site

    engine.build(build_of(tag, f"FROM {tiny}\nVOLUME /scratch\n"), Site(), lambda _: None, never())
    try:
        name, seen = uuid.uuid4().hex, set[str]()

        def look(_: bytes) -> None:
            mounted = docker("inspect", "-f", "{{range .Mounts}}{{.Name}} {{end}}", *ours(name)).split()
            seen.update({*mounted} & {*docker("volume", "ls", "-q").split()})

        engine.run(trial(tag, "echo x", labels=ownership.ownership(name)), look, never())
        assert seen
        assert not seen & {*docker("volume", "ls", "-q").split()}
    finally:
        remove_image(tag)


def test_large_output_passes_in_flat_memory(engine: DockerEngine, tiny: str) -> None:
    import resource

    total = [0]

    def count(chunk: bytes) -> None:
        total[0] += len(chunk)

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    engine.run(trial(tiny, "yes 0123456789012345678901234567890123456789 | head -c 200000000"), count, never())
    assert total[0] == 200_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30 * 1024


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"user": "nobody-here"}, EngineError, "resources.user"),
        ({"workdir": "relative/path"}, EngineError, "absolute"),
        ({"gpus": ("0",)}, Unsupported, "nvidia-container-toolkit"),
    ],
)
def test_what_the_engine_refuses_is_said_in_words(
    engine: DockerEngine, tiny: str, changes: dict[str, object], kind: type[Exception], words: str
) -> None:
    if "gpus" in changes and shutil.which("nvidia-smi"):
        pytest.skip("this host has a GPU")
    run = uuid.uuid4().hex
    with pytest.raises(kind, match=words):
        engine.run(trial(tiny, "true", labels=ownership.ownership(run), **changes), lambda _: None, never())
    assert ours(run) == []

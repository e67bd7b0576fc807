"""What NVML says of a host, asked through nvidia-ml-py of a fake library; a driver that hangs, and one that is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reprokit.engine.gpus import discovery, nvml
from reprokit.engine.gpus.nvml import XidWatch
from tests.fake_nvml import H200, V100, FakeNvml, four_gpus
from tests.gpu.conftest import within

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory) -> FakeNvml:
    return FakeNvml(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def loaded(fake: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> FakeNvml:
    """The fake library, as if this process had found it."""
    for name, value in fake.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(nvml, "library", lambda: True)
    return fake


def seen_by_a_process(fake: FakeNvml) -> dict[str, Any]:
    code = "import json, dataclasses; from reprokit.engine.gpus import discovery;"
    code += "print(json.dumps(dataclasses.asdict(discovery.facts())))"
    environ = {**os.environ, **fake.environment, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


@pytest.mark.system
def test_a_process_finds_the_library_and_its_gpus(fake: FakeNvml) -> None:
    fake.gpus(f"GPU-a|{V100}|ok|41,42", f"GPU-b|{H200}|mig", driver="535.104.05", cuda=12020)
    facts = seen_by_a_process(fake)
    assert (facts["driver"], facts["cuda"], facts["asked"], facts["note"]) == ("535.104.05", "12.2", "NVML", "")
    first, second = facts["gpus"]
    assert (first["uuid"], first["memory"], first["compute"], first["mig"]) == ("GPU-a", 16384 << 20, "7.0", False)
    assert first["processes"] == [41, 42]
    assert (second["index"], second["name"], second["mig"]) == (1, "NVIDIA H200", True)


def test_instances_of_a_gpu_in_mig_mode_are_gpus_of_their_own(loaded: FakeNvml) -> None:
    loaded.gpus(
        f"GPU-a|{V100}|ok",
        f"GPU-b|{H200}|mig||sm=1980",
        "MIG-x|NVIDIA H200 MIG 1g.18gb|16384|0.0|of1|77",
        "MIG-y|NVIDIA H200 MIG 2g.35gb|32768|0.0|of1",
    )
    facts = discovery.facts()
    assert [(gpu.uuid, gpu.place, gpu.mig, gpu.parent) for gpu in facts.gpus] == [
        ("GPU-a", "0", False, ""),
        ("GPU-b", "1", True, ""),
        ("MIG-x", "1:0", False, "GPU-b"),
        ("MIG-y", "1:1", False, "GPU-b"),
    ]
    instance = facts.gpus[2]
    assert (instance.memory, instance.compute, instance.processes) == (16384 << 20, "9.0", (77,))
    assert instance.state.clock == 1980


@pytest.mark.parametrize("state", ["lost", "gone"])
def test_a_lost_gpu_is_not_a_gpu_and_is_said(loaded: FakeNvml, state: str) -> None:
    loaded.gpus(*four_gpus(state))
    facts = discovery.facts()
    assert [gpu.uuid for gpu in facts.gpus] == ["GPU-0", "GPU-1", "GPU-2"]
    assert facts.note == "NVML says: GPU 3: GPU is lost"


def test_memory_that_is_not_reported_is_zero(loaded: FakeNvml) -> None:
    loaded.gpus("GPU-x|NVIDIA GB10|0|12.1|ok")
    (gpu,) = discovery.facts().gpus
    assert (gpu.memory, gpu.compute) == (0, "12.1")


def test_a_driver_that_is_not_loaded_is_said(loaded: FakeNvml) -> None:
    loaded.gpus(init=18)
    facts = discovery.facts()
    assert (facts.gpus, facts.driver, facts.note) == (
        (),
        None,
        "NVML says: RM has detected an NVML/RM version mismatch",
    )


@pytest.mark.parametrize("line", [{"init": -1}, {}])
def test_an_nvml_that_hangs_is_given_up(
    loaded: FakeNvml, line: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded.gpus(*four_gpus("hang"), **line)
    with pytest.raises(OSError, match=r"no answer within 0\.5 s"):
        nvml.ask(0.5)
    monkeypatch.setattr(nvml, "ask", lambda: (_ for _ in ()).throw(OSError("no answer within 10 s")))
    assert discovery.facts().note == "NVML failed: no answer within 10 s"


def test_without_the_library_nvidia_smi_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nvml, "library", lambda: False)
    monkeypatch.setenv("PATH", str(tmp_path))
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho '0, GPU-1, Tesla V100, 16384, 7.0, 470.82.01'; echo 'GPU is lost'; exit 15\n")
    program.chmod(0o755)
    facts = discovery.facts()
    assert (facts.asked, [gpu.uuid for gpu in facts.gpus]) == ("nvidia-smi", ["GPU-1"])
    assert facts.note == "nvidia-smi failed: GPU is lost"


def test_xid_errors_are_heard_of_from_the_mark_on_and_of_the_gpus_asked_for(loaded: FakeNvml) -> None:
    loaded.gpus(*four_gpus())
    loaded.xid("GPU-0", 13)
    watch = XidWatch()
    watch.start()
    try:
        mark = watch.mark()
        loaded.xid("GPU-1", 79)
        loaded.xid("GPU-0", 31)
        loaded.xid("GPU-0", 31)
        loaded.xid("GPU-0", 45)
        assert within(60, lambda: len(watch.since(mark, {"GPU-0"})) == 2)
        assert watch.since(mark, {"GPU-0"}) == (("GPU-0", 31), ("GPU-0", 45))
        assert watch.since(mark, {"GPU-0", "GPU-1"})[0] == ("GPU-1", 79)
        assert watch.since(watch.mark(), {"GPU-0", "GPU-1"}) == ()
    finally:
        watch.close()


def test_an_xid_error_of_a_gpu_that_is_lost_by_it_is_heard_of_and_so_are_those_of_others(loaded: FakeNvml) -> None:
    loaded.gpus(*four_gpus())
    watch = XidWatch()
    watch.start()
    try:
        mark = watch.mark()
        loaded.gpus(*four_gpus("lost"))  # from now on it does not even tell its UUID
        loaded.xid("GPU-3", 79)
        loaded.xid("GPU-0", 31)
        assert within(60, lambda: len(watch.since(mark, {"GPU-0", "GPU-3"})) == 2)
        assert watch.since(mark, {"GPU-3"}) == (("GPU-3", 79),)
    finally:
        watch.close()


def test_a_driver_that_hangs_or_has_no_events_ends_nothing(loaded: FakeNvml, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "SECONDS", 0.5)
    for init in (-1, 9):
        loaded.gpus(*four_gpus(), init=init)
        watch = XidWatch()
        watch.start()
        assert watch.since(watch.mark(), {"GPU-0"}) == ()
        assert watch._ready.is_set()  # so that no other trial waits for it
        watch.close()
        assert watch._process is not None
        watch._process.wait(60)

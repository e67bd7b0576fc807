"""What nvidia-smi says, and what this host can serve of a cell."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from reprokit.case.cellspec import CellSpec, EnvironmentSpec, Limits
from reprokit.core.errors import Unsupported
from reprokit.engine.gpus import discovery, nvml
from reprokit.environment import host
from reprokit.environment.host import HostFacts
from reprokit.environment.preflighting import preflight

V100 = "0, GPU-5a0e, Tesla V100-SXM2-16GB, 16384, 7.0, 470.82.01\n"
V100 += "1, GPU-77c1, Tesla V100-SXM2-16GB, 16384, 7.0, 470.82.01\n"
H200 = "0, GPU-0b7d, NVIDIA H200, 143771, 9.0, 570.124.06\n"


def facts(text: str) -> HostFacts:
    gpus, driver = host.parse(text)
    return HostFacts(gpus=gpus, driver=driver)


def asking(gpus: int, memory: int | None = None, **axes: str) -> CellSpec:
    return CellSpec(
        cell=axes,
        environment=EnvironmentSpec(),
        sources={},
        files={},
        datasets={},
        env={},
        workdir="/workspace",
        command=("true",),
        limits=Limits(gpus=gpus, gpu_memory=memory),
    )


def test_nvidia_smi_is_read() -> None:
    gpus, driver = host.parse(V100)
    assert [gpu.index for gpu in gpus] == [0, 1]
    assert (gpus[1].uuid, gpus[1].name, gpus[1].memory, gpus[1].compute) == (
        "GPU-77c1",
        "Tesla V100-SXM2-16GB",
        16384 * 1024 * 1024,
        "7.0",
    )
    assert driver == "470.82.01"


@pytest.mark.parametrize("text", ["", "No devices were found\n", "NVIDIA-SMI has failed because it couldn't\n"])
def test_words_are_not_gpus(text: str) -> None:
    assert host.parse(text) == ((), None)


def test_memory_that_is_not_reported_is_zero() -> None:
    gpus, _ = host.parse("0, GPU-1, NVIDIA GB10, [N/A], 12.1, 580.95.05\n")
    assert gpus[0].memory == 0


def _program(folder: Path, body: str) -> None:
    path = folder / "nvidia-smi"
    path.write_text("#!/bin/sh\n" + body)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_facts_without_a_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(nvml, "LIBRARY", "libno-such.so.1")
    found = discovery.facts()
    assert (found.gpus, found.driver, found.asked) == ((), None, "")
    assert found.note == "neither libno-such.so.1 nor nvidia-smi was found"
    assert found.kernel


def test_facts_with_a_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _program(tmp_path, f"printf '%s' '{H200}'")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = discovery.facts()
    assert ([gpu.name for gpu in found.gpus], found.driver) == (["NVIDIA H200"], "570.124.06")


def test_facts_with_a_broken_driver(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _program(tmp_path, "echo 'Failed to initialize NVML: Driver/library version mismatch'; exit 18")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = discovery.facts()
    assert found.gpus == ()
    assert found.note == "nvidia-smi failed: Failed to initialize NVML: Driver/library version mismatch"


def test_a_cell_without_gpus_runs_anywhere() -> None:
    preflight(asking(0, cuda="12.8"), HostFacts(note="nvidia-smi was not found"))


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        (V100, asking(2, cuda="11.8")),
        (V100, asking(1, memory=16 << 30, cuda="11")),
        (H200, asking(1, memory=100 << 30, cuda="12.0")),
        (H200, asking(1, cuda="none")),
        (H200, asking(1, cuda="11")),
    ],
)
def test_what_the_host_can_serve(text: str, spec: CellSpec) -> None:
    preflight(spec, facts(text))


@pytest.mark.parametrize(
    ("text", "spec", "words"),
    [
        (V100, asking(4), "this host has 2 GPUs; the case asks for 4"),
        (
            V100,
            asking(1, memory=40 << 30),
            r"1 GPU with 40\.0 GiB of memory; this host has 0 such \(the largest has 16",
        ),
        (V100, asking(1, cuda="12.0"), r"CUDA 12\.0 needs an NVIDIA driver >= 525\.60\.13; this host has 470\.82\.01"),
        (H200, asking(1, cuda="11.7"), r"NVIDIA H200 \(sm_90\) needs CUDA >= 11\.8; the cell asks for 11\.7"),
        (
            V100.replace("470.82.01", "580.65.06"),
            asking(1, cuda="13"),
            r"\(sm_70\) is no longer known to CUDA >= 13\.0; the cell asks for 13",
        ),
    ],
)
def test_what_the_host_cannot_serve_is_said(text: str, spec: CellSpec, words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        preflight(spec, facts(text))


def test_no_gpu_at_all_names_the_reason() -> None:
    with pytest.raises(Unsupported) as caught:
        preflight(asking(1), HostFacts(note="nvidia-smi was not found"))
    assert str(caught.value) == "this host has no NVIDIA GPU (nvidia-smi was not found); the case asks for 1"

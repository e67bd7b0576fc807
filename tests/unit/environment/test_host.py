"""What nvidia-smi says, and what this host can serve of a cell."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.case.cellspec import CellSpec, EnvironmentSpec, Limits
from reprokit.core.errors import Unsupported
from reprokit.engine.gpus import discovery, nvml
from reprokit.environment import host, preflighting
from reprokit.environment.host import HostFacts
from reprokit.environment.preflighting import able, preflight
from tests.unit.environment.builders import cell

V100 = "0, GPU-5a0e, Tesla V100-SXM2-16GB, 16384, 7.0, 470.82.01\n"
V100 += "1, GPU-77c1, Tesla V100-SXM2-16GB, 16384, 7.0, 470.82.01\n"
H200 = "0, GPU-0b7d, NVIDIA H200, 143771, 9.0, 570.124.06\n"
H100 = "0, GPU-1, NVIDIA H100 80GB HBM3, 81559, 9.0, 570.124.06\n"
RTX_5090 = "0, GPU-2, NVIDIA GeForce RTX 5090, 32607, 12.0, 580.95.05\n"
RTX_4090 = "0, GPU-3, NVIDIA GeForce RTX 4090, 24564, 8.9, 550.54.15\n"
PADDLE = ("paddlepaddle-gpu==2.6.2",)


def facts(text: str) -> HostFacts:
    gpus, driver = host.parse(text)
    return HostFacts(gpus=gpus, driver=driver)


def asking(gpus: int, memory: int | None = None, pip: tuple[str, ...] = (), **axes: str) -> CellSpec:
    return replace(cell(axes, pip=pip), limits=Limits(gpus=gpus, gpu_memory=memory))


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


def test_a_driver_whose_nvidia_smi_knows_no_compute_capability_has_gpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _program(
        tmp_path,
        'case "$*" in *compute_cap*) echo \'Field "compute_cap" is not a valid field to query.\'; exit 2;; esac\n'
        "echo '0, GPU-5a0e, Tesla V100-SXM2-16GB, 16160, 470.82.01'\n",
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = discovery.facts()
    assert [(gpu.name, gpu.memory, gpu.compute) for gpu in found.gpus] == [("Tesla V100-SXM2-16GB", 16160 << 20, "")]
    assert (found.driver, found.note) == ("470.82.01", "")
    preflight(asking(1, cuda="11.8"), found)
    with pytest.raises(Unsupported, match="driver >= 525"):
        preflight(asking(1, cuda="12.0"), found)


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
        # Machine code for an older architecture of the same generation.
        (RTX_4090, asking(1, cuda="11.7")),
        (V100, asking(1, cuda="11.8", pip=PADDLE)),
        # The driver does not tell the architecture.
        (V100.replace(", 7.0,", ", [N/A],"), asking(1, cuda="11.8", pip=PADDLE)),
        # Nothing was measured.
        (H100, asking(1, cuda="11.8", pip=("paddlepaddle-gpu==2.6.2.post120",))),
        (H100, asking(1, cuda="11.8", pip=("paddlepaddle-gpu==2.4.2",))),
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
        (V100, asking(1, pip=("torch==2.6.0",)), r"torch 2\.6\.0.* CUDA 12\.4,.* driver >= 525\.60\.13"),
        (RTX_5090, asking(1, cuda="12.4"), r"RTX 5090 \(sm_120\) needs CUDA >= 12\.8; .*conflicts: allow"),
        (
            H100,
            asking(1, pip=PADDLE),
            r"H100 80GB HBM3 \(sm_90\): paddlepaddle-gpu 2\.6\.2.* is built for sm_61 to sm_86, .* 11 of 849 modules",
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


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        (RTX_5090, asking(1, cuda="12.4")),
        (H100, asking(1, pip=PADDLE)),
        (V100, asking(2, cuda="12.0")),  # the driver is too old
    ],
)
@pytest.mark.parametrize("wanted", ["allowed", "expected"])
def test_a_conflict_that_the_case_allows_or_expects_runs_and_is_noted(text: str, spec: CellSpec, wanted: str) -> None:
    if wanted == "allowed":
        spec = replace(spec, environment=replace(spec.environment, conflicts="allow"))
    else:
        spec = replace(spec, reproduces=True)
    (note,) = preflight(spec, facts(text))
    assert note.startswith("conflict tolerated, the case")
    assert able(spec, facts(text)) == facts(text).gpus


def test_a_program_uses_one_instance_of_a_gpu_in_mig_mode() -> None:
    (whole,) = facts(H100).gpus
    instances = tuple(replace(whole, uuid=f"MIG-{n}", parent=whole.uuid, slot=n) for n in range(2))
    host = replace(facts(H100), gpus=instances)
    assert able(asking(1, cuda="12.4"), host) == instances
    with pytest.raises(Unsupported, match=r"0 GPUs, and instances .* of which a program uses one; the case asks for 2"):
        preflight(asking(2, cuda="12.4"), host)


def test_too_few_gpus_are_not_a_conflict() -> None:
    spec = replace(asking(2, cuda="12.4"), reproduces=True)
    with pytest.raises(Unsupported, match="this host has 1 GPU"):
        preflight(spec, facts(RTX_5090))


def test_of_two_gpus_a_cell_that_expects_a_failure_gets_the_one_that_has_code() -> None:
    both = facts(RTX_5090 + H100.replace("0, ", "1, ", 1))
    spec = replace(asking(1, cuda="12.4"), reproduces=True)
    assert preflight(spec, both) == ()
    assert [gpu.index for gpu in able(spec, both)] == [1]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (asking(1, cuda="12.0"), "Forward compatibility.* from driver 470 on, needs .*cuda-compat"),
        (asking(1, cuda="12.9"), r"needs an NVIDIA driver >= 525.*470\.82\.01 \("),
        # On Ubuntu, but without the axis that brings an image of NVIDIA's.
        (asking(1, os="ubuntu-22.04", pip=("torch==2.6.0",)), "torch 2.6.0, .* index, is built for .*cuda-compat"),
    ],
)
def test_forward_compatibility_is_said_where_the_driver_is_new_enough_for_it(spec: CellSpec, words: str) -> None:
    with pytest.raises(Unsupported, match=words):
        preflight(spec, facts(V100))
    desktop = V100.replace("Tesla V100-SXM2-16GB", "NVIDIA GeForce RTX 2080 Ti")
    with pytest.raises(Unsupported) as caught:
        preflight(spec, facts(desktop))
    assert "Forward" not in str(caught.value)


@pytest.mark.parametrize("os", ["ubuntu-22.04", ""])
def test_an_image_that_may_have_cuda_compat_is_not_refused(os: str) -> None:
    spec = asking(1, cuda="12.0", **({"os": os} if os else {}))
    if not os:
        spec = replace(spec, environment=EnvironmentSpec(image="nvcr.io/nvidia/pytorch:23.01-py3"))
    assert preflight(spec, facts(V100)) == ()


@pytest.mark.parametrize(
    ("architecture", "compute", "runs"),
    [
        ("sm_86", "8.9", True),
        ("sm_89", "8.6", False),
        ("sm_86", "9.0", False),
        ("compute_86", "12.0", True),
        ("compute_90", "8.9", False),
        ("sm_90a", "9.0", True),
        ("compute_90a", "12.0", False),
        ("sm_100f", "10.3", True),
        ("sm_100a", "10.3", False),
        ("sm_80", "8.7", False),  # Jetson
        ("sm_87", "8.7", True),
        ("sm_120", "12.1", True),
        ("sm_86", "", False),
    ],
)
def test_on_which_gpus_code_runs(architecture: str, compute: str, runs: bool) -> None:
    assert preflighting.runs_on(architecture, compute) is runs


def test_ptx_in_every_module_serves_later_gpus() -> None:
    code = {"sm_80": 100, "sm_86": 90, "compute_86": 100}
    assert preflighting.served(code, "12.0") == 100
    assert preflighting.served({"sm_80": 100, "compute_80": 3}, "12.0") == 3

"""Which GPUs may be leased, what a case's CUDA_VISIBLE_DEVICES means inside a container, and what a lost GPU says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reprokit.engine.gpus import discovery
from reprokit.engine.gpus.discovery import leasable, odd_request
from reprokit.environment.host import Gpu, GpuState, HostFacts

UUIDS = ("GPU-aa", "GPU-ab", "GPU-cc", "GPU-dd")
FACTS = HostFacts(
    gpus=tuple(Gpu(index=n, uuid=uuid, name="V100", memory=16 << 30, compute="7.0") for n, uuid in enumerate(UUIDS))
)


@pytest.mark.parametrize(
    ("allowed", "environ", "left"),
    [
        ((), {}, [0, 1, 2, 3]),
        (("0", "GPU-cc"), {}, [0, 2]),
        (("none",), {}, []),
        ((), {"CUDA_VISIBLE_DEVICES": "2,1"}, [1, 2]),
        ((), {"CUDA_VISIBLE_DEVICES": "GPU-a"}, [0, 1]),
        ((), {"CUDA_VISIBLE_DEVICES": "1,7,2"}, [1]),
        ((), {"CUDA_VISIBLE_DEVICES": ""}, []),
        ((), {"CUDA_VISIBLE_DEVICES": "-1"}, []),
        ((), {"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, []),
        ((), {"NVIDIA_VISIBLE_DEVICES": "all"}, [0, 1, 2, 3]),
        ((), {"NVIDIA_VISIBLE_DEVICES": "void"}, [0, 1, 2, 3]),
        ((), {"NVIDIA_VISIBLE_DEVICES": "none"}, []),
        ((), {"NVIDIA_VISIBLE_DEVICES": "GPU-cc,GPU-dd"}, [2, 3]),
        (("0", "1"), {"CUDA_VISIBLE_DEVICES": "1,2"}, [1]),
    ],
)
def test_what_may_be_leased(allowed: tuple[str, ...], environ: dict[str, str], left: list[int]) -> None:
    found = leasable(FACTS, allowed, environ)
    assert [gpu.index for gpu in found.gpus] == left
    assert bool(found.note) == (len(left) < 4)


def test_what_is_left_out_is_said_with_the_reason() -> None:
    facts = replace(FACTS, gpus=(*FACTS.gpus[:3], replace(FACTS.gpus[3], mig=True)))
    assert leasable(facts, ("0", "3"), {"CUDA_VISIBLE_DEVICES": "1"}).note == (
        "GPU 3 not leased: in MIG mode, where its instances are leased; "
        "GPU 1, 2 not leased: gpus = ['0', '3'] in the config; "
        "GPU 0 not leased: CUDA_VISIBLE_DEVICES=1 in the environment"
    )


@pytest.mark.parametrize(
    ("allowed", "environ", "left"),
    [
        ((), {}, ["GPU-aa", "MIG-x", "MIG-y"]),
        (("1",), {}, ["MIG-x", "MIG-y"]),
        (("1:1",), {}, ["MIG-y"]),
        (("MIG-x",), {}, ["MIG-x"]),
        ((), {"CUDA_VISIBLE_DEVICES": "MIG-y"}, ["MIG-y"]),
        ((), {"NVIDIA_VISIBLE_DEVICES": "1:0"}, ["MIG-x"]),
    ],
)
def test_instances_are_leased_in_place_of_a_gpu_in_mig_mode(
    allowed: tuple[str, ...], environ: dict[str, str], left: list[str]
) -> None:
    whole = replace(FACTS.gpus[1], mig=True)
    split = tuple(
        replace(whole, uuid=f"MIG-{name}", mig=False, parent=whole.uuid, slot=n) for n, name in enumerate("xy")
    )
    facts = replace(FACTS, gpus=(FACTS.gpus[0], whole, *split))
    assert [gpu.uuid for gpu in leasable(facts, allowed, environ).gpus] == left


@pytest.mark.parametrize(
    ("value", "gpus", "words"),
    [
        (None, 1, ""),
        ("0", 1, ""),
        ("1,0", 2, ""),
        ("", 1, ""),
        ("-1", 1, ""),
        ("None", 1, ""),
        ("0,1", 1, "names GPU 1, resources.gpus is 1: inside the container GPUs are counted from 0, so it sees only 0"),
        ("1", 1, "so it sees none"),
        ("0", 0, "resources.gpus is 0"),
        ("GPU-aa", 1, "names a GPU of some host"),
    ],
)
def test_a_list_that_does_not_fit_what_is_asked_is_said(value: str | None, gpus: int, words: str) -> None:
    assert words in odd_request(value, gpus)
    assert bool(odd_request(value, gpus)) == bool(words)


@pytest.mark.parametrize(
    "text",
    [
        "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system",
        "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.",
        "Failed to initialize NVML: Unknown Error",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "NVRM: Xid (PCI:0000:3b:00): 119, pid=1, Timeout waiting for RPC from GSP",
    ],
)
def test_what_only_a_lost_gpu_says(text: str) -> None:
    assert discovery.lost_gpu_words(text)


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: device-side assert triggered",
        "CUDA error: an illegal memory access was encountered",
        "torch.cuda.OutOfMemoryError: CUDA out of memory.",
        "RuntimeError: CUDA error: unspecified launch failure",
        "CUDA error: no kernel image is available for execution on the device",
        "RuntimeError: CUDA error: invalid device ordinal",
        "RuntimeError: No CUDA GPUs are available",
        "NVRM: Xid (PCI:0000:3b:00): 31, pid=1234, MMU Fault",
        "NVRM: Xid (PCI:0000:3b:00): 13, Graphics Engine Exception",
        "Failed to initialize NVML: Driver/library version mismatch",
        "RuntimeError: (PreconditionNotMet) For batch [0]: U(2, 2) is zero, singular U.",
    ],
)
def test_an_error_that_a_program_can_cause_is_never_excused(text: str) -> None:
    assert not discovery.lost_gpu_words(text)


def test_gpus_that_the_driver_no_longer_knows_are_gone() -> None:
    used = FACTS.gpus[:2]
    assert discovery.missing_gpus(used, FACTS) == []
    assert discovery.missing_gpus(used, replace(FACTS, gpus=FACTS.gpus[1:])) == [used[0]]


def test_a_gpu_that_no_program_may_use_is_not_leased() -> None:
    prohibited = replace(FACTS.gpus[0], state=GpuState(compute_mode="prohibited"))
    found = leasable(HostFacts(gpus=(prohibited, *FACTS.gpus[1:])), (), {})
    assert [gpu.uuid for gpu in found.gpus] == [gpu.uuid for gpu in FACTS.gpus[1:]]
    assert "its compute mode is prohibited" in found.note

"""Crash texts. Those that take a GPU, or a machine short of memory, are as documented or reported, not recorded."""

from __future__ import annotations

import time

import pytest

from reprokit.evidence import crashes
from reprokit.evidence.observation import observe, primary_crash
from reprokit.evidence.parsers import parsers

DOCUMENTED = [
    ("RuntimeError: CUDA error: device-side assert triggered", "cuda"),
    ("CUDA runtime error(700): an illegal memory access was encountered", "cuda"),
    ("RuntimeError: cuda runtime error (59) : device-side assert triggered at /x/THCTensorMath.cu:15", "cuda"),
    ("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "cuda"),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "cuda"),
    ("OSError: (External) CUDA error(719), unspecified launch failure.", "cuda"),
    ("RuntimeError: Found no NVIDIA driver on your system.", "cuda"),
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "cuda-out-of-memory"),
    ("RuntimeError: CUDA error: out of memory", "cuda-out-of-memory"),
    ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "cuda-no-kernel"),
    ("nvcc fatal   : Unsupported gpu architecture 'sm_60'", "nvcc-fatal"),
    ("nvcc fatal   : Value 'sm_120' is not defined for option 'gpu-architecture'", "nvcc-fatal"),
    ("/app/dcn_v2_cuda.cu(107): error: identifier \"THCState_getCurrentStream\" is undefined", "compiler-error"),
    ("OpenEXR.cpp:36:10: fatal error: ImathBox.h: No such file or directory", "compiler-error"),
    ("g++: fatal error: Killed signal terminated program cc1plus", "killed"),
    ("[12.3] Out of memory: Killed process 123 (python) total-vm:1kB", "oom-kill"),
    ("Killed", "killed"),
    ("Segmentation fault (core dumped)", "signal"),
    ("Bus error (core dumped)", "signal"),
    ("ERROR: Unexpected bus error encountered in worker. This might be caused by", "bus-error"),
    ("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory:", "out-of-memory"),
    ("munmap_chunk(): invalid pointer", "abort"),
    ("corrupted size vs. prev_size", "abort"),
    ("libc++abi: terminating due to uncaught exception of type std::runtime_error: bad", "terminate"),
    ("==7==WARNING: MemorySanitizer: use-of-uninitialized-value", "sanitizer"),
    ("PreconditionNotMetError: (PreconditionNotMet) For batch [0]: U(2, 2) is zero, singular U.", "paddle-enforce"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "kind"), DOCUMENTED)
def test_documented_texts(line: str, kind: str) -> None:
    found = crashes.find(f"step 1\n{line}\nstep 2\n")
    assert [(crash.kind, crash.text, crash.line) for crash in found] == [(kind, line, 2)] or (
        [(crash.kind, crash.line) for crash in found] == [(kind, 2)] and found[0].text in line
    )


@pytest.mark.parametrize(
    "line",
    [
        "epoch 3 rmse error: 0.25",
        "Aborted transactions: 0",
        "CUDA available: True",
        "killed the old server",
        "CUDNN_STATUS_SUCCESS",
        "train.py:3: UserWarning: this will be an error in the future",
        "Assertion statistics: none",
        "free memory: 3 GB",
    ],
)
def test_ordinary_lines_are_not_crashes(line: str) -> None:
    assert crashes.find(f"{line}\n") == ()


def test_every_needle_is_reached_by_the_coarse_search() -> None:
    searched = [rule for parser in parsers() for rule in parser.crashes if rule.coarse != ()]
    needles = {needle for rule in searched for needle in rule.needles}
    coarse = crashes.coarse_texts()
    assert [needle for needle in sorted(needles) if not any(text in needle for text in coarse)] == []


def test_a_flood_of_crashes_keeps_its_two_ends() -> None:
    text = "".join(f"a.c:{n}:1: error: bad\n" for n in range(1, 5001))
    found = crashes.find(text)
    assert len(found) == 2 * crashes.PER_NEEDLE
    assert (found[0].line, found[-1].line) == (1, 5000)


def test_an_endless_line_costs_nothing() -> None:
    started = time.process_time()
    assert crashes.find("error: " * 500_000) == ()
    assert time.process_time() - started < 2


def test_the_cause_is_reported_rather_than_its_echo() -> None:
    echoed = observe("terminate called without an active exception\nbash: line 1: 7 Aborted  ./a.out\n")
    crash = primary_crash(echoed)
    assert crash is not None
    assert crash.kind == "terminate"
    first = primary_crash(observe("a.c:1:1: error: one\na.c:2:1: error: two\n"))
    assert first is not None
    assert first.text.endswith("one")
    assert primary_crash(observe("all well\n")) is None

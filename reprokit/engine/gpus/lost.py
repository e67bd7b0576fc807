"""Whether a trial failed because its GPU went away, which says nothing about the case. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reprokit.environment.host import Gpu, HostFacts

XIDS = (48, 62, 63, 64, 74, 79, 92, 94, 95, 119, 120)
"""Xid errors of a GPU that failed: docs.nvidia.com/deploy/xid-errors. A program's own error gives 13, 31, 43 or 45."""

_WORDS = re.compile(
    # NVML's and nvidia-smi's words for NVML_ERROR_GPU_IS_LOST.
    r"GPU is lost|GPU has fallen off the bus"
    # The kernel's.
    rf"|NVRM: Xid \(PCI:[^)]*\): (?:{'|'.join(map(str, XIDS))})\b"
    # A container that lost its devices while it ran: NVIDIA/nvidia-container-toolkit issue 48.
    r"|Failed to initialize NVML: Unknown Error"
    # cudaErrorECCUncorrectable: the memory of the GPU is broken.
    r"|uncorrectable ECC error encountered"
)
"""Text that only a GPU that is gone gives. A CUDA error that a program can cause (an illegal address, an assertion,
no memory, "unspecified launch failure") is a finding and must never be here.
"""


def gone(used: Sequence[Gpu], now: HostFacts) -> list[Gpu]:
    """Which of ``used`` the driver no longer knows."""
    there = {gpu.uuid for gpu in now.gpus}
    return [gpu for gpu in used if gpu.uuid not in there]


def said(text: str) -> str:
    """The first words of a log, or of the engine, that only a lost GPU gives; '' when there are none."""
    found = _WORDS.search(text)
    return found.group() if found else ""

"""What this host has: GPUs, driver, kernel, architecture. Asks nvidia-smi, never the container engine."""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass

QUERY = ("index", "uuid", "name", "memory.total", "compute_cap", "driver_version")
SECONDS = 10
MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU as nvidia-smi tells it. ``memory`` in bytes; ``compute`` is its capability (``9.0``)."""

    index: int
    uuid: str
    name: str
    memory: int
    compute: str


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """``driver`` is None without an NVIDIA driver; ``note`` then says why none was seen."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    kernel: str = ""
    architecture: str = "x86_64"
    note: str = ""


def facts() -> HostFacts:
    """Measure this host. A host without GPU answers at once; nvidia-smi that hangs is given up after 10 s."""
    gpus, driver, note = _nvidia()
    return HostFacts(gpus=gpus, driver=driver, kernel=platform.release(), architecture=platform.machine(), note=note)


def _nvidia() -> tuple[tuple[Gpu, ...], str | None, str]:
    program = shutil.which("nvidia-smi")
    if program is None:
        return (), None, "nvidia-smi was not found"
    try:
        done = subprocess.run(
            [program, f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return (), None, f"nvidia-smi failed: {error}"
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        return (), None, f"nvidia-smi failed: {said[0] if said else f'exit status {done.returncode}'}"
    gpus, driver = parse(done.stdout)
    return gpus, driver, "" if gpus else "nvidia-smi lists no GPU"


def parse(text: str) -> tuple[tuple[Gpu, ...], str | None]:
    """GPUs and driver from nvidia-smi's CSV (columns as in QUERY, no header, no units)."""
    gpus: list[Gpu] = []
    driver: str | None = None
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(",")]
        if len(fields) != len(QUERY) or not fields[0].isdigit():
            continue
        index, uuid, name, memory, compute, driver = fields
        # Unified-memory boards answer [N/A].
        size = int(memory) * MIB if memory.isdigit() else 0
        gpus.append(Gpu(index=int(index), uuid=uuid, name=name, memory=size, compute=compute))
    return tuple(gpus), driver

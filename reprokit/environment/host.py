"""What this host has: GPUs, driver, kernel, architecture. Asks NVML or nvidia-smi, never the container engine."""

from __future__ import annotations

import platform
import shutil
from dataclasses import dataclass, replace

from reprokit.engine.gpus import nvml

QUERY = ("index", "uuid", "name", "memory.total", "compute_cap", "driver_version")
MIB = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One GPU. ``memory`` in bytes, 0 = not told; ``compute`` is its capability (``9.0``).

    ``mig``: it is cut into instances (MIG mode) and cannot be had whole. ``processes``: pids that compute on it, as
    far as this user and pid namespace see them; nvidia-smi's list is not asked for.
    """

    index: int
    uuid: str
    name: str
    memory: int
    compute: str
    mig: bool = False
    processes: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HostFacts:
    """``driver`` is None without an NVIDIA driver; ``cuda``: the newest CUDA version that it runs ('' = not told).

    ``asked`` says who told: "NVML", "nvidia-smi" or '' (there is neither). ``note``: what is wrong, or why no GPU was
    seen, in words.
    """

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    cuda: str = ""
    kernel: str = ""
    architecture: str = "x86_64"
    asked: str = ""
    note: str = ""


def facts() -> HostFacts:
    """Measure this host. A host without GPU answers at once; an NVML that hangs is given up after 10 s."""
    return replace(_nvidia(), kernel=platform.release(), architecture=platform.machine())


def _nvidia() -> HostFacts:
    if nvml.library() and nvml.installed():
        return _by_nvml()
    if program := shutil.which("nvidia-smi"):
        return _by_program(program)
    if nvml.library():
        return HostFacts(note="there is an NVIDIA driver, but nobody to ask: pip install nvidia-ml-py")
    return HostFacts(note=f"neither {nvml.LIBRARY} nor nvidia-smi was found")


def _by_nvml() -> HostFacts:
    try:
        found = nvml.ask()
    except OSError as error:
        return HostFacts(asked="NVML", note=f"NVML failed: {error}")
    gpus = tuple(Gpu(**{**gpu, "processes": tuple(gpu["processes"])}) for gpu in found["gpus"])
    note = f"NVML says: {'; '.join(found['problems'])}" if found["problems"] else ""
    if not gpus and not note:
        note = "NVML lists no GPU"
    return HostFacts(gpus=gpus, driver=found["driver"], cuda=found["cuda"] or "", asked="NVML", note=note)


def _by_program(program: str) -> HostFacts:
    failed = "nvidia-smi failed"
    try:
        code, said = nvml.answer(
            [program, f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"], nvml.SECONDS
        )
    except OSError as error:
        return HostFacts(asked="nvidia-smi", note=f"{failed}: {error}")
    gpus, driver = parse(said)
    if code:
        # With one GPU lost it still lists the others, and says so in between.
        words = [line for line in said.splitlines() if line.count(",") != len(QUERY) - 1]
        note = f"{failed}: {words[0].strip() if words else f'exit status {code}'}"
        return HostFacts(gpus=gpus, driver=driver, asked="nvidia-smi", note=note)
    return HostFacts(gpus=gpus, driver=driver, asked="nvidia-smi", note="" if gpus else "nvidia-smi lists no GPU")


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

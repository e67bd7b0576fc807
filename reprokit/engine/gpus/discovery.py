"""Measures this host: GPUs, driver, kernel, architecture. Asks NVML or nvidia-smi, never the container engine."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from reprokit.engine.gpus import nvml
from reprokit.environment.host import QUERY, Gpu, GpuState, HostFacts, parse


def facts() -> HostFacts:
    """Measure this host. A host without GPU answers at once; an NVML that hangs is given up after 10 s."""
    return replace(_nvidia(), kernel=platform.release(), architecture=platform.machine())


def _nvidia() -> HostFacts:
    if nvml.library():
        return _by_nvml()
    if program := shutil.which("nvidia-smi"):
        return _by_program(program)
    return HostFacts(note=f"neither {nvml.LIBRARY} nor nvidia-smi was found")


def _by_nvml() -> HostFacts:
    try:
        found = nvml.ask()
    except OSError as error:
        return HostFacts(asked="NVML", note=f"NVML failed: {error}")
    gpus = tuple(_gpu(**gpu) for gpu in found["gpus"])
    note = f"NVML says: {'; '.join(found['problems'])}" if found["problems"] else ""
    if not gpus and not note:
        note = "NVML lists no GPU"
    return HostFacts(gpus=gpus, driver=found["driver"], cuda=found["cuda"] or "", asked="NVML", note=note)


def _gpu(*, processes: list[int], state: dict[str, Any], **told: Any) -> Gpu:
    words = GpuState(**{**state, "throttled": tuple(state["throttled"])})
    return Gpu(**told, processes=tuple(processes), state=words)


def _query(program: str, query: Sequence[str]) -> tuple[int, str]:
    return nvml.answer([program, f"--query-gpu={','.join(query)}", "--format=csv,noheader,nounits"], nvml.SECONDS)


def _by_program(program: str) -> HostFacts:
    failed = "nvidia-smi failed"
    query = QUERY
    try:
        code, said = _query(program, query)
        if code and 'Field "compute_cap" is not a valid field' in said:  # drivers before 510
            query = tuple(field for field in QUERY if field != "compute_cap")
            code, said = _query(program, query)
    except OSError as error:
        return HostFacts(asked="nvidia-smi", note=f"{failed}: {error}")
    gpus, driver = parse(said, query)
    if code:
        # With one GPU lost it still lists the others, and says so in between.
        words = [line for line in said.splitlines() if line.count(",") != len(query) - 1]
        note = f"{failed}: {words[0].strip() if words else f'exit status {code}'}"
        return HostFacts(gpus=gpus, driver=driver, asked="nvidia-smi", note=note)
    return HostFacts(gpus=gpus, driver=driver, asked="nvidia-smi", note="" if gpus else "nvidia-smi lists no GPU")

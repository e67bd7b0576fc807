"""Asks NVML, NVIDIA's management library, for the GPUs of this host.

In a process of its own, with a time limit: on a GPU that has died, NVML hangs and takes the process that asked with
it. The functions are those of the library's documentation (docs.nvidia.com/deploy/nvml-api), called through
``nvidia-ml-py``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

LIBRARY = "libnvidia-ml.so.1"
SECONDS = 10.0
"""How long NVML, or nvidia-smi, may take to answer. Without persistence mode a GPU takes a second or two to wake up."""

GPU_IS_LOST = (15, 999)
"""NVML_ERROR_GPU_IS_LOST (fallen off the bus or otherwise inaccessible) and NVML_ERROR_UNKNOWN, which follows it."""

COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")
"""nvmlComputeMode_t."""

_THROTTLES = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
}
"""nvmlClocksEventReasons, without those that say that nothing is to be done, or what was set on purpose."""


def in_own_process(module: str) -> list[str]:
    """The command that runs ``main`` of a module of this package."""
    # Not "-m", which would import from the user's folder whatever there has the name of a library.
    start = f"import sys; sys.path[0] = sys.argv.pop(1); from {__package__}.{module} import main; main()"
    return [sys.executable, "-c", start, str(Path(__file__).parents[3])]


def library() -> bool:
    """Whether the driver's NVML can be loaded here. Answers at once, and asks no GPU anything."""
    import ctypes

    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def ask(seconds: float = SECONDS) -> dict[str, Any]:
    """What NVML says: ``driver``, ``cuda`` (the newest that the driver runs), ``gpus`` and ``problems``, in words.

    Each GPU has ``index``, ``uuid``, ``name``, ``memory`` (bytes, 0 = not known), ``compute`` ("9.0"), ``mig``,
    ``processes`` (pids that compute on it) and ``state``, the fields of GpuState. One that is lost is a problem, not a
    GPU. Raises OSError when NVML does not answer.
    """
    code, said = answer(in_own_process("nvml"), seconds)
    with suppress(ValueError):
        found = json.loads(said.rpartition("\n")[2])
        if isinstance(found, dict):
            return found
    raise OSError(f"the process that asks NVML ended with {code}: {said.strip()[-300:]}")


def answer(argv: Sequence[str], seconds: float) -> tuple[int, str]:
    """Exit status and output (both streams) of a program. Raises OSError when it does not end in time.

    It is not waited for then: a process that hangs in the driver cannot even be killed.
    """
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C is for the run
    )
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdout is not None:
            process.stdout.close()
        raise OSError(f"no answer within {seconds:g} s") from None
    return process.returncode, said.strip()


def main() -> None:
    """The process: prints one line of JSON."""
    import pynvml  # type: ignore[import-untyped,import-not-found,unused-ignore]

    try:
        pynvml.nvmlInit()
        found = _found(pynvml)
    except pynvml.NVMLError as error:
        found = {"driver": None, "cuda": None, "gpus": [], "problems": [_words(error)]}
    print(json.dumps(found))


def _found(nvml: Any) -> dict[str, Any]:
    gpus: list[dict[str, Any]] = []
    problems: list[str] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            gpus.append(gpu := _gpu(nvml, index, handle))
            gpus += _instances(nvml, handle, gpu) if gpu["mig"] else []
        except nvml.NVMLError as error:
            problems.append(f"GPU {index}: {_words(error)}")
    cuda = _asked(nvml, lambda: nvml.nvmlSystemGetCudaDriverVersion(), 0)
    return {
        "driver": nvml.nvmlSystemGetDriverVersion(),
        "cuda": f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
        "gpus": gpus,
        "problems": problems,
    }


def _words(error: Exception) -> str:
    return str(error).rstrip(".")


def _instances(nvml: Any, handle: Any, whole: dict[str, Any]) -> list[dict[str, Any]]:
    """What a GPU in MIG mode is split into. A place may be empty; capability and state are those of the GPU."""
    found = []
    for slot in range(_asked(nvml, lambda: nvml.nvmlDeviceGetMaxMigDeviceCount(handle), 0)):
        if instance := _asked(nvml, partial(nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, slot), None):
            own = _gpu(nvml, whole["index"], instance)
            of = {"parent": whole["uuid"], "slot": slot, "mig": False}
            found.append(own | {key: whole[key] for key in ("compute", "state")} | of)
    return found


def _gpu(nvml: Any, index: int, handle: Any) -> dict[str, Any]:
    major, minor = _asked(nvml, lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle), (0, 0))
    return {
        "index": index,
        "uuid": nvml.nvmlDeviceGetUUID(handle),
        "name": nvml.nvmlDeviceGetName(handle),
        # Boards that share the host's memory do not tell.
        "memory": _asked(nvml, lambda: nvml.nvmlDeviceGetMemoryInfo(handle).total, 0),
        "compute": f"{major}.{minor}" if major else "",
        "mig": bool(_asked(nvml, lambda: nvml.nvmlDeviceGetMigMode(handle)[0], 0)),
        "processes": [
            entry.pid for entry in _asked(nvml, lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle), [])
        ],
        "state": _state(nvml, handle),
    }


def _state(nvml: Any, handle: Any) -> dict[str, Any]:
    mode = _asked(nvml, lambda: nvml.nvmlDeviceGetComputeMode(handle), -1)
    ecc = _asked(nvml, lambda: nvml.nvmlDeviceGetEccMode(handle)[0], None)
    uncorrected, since_loaded = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
    reasons = _asked(nvml, lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle), 0)
    return {
        "compute_mode": COMPUTE_MODES[mode] if 0 <= mode < len(COMPUTE_MODES) else "",
        "ecc": None if ecc is None else bool(ecc),
        "uncorrected": _asked(nvml, lambda: nvml.nvmlDeviceGetTotalEccErrors(handle, uncorrected, since_loaded), None)
        if ecc
        else None,
        "clock": _asked(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM), 0),
        "memory_clock": _asked(nvml, lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM), 0),
        "throttled": [words for bit, words in _THROTTLES.items() if reasons & bit],
    }


def _asked(nvml: Any, ask: Any, otherwise: Any) -> Any:
    """What ``ask`` says, or ``otherwise`` where this GPU or driver does not know; a lost GPU raises NVMLError."""
    try:
        return ask()
    except nvml.NVMLError as error:
        if error.value in GPU_IS_LOST:
            raise
        return otherwise

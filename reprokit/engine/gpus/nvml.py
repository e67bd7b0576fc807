"""Asks NVML, NVIDIA's management library, for the GPUs of this host, and hears of Xid errors.

In processes of their own, with a time limit: on a GPU that has died, NVML hangs and takes the process that asked with
it. Called through ``nvidia-ml-py``, as in docs.nvidia.com/deploy/nvml-api and docs.nvidia.com/deploy/xid-errors.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reprokit.environment.host import HostFacts

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


def own_process(function: str) -> list[str]:
    """The command that runs a function of this module."""
    # Not "-m", which would import from the user's folder whatever there has the name of a library.
    start = f"import sys; sys.path[0] = sys.argv.pop(1); from {__name__} import {function}; {function}()"
    return [sys.executable, "-c", start, str(Path(__file__).parents[3])]


def library() -> bool:
    """Whether the driver's NVML can be loaded here. Answers at once, and asks no GPU anything."""
    import ctypes

    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


def ask(seconds: float = SECONDS) -> HostFacts:
    """What NVML says; a GPU that is lost is in its note. Raises OSError when it does not answer."""
    from reprokit.environment.host import Gpu, GpuState, HostFacts

    code, said = answer(own_process("report_gpus"), seconds)
    with suppress(ValueError):
        found = json.loads(said.rpartition("\n")[2])
        if isinstance(found, dict):
            gpus = []
            for one in found["gpus"]:
                state = GpuState(**{**one["state"], "throttled": tuple(one["state"]["throttled"])})
                gpus.append(Gpu(**{**one, "processes": tuple(one["processes"]), "state": state}))
            note = f"NVML says: {'; '.join(found['problems'])}" if found["problems"] else ""
            note = note or ("" if gpus else "NVML lists no GPU")
            return HostFacts(
                gpus=tuple(gpus), driver=found["driver"], cuda=found["cuda"] or "", asked="NVML", note=note
            )
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


def report_gpus() -> None:
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


_WAIT = 500
"""Milliseconds for which the process waits for an error until it looks whether it is still needed."""


class XidWatch:
    """The Xid errors of all GPUs of this host from now on, as far as the driver reports them to this user.

    ``start`` starts the process, which ``close`` ends. On a host whose driver cannot be asked through NVML none is
    heard of.
    """

    def __init__(self) -> None:
        self._heard: list[tuple[str, int]] = []
        self._ready = threading.Event()
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """From now on."""
        if not library():
            return
        try:
            self._process = subprocess.Popen(
                own_process("report_xids"),
                stdin=subprocess.PIPE,  # it ends when this is closed, however this process ends
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,  # Ctrl-C is for the run
            )
        except OSError:  # no memory, no process: errors are not heard of, as without NVML
            return
        threading.Thread(target=self._read, args=(self._process,), name="xids", daemon=True).start()

    def mark(self) -> int:
        """The moment now, for ``since``. Waits until the driver reports errors, or cannot."""
        if self._process is not None and not self._ready.wait(SECONDS):
            self._ready.set()  # the driver hangs: no further trial waits for it
        return len(self._heard)

    def since(self, mark: int, uuids: Collection[str]) -> tuple[tuple[str, int], ...]:
        """(UUID, number) of the errors of these GPUs since then, each once, as they came."""
        return tuple(dict.fromkeys(one for one in self._heard[mark:] if one[0] in uuids))

    def close(self) -> None:
        """End the process. It is not waited for where the driver holds it."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(2 * _WAIT / 1000)
        except subprocess.TimeoutExpired:
            self._process.kill()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_WAIT / 1000)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with suppress(ValueError):
                    found = json.loads(line)
                    if found:
                        self._heard.append((found["uuid"], found["xid"]))
                    else:
                        self._ready.set()
        self._ready.set()


def report_xids() -> None:
    """The process: an empty object once the driver reports errors, then one for each, until its input is closed."""
    import pynvml  # type: ignore[import-untyped,import-not-found,unused-ignore]

    pynvml.nvmlInit()
    events = pynvml.nvmlEventSetCreate()
    uuids: dict[int | None, str] = {}
    for index in range(pynvml.nvmlDeviceGetCount()):
        with suppress(pynvml.NVMLError):  # a GPU that is lost, or that reports none
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuids[_address(handle)] = pynvml.nvmlDeviceGetUUID(handle)  # a GPU that is lost does not tell it any more
            pynvml.nvmlDeviceRegisterEvents(handle, pynvml.nvmlEventTypeXidCriticalError, events)
    print("{}", flush=True)
    pause = 0.0
    while not select.select([sys.stdin], [], [], pause)[0]:
        pause = 0.0
        try:
            event = pynvml.nvmlEventSetWait_v2(events, _WAIT)
            uuid = uuids.get(_address(event.device)) or pynvml.nvmlDeviceGetUUID(event.device)
        except pynvml.NVMLError_Timeout:
            continue
        except pynvml.NVMLError:  # one GPU is lost, and the others report theirs
            pause = _WAIT / 1000
            continue
        print(json.dumps({"uuid": uuid, "xid": event.eventData}), flush=True)


def _address(handle: Any) -> int | None:
    import ctypes

    return ctypes.cast(handle, ctypes.c_void_p).value

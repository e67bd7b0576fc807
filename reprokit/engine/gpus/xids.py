"""Hears of Xid errors, which the NVIDIA driver reports of a GPU that failed or whose program made an error.

In a process of its own, which can hang with the driver and takes nothing with it. Functions and event as in
docs.nvidia.com/deploy/nvml-api (nvmlEvents), errors as in docs.nvidia.com/deploy/xid-errors.
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
import threading
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from reprokit.engine.gpus import nvml

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
        if not nvml.library():
            return
        try:
            self._process = subprocess.Popen(
                nvml.in_own_process("xids"),
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
        if self._process is not None and not self._ready.wait(nvml.SECONDS):
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


def main() -> None:
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

"""Makes a context on the first GPU through libcuda (or pretends to), says so, and holds it until stdin ends."""

from __future__ import annotations

import ctypes
import sys


def hold() -> ctypes.CDLL:
    """A context with a megabyte on the first GPU, and the library."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    for error in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        cuda.cuCtxSetCurrent(context),
        cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(1 << 20)),
    ):
        if error:
            raise OSError(f"libcuda answers {error}")
    return cuda


if __name__ == "__main__":
    if sys.argv[1] == "cuda":
        hold()
    print("holds", flush=True)
    sys.stdin.read()

"""The libraries that PaddlePaddle opens by name: those that it was seen to look for, and a program that makes it look.

Source: paddlepaddle-gpu 2.6.2 of Python's index, each exported function phi::dynload::Get...DsoHandle called under
LD_DEBUG=libs (2026-11). The names are in its machine code, not among its strings. The same list is in
paddle/phi/backends/dynload/dynamic_loader.cc of https://github.com/PaddlePaddle/Paddle.
"""

WHEELS = {
    "libcublas.so": "nvidia-cublas",
    "libcublasLt.so": "nvidia-cublas",
    "libcudnn.so": "nvidia-cudnn",
    "libcufft.so": "nvidia-cufft",
    "libcupti.so": "nvidia-cuda-cupti",
    "libcurand.so": "nvidia-curand",
    "libcusolver.so": "nvidia-cusolver",
    "libcusparse.so": "nvidia-cusparse",
    "libnccl.so": "nvidia-nccl",
    "libnvToolsExt.so": "nvidia-nvtx",
    "libnvjpeg.so": "nvidia-nvjpeg",
    "libnvrtc.so": "nvidia-cuda-nvrtc",
}
"""Those of CUDA, with the wheel that has each."""

OTHERS = {
    "libcuda.so": "the driver's: it comes with a GPU",
    "libcusparseLt.so": "cuSPARSELt: for sparse 2:4 products alone",
    "libmkl_rt.so": "MKL: for sparse products on a CPU",
    "libnvinfer.so": "TensorRT: for its inference engine alone",
}
"""Those that no toolkit has, and why a cell does without."""

PROGRAM = """\
import ctypes, mmap, os, pathlib, re, sys

if sys.argv[1:]:
    for name in sys.argv[1:]:
        ctypes.CDLL(name)
        print(name)
    sys.exit()

import paddle

path = pathlib.Path(paddle.__file__).parent / "libs" / "libphi.so"
phi = ctypes.CDLL(str(path))
with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as text:
    handles = sorted(set(re.findall(rb"_ZN3phi7dynload\\d+Get\\w+DsoHandleEv", text)))
os.write(2, b"libraries of functions\\n")
for name in handles:
    if os.fork() == 0:  # one whose library is missing aborts
        getattr(phi, name.decode())()
        os._exit(0)
    os.wait()
"""
"""Calls each of these functions; with arguments, opens these libraries instead, and prints what opens."""

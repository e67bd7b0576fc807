"""Errors of CUDA and its libraries, as PyTorch, Paddle, CuPy and CUDA's own programs word them."""

from __future__ import annotations

from reprokit.evidence.parser import CrashRule, Parser, Trait

PARSER = Parser(
    name="cuda",
    traits=frozenset({Trait.NATIVE}),
    golden=("cuda-*",),
    version="1",
    precedence=60,
    crashes=(
        CrashRule(
            kind="cuda-out-of-memory",
            needles=("ut of memory",),
            coarse=(" memory",),
            pattern=r".*CUDA (?:error: )?out of memory.*",
        ),
        CrashRule(kind="cuda-no-kernel", needles=("no kernel image",), pattern=r".*no kernel image is available.*"),
        CrashRule(
            kind="cuda",
            needles=("CUDA error", "CUDA runtime error", "CUDA driver error", "cuda runtime error", "cudaError"),
            coarse=("rror",),
            pattern=r".*CUDA (?:runtime |driver )?error(?!: (?:out of memory|no kernel image))[ :(].*"
            r"|.*cuda runtime error \(\d+\).*|.*\bcudaError(?!NoKernelImage|MemoryAllocation)[A-Z]\w+.*",
        ),
        CrashRule(
            kind="cuda",
            needles=("_STATUS_",),
            pattern=r".*\b(?:CUDNN|CUBLAS|CUSOLVER|CUSPARSE|CUFFT)_STATUS_(?!SUCCESS)\w+.*",
        ),
        CrashRule(kind="cuda", needles=("NVIDIA driver",), pattern=r".*(?:no NVIDIA driver|NVIDIA driver .*too old).*"),
    ),
)

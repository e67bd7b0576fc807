"""What sanitizers need: those of gcc and clang flags where programs are compiled, compute-sanitizer to run them.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reprokit.case.cellspec import CellSpec

PRELOADED = "/opt/reprokit/sanitizer.so"
"""Where an image has the sanitizer's library of its gcc, which an interpreter that is built without it loads first."""


@dataclass(frozen=True, kw_only=True)
class Sanitizer:
    """``flags`` of the compiler, gcc's ``library``, and the variable ``options`` with its ``settings``."""

    flags: str
    library: str
    options: str
    settings: str


SANITIZERS: Mapping[str, Sanitizer] = {
    "address": Sanitizer(
        flags="-fsanitize=address",
        library="libasan.so",
        options="ASAN_OPTIONS",
        settings="detect_stack_use_after_return=1",
    ),
    "thread": Sanitizer(
        flags="-fsanitize=thread", library="libtsan.so", options="TSAN_OPTIONS", settings="second_deadlock_stack=1"
    ),
    "undefined": Sanitizer(
        flags="-fsanitize=undefined",
        library="libubsan.so",
        options="UBSAN_OPTIONS",
        settings="print_stacktrace=1:halt_on_error=1",
    ),
}


COMPUTE = ("memcheck", "racecheck", "initcheck", "synccheck")
"""The tools of compute-sanitizer."""
COMPUTE_SANITIZER = "/opt/reprokit/compute-sanitizer"
"""Where an image has a script that starts it, wherever it lies."""
FOUND_ERRORS = "1"
"""Its exit status where it reports something of a program that passes, as AddressSanitizer's."""


def unmet(spec: CellSpec) -> str:
    """What a cell lacks that its sanitizer needs, in words; '' mostly.

    Without a GPU there is nothing to look after; and without its driver compute-sanitizer kills what it starts.
    """
    if spec.environment.sanitize in COMPUTE and not spec.limits.gpus:
        return f"environment.sanitize: {spec.environment.sanitize} is for kernels on a GPU: write resources.gpus: 1"
    return ""


def command(spec: CellSpec) -> tuple[str, ...]:
    """The command of a cell's trials: its own, or compute-sanitizer's, which runs it."""
    if spec.environment.sanitize not in COMPUTE:
        return spec.command
    options = ("--target-processes", "all", "--error-exitcode", FOUND_ERRORS)
    return (COMPUTE_SANITIZER, "--tool", spec.environment.sanitize, *options, *spec.command)


def flags(kind: str) -> dict[str, str]:
    """The variables by which what is compiled, while an image is built and by a command, gets a sanitizer."""
    if kind in COMPUTE:
        return {"NVCC_APPEND_FLAGS": "-lineinfo"}
    own = SANITIZERS[kind].flags
    compiled = f"{own} -fno-omit-frame-pointer -g"
    return {"CFLAGS": compiled, "CXXFLAGS": compiled, "LDFLAGS": own}


def variables(spec: CellSpec) -> dict[str, str]:
    """The variables of a cell's trials, beside those of its case.

    An interpreter leaks by design, so that leaks are looked for only where a cell has no Python.
    """
    if not spec.environment.sanitize:
        return {}
    if spec.environment.sanitize in COMPUTE:
        return flags(spec.environment.sanitize)
    one = SANITIZERS[spec.environment.sanitize]
    if "python" not in spec.cell:
        return {**flags(spec.environment.sanitize), one.options: one.settings}
    settings = one.settings + (":detect_leaks=0" if spec.environment.sanitize == "address" else "")
    return {**flags(spec.environment.sanitize), one.options: settings, "LD_PRELOAD": PRELOADED}

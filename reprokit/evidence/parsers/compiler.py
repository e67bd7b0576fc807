"""Errors of compilers: nvcc, ptxas, GCC, Clang and others that write ``file:line: error:``."""

from __future__ import annotations

from reprokit.evidence.parser import CrashRule, Parser, Trait

PARSER = Parser(
    name="compiler",
    traits=frozenset({Trait.COMPILER}),
    golden=("gxx-missing-header", "gxx-undeclared", "python-build-failed", "ptxas-*", "nvcc-*"),
    version="1",
    precedence=80,
    crashes=(
        CrashRule(kind="nvcc-fatal", needles=("nvcc fatal",), coarse=("fatal",), pattern=r"nvcc fatal\s*:.*"),
        CrashRule(
            kind="ptxas-fatal",
            needles=("ptxas fatal", "ptxas error", "; fatal", "; error"),
            coarse=("fatal", "rror"),
            pattern=r"ptxas (?:fatal|error)\s*:.*|ptxas .*; (?:fatal|error)\s*:.*",
        ),
        CrashRule(
            kind="compiler-error",
            needles=("error: ", "error #"),
            coarse=("rror",),
            pattern=r"^[^\s:(][^\n:(]*(?::\d+(?::\d+)?|\(\d+(?:,\d+)?\)): (?:catastrophic |internal compiler |fatal )?"
            r"error(?: #?\w+)?: .*",
        ),
    ),
)

"""Memory that ran out: allocations that the system refuses, and the kernel's OOM killer."""

from __future__ import annotations

from reprokit.evidence.parser import CrashRule, Parser, Trait

PARSER = Parser(
    name="memory",
    traits=frozenset({Trait.NATIVE}),
    golden=("memory-*",),
    version="1",
    precedence=50,
    crashes=(
        CrashRule(
            kind="oom-kill",
            needles=("oom-kill", "oom_kill", "ut of memory: Killed"),
            coarse=("oom-k", "oom_k", " memory"),
            pattern=r".*",
        ),
        CrashRule(
            kind="out-of-memory",
            needles=("allocate memory",),
            coarse=(" memory",),
            pattern=r".*(?:can't allocate memory|Cannot allocate memory).*",
        ),
    ),
)

"""Signals that come from outside and are the cause themselves: SIGKILL, and SIGBUS where shared memory ran out."""

from __future__ import annotations

from reprokit.evidence.parser import CrashRule, Parser, Trait
from reprokit.evidence.parsers.signal import signal_in

PARSER = Parser(
    name="killed",
    traits=frozenset({Trait.SIGNAL}),
    golden=("shell-killed", "shell-signals", "torch-worker-killed", "torch-worker-bus-error"),
    version="1",
    precedence=40,
    said=signal_in,
    crashes=(
        CrashRule(
            kind="bus-error",
            needles=("us error",),
            coarse=("rror",),
            pattern=r".*(?:nexpected bus error|killed by signal: Bus error).*",
        ),
        CrashRule(
            kind="killed",
            needles=("Killed",),
            coarse=("illed",),
            pattern=r"^(?:\S+: line \d+: +\d+ )?Killed(?: .*)?$|.*killed by signal: Killed.*"
            r"|.*Killed signal terminated program.*",
        ),
    ),
)

"""Checks of this host: what would keep reprokit from running cases, with a suggested fix for each problem.

Each module has the checks of one concern: functions from a :class:`Ground` to findings. A check that fails, or takes
too long, is itself a finding.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from reprokit.cli.doctor import engines, gpus, indexes, itself, kept
from reprokit.cli.doctor.ground import CheckTimedOut, Finding, Ground, Status, later, survey
from reprokit.core.errors import ReprokitError

__all__ = ["CHECKS", "Finding", "Ground", "Status", "examine", "exit_status", "survey"]

SECONDS = 20.0
"""How long a check may take."""

Checker = Callable[[Ground], Iterator[Finding]]

CHECKS: dict[str, Checker] = {
    "reprokit": itself.check_reprokit,
    "engine": engines.check,
    "buildkit": engines.builds,
    "limits": engines.limits,
    "disk": kept.check_disk,
    "store": kept.check_store,
    "base images": itself.check_bases,
    "gpu": gpus.check,
    "cuda": gpus.check_cuda,
    "network": indexes.check,
    "venv": itself.check_venv,
    "locks": kept.check_locks,
    "leftovers": kept.check_leftovers,
}
"""The checks in the order in which they are shown."""


def examine(ground: Ground, checks: dict[str, Checker] | None = None, *, seconds: float = SECONDS) -> list[Finding]:
    """All findings, in the order of the checks, which run in parallel. Raises nothing.

    ``checks``: all by default. ``seconds``: the time limit for all checks together.
    """
    checks = CHECKS if checks is None else checks
    found: dict[str, list[Finding]] = {name: [] for name in checks}
    end = time.monotonic() + seconds
    waiting = {name: later(lambda name=name: found[name].extend(checks[name](ground))) for name in checks}  # type: ignore[misc]
    for name, wait in waiting.items():
        try:
            wait(max(0.0, end - time.monotonic()))
        except Exception as error:
            # The text of our own errors is complete; other errors need their class, too.
            what = str(error) if isinstance(error, ReprokitError) else f"{type(error).__name__}: {error}"
            if isinstance(error, CheckTimedOut):
                what = f"no answer within {seconds:g} s"
            found[name].append(Finding(check=name, status=Status.WARN, text=f"this check failed: {what}"))
    return [finding for name in checks for finding in list(found[name])]


def exit_status(findings: Sequence[Finding]) -> int:
    """The exit status of the command: 3 when something prevents runs, else 0."""
    return 3 if any(finding.status is Status.FAIL for finding in findings) else 0

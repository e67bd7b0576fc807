"""A log, read once: every exception and every crash that it shows."""

from __future__ import annotations

from reprokit.evidence import crashes, pytest_style, tracebacks
from reprokit.evidence.model import Crash, ExceptionSeen, Observation
from reprokit.evidence.text import CUT_MARK, clean

_FIRST_COUNTS = frozenset({"compiler-error", "linker-error", "ptxas-fatal", "nvcc-fatal"})
_ECHO = frozenset({"signal", "linker-error", "paddle-enforce"})


def observe(text: str) -> Observation:
    """Return what ``text``, a log as written to its file, shows. Pure; never raises on any text."""
    cleaned = clean(text)
    found: list[ExceptionSeen] = []
    if "Traceback" in cleaned or 'File "' in cleaned:
        found.extend(tracebacks.parse(cleaned.split("\n")))
    if "\nE  " in cleaned:
        found.extend(pytest_style.parse(cleaned.split("\n")))
    found.sort(key=lambda exception: exception.end_line)
    return Observation(exceptions=tuple(found), crashes=crashes.find(cleaned))


def without_cuts(text: str) -> str:
    """Return cleaned ``text`` without the lines that say how much of the log was cut."""
    cleaned = clean(text)
    return CUT_MARK.sub("", cleaned) if "[reprokit: " in cleaned else cleaned


def last_exception(observation: Observation) -> ExceptionSeen | None:
    """The exception that the contract means: the last one printed, and of those that Python ignored only if alone."""
    own = [exception for exception in observation.exceptions if not exception.ignored]
    candidates = own or list(observation.exceptions)
    return candidates[-1] if candidates else None


def cause_of(seen: ExceptionSeen | None, observation: Observation) -> ExceptionSeen | None:
    """The exception that was printed as the cause or context of ``seen``, right before it; None without one."""
    before = [each for each in observation.exceptions if seen is not None and each.end_line < seen.line]
    return before[-1] if before and before[-1].cause_of_next else None


def telling_crash(observation: Observation) -> Crash | None:
    """The crash that says most about the end: a compiler's first error, else the last that names a cause.

    A shell's ``Aborted`` or a linker's complaint only echoes what came before it.
    """
    if not observation.crashes:
        return None
    causes = [crash for crash in observation.crashes if crash.kind not in _ECHO]
    if causes and all(crash.kind in _FIRST_COUNTS for crash in causes):
        return causes[0]
    return (causes or list(observation.crashes))[-1]

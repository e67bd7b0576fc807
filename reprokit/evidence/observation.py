"""A log, read once: every exception and every crash that the parsers find in it."""

from __future__ import annotations

from reprokit.evidence import crashes
from reprokit.evidence.model import Crash, ExceptionSeen, Observation
from reprokit.evidence.parser import Trait
from reprokit.evidence.parsers import has, parsers
from reprokit.evidence.text import CUT_MARK, clean


def observe(text: str) -> Observation:
    """Return what ``text``, a log as written to its file, shows. Pure; never raises on any text."""
    cleaned = clean(text)
    found: list[ExceptionSeen] = []
    for parser in parsers():
        if parser.exceptions and any(needle in cleaned for needle in parser.exceptions.needles):
            found.extend(parser.exceptions.read(cleaned.split("\n")))
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


def primary_crash(observation: Observation) -> Crash | None:
    """The crash that says most about the end: a compiler's first error, else the last that names a cause.

    A shell's ``Aborted`` or a linker's complaint only echoes what came before it.
    """
    if not observation.crashes:
        return None
    causes = [crash for crash in observation.crashes if not has(crash.kind, Trait.ECHO)]
    if causes and all(has(crash.kind, Trait.COMPILER) for crash in causes):
        return causes[0]
    return (causes or list(observation.crashes))[-1]

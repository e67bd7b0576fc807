"""A log, read once: every exception and every crash that the parsers find in it."""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from reprokit.evidence import crashes
from reprokit.evidence.model import Crash, ExceptionSeen, Observation
from reprokit.evidence.parser import Trait
from reprokit.evidence.parsers import has, parser_of, parsers
from reprokit.evidence.text import CUT_MARK, clean


def observe(text: str) -> Observation:
    """Return what ``text``, a log as written to its file, shows. Pure; never raises on any text."""
    cleaned = clean(text)
    found: list[ExceptionSeen] = []
    for parser in parsers():
        if parser.exceptions and any(needle in cleaned for needle in parser.exceptions.needles):
            found.extend(parser.exceptions.read(cleaned.split("\n")))
    found.sort(key=lambda exception: exception.end_line)
    return Observation(exceptions=tuple(_of_tests(found, cleaned)), crashes=crashes.find(cleaned))


_PYTEST = re.compile(r"={3,} (.+?) ={3,}$|(\d+ (?:failed|passed|error|deselected|skipped)).* in [\d.]+s\b")
_PARTS = {"FAILURES": "test", "ERRORS": "test", "short test summary info": "test"}
_PARTS |= dict.fromkeys(("PASSES", "XFAILURES", "XPASSES"), "captured")
_CAPTURED = re.compile(r"-{3,} Captured .* -{3,}$|Std(?:out|err):$|-+ >> begin captured ")
_TEST = re.compile(r"_{3,} .+ _{3,}$|-+ >> end captured ")


def _of_tests(found: Sequence[ExceptionSeen], text: str) -> Iterator[ExceptionSeen]:
    """The exceptions, with what the reports of pytest, unittest and nose say of those that stand in them."""
    parts, section, before = [(0, "")], "", ""
    for number, line in enumerate(text.split("\n") if found else (), 1):
        part = ""
        if pytest := _PYTEST.match(line):
            part = section = _PARTS.get(pytest[1] or "", "")
        elif line.startswith(("ERROR: ", "FAIL: ")) and before == "=" * 70:
            part = section = "test"
        elif section and line.startswith("Ran ") and before == "-" * 70:
            section = ""
        elif section and _CAPTURED.match(line):
            part = "captured"
        elif not (section and _TEST.match(line)):
            before = line
            continue
        before = line
        parts.append((number, part or section))
    for one in found:
        part = parts[bisect.bisect(parts, (one.line, "~")) - 1][1]
        of_test = one.of_test or part == "test"
        yield replace(one, of_test=of_test, captured=part == "captured" and not of_test) if part else one


def remove_cuts(text: str) -> str:
    """Return cleaned ``text`` without the lines that say how much of the log was cut."""
    cleaned = clean(text)
    return CUT_MARK.sub("", cleaned) if "[reprokit: " in cleaned else cleaned


def last_exception(observation: Observation) -> ExceptionSeen | None:
    """The exception that the contract means: the last one printed, and of those that Python ignored only if alone."""
    seen = [exception for exception in observation.exceptions if not exception.captured]
    candidates = [exception for exception in seen if not exception.ignored] or seen
    return candidates[-1] if candidates else None


_ENDED_WITH_1 = re.compile(r"returned non-zero exit status 1\.")
_PYTHON = re.compile(r"python|\.py\b|pytest|torchrun|accelerate|deepspeed|mpi(?:run|exec)")
_OUTERMOST = re.compile(r"<module>|_run_module_as_main$")


def failing_exceptions(observation: Observation) -> tuple[ExceptionSeen, ...]:
    """The exceptions that may be how the program failed, the last one first.

    They are the last one, or those of all tests that failed, and what C++ was terminated by. Behind each that only
    reports a program of Python which ended with 1 stand the exceptions that this program may have ended with.
    """
    last = last_exception(observation)
    thrown: list[ExceptionSeen] = []
    for crash in (each for each in observation.crashes if each.kind == "terminate"):
        kind, _, message = parser_of(crash.kind).said(crash.text).partition(": ")
        thrown = [ExceptionSeen(type=kind, message=message, line=crash.line, end_line=crash.line, statuses=(134,))]
    if last is None:
        return tuple(thrown)
    tests = [each for each in observation.exceptions if each.of_test and not each.cause_of_next and not each.ignored]
    found = tests[::-1] if last.of_test else [last]
    return (*(each for one in found for each in (one, *_of_children(one, observation.exceptions))), *thrown)


def _of_children(one: ExceptionSeen, seen: Sequence[ExceptionSeen]) -> list[ExceptionSeen]:
    """What the programs that ``one`` reports printed before; of a test, what its runner captured."""
    others = [each for each in reversed(seen) if each is not one and not each.ignored and not each.cause_of_next]
    before = [each for each in others if each.end_line < one.line and not each.captured and not each.of_test]
    worker = [each for each in before if each.frames and each.frames[0].file.endswith("multiprocessing/process.py")]
    ranks = one.type.endswith("ChildFailedError")
    run = one.type.endswith("CalledProcessError") and _ENDED_WITH_1.search(one.message) and _PYTHON.search(one.message)
    if not (ranks or run):
        return worker
    if one.of_test:
        before = [each for each in others if each.captured and each.line > one.end_line]
    own = [each for each in before if each.frames and _OUTERMOST.match(each.frames[0].function)]
    return own if ranks else own[:1]


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

"""What is left: the exception that a program ended with, what bash says, and the case's line that failed."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser
from reprokit.evidence.observation import last_exception, observe

_MODULE = re.compile(r"No module named '(?P<name>[\w.]+)'")
_ERROR = re.compile(r"(?:error|ERROR|Error): ")
_STEPS = re.compile(r"(?:running|creating|writing|reading|copying|adding|warning:|no previously-included) ?")
_FEW = 25
"""Lines of a program that only says why it does not go on."""
_BASH = re.compile(r"/(?:setup|generate)[-\d]*\.sh: line \d+: (?P<said>.+)")


def _read(log: BuildLog) -> BuildCause | None:
    return _exception(log) or _bash(log) or _built(log) or _line(log)


def _exception(log: BuildLog) -> BuildCause | None:
    if log.at and log.at.command and "Traceback" not in log.text:
        return None
    seen = last_exception(observe(log.inner)) or last_exception(observe(log.text))
    if seen is None or (seen.type == "CalledProcessError" and not log.subject):
        return None
    said = f"{seen.type}: {seen.message.splitlines()[0]}" if seen.message else seen.type
    if (module := _MODULE.search(seen.message)) and log.subject:
        return BuildCause(
            sentence=f"{log.building} imports {module['name']}, which is not in its build environment",
            advice="where the package does not declare it: install it first, in a step with --no-build-isolation",
        )
    if module:
        return BuildCause(sentence=f"the Python module {module['name']} is not installed")
    who = f"setup.py of {log.subject}" if log.subject else log.program
    return BuildCause(sentence=f"{who} ends with {said}")


def _built(log: BuildLog) -> BuildCause | None:
    """What the program said last that pip started to build a package."""
    if not log.subject:
        return None
    said = [line for line in log.inner.splitlines() if line.strip() and not _STEPS.match(line)]
    errors = [line.partition(": ")[2] for line in said if _ERROR.match(line)]
    # A program that refuses to go on says why first; one that fails on its way says it last.
    words = errors[-1:] or (said[:2] if len(said) <= _FEW else said[-2:])
    return BuildCause(sentence=f"{log.building} fails: {' '.join(words).strip()}") if words else None


def _bash(log: BuildLog) -> BuildCause | None:
    found = log.last(_BASH.pattern)
    return BuildCause(sentence=found["said"]) if found else None


def _line(log: BuildLog) -> BuildCause | None:
    if log.at is None:
        return None
    said = log.lines[-2].strip() if len(log.lines) > 1 else ""
    what = f"{log.program} failed with exit status {log.at.status}"
    return BuildCause(sentence=f"{what}: {said}" if said and log.text else what)


PARSER = BuildParser(name="scripts", read=_read, precedence=90)

"""What a host gives a build: disk, memory and time."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser

_DISK = re.compile(r"^(?P<line>.*(?:[Nn]o space left on device|[Dd]isk quota exceeded).*)$", re.M)
_PATH = re.compile(r"['‘\"](?P<path>/[^'’\"]+)['’\"]")
_KILLED = re.compile(
    r"Killed signal terminated program (?P<a>\S+)|^(?P<b>\S+): line \d+: +\d+ Killed(?P<c>.*)|\bKilled$"
    r"|signal: 9, SIGKILL|terminated by signal 9|SIGKILL",
    re.M,
)
_MEMORY = re.compile(
    r"^(?P<a>MemoryError.*)|(?P<b>virtual memory exhausted.*)|(?P<c>std::bad_alloc)|(?P<d>[Cc]annot allocate memory)"
    r"|(?P<e>JavaScript heap out of memory)|(?P<f>out of memory allocating \d+ bytes)",
    re.M,
)
_TIME_LIMIT = 124
_KILL = 137


def _read(log: BuildLog) -> BuildCause | None:
    if disk := log.last(_DISK.pattern):
        path = _PATH.search(disk["line"]) or re.search(r"(?P<path>/dev/\w[\w/.-]*)", log.at.command if log.at else "")
        return BuildCause(
            sentence=f"no space left on the device of {path['path']}" if path else "no space left on device"
        )
    killed = _KILLED.search(log.text)
    if killed or _KILL in (log.status, log.at.status if log.at else 0):
        who = (killed["a"] if killed else "") or log.program
        return BuildCause(
            sentence=f"{who} was killed (SIGKILL), as the kernel does when memory runs out",
            advice="give the engine more memory, or let the step use less (fewer jobs at a time)",
        )
    if memory := _MEMORY.search(log.text):
        said = next(filter(None, memory.groups()))
        return BuildCause(sentence=f"a program did not get the memory that it asked for: {said}")
    if log.at and log.at.status == _TIME_LIMIT and "timeout" in log.at.command:
        return BuildCause(sentence=f"the time limit of {log.program} was reached (exit status 124)")
    return None


PARSER = BuildParser(name="resources", read=_read, precedence=5)

"""Failures that are no Python traceback: aborts, signals, sanitizers, CUDA, Paddle, nvcc, compilers, the OOM killer.

A rule looks only at lines that hold one of its needles (plain text), so a large log is searched at the speed of
``find`` and an endless line costs nothing. Texts are from real runs (``tests/golden``), and where that takes hardware,
from the sources of CUDA, PyTorch and Paddle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from reprokit.core.text import one_line
from reprokit.evidence.model import Crash

PER_NEEDLE = 100
"""Lines with one needle that are looked at from the start of a text, and as many from its end."""
_BEFORE, _AFTER = 1000, 2000
"""Characters around a needle that a rule gets to see at most; a rule may look at the two lines that follow."""

_SIGNALS = (
    "Segmentation fault",
    "Aborted",
    "Bus error",
    "Floating point exception",
    "Illegal instruction",
    "Trace/breakpoint trap",
)
ENFORCE = (
    "InvalidArgument",
    "NotFound",
    "OutOfRange",
    "AlreadyExists",
    "ResourceExhausted",
    "PreconditionNotMet",
    "PermissionDenied",
    "ExecutionTimeout",
    "Unimplemented",
    "Unavailable",
    "Fatal",
    "External",
)


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How one kind of crash looks. ``pattern`` (multi-line) matches it; group ``text``, or the whole, is its text."""

    kind: str
    needles: tuple[str, ...]
    pattern: str


RULES = (
    Rule(
        kind="terminate",
        needles=("terminate called",),
        pattern=r"terminate called (?:after throwing an instance of '[^'\n]*'|without an active exception|recursively)"
        r"(?:\n+ *what\(\):[^\n]*)?",
    ),
    Rule(kind="terminate", needles=("libc++abi",), pattern=r"libc\+\+abi(?:\.dylib)?: terminating .*"),
    Rule(
        kind="abort",
        needles=("(): ",),
        pattern=r"(?:free|malloc|realloc|calloc|munmap_chunk|mremap_chunk|malloc_consolidate|sysmalloc)\(\): "
        r"(?:invalid|double free|corrupted|unaligned|mismatching|unsorted|largebin|smallbin|memory|too many).*",
    ),
    Rule(
        kind="abort",
        needles=("double free or corruption", "corrupted "),
        pattern=r"double free or corruption.*|corrupted (?:size vs|double-linked).*",
    ),
    Rule(kind="abort", needles=(" detected ***",), pattern=r"\*\*\* .* detected \*\*\*.*"),
    Rule(kind="assertion", needles=("Assertion ",), pattern=r"^.*: Assertion [`'].*' failed\.?"),
    Rule(kind="sanitizer", needles=("Sanitizer: ",), pattern=r"(?:ERROR|WARNING): \w+Sanitizer: .*"),
    Rule(kind="sanitizer", needles=("runtime error: ",), pattern=r"^\S+:\d+:\d+: runtime error: .*"),
    Rule(kind="signal", needles=("Fatal Python error",), pattern=r"Fatal Python error: .*"),
    Rule(
        kind="signal",
        needles=("detected by the operating system", "[SignalInfo: "),
        pattern=r"\w*Error: .*detected by the operating system.*|\[SignalInfo: \*\*\* SIG.*",
    ),
    Rule(
        kind="signal",
        needles=_SIGNALS,
        pattern=rf"^\S+: line \d+: +\d+ +(?:{'|'.join(_SIGNALS)}).*|^(?:{'|'.join(_SIGNALS)})(?: \(core dumped\))?$",
    ),
    Rule(kind="signal", needles=("segmentation fault",), pattern=r".*nexpected segmentation fault encountered.*"),
    Rule(kind="signal", needles=("killed by signal: ",), pattern=r".*killed by signal: (?!Killed|Bus error).*"),
    Rule(kind="bus-error", needles=("us error",), pattern=r".*(?:nexpected bus error|killed by signal: Bus error).*"),
    Rule(
        kind="killed",
        needles=("Killed",),
        pattern=r"^(?:\S+: line \d+: +\d+ )?Killed(?: .*)?$|.*killed by signal: Killed.*"
        r"|.*Killed signal terminated program.*",
    ),
    Rule(kind="oom-kill", needles=("oom-kill", "oom_kill", "ut of memory: Killed"), pattern=r".*"),
    Rule(
        kind="out-of-memory",
        needles=("allocate memory",),
        pattern=r".*(?:can't allocate memory|Cannot allocate memory).*",
    ),
    Rule(kind="cuda-out-of-memory", needles=("ut of memory",), pattern=r".*CUDA (?:error: )?out of memory.*"),
    Rule(kind="cuda-no-kernel", needles=("no kernel image",), pattern=r".*no kernel image is available.*"),
    Rule(
        kind="cuda",
        needles=("CUDA error", "CUDA runtime error", "CUDA driver error", "cuda runtime error", "cudaError"),
        pattern=r".*CUDA (?:runtime |driver )?error(?!: (?:out of memory|no kernel image))[ :(].*"
        r"|.*cuda runtime error \(\d+\).*|.*\bcudaError(?!NoKernelImage|MemoryAllocation)[A-Z]\w+.*",
    ),
    Rule(
        kind="cuda",
        needles=("_STATUS_",),
        pattern=r".*\b(?:CUDNN|CUBLAS|CUSOLVER|CUSPARSE|CUFFT)_STATUS_(?!SUCCESS)\w+.*",
    ),
    Rule(kind="cuda", needles=("NVIDIA driver",), pattern=r".*(?:no NVIDIA driver|NVIDIA driver .*too old).*"),
    Rule(
        kind="paddle-enforce",
        needles=tuple(f"({name}) " for name in ENFORCE),
        pattern=rf"(?:\w*Error: )?\((?:{'|'.join(ENFORCE)})\) .*(?:\n\s+\[Hint: .*)?",
    ),
    Rule(
        kind="paddle-enforce",
        needles=("Error Message Summary:",),
        pattern=r"Error Message Summary:\n-+\n(?P<text>\w+: (?!.*detected by the operating system).*)",
    ),
    Rule(kind="nvcc-fatal", needles=("nvcc fatal",), pattern=r"nvcc fatal\s*:.*"),
    Rule(
        kind="ptxas-fatal",
        needles=("ptxas fatal", "ptxas error", "; fatal", "; error"),
        pattern=r"ptxas (?:fatal|error)\s*:.*|ptxas .*; (?:fatal|error)\s*:.*",
    ),
    Rule(
        kind="compiler-error",
        needles=("error: ", "error #"),
        pattern=r"^[^\s:(][^\n:(]*(?::\d+(?::\d+)?|\(\d+(?:,\d+)?\)): (?:catastrophic |internal compiler |fatal )?"
        r"error(?: #?\w+)?: .*",
    ),
    Rule(kind="linker-error", needles=("undefined reference",), pattern=r".*undefined reference to .*"),
    Rule(kind="linker-error", needles=("cannot find -l",), pattern=r".*ld: cannot find -l.*"),
)


@cache
def _text_rules() -> tuple[tuple[str, tuple[str, ...], re.Pattern[str]], ...]:
    return tuple((rule.kind, rule.needles, re.compile(rule.pattern, re.MULTILINE)) for rule in RULES)


COARSE = (
    *("rror", "fatal", "terminate called", "libc++abi", "(): ", "corrupt", "detected", "Assertion ", "Sanitizer: "),
    *("[SignalInfo", "egmentation fault", "Aborted", "Floating point e", "Illegal instr", "breakpoint trap", "illed"),
    *("oom-k", "oom_k", " memory", "no kernel image", "_STATUS_", "NVIDIA driver", "undefined ref", "cannot find -l"),
)
"""Texts of which every needle holds one (Paddle's classes aside: they come with a traceback or a summary's title)."""


@cache
def byte_rules(coarse: str) -> tuple[tuple[tuple[bytes, ...], re.Pattern[bytes]], ...]:
    """The rules, for raw bytes, that can match only where ``coarse`` (one of ``COARSE``) occurs."""
    return tuple(
        (needles, re.compile(rule.pattern.encode(), re.MULTILINE))
        for rule in RULES
        if (needles := tuple(needle.encode() for needle in rule.needles if coarse in needle))
    )


def find(text: str) -> tuple[Crash, ...]:
    """Return the crashes that cleaned log ``text`` shows, in log order; of a flood of equal ones the two ends."""
    hits: dict[int, tuple[str, str]] = {}
    for kind, needles, pattern in _text_rules():
        for needle in needles:
            for at in _places(text, needle, "\n"):
                start, end = _window(text, at, "\n")
                if (hit := pattern.search(text[start:end])) and hit.start() <= at - start + len(needle):
                    hits.setdefault(start + hit.start(), (kind, hit.groupdict().get("text") or hit[0]))
    crashes: list[Crash] = []
    seen, line = 0, 1
    for at, (kind, shown) in sorted(hits.items()):
        line += text.count("\n", seen, at)
        seen = at
        crashes.append(Crash(kind=kind, text=_short(shown), line=line))
    return tuple(crashes)


def spans(block: bytes, coarse: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of what the rules for ``coarse`` match in raw log bytes (to keep these lines)."""
    for needles, pattern in byte_rules(coarse):
        for needle in needles:
            for at in _places(block, needle, b"\n"):
                start, end = _window(block, at, b"\n")
                if hit := pattern.search(block[start:end]):
                    yield start + hit.start(), start + hit.end()


def _places(text: str | bytes, needle: str | bytes, newline: str | bytes) -> list[int]:
    """Where lines with ``needle`` are: one place per line, the first and the last ``PER_NEEDLE`` of them."""
    places: list[int] = []
    at = text.find(needle)  # type: ignore[arg-type]
    while at >= 0:
        places.append(at)
        if len(places) >= PER_NEEDLE:
            return places + _last_places(text, needle, newline, at + 1)
        end = text.find(newline, at)  # type: ignore[arg-type]
        at = text.find(needle, end) if end >= 0 else -1  # type: ignore[arg-type]
    return places


def _last_places(text: str | bytes, needle: str | bytes, newline: str | bytes, after: int) -> list[int]:
    places: list[int] = []
    at = text.rfind(needle, after)  # type: ignore[arg-type]
    while at >= 0 and len(places) < PER_NEEDLE:
        places.append(at)
        start = text.rfind(newline, after, at)  # type: ignore[arg-type]
        at = text.rfind(needle, after, start) if start >= 0 else -1  # type: ignore[arg-type]
    return places[::-1]


def _window(text: str | bytes, at: int, newline: str | bytes) -> tuple[int, int]:
    """The line around ``at`` and the two that follow it, cut to a size that any rule reads fast."""
    start = max(text.rfind(newline, 0, at) + 1, at - _BEFORE)  # type: ignore[arg-type]
    end = at
    for _ in range(3):
        end = text.find(newline, end + 1)  # type: ignore[arg-type]
        if end < 0 or end > at + _AFTER:
            return start, min(len(text), at + _AFTER)
    return start, end


def _short(text: str) -> str:
    return " ".join(one_line(part, 500) for part in text.strip().splitlines() if part.strip())

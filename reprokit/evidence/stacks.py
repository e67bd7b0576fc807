"""Where a program crashed, as sanitizers, Python's faulthandler, Paddle and PyTorch print it: no Python traceback.

Only the functions' names count: files and lines are there or not, by how a library was built.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reprokit.evidence.frames import TOP, telling_frames
from reprokit.evidence.model import Frame

_FAULTHANDLER = re.compile(r'  File "(?P<file>.+?)", line (?P<line>\d+) in (?P<function>.+)')
_NATIVE = re.compile(
    r"\s*#\d+ 0x[0-9a-f]+ in (?P<sanitizer>.+?)(?: \S+:\d+(?::\d+)?| \(\S+\)(?: \(BuildId: \w+\))?| <null>)*$"
    r"|frame #\d+: (?P<torch>.+?) \+ 0x[0-9a-f]+ \("
    r"|\d+ {2,3}(?P<paddle>\S.*)$"
)
_HEADS = ("Current thread 0x", "Thread 0x", "C++ Traceback (most recent call last):", "(most recent call first):")
_NEEDLES = ("(most recent call first)", "#0 0x", "C++ Traceback")
MOST = 60
"""Lines of a stack that are read."""

PASSED_THROUGH: tuple[tuple[str, str], ...] = (
    (
        r"_start$|__libc_start|start_thread|clone|__clone|_dl_|__GI_",
        "the C library starts and ends programs and threads",
    ),
    (
        r"abort$|raise$|gsignal$|tgkill$|pthread_kill|__pthread|__assert_fail|__restore_rt|killpg",
        "how a program kills itself",
    ),
    (r"__interceptor|__asan|__ubsan|__lsan|__msan|__tsan|__sanitizer", "the sanitizer itself"),
    (r"malloc|calloc|realloc|free$|cfree|operator (?:new|delete)|_int_free|munmap", "memory that others corrupted"),
    (
        r"mem(?:cpy|move|set|cmp)|__mem|str(?:len|cpy|cmp|dup|ncpy|cat)|__str",
        "what every caller may hand a bad address",
    ),
    (r"std::|__gnu_cxx::|__cxa_|_Unwind_|__cxxabiv1::", "the C++ library between a program's own functions"),
    (r"c10::(?:Error|detail::torch\w*Fail|cuda::c10_cuda_check)|torch::PyWarningHandler", "PyTorch raises an error"),
    (
        r"(?:phi|paddle|common)::(?:\w+::)*(?:EnforceNotMet|GetCurrentTraceBack|throw_on_error)",
        "Paddle raises an error",
    ),
    (r"paddle::pybind::|pybind11::|THPVariable_|torch::autograd::THPVariable", "called from Python"),
    (
        r"_?Py[A-Z_]\w*|_PyEval|cfunction_|method_vectorcall|slot_tp_|type_call|object_vacall|vectorcall|builtin_",
        "CPython",
    ),
)
"""Native functions that say nothing about a crash, as starts of their names, each with the reason."""

_PASSED = re.compile("|".join(f"(?:{pattern})" for pattern, _ in PASSED_THROUGH))


def crash_frames(text: str) -> tuple[tuple[str, ...], str]:
    """Return the frames that tell a crash, innermost first, and the one to name it by; none when no stack is shown.

    Python's own come first, where the faulthandler prints them. ``text`` is the cleaned log.
    """
    if not any(needle in text for needle in _NEEDLES):
        return (), ""
    lines = text.split("\n")
    if python := _python(lines):
        return telling_frames(python)
    names = list(dict.fromkeys(_name(line) for line in _native(lines)))
    told = [name for name in names if name and not _PASSED.match(name)] or [name for name in names if name]
    return tuple(told[:TOP]), told[0] if told else ""


def _python(lines: Sequence[str]) -> list[Frame]:
    """The stack of the thread that crashed, outermost first."""
    for head in _HEADS[:2]:
        for at, line in enumerate(lines):
            if line.startswith(head) and "most recent call first" in line:
                inner = (_FAULTHANDLER.match(line) for line in lines[at + 1 : at + MOST])
                frames = []
                for match in inner:
                    if match is None:
                        break
                    frames.append(Frame(file=match["file"], line=int(match["line"]), function=match["function"]))
                if frames:
                    return frames[::-1]
    return []


def _native(lines: Sequence[str]) -> Iterator[str]:
    """The functions of the first native stack, innermost first."""
    for at, line in enumerate(lines):
        paddle = line.startswith("C++ Traceback (most recent call last):")
        if not paddle and not _NATIVE.match(line):
            continue
        start = at + 2 if paddle else at  # a rule of dashes follows the title
        stack = []
        for inner in lines[start : start + MOST]:
            match = _NATIVE.match(inner)
            if match is None or (match["paddle"] is not None) != paddle:
                break
            stack.append(match["sanitizer"] or match["torch"] or match["paddle"])
        if stack:
            # Paddle prints its own in the order of Python's.
            yield from reversed(stack) if paddle else stack
            return


def _name(function: str) -> str:
    """A function without arguments, template arguments, return type and compiler's notes: ``phi::funcs::Inverse``."""
    name = re.sub(
        r"\[(?:abi:\w+|clone [^\]]*)\]|\.(?:isra|part|constprop|cold)\.?\d*|\(anonymous namespace\)::", "", function
    )
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)(?: const)?", "", name)) != name:
        name = shorter
    name = name.strip()
    return name if name.startswith("operator ") else name.rpartition(" ")[2]

"""The stacks of gdb and py-spy in blocks at the end of a log (:mod:`reprokit.engine.tracer_inside` writes them): of a
crash, and of what ran at the time limit. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reprokit.core.patterns import compiled
from reprokit.evidence.frames import TOP, file_matches, kind, relevant_frames
from reprokit.evidence.model import Frame
from reprokit.evidence.stacks import plain_name, says_nothing

HEAD = "[reprokit: stacks of process "
END = "[reprokit: end of stacks]\n"
NONE = "[reprokit: no stacks"
MISSING_SYMBOLS = "[reprokit: no symbols of "
"""Of a line in a block: the files whose frames have no name since their debug files could not be read, and why."""
MOST_FRAMES = 40
"""Frames of a stack that are recorded, innermost first."""

_HEAD = re.compile(
    r"\[reprokit: stacks of process (?P<process>[0-9]{1,9}) \((?P<program>.*?)\) "
    r"(?:at (?P<signal>SIG\w+) in thread (?P<thread>[0-9]{1,9})|at the time limit, (?P<sample>[0-9]{1,9}) of \d+)"
    r", by .*\]$"
)
_THREAD = re.compile(
    r"Thread \d+ \((?:Thread \S+ )?\(?(?:LWP|process) (?P<lwp>[0-9]{1,9})\)?(?: \"(?P<comm>.*)\")?\):?$"
    r"|Thread (?P<id>[0-9]{1,9}) \((?:active|idle).*\)(?:: \"(?P<name>.*)\")?$"
)
_GDB = re.compile(
    r"#\d+\s+(?:0x[0-9a-f]+ in )?(?P<function>\S.*?)(?: at (?P<file>\S+?)(?::(?P<line>[0-9]{1,9}))?)?"
    r"(?: from (?P<library>\S.*))?$"
)
_PY_SPY = re.compile(r"    (?P<function>\S.*) \((?P<file>.+):(?P<line>[0-9]{1,9})\)$")
_EVAL = re.compile(r"_?PyEval_EvalFrame")
_INTERPRETER = re.compile(
    r"\?\?$|_?Py[A-Z_]|cfunction_|method_vectorcall|slot_tp_|type_call|_?object_vacall|builtin_|<signal"
)
_NAMELESS = re.compile(r"0x[0-9a-f]+$|\?\?$|<signal")
_NONE = re.compile(rf"^{re.escape(NONE)}(?:: )?(.*)\]$", re.MULTILINE)
_COLON = re.compile(r"(?<!:):(?!:)")
_SHELLS = frozenset({"bash", "sh", "dash", "timeout", "sleep", "env"})


@dataclass(frozen=True, kw_only=True)
class ThreadStack:
    """Where a thread stood: ``frames``, innermost first, native ones and Python's merged.

    A native frame's file is its source or, where that is not known, its library. ``signal``: of the thread that
    crashed; ``sample``: which of the looks at the time limit, 0 at a crash. ``unnamed``: why symbols that a server may
    have are not there, '' where each frame has its name, or no server knows it.
    """

    process: int
    program: str
    thread: int
    name: str
    frames: tuple[Frame, ...]
    signal: str = ""
    sample: int = 0
    unnamed: str = ""


@dataclass(frozen=True, kw_only=True)
class Stacks:
    """All stacks of a trial. ``missing``: why there are none, in words."""

    threads: tuple[ThreadStack, ...] = ()
    missing: str = ""

    @property
    def crash(self) -> ThreadStack | None:
        """The thread that crashed, of several the last one."""
        return next((one for one in reversed(self.threads) if one.signal), None)

    @property
    def samples(self) -> tuple[tuple[ThreadStack, ...], ...]:
        """The stacks at the time limit, look by look."""
        numbers = sorted({one.sample for one in self.threads if one.sample})
        return tuple(tuple(one for one in self.threads if one.sample == number) for number in numbers)


NO_STACKS = Stacks()


def split(text: str) -> tuple[str, Stacks]:
    """A cleaned log: what the trial itself wrote, and the stacks behind it."""
    before, found = blocks(text)
    if not found:
        return text, NO_STACKS
    missing = [hit[1] for block in found for hit in _NONE.finditer(block)]
    threads = [one for block in found for one in _block(block)]
    return before.removesuffix("\n"), Stacks(threads=tuple(threads), missing=missing[0] if missing else "")


def blocks(text: str) -> tuple[str, list[str]]:
    """A log: what stands before the blocks of stacks at its end, and each of those with what follows it."""
    end = len(text)
    starts: list[int] = []
    while True:
        if text.endswith(END, 0, end) and (start := text.rfind("\n" + HEAD, 0, end)) >= 0:
            end = start + 1
        elif text.endswith("]\n", 0, end) and text.startswith(NONE, start := text.rfind("\n", 0, end - 1) + 1):
            end = start
        else:
            break
        starts.append(end)
    borders = [*reversed(starts), len(text)]
    return text[:end], [text[start:stop] for start, stop in pairwise(borders)]


def _block(text: str) -> Iterator[ThreadStack]:
    """The threads of one block, the one that crashed first."""
    head, *lines = text.split("\n")
    about = _HEAD.match(head)
    if about is None:
        return
    found: dict[int, tuple[str, list[Frame], list[Frame]]] = {}
    frames: list[Frame] = []
    missing = [line[len("[reprokit: ") : -1] for line in lines if line.startswith(MISSING_SYMBOLS)]
    for line in lines:
        if thread := _THREAD.match(line):
            number = int(thread["lwp"] or thread["id"])
            name, native, python = found.get(number, ("", [], []))
            found[number] = (thread["name"] or name or thread["comm"] or "", native, python)
            frames = python if thread["id"] else native
        elif frame := _frame(line):
            frames.append(frame)
    crashed = int(about["thread"] or 0)
    for number, (name, native, python) in sorted(found.items(), key=lambda item: item[0] != crashed):
        nameless = [frame.file for frame in native if frame.function == "??" and frame.file]
        yield ThreadStack(
            process=int(about["process"]),
            program=about["program"],
            thread=number,
            name=name,
            frames=merge_frames(native, python)[:MOST_FRAMES],
            signal=about["signal"] or "" if number == crashed else "",
            sample=int(about["sample"] or 0),
            unnamed=next((line for line in missing if any(file in line for file in nameless)), ""),
        )


def _frame(line: str) -> Frame | None:
    if hit := _GDB.match(line):
        function = hit["function"]
        function = function[: function.rfind(" (")] if function.endswith(")") and " (" in function else function
        file, library = hit["file"] or "", hit["library"] or ""
        # As everywhere, the file of a frame without a source is its library.
        return Frame(
            file=file or library, line=int(hit["line"] or 0), function=function, library=library if file else ""
        )
    if hit := _PY_SPY.match(line):
        return Frame(file=hit["file"], line=int(hit["line"]), function=hit["function"])
    return None


def merge_frames(native: Sequence[Frame], python: Sequence[Frame]) -> tuple[Frame, ...]:
    """One stack of a thread's native frames and Python's, innermost first.

    Python's are where the interpreter's own would; what called the interpreter back in between is not known.
    """
    if not python:
        return tuple(native)
    at = next((place for place, frame in enumerate(native) if _EVAL.match(frame.function)), None)
    if at is None:
        at = next((place for place, frame in enumerate(native) if frame.function == "??"), len(native))
    while at and _INTERPRETER.match(native[at - 1].function):
        at -= 1
    return (*native[:at], *python)


def is_python(frame: Frame) -> bool:
    """Whether a frame is one of Python's."""
    return frame.file.endswith(".py") or frame.file.startswith("<")


def frame_matches(pattern: str, frame: Frame) -> bool:
    """Whether a frame is the ``library:function`` or ``file:function`` of a signature; the function of a native frame
    may be given as a regular expression for all of it.
    """
    wanted_file, *rest = _COLON.split(pattern, maxsplit=1)
    wanted = rest[0] if rest else ""
    # A library's file carries its version behind the name.
    fits = any(
        file_matches(wanted_file, file) or file.rpartition("/")[2].startswith(wanted_file + ".")
        for file in (frame.file, frame.library)
    )
    if not fits or not wanted:
        return fits
    return wanted in (frame.function, frame.function.rpartition(".")[2]) or bool(
        compiled(f"^(?:{wanted})$").search(frame.function)
    )


def stack_matches(wanted: Sequence[str], frames: Sequence[Frame]) -> bool:
    """Whether a stack, innermost first, came through these frames, given in the order of calls."""
    calls = iter(reversed(frames))
    return all(any(frame_matches(pattern, frame) for frame in calls) for pattern in wanted)


def hang_at(stacks: Stacks, wanted: Sequence[str] = ()) -> tuple[ThreadStack | None, int, int]:
    """The thread that tells where a trial hung, in how many of the looks it did, and how many looks there were.

    ``wanted``: the frames of a signature, through which the thread came in all of them where there is such a thread.
    """
    samples = stacks.samples
    if not samples:
        return None, 0, 0
    if wanted:
        hits = [next((one for one in sample if stack_matches(wanted, one.frames)), None) for sample in samples]
        found = [hit for hit in hits if hit is not None]
        return (found[-1] if found else None), len(found), len(samples)
    stack = _main_stack(samples[-1])
    same = sum(any(_same(one, stack) for one in sample) for sample in samples)
    return stack, same, len(samples)


def _main_stack(sample: Sequence[ThreadStack]) -> ThreadStack:
    """The main thread of the first Python, else of the program that was started last and is not a shell."""
    mains = [one for one in sample if one.thread == one.process] or list(sample)
    python = [one for one in mains if any(is_python(frame) for frame in one.frames)]
    own = [one for one in mains if one.program not in _SHELLS]
    return python[0] if python else (own or mains)[-1]


def _same(one: ThreadStack, other: ThreadStack) -> bool:
    key = [(frame.file, frame.function) for frame in one.frames]
    return one.thread == other.thread and key == [(frame.file, frame.function) for frame in other.frames]


def describe_frame(frame: Frame) -> str:
    """A frame in words: ``Queue.get (queue.py:171)``."""
    place = frame.file.rpartition("/")[2] + (f":{frame.line}" if frame.line else "")
    return f"{frame.function} ({place})" if place else frame.function


def describe_crash_at(stack: ThreadStack) -> str:
    """Where a thread crashed, in words: ``a crash in boom (ext.c:2) from inner (crash.py:2)``."""
    return f"a crash in {_where(stack)}"


def describe_hang(stack: ThreadStack, times: int, looks: int) -> str:
    """Where a trial hung, in words: ``3 of 3: MainThread of python is in Queue.get (queue.py:171) from ...``."""
    name = stack.name if stack.name and stack.name != stack.program else f"thread {stack.thread}"
    return f"{times} of {looks}: {name} of {stack.program} is in {_where(stack)}"


def _where(stack: ThreadStack) -> str:
    """The innermost frame that has a name, and the innermost of the program's own code where that is another."""
    named = [frame for frame in stack.frames if not _NAMELESS.match(frame.function)]
    if not named:
        return "code without symbols"
    own = next((frame for frame in named if is_own(frame)), named[0])
    called = "" if own == named[0] else f" from {describe_frame(own)}"
    return describe_frame(named[0]) + called


def is_own(frame: Frame) -> bool:
    """Whether a frame is of the program's own code, as far as its file tells."""
    return kind(frame) == "own" if is_python(frame) else bool(frame.line) and not frame.file.startswith(("../", "./"))


def identifying_frames(stack: ThreadStack) -> tuple[tuple[str, ...], str]:
    """The frames that tell a crash or a hang, innermost first, and the one to name it by."""
    native = [name for frame in stack.frames if not is_python(frame) and (name := plain_name(frame.function))]
    native = [name for name in dict.fromkeys(native) if not _NAMELESS.match(name)]
    native = [name for name in native if not says_nothing(name)] or native[:1]
    python, where = relevant_frames([frame for frame in reversed(stack.frames) if is_python(frame)])
    # A hang is recognised by what waits, not by how the C library does.
    frames = (*native, *python)[:TOP] if stack.signal or not python else python
    return frames, frames[0] if native or not where else where

"""Where a program crashed: the stack of Python's faulthandler, or a native one in a format of the parsers. Only the
names of functions count: files and lines are there or not, by how a library was built.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from reprokit.evidence.frames import TOP, passed_through, relevant_frames
from reprokit.evidence.model import Frame
from reprokit.evidence.parser import StackFormat
from reprokit.evidence.parsers import parsers

_FAULTHANDLER = re.compile(r'  File "(?P<file>.+?)", line (?P<line>[0-9]{1,9}) in (?P<function>.+)')
_HEADS = ("Current thread 0x", "Thread 0x")
_FAULT_NEEDLE = "(most recent call first)"
MOST = 60
"""Lines of a stack that are read."""

_PASSED = passed_through("native")


def crash_frames(text: str) -> tuple[tuple[str, ...], str]:
    """Return the frames that tell a crash, innermost first, and the one to name it by; none when no stack is shown.

    Python's own come first, where the faulthandler prints them. ``text`` is the cleaned log.
    """
    formats = [parser.stack for parser in parsers() if parser.stack]
    if not any(needle in text for needle in (_FAULT_NEEDLE, *(form.needle for form in formats if form.needle))):
        return (), ""
    lines = text.split("\n")
    if python := _python(lines):
        return relevant_frames(python)
    names = list(dict.fromkeys(plain_name(line) for line in _native(lines, formats)))
    named = [name for name in names if name and not says_nothing(name)] or [name for name in names if name]
    return tuple(named[:TOP]), named[0] if named else ""


def says_nothing(name: str) -> bool:
    """Whether a native function says nothing about a crash."""
    return bool(_PASSED.match(name))


def _python(lines: Sequence[str]) -> list[Frame]:
    """The stack of the thread that crashed, outermost first."""
    for head in _HEADS:
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


def _native(lines: Sequence[str], formats: Sequence[StackFormat]) -> list[str]:
    """The functions of the first native stack, innermost first. Formats without a title may alternate in one stack."""
    untitled = [re.compile(form.line) for form in formats if not form.title]
    titled = [form for form in formats if form.title]
    for at, line in enumerate(lines):
        form = next((form for form in titled if line.startswith(form.title)), None)
        if form:  # a rule of dashes follows the title
            stack = _functions(lines[at + 2 : at + 2 + MOST], [re.compile(form.line)])
        else:
            stack = _functions(lines[at : at + MOST], untitled)
        if stack:
            return stack[::-1] if form and form.outermost_first else stack
    return []


def _functions(lines: Sequence[str], patterns: Sequence[re.Pattern[str]]) -> list[str]:
    """The functions of consecutive lines that match; a line may match without one."""
    found: list[str] = []
    for line in lines:
        match = next((match for pattern in patterns if (match := pattern.match(line))), None)
        if match is None:
            break
        found += filter(None, [match["function"]])
    return found


def plain_name(function: str) -> str:
    """A function without arguments, template arguments, return type and compiler's notes: ``phi::funcs::Inverse``."""
    name = re.sub(
        r"\[(?:abi:\w+|clone [^\]]*)\]|\.(?:isra|part|constprop|cold)\.?\d*|\(anonymous namespace\)::", "", function
    )
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)(?: const)?", "", name)) != name:
        name = shorter
    name = name.strip()
    return name if name.startswith("operator ") else name.rpartition(" ")[2]

"""Failures as pytest prints them (``--tb=long``, ``short``, ``line``, its summary), unlike the interpreter itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from reprokit.evidence.model import ExceptionSeen, Frame
from reprokit.evidence.parser import ExceptionFormat, Parser, Trait
from reprokit.evidence.parsers.python_traceback import CHAINED

_SECTION = re.compile(r"^(?:_{3,} .+ _{3,}|={3,}.*)$")
_ERROR = re.compile(r"^E(?: {2,}(?P<text>.*))?$")
_SHORT_FRAME = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>[0-9]{1,9}): in (?P<function>\S+)$")
_LONG_FRAME = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>[0-9]{1,9}): ?(?P<type>[\w.]*)$")
_DEF = re.compile(r"^[ >]   +(?:async )?def (?P<name>\w+)\(")
_LINE = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+): (?P<text>(?:assert\b|[^\W\d][\w.]*(?::|$)).*)$")
_LISTED = re.compile(r"^(?:FAILED|ERROR) (?P<file>[^\s:]+)(?:::(?:.*::)?(?P<test>\w+)\S*)? - (?P<text>\S.*)$")
_FAILURES = re.compile(r"^={3,} (?:FAILURES|ERRORS) ={3,}$")
_TYPED = re.compile(r"^(?P<type>[^\W\d][\w.]*)(?:: ?(?P<message>.*))?$")


def parse(lines: Sequence[str]) -> tuple[ExceptionSeen, ...]:
    """Return the failures that pytest reports in ``lines``, in log order."""
    found: list[ExceptionSeen] = []
    section = at = 0
    while at < len(lines):
        if _SECTION.match(lines[at]):
            section = at
        if not _ERROR.match(lines[at]):
            at += 1
            continue
        end = at
        while end < len(lines) and _ERROR.match(lines[end]):
            end += 1
        if seen := _failure(lines, section, at, end):
            linked = any(CHAINED.search(line) for line in lines[seen.end_line : seen.end_line + 4])
            found.append(replace(seen, cause_of_next=linked))
        at = end
    return (*found, *_short(lines))


def _short(lines: Sequence[str]) -> Iterator[ExceptionSeen]:
    """The failures of ``--tb=line``, and, where no other part of the report has them, those of the summary."""
    section, listed = "", not any(_FAILURES.match(line) for line in lines)
    for number, line in enumerate(lines, 1):
        if _SECTION.match(line):
            section = line.strip("= ")
        elif section in ("FAILURES", "ERRORS") and (at := _LINE.match(line)):
            frame = Frame(file=at["file"], line=int(at["line"]), function="")
            yield _one_line(at["text"], frame, number)
        elif listed and section == "short test summary info" and (at := _LISTED.match(line)):
            yield _one_line(at["text"], Frame(file=at["file"], line=0, function=at["test"] or ""), number)


def _one_line(text: str, frame: Frame, number: int) -> ExceptionSeen:
    typed = None if text.startswith("assert ") else _TYPED.match(text)
    kind, message = (typed["type"], typed["message"] or "") if typed else ("AssertionError", text)
    return ExceptionSeen(type=kind, message=message, frames=(frame,), line=number, end_line=number, of_test=True)


def _failure(lines: Sequence[str], section: int, start: int, end: int) -> ExceptionSeen | None:
    """The failure whose ``E`` lines are ``start`` to ``end``; None when nothing says where it was raised."""
    frames: list[Frame] = []
    function = kind = ""
    last = end
    for at in (*range(section, start), *range(end, min(end + 4, len(lines)))):
        line = lines[at]
        if at >= end and _SECTION.match(line):
            break
        if short := _SHORT_FRAME.match(line):
            frames.append(Frame(file=short["file"], line=int(short["line"]), function=short["function"]))
        elif long := _LONG_FRAME.match(line):
            frames.append(Frame(file=long["file"], line=int(long["line"]), function=function))
            if at >= end:
                kind, last = long["type"], at + 1
                break
        elif definition := _DEF.match(line):
            function = definition["name"]
    text = [match["text"] or "" for line in lines[start:end] if (match := _ERROR.match(line))]
    indent = len(text[0]) - len(text[0].lstrip())
    text = [line[indent:] for line in text]
    typed = _TYPED.match(text[0])
    if not frames or not (kind or typed):
        return None
    if typed and (not kind or typed["type"].rpartition(".")[2] == kind.rpartition(".")[2]):
        kind, text[0] = typed["type"], typed["message"] or ""
    return ExceptionSeen(type=kind, message="\n".join(text), frames=tuple(frames), line=start + 1, end_line=last)


PARSER = Parser(
    name="pytest",
    traits=frozenset({Trait.EXCEPTION}),
    golden=("pytest-*",),
    version="2",
    precedence=2,
    exceptions=ExceptionFormat(
        needles=("\nE  ", "= FAILURES =", " short test summary "),
        read=parse,
        kept=r"^E   |^_{4,} \S.* _{4,}$|^={3,} (?:FAILURES|ERRORS|PASSES|XFAILURES|short test .*) ={3,}$"
        r"|^-{3,} Captured \w+ \w+ -{3,}$|^Std(?:out|err):$",
        kept_needles=("\nE   ", " ____", "S ===", " short test ", "- Captured ", "\nStdout:", "\nStderr:"),
    ),
)

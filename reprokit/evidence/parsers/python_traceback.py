"""Python tracebacks as they stand in real logs: chained, grouped, prefixed, interleaved, nested in a message; of the
standard library's ``traceback`` (Python 3.6 to 3.14) and of what frameworks add: see ``tests/golden``.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace

from reprokit.evidence.message import Message, Prefix, View, looks_foreign, shape
from reprokit.evidence.model import ExceptionSeen, Frame
from reprokit.evidence.parser import ExceptionFormat, Parser, Trait

HEADER = re.compile(r"^(?P<before>.*?)(?P<kind>Exception Group |Original )?Traceback \(most recent call last\):\s*$")
FRAME = re.compile(r'^  File "(?P<file>.+?)", line (?P<line>[0-9]{1,9})(?:, in (?P<function>.*?))?\s*$')
_FRAME_ANYWHERE = re.compile(r'^(?P<before>.*?)  File ".+?", line \d+(?:, in .*)?\s*$')
_EXCEPTION = re.compile(
    r"^(?P<type>[^\W\d]\w*(?:\.(?:<locals>|[^\W\d]\w*))*)(?:\([\w.]+\))?(?::(?: (?P<message>.*))?)?$"
)
_SURE = re.compile(r"(?:Error|Exception|Warning|Interrupt|Exit|Iteration|Group|Timeout|Failure|Failed|Fault)$")
_SYNTAX = re.compile(r"^(?:SyntaxError|IndentationError|TabError)(?::|$)")
CHAINED = re.compile(
    r"During handling of the above exception, another exception occurred:"
    r"|The above exception was the direct cause of the following exception:"
)
_IGNORED = re.compile(r"Exception ignored |--- Logging error ---")
_GOES_ON = re.compile(r"Exception ignored |Exception in thread |Task exception was never retrieved|^future: <Task")
"""What says before a traceback that the program runs on, so that lines after it are hardly its message."""
_REMOTE = re.compile(r"^(?:[\w.]+\.)?_?RemoteTraceback:\s*$")
_MARGIN = re.compile(r"((?:  )*\| )|(?: *\+-)|(?:  )*\|$")
_OUTSIDE = re.compile(r"\+ Exception Group Traceback|Traceback \(most")
_LOOK_AHEAD = 8
_CHAIN = 20
"""Causes of causes among which a worker's own is looked for: a loop that retries may chain thousands."""
_NOT_PYTHON = ("C++ ", "Fortran ", "quoted ")


def parse(lines: Sequence[str]) -> tuple[ExceptionSeen, ...]:
    """Return every exception printed in ``lines`` (cleaned text, without line ends), in the order in which they end."""
    return _Reader([(number, line) for number, line in enumerate(lines, 1)]).read()


class _Reader:
    """One pass over numbered lines. ``used`` holds the positions that belong to an exception already read."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.used: set[int] = set()
        self.found: list[tuple[int, ExceptionSeen]] = []

    def read(self) -> tuple[ExceptionSeen, ...]:
        ignored_until = -1
        for at, (_, line) in enumerate(self.items):
            if at in self.used:
                continue
            if "Traceback" in line and (header := HEADER.match(line)) and not header["before"].endswith(_NOT_PYTHON):
                seen = self._group(at, header) if header["kind"] == "Exception Group " else self._block(at, header)
                if seen is None:
                    continue
                end, exception = seen
                if at <= ignored_until or self._introduced_by(at, _IGNORED):
                    exception = replace(exception, ignored=True)
                    ignored_until = end + 4 if exception.cause_of_next else ignored_until
                self.found.append((at, self._with_remote_frames(exception)))
            elif ", line " in line and (syntax := self._bare_syntax_error(at)):
                self.found.append((at, syntax))
        return tuple(sorted((exception for _, exception in self.found), key=lambda e: e.end_line))

    def _introduced_by(self, at: int, pattern: re.Pattern[str]) -> bool:
        return any(pattern.search(line) for _, line in self.items[max(0, at - 2) : at])

    # -- one traceback ---------------------------------------------------------------------------------------------

    def _prefix(self, at: int, before: str) -> Prefix:
        """What precedes each line of the block that starts at ``at``: a rank, a logger's time, an indentation."""
        frames = [frame["before"] for _, line in self.items[at + 1 : at + 40] if (frame := _FRAME_ANYWHERE.match(line))]
        if before in frames:
            return Prefix(before)
        if any(shape(seen) == shape(before) for seen in frames):
            return Prefix(before, alike=True)
        following = self.items[at + 1][1] if at + 1 < len(self.items) else ""
        return Prefix(before if before and not frames and following.startswith(before) else "")

    def _block(self, at: int, header: re.Match[str]) -> tuple[int, ExceptionSeen] | None:
        prefix = self._prefix(at, header["before"])
        view = View(self.items, at, prefix)
        frames: list[Frame] = []
        used = [at]
        start = _frames(view, frames, used)
        if start is None:
            return None
        position, kind, first = start
        used.append(view.at(position)[0])
        message = Message(first, strict=self._introduced_by(at, _GOES_ON))
        message.read(view, position + 1, used, frames)
        last = max(used)
        self.used.update(used)
        return last, ExceptionSeen(
            type=kind,
            message=message.text(),
            frames=tuple(frames),
            line=self.items[at][0],
            end_line=self.items[last][0],
            cause_of_next=self._chained(last),
        )

    def _chained(self, last: int) -> bool:
        """Whether the words that link two exceptions follow, past blank lines and the quotes of a remote traceback."""
        seen = 0
        for _, line in self.items[last + 1 : last + 12]:
            if CHAINED.search(line):
                return True
            if re.sub(r"[\s|\"]|\[rank\d+\]:", "", line):
                seen += 1
                if seen > 1:
                    return False
        return False

    def _with_remote_frames(self, exception: ExceptionSeen) -> ExceptionSeen:
        """Add the worker's frames to an exception that a worker process handed to its parent."""
        chain: list[ExceptionSeen] = []
        for at, cause in itertools.islice(reversed(self.found), _CHAIN):
            if not cause.cause_of_next:
                break
            chain.append(cause)
            if any(_REMOTE.search(line) for _, line in self.items[max(0, at - 3) : at]):
                same = chain[0].type == exception.type
                return replace(exception, frames=exception.frames + chain[0].frames) if same else exception
        return exception

    def _bare_syntax_error(self, at: int) -> ExceptionSeen | None:
        """A ``SyntaxError`` of the program itself, which Python prints without the traceback's first line."""
        frame = FRAME.match(self.items[at][1])
        if frame is None or frame["function"] is not None:
            return None
        for i in range(at + 1, min(at + 6, len(self.items))):
            text = self.items[i][1]
            if _SYNTAX.match(text):
                kind, _, message = text.partition(":")
                self.used.update(range(at, i + 1))
                line = self.items[i][0]
                return ExceptionSeen(
                    type=kind, message=message.strip(), frames=(_frame(frame),), line=self.items[at][0], end_line=line
                )
            if text and not text.startswith(" "):
                return None
        return None

    # -- exception groups ------------------------------------------------------------------------------------------

    def _group(self, at: int, header: re.Match[str]) -> tuple[int, ExceptionSeen] | None:
        before = header["before"]
        if not before.endswith("+ "):
            return self._block(at, header)
        column = len(before) - 2
        block = [(self.items[at][0], "| Traceback (most recent call last):")]
        end = at
        margin = ""
        while end + 1 < len(self.items):
            number, line = self.items[end + 1]
            if inside := self._in_group(end + 1, before[:column]):
                margin = inside[1] or margin
                block.append((number, line[column:]))
            elif any(self._in_group(i, before[:column]) for i in range(end + 2, end + 2 + _LOOK_AHEAD)):
                block.append((number, margin + line))  # Python 3.11 prints a message's further lines without the margin
            else:
                break
            end += 1
        self.used.update(range(at, end + 1))
        seen = _read_group(block)
        return (end, replace(seen, cause_of_next=self._chained(end))) if seen else None

    def _in_group(self, at: int, before: str) -> re.Match[str] | None:
        """Match the line's margin if it is drawn as part of a group whose margin begins after ``before``."""
        line = self.items[at][1] if at < len(self.items) else ""
        if shape(line[: len(before)]) != shape(before) or _OUTSIDE.match(line, len(before)):
            return None
        return _MARGIN.match(line, len(before))


def _read_group(block: Sequence[Item]) -> ExceptionSeen | None:
    """Read one exception group: its own traceback, then each member, which may be a group itself."""
    own = own_part(block)
    parsed = _Reader(own).read() or _frameless(own)
    if not parsed:
        return None
    nested = [seen for member in split_members(block) if (seen := _read_group(member))]
    return replace(parsed[-1], nested=tuple(nested), end_line=max(block[-1][0], parsed[-1].end_line))


def _frameless(items: Sequence[Item]) -> tuple[ExceptionSeen, ...]:
    """A member of a group that was never raised is printed without a traceback: its type and message only."""
    for at, (number, text) in enumerate(items):
        if match := _EXCEPTION.match(text):
            rest = [line for _, line in items[at + 1 :]]
            message = "\n".join([match["message"] or "", *rest]).rstrip()
            return (ExceptionSeen(type=match["type"], message=message, line=number, end_line=items[-1][0]),)
    return ()


def _frames(view: View, frames: list[Frame], used: list[int]) -> tuple[int, str, str] | None:
    """Collect frames from the start of ``view``; return where the exception's own line is, its type and first line.

    Lines of other processes in between are passed over while frames still follow.
    """
    at = -1
    while view.has(at := at + 1):
        position, text = view.at(at)
        if frame := FRAME.match(text):
            frames.append(_frame(frame))
            used.append(position)
        elif text[:1] in (" ", "\t"):
            used.append(position)
        elif (header := HEADER.match(text)) and not header["before"]:
            return None
        elif _more_frames(view, at):
            continue
        else:
            return _exception_line(view, at)
    return None


def _more_frames(view: View, at: int) -> bool:
    for _, text in view.ahead(at + 1, _LOOK_AHEAD):
        if HEADER.match(text) or CHAINED.search(text) or text == "Call stack:":
            return False
        if frame := FRAME.match(text):
            return frame["function"] is not None
    return False


def _exception_line(view: View, at: int) -> tuple[int, str, str] | None:
    """Find the line ``Type: message`` at ``at`` or, where another process printed first, a few lines further on."""
    fallback: tuple[int, str, str] | None = None
    for i, (_, text) in enumerate(view.ahead(at, _LOOK_AHEAD), at):
        if HEADER.match(text) or CHAINED.search(text):
            break
        match = _EXCEPTION.match(text)
        if match is None:
            continue
        found = (i, match["type"], match["message"] or "")
        name = match["type"].rpartition(".")[2]
        if _SURE.search(name) or (i == at and (name[0].isupper() or "." in match["type"]) and not looks_foreign(text)):
            return found
        fallback = fallback or found
    return fallback


def _frame(match: re.Match[str]) -> Frame:
    return Frame(file=match["file"], line=int(match["line"]), function=match["function"] or "")


PARSER = Parser(
    name="python-traceback",
    traits=frozenset({Trait.EXCEPTION}),
    golden=("python-*", "pytest-*", "paddle-*", "paddleseg-*", "torch-*", "memory-mmap", "cuda-insufficient-driver"),
    version="1",
    precedence=1,
    exceptions=ExceptionFormat(
        needles=("Traceback", 'File "'),
        read=parse,
        kept=r'Traceback \(most recent call last\)|  File "',
        kept_needles=("Traceback (most", '  File "'),
    ),
)


Item = tuple[int, str]
"""A line's number in the log and its text."""

_FIRST = re.compile(r"^\+-\+-{8,} (?:\d+|\.\.\.) -{8,}$")
_NEXT = re.compile(r"^  \+-{8,} (?:\d+|\.\.\.) -{8,}$")
_END = re.compile(r"^  \+-{20,}$")


def own_part(block: Sequence[Item]) -> list[Item]:
    """Return the lines of the group's own traceback, without the margin ``| ``; ``block`` starts at its column."""
    own: list[Item] = []
    for number, text in block:
        if _FIRST.match(text):
            break
        if text.startswith("|"):
            own.append((number, _as_traceback(text[2:])))
    return own


def split_members(block: Sequence[Item]) -> list[list[Item]]:
    """Return the lines of each member, cut to the member's own column (so that each is a block again)."""
    members: list[list[Item]] = []
    inside = False
    for number, text in block:
        if not inside and _FIRST.match(text):
            inside = True
            members.append([])
        elif inside and _NEXT.match(text):
            members.append([])
        elif inside and _END.match(text):
            break
        elif inside:
            members[-1].append((number, text[2:]))
    return [member for member in members if member]


def _as_traceback(text: str) -> str:
    return text.replace("Exception Group Traceback (", "Traceback (", 1) if text.startswith("Exception Group") else text

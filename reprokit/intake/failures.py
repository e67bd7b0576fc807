"""The failures that a report shows in pasted text: tracebacks, crashes, errors of compilers and loaders. Pure.

They are read as they are in logs (:mod:`reprokit.evidence`); other errors that programs print in a form of their own,
by the rows of ``data/failures.yaml``. A signature is held against its text before it is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

from reprokit.case import placeholders
from reprokit.core.text import one_line
from reprokit.evidence.fingerprint import fingerprint
from reprokit.evidence.model import Crash, Ending, ExceptionSeen, Frame
from reprokit.evidence.observation import last_exception, observe, primary_crash
from reprokit.evidence.parser import Trait
from reprokit.evidence.parsers import has
from reprokit.evidence.text import find as occurs
from reprokit.intake.facts import FailureFact
from reprokit.intake.pieces import ParsedReport, ReportPiece, table
from reprokit.intake.signatures import LONGEST, identifying_frames, readable_pattern, shorten_message, stable_part

MOST = 200
"""Most failures of one report."""
_END = 50_000
"""Characters of a piece that are read from its beginning, and from its end."""
_BARE = re.compile(
    r"^(?:E\s+)?(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)|(?:[a-z_]\w*\.)+error): (?P<message>\S.*)$",
    re.MULTILINE,
)
"""The last line of a traceback alone."""
_STARTED = frozenset({"CalledProcessError", "ChildFailedError"})
"""What Python raises where a program that it started failed."""
_STOPPED = frozenset({"KeyboardInterrupt", "SystemExit"})
"""How a person ends a program, which is not the failure."""
_SOURCE = frozenset(
    {"python", "py", "c++", "cpp", "c", "cuda", "diff", "yaml", "json", "toml", "js", "ts", "java", "rust"}
)
"""Languages of fences that hold programs rather than their output."""


@dataclass(frozen=True, kw_only=True)
class ReportedFailure:
    """A failure in a report."""

    signature: dict[str, Any]
    """``expect.failure`` of the case."""
    notes: dict[str, str] = field(default_factory=dict)
    """Key -> origin."""
    line: int = 0
    last: int = 0
    frames: tuple[Frame, ...] = ()
    """Of its traceback, outermost first."""
    building: bool = False
    """Something was installed or compiled."""
    missing: str = ""
    """What is still to be written."""

    @property
    def title(self) -> str:
        """The failure in one line; '' where neither a type nor a message is known."""
        kind = str(self.signature.get("exception") or self.signature.get("signal") or "")
        text = readable_pattern(str(self.signature.get("message") or self.signature.get("output") or ""))
        return ": ".join(part for part in (kind, text) if part and placeholders.MARK not in part)

    def __str__(self) -> str:
        return f"line {self.line}: {one_line(self.title or 'a failure', 80)}"


def find_failures(pieces: Sequence[ReportPiece]) -> list[ReportedFailure]:
    """The failures in pasted text, each once, in the order of the report."""
    kept: list[ReportedFailure] = []
    for piece in pieces:
        shown = in_piece(piece) if piece.code else None
        if shown and len(kept) < MOST and not any(same_failure(shown, other) for other in kept):
            kept.append(shown)
    return kept


def same_failure(one: ReportedFailure, other: ReportedFailure) -> bool:
    """Whether two are the same failure: a short log may lack its type, or a part of its message."""
    kinds = {str(shown.signature.get("exception") or "") for shown in (one, other)} - {""}
    a, b = (
        readable_pattern(str(shown.signature.get("message", shown.signature.get("output")) or ""))
        for shown in (one, other)
    )
    if not a or not b:
        return one.signature == other.signature or (one.title == other.title and len(kinds) < 2)
    return len(kinds) < 2 and (a in b or b in a)


@lru_cache(maxsize=4096)  # asked for again by the drafts of each failure
def in_piece(piece: ReportPiece) -> ReportedFailure | None:
    """The failure in a piece of pasted text; None where it shows none."""
    text = piece.text
    if len(text) > 2 * _END:  # on the lines that they have
        text = text[:_END] + "\n" * text.count("\n", _END, -_END) + text[-_END:]
    text = _as_tracebacks(text)
    observation = observe(text)
    exception, crash = last_exception(observation), primary_crash(observation)
    if crash is None and exception is None:  # pip indents the output of a compiler, replies quote it
        text = "\n".join(re.sub(r"^[ \t>|]+", "", line) for line in text.split("\n"))
        crash = primary_crash(observe(text))
    if exception is not None and not exception.ignored and _type(exception.type) not in _STOPPED:
        # A program that starts others only says that one of them failed: what that one printed is the failure.
        if _type(exception.type) in _STARTED:
            if crash is not None and has(crash.kind, Trait.COMPILER):
                return _of_crash(crash, text, piece)
            child = [one for one in observation.exceptions if _type(one.type) not in _STARTED and not one.ignored]
            return _by_table(piece, text) or (_of_exception(child[-1], piece) if child else None)
        return _of_exception(exception, piece)
    if piece.info in _SOURCE or exception is not None:
        return None
    bare = _BARE.search(text)
    line = text.count("\n", 0, bare.start()) + 1 if bare else 0
    if bare and (crash is None or crash.line == line):
        seen = ExceptionSeen(type=bare["type"], message=bare["message"], line=line, end_line=line)
        return _of_exception(seen, piece)
    return _of_crash(crash, text, piece) if crash is not None else _by_table(piece, text)


@cache
def _rows() -> Sequence[Mapping[str, Any]]:
    return [{**row, "search": re.compile(row["pattern"], re.MULTILINE)} for row in table("failures")["lines"]]


def _by_table(piece: ReportPiece, text: str) -> ReportedFailure | None:
    """The first line that a row of the table knows, by the first row that knows one."""
    for row in _rows():
        if hit := row["search"].search(text):
            line = piece.line + text.count("\n", 0, hit.start())
            if signal := row.get("signal"):
                return ReportedFailure(
                    signature={"signal": signal}, notes={"signal": f"line {line}"}, line=line, last=line
                )
            part, why = stable_part(hit["text"])
            if len(re.findall(r"\w", part)) > 3 and occurs(part, text):
                notes = {"output": f"line {line}; {why}"}
                return ReportedFailure(
                    signature={"output": part}, notes=notes, line=line, last=line, building=row.get("building", False)
                )
    return None


def _of_exception(seen: ExceptionSeen, piece: ReportPiece) -> ReportedFailure:
    line, last = piece.line + max(seen.line, 1) - 1, piece.line + max(seen.end_line, 1) - 1
    signature: dict[str, Any] = {"exception": _type(seen.type)}
    notes = {"exception": f"line {last}" if last == line else f"lines {line} to {last}"}
    text, why = stable_part(seen.message)
    if text and occurs(text, seen.message):
        signature["message"] = text
    if why:
        notes["message" if text else "exception"] = why if text else f"{notes['exception']}; {why}"
    frames, which = identifying_frames(seen.frames)
    if frames:
        signature["frames"] = frames
        notes["frames"] = which
    building = any(_BUILDS.search(frame.file) for frame in seen.frames)
    return ReportedFailure(
        signature=signature, notes=notes, line=line, last=last, frames=seen.frames, building=building
    )


_BUILDS = re.compile(r"[/\\]_in_process\.py$|pip-(?:build-env|install|req-build)-|pyproject_hooks|setup\.py$")
"""Programs by which pip builds a package, and where."""


def _type(dotted: str) -> str:
    """The name without its module, which may change between versions; a lower-case name (``zlib.error``) keeps it."""
    *_, module, name = ("", *dotted.split("."))
    return f"{module}.{name}" if module and name.islower() else name


def _of_crash(crash: Crash, text: str, piece: ReportPiece) -> ReportedFailure:
    line = piece.line + max(crash.line, 1) - 1
    identity = fingerprint(Ending(exit_code=None), text, crash=crash)
    note = f"line {line}: {one_line(crash.text, 80)!r}"
    if identity.kind == "signal" and re.fullmatch(r"SIG[A-Z]+", identity.message):
        return ReportedFailure(signature={"signal": identity.message}, notes={"signal": note}, line=line, last=line)
    if crash.kind == "oom-kill":
        return ReportedFailure(signature={"out_of_memory": "true"}, notes={"out_of_memory": note}, line=line, last=line)
    words = one_line(crash.text, 300)
    if crash.kind == "linker-error" and (first := re.search(r"undefined reference.*", text)):
        words = one_line(first[0], 300)  # the others follow from the same cause
    if crash.kind in {"compiler-error", "ptxas-fatal"} and (
        found := re.search(r"(?P<crash>internal compiler )?(?:fatal )?error(?: #?\w+)?\s*:\s*(?P<text>.*)", words)
    ):
        words = found[0] if found["crash"] else found["text"]
    part, why = stable_part(words.rpartition("what(): ")[2].strip())
    if crash.kind == "assertion":  # as it is in the source, numbers too, without the program before it
        part, why = words[max(words.find("Assertion "), 0) :][:LONGEST].rstrip("."), "the assertion"
    if not part or not occurs(part, text):
        signature: dict[str, Any] = {"output": placeholders.OUTPUT}
    else:
        signature = {"output": part} | ({"signal": "SIGABRT"} if crash.kind in ("terminate", "abort") else {})
    building = has(crash.kind, Trait.COMPILER)
    notes = {"output": f"{note}; {why}" if why else note}
    return ReportedFailure(signature=signature, notes=notes, line=line, last=line, building=building)


_ENDS = {139: "SIGSEGV", 134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 132: "SIGILL", 137: "SIGKILL"}


def failure_of_ending(how: str, line: int) -> ReportedFailure | None:
    """The failure in the words of ``reprokit collect`` about the end of the command; None where it did not fail."""
    code = re.match(r"ended with exit status: ([0-9]{1,3})", how)
    signature = {"timed_out": "true"} if how.startswith("hangs") else {}
    if code and int(code[1]):
        signal = _ENDS.get(int(code[1]), "")
        signature = {"signal": signal} if signal else {"exit_code": code[1]}
    notes = dict.fromkeys(signature, f"line {line}: {how}")
    return ReportedFailure(signature=signature, notes=notes, line=line, last=line) if signature else None


# -- what a reader states ------------------------------------------------------------------------------------------

_SIGNALS = {
    "SIGSEGV": r"seg\w{0,12}[ -]?(?:fault|v)|signal:? 11\b|\b139\b|段错误", "SIGABRT": r"abo?rt|assert|\b134\b",
    "SIGFPE": "fpe|floating|divi",
}  # fmt: skip
"""What programs print, and people write, of a signal."""


def stated_failure(fact: FailureFact, report: ParsedReport) -> ReportedFailure:
    """The failure that a reader states, as its lines show it; with a placeholder where they do not."""
    last = max(fact.last, fact.line)
    note = f"line {fact.line}" if last == fact.line else f"lines {fact.line} to {last}"

    def of(signature: dict[str, Any], missing: str = "") -> ReportedFailure:
        notes = dict.fromkeys(signature, note)
        return ReportedFailure(signature=signature, notes=notes, line=fact.line, last=last, missing=missing)

    if fact.kind == "hang":
        return of({"timed_out": "true"}, "set resources.timeout to a little more than it takes where it does not hang")
    if fact.kind == "oom":
        return of({"out_of_memory": "true"}, "set resources.memory to what the reporter's machine has")
    if fact.kind in ("exception", "output", "signal"):
        if found := _in_lines(fact, report):
            return found
        told = _BARE.search(fact.text or report.lines_of(fact.line, last).strip("-*> `"))
        if told and fact.kind == "exception":  # in a sentence or a list
            seen = ExceptionSeen(type=told["type"], message=told["message"], line=1, end_line=1)
            return _of_exception(seen, ReportPiece(kind="fenced", text=told[0], line=fact.line))
        if fact.signal and re.search(_SIGNALS.get(fact.signal, fact.signal[3:]), report.text, re.IGNORECASE):
            return of({"signal": fact.signal})
    text = fact.text.strip()
    telling = r"\S" if fact.kind == "wrong" else r"\w"
    printed = text and report.code_at(last) and len(re.findall(telling, text)) > 3
    if printed and fact.kind == "wrong":  # without its numbers, it would be what the right result is, too
        return of({"exit_code": "0", "output": shorten_message(text.partition("\n")[0])})
    part = _only_there(stable_part(text)[0], text, fact, report) if printed else ""
    if part and fact.kind in ("exception", "output"):
        return of({"output": part})
    return of({"output": placeholders.OUTPUT}, f"line {fact.line} tells of it and does not show what is printed")


def _only_there(part: str, text: str, fact: FailureFact, report: ParsedReport) -> str:
    """The part of a stated text that stays the same; the text itself where other lines of the report have that part.

    ``src/a.py:238: skipped`` without its numbers is printed by the run that works, too.
    """
    others = [
        line for number, line in enumerate(report.lines, 1) if not fact.line <= number <= max(fact.last, fact.line)
    ]
    if part and any(text not in line and occurs(part, line) for line in others):
        return shorten_message(text.partition("\n")[0])
    return part


def _in_lines(fact: FailureFact, report: ParsedReport) -> ReportedFailure | None:
    """The failure that some lines print, with its traceback, which may begin above them."""
    last = max(fact.last, fact.line)
    around = next((one for one in report.pieces if one.code and one.line <= last <= one.last), None)
    for begin in (around.line, fact.line) if around else ():
        found = in_piece(ReportPiece(kind="fenced", text=report.lines_of(begin, last), line=begin))
        if found and found.last >= fact.line:
            return found
    return None


# -- IPython -------------------------------------------------------------------------------------------------------

_HEADER = re.compile(r"^\s*(?P<type>[A-Za-z_][\w.]*)\s+Traceback \(most recent call last\)\s*:?\s*$")
_FRAME = re.compile(
    r"^\s*(?:File )?(?P<file>(?:[A-Za-z]:)?[^\s:,<>][^\s:,<>]*|<[^>\n]*>|(?:Input |Cell )?In "
    r"?\[\d+\])(?::(?P<line>[0-9]{1,9}))?(?:, line (?P<at>[0-9]{1,9}))?,?"
    r"(?: in (?P<function>[^\s(]+|<cell line: \d+>)(?:\(.*)?)?\s*$"
)
_ARROW = re.compile(r"^\s*-+>\s*(?P<line>[0-9]{1,9})\s?(?P<source>.*)$")


def _as_tracebacks(text: str) -> str:
    """``text`` with each traceback of IPython (``IPython/core/ultratb.py``) in Python's own form, on the same lines."""
    if "Traceback (most recent call last)" not in text:
        return text
    lines = text.split("\n")
    kind, framed = "", False
    for at, line in enumerate(lines):
        if header := _HEADER.match(line):
            kind, framed = header["type"].rpartition(".")[2], False
            lines[at] = "Traceback (most recent call last):"
        elif not kind:
            continue
        elif re.match(rf"(?:[A-Za-z_][\w.]*\.)?{re.escape(kind)}(?::|$)", line):
            kind = ""
        else:
            found, arrow = _FRAME.match(line), _ARROW.match(line)
            if found and (found["function"] or found["line"] or line.lstrip().startswith(("File ", "<ipython"))):
                function = re.sub(r"^<(?:cell line: \d+|module)>.*", "<module>", found["function"] or "<module>")
                cell = re.match(r"(?:Input |Cell )?In ?\[|<ipython", found["file"])
                name = "<ipython-input>" if cell else found["file"]
                lines[at] = f'  File "{name}", line {found["line"] or found["at"] or 0}, in {function}'
                framed = True
            else:
                lines[at] = f"    {arrow['source'] if arrow and framed else line.strip() or '.'}"
    return "\n".join(lines)

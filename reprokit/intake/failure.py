"""The failure that a report shows, as a signature: the parts that stay the same when it happens again. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reprokit.core.redaction import STANDS
from reprokit.core.text import one_line
from reprokit.evidence import frames as places
from reprokit.evidence.fingerprint import fingerprint
from reprokit.evidence.model import Crash, Ending, ExceptionSeen, Frame
from reprokit.evidence.normalise import essence
from reprokit.evidence.observation import last_exception, observe, primary_crash
from reprokit.evidence.parser import Trait
from reprokit.evidence.parsers import has
from reprokit.evidence.parsers.paddle import ENFORCE
from reprokit.intake import notebooks
from reprokit.intake.pieces import ReportPiece

LONGEST = 120
"""Most characters of a message in a signature; longer ones are cut at a word."""
_LEAST = 6
"""Fewest letters of a part of a message that is specific enough."""

_QUOTED = re.compile(r"(?P<quote>['\"`‘“])(?P<inside>[^'\"`’”\n]{0,200})['\"`’”]")
_VOLATILE = re.compile(
    r"0x[0-9a-fA-F]+|\b[a-zA-Z][\w+.-]*://\S+|(?:[A-Za-z]:)?(?:[\w.@~+-]*[/\\]){2,}[\w.@+-]*|[/\\][\w.@+-]+[/\\]?[\w.@+-]*"
    r"|(?<![\w.])[-+]?\d[\w.+-]*|[\[({][^\[\](){}\n]{0,200}\d[^\[\](){}\n]{0,200}[\])}]"
    r"|\b(?=[a-f]*\d)[0-9a-f]{8,}\b|<[^<>\n]{1,200} (?:object )?at [^<>\n]{1,100}>"
    r"|\bat \.{0,2}/\S+"
)
"""Text that changes between runs or machines: addresses, paths, numbers, and brackets around them."""
_HOME = re.compile(r"(?<![\w~])~(?:[/\\][\w.@~+/\\-]*|(?=$|[\s'\"]))")
_CLAUSE = re.compile(r"[,;:，；：。]\s+|[，；：。]|\s[-–—]\s|\s*\(|\)\s*|\[\s*|\s*\]|\n")
_SENTENCE = re.compile(r"(?<=[^\d\s])[.!?]\s+(?=[A-Z\[(])|(?<=[\d)\]])\.\s+(?=[A-Z])|[。！？]|\n")
_PADDLE_CLASS = re.compile(rf"^\((?:{'|'.join(ENFORCE)})\)\s*|^(?:{'|'.join(ENFORCE)})Error:\s*")
_NAME = r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|NotFound)"
_BARE = re.compile(rf"^(?:E\s+)?(?P<type>{_NAME})(?:[:：]\s*(?P<message>\S.*))?$", re.MULTILINE)
_WITHIN = re.compile(rf"(?<![A-Za-z0-9_.`'\"/])[`'\"]?(?P<type>{_NAME})[:：]\s*(?P<message>[^\n`]+)")
"""In running text, a name alone is not a failure: its message must follow."""
_EXIT = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: (?:error )?(?:code|status))|exit code|return(?:ed)? code|退出代码|退出码"
    r"|退出状态)\s*[:：=]?\s*(?P<code>-?\d{1,10})\b(?P<rest>.*)",
    re.IGNORECASE,
)
_SIGNAL_WORDS = (
    (re.compile(r"segmentation fault|段错误|\bSIGSEGV\b|signal 11\b", re.IGNORECASE), "SIGSEGV"),
    (re.compile(r"\bAborted \(core dumped\)|已放弃|\bSIGABRT\b|signal 6\b|abort trap", re.IGNORECASE), "SIGABRT"),
    (re.compile(r"\bbus error\b|总线错误|\bSIGBUS\b|signal 7\b", re.IGNORECASE), "SIGBUS"),
    (re.compile(r"floating point exception|浮点数例外|\bSIGFPE\b|signal 8\b", re.IGNORECASE), "SIGFPE"),
    (re.compile(r"illegal (?:hardware )?instruction|非法指令|\bSIGILL\b|signal 4\b", re.IGNORECASE), "SIGILL"),
)
"""Messages of shells, in two languages, about the end of a program by a signal."""
_CMAKE = re.compile(
    r"^[ \t]*CMake Error(?: at [^\n]{1,300}|:)[ \t]*\n(?:[ \t]*\n)?[ \t]*(?P<text>[A-Za-z][^\n]*)", re.M
)
_STAMP = re.compile(r"^(?:#\d{1,4} )?\d{1,5}\.\d{1,3}(?=[ \n])", re.MULTILINE)
"""Seconds, as ``docker build`` writes them before each line of output."""
_GOES_ON = re.compile(r"Exception in thread |Task exception was never retrieved|future: <Task")
"""What Python prints above a traceback that does not end the program."""
_FRAME = re.compile(r"^[ \t]+File \".+\", line \d+, in ", re.MULTILINE)
_ERROR_WORDS = re.compile(
    r"error|traceback|exception|crash|log|output|actual|fail|problem|stack|报错|错误|异常|日志|崩溃|输出|信息",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """A failure in a report. ``signature``: ``expect.failure``; ``notes``: key -> origin; ``line``, ``last``: lines.

    ``frames``: of its traceback, outermost first; ``others``: how many more failures the report shows.
    """

    signature: dict[str, Any]
    notes: dict[str, str] = field(default_factory=dict)
    line: int = 0
    last: int = 0
    frames: tuple[Frame, ...] = ()
    others: int = 0
    exception: ExceptionSeen | None = None
    building: bool = False
    """Whether it failed while something was compiled."""

    @property
    def title(self) -> str:
        """The failure in one line; '' where neither a type nor a message is known."""
        kind = str(self.signature.get("exception") or self.signature.get("signal") or "")
        text = str(self.signature.get("message") or self.signature.get("output") or "")
        text = "" if text.startswith("/") else text
        return ": ".join(filter(None, (kind, text)))


def find(pieces: Sequence[ReportPiece]) -> Shown | None:
    """The failure that a report is about: the first below a heading about errors, else the first.

    Tracebacks and crashes in pasted text are preferred to lines that only name an exception. None where there is none.
    """
    pasted = [(piece, shown) for piece in pieces if piece.code and (shown := _in_piece(piece))]
    worded = [(piece, shown) for piece in pieces if not piece.code and (shown := _in_words(piece))]
    worded.sort(key=lambda pair: pair[0].kind == "heading")  # a title only names it
    seen = pasted or worded
    if not seen:
        return None
    whole = [pair for pair in seen if pair[1].frames] or seen
    headed = [pair for pair in whole if _ERROR_WORDS.search(pair[0].under)]
    chosen = (headed or whole)[0][1]
    distinct = {(shown.signature.get("exception"), shown.title): shown for _, shown in pasted + worded}
    return Shown(
        **{**vars(chosen), "others": sum(bool(shown.title) and not _same(shown, chosen) for shown in distinct.values())}
    )


def _same(one: Shown, other: Shown) -> bool:
    """Whether two may be the same failure: a title may lack its type, a log its message."""
    kinds = {str(shown.signature.get("exception") or "") for shown in (one, other)} - {""}
    a, b = (str(shown.signature.get("message") or shown.signature.get("output") or "") for shown in (one, other))
    if not a or not b:
        return one.title == other.title
    return len(kinds) < 2 and (a in b or b in a)


def _in_piece(piece: ReportPiece) -> Shown | None:
    piece = replace(piece, text=_STAMP.sub("", piece.text))
    text = _begun(notebooks.as_tracebacks(piece.text))
    observation = observe(text)
    exception, crash = last_exception(observation), primary_crash(observation)
    if crash is None and exception is None:  # pip indents the output of a compiler
        text = "\n".join(line.strip() for line in text.split("\n"))
        crash = primary_crash(observe(text))
    if exception is not None and not exception.ignored:
        shown = _of_exception(exception, piece)
        above = text.split("\n")[max(exception.line - 3, 0) : exception.line - 1]
        if any(_GOES_ON.match(line) for line in above):
            shown.signature["exit_code"] = "0"
            shown.notes["exit_code"] = (
                "Python goes on after such an exception; write nonzero if the program failed all the same"
            )
        return shown
    bare = _BARE.search(text)
    # An exception whose message mentions a signal or CUDA is still how the program ended.
    if crash is not None and not (bare and text.count("\n", 0, bare.start()) + 1 == crash.line):
        return _of_crash(crash, text, piece)
    return _named(piece)


def _begun(text: str) -> str:
    """Complete a traceback that was pasted without its first line, which replaces the line above its frames."""
    first = _FRAME.search(text)
    if first is None or not text.count("\n", 0, first.start()) or "Traceback (most recent call last)" in text:
        return text
    above = text.rindex("\n", 0, first.start() - 1) + 1 if text.count("\n", 0, first.start() - 1) else 0
    return f"{text[:above]}Traceback (most recent call last):{text[first.start() - 1 :]}"


def _in_words(piece: ReportPiece) -> Shown | None:
    """A failure in prose: text that was pasted without a fence, or an exception that a sentence names."""
    crash = primary_crash(observe(piece.text))
    found = _BARE.search(piece.text) or _WITHIN.search(piece.text)
    line = piece.text.count("\n", 0, found.start()) + 1 if found else 0
    # A line that names an exception is identified by it, even if it also looks like a crash.
    if crash is not None and crash.line != line:
        return _of_crash(crash, piece.text, piece)
    if found and found["message"]:
        text = found["message"].strip().rstrip("。，,").strip("`")
        return _of_exception(ExceptionSeen(type=found["type"], message=text, line=line, end_line=line), piece)
    return _ended(piece)


def _named(piece: ReportPiece) -> Shown | None:
    """A failure without details: only the last line of a traceback, a message about a signal, an exit status."""
    at = piece.line
    if piece.info in {"python", "py", "c++", "cpp", "c", "diff", "yaml", "json"}:
        return None
    if bare := _BARE.search(piece.text):
        line = at + piece.text.count("\n", 0, bare.start())
        seen = ExceptionSeen(
            type=bare["type"], message=bare["message"] or "", line=line - at + 1, end_line=line - at + 1
        )
        return _of_exception(seen, piece)
    return _ended(piece)


def _ended(piece: ReportPiece) -> Shown | None:
    """The end of a program in the message of a shell or another program: by a signal, or with an exit status."""
    at = piece.line
    for words, name in _SIGNAL_WORDS:
        if piece.code and (hit := words.search(piece.text)):
            line = at + piece.text.count("\n", 0, hit.start())
            note = f"line {line}: {one_line(piece.text[hit.start() :], 80)!r}"
            return Shown(signature={"signal": name}, notes={"signal": note}, line=line, last=line)
    if piece.code and (hit := _CMAKE.search(piece.text)):
        line = at + piece.text.count("\n", 0, hit.start())
        text = one_line(hit["text"], LONGEST) if not re.search(r"[/\\]", hit["text"]) else stable(hit["text"])[0]
        if text:
            return Shown(
                signature={"output": text}, notes={"output": f"line {line}"}, line=line, last=line, building=True
            )
    if hit := _EXIT.search(piece.text):
        line = at + piece.text.count("\n", 0, hit.start())
        return _of_exit(int(hit["code"]), hit["rest"], line)
    return None


def _of_exit(code: int, rest: str, line: int) -> Shown | None:
    note = f"line {line}"
    signals = {
        139: "SIGSEGV",
        -11: "SIGSEGV",
        134: "SIGABRT",
        -6: "SIGABRT",
        135: "SIGBUS",
        -7: "SIGBUS",
        136: "SIGFPE",
        132: "SIGILL",
    }
    if code in signals:
        return Shown(
            signature={"signal": signals[code]}, notes={"signal": f"{note}: exit status {code}"}, line=line, last=line
        )
    if code == 0:
        return None
    if 0 < code <= 255:
        return Shown(signature={"exit_code": str(code)}, notes={"exit_code": note}, line=line, last=line)
    words = f"{note}: the exit status {code} is specific to Windows; the one on Linux is not known"
    return Shown(signature={"exit_code": "nonzero"}, notes={"exit_code": words}, line=line, last=line)


# -- exceptions ----------------------------------------------------------------------------------------------------


def _of_exception(seen: ExceptionSeen, piece: ReportPiece) -> Shown:
    line, last = piece.line + max(seen.line, 1) - 1, piece.line + max(seen.end_line, 1) - 1
    signature: dict[str, Any] = {"exception": _type(seen.type)}
    notes = {"exception": f"line {last}" if last == line else f"lines {line} to {last}"}
    text, why = stable(seen.message)
    if text:
        signature["message"] = text
    if why:
        notes["message" if text else "exception"] = why if text else f"{notes['exception']}; {why}"
    frames, which = identifying_frames(seen.frames)
    if frames:
        signature["frames"] = frames
        notes["frames"] = which
    return Shown(signature=signature, notes=notes, line=line, last=last, frames=seen.frames, exception=seen)


def _type(dotted: str) -> str:
    """The name without its module, which may change between versions; a lower-case name (``zlib.error``) keeps it."""
    *_, module, name = ("", *dotted.split("."))
    return f"{module}.{name}" if module and name.islower() else name


def stable(message: str) -> tuple[str, str]:
    """(part of a message that stays the same, how it was chosen in words); ('', '') for an empty message.

    The part is the first sentence if nothing in it is volatile; else its longest clause without volatile parts; else
    the longest text between the volatile parts.
    """
    own = essence(message)
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    first = next((line for line in lines if own.startswith(" ".join(line.split())[:60])), lines[0] if lines else "")
    first = _PADDLE_CLASS.sub("", first[:1000])
    sentence = _SENTENCE.split(first, maxsplit=1)[0].strip().rstrip(".:")
    if not sentence:
        return "", "the exception has no message" if not lines else ""
    marks = _volatile(sentence)
    if not marks:
        text = _bounded(sentence)
        return text, "the message's first sentence" if text != first else "the message"
    clauses = _clauses(sentence, marks)
    steady = [text for text in clauses if _is_specific(text) and re.search(r"[ \u4e00-\u9fff]", text)]
    if steady:
        longest = max(steady, key=len)
        # The name of an undefined symbol identifies the bug.
        name = re.search(rf"{re.escape(longest)}(: [A-Za-z_]\w*)$", sentence)
        return _bounded(
            longest + (name[1] if name else "")
        ), f"the longest clause of {_shown(sentence)} without numbers, paths or values"
    stretches = [text for text in _between(sentence, marks) if _is_specific(text)]
    if stretches:
        return _bounded(
            max(stretches, key=len)
        ), f"the longest part of {_shown(sentence)} without numbers, paths or values"
    if len(sentence) <= 40 and "/" not in sentence:
        return sentence, "the whole message, most of which may differ on other machines"
    return "", f"no part of the message {_shown(sentence)} is sure to stay the same"


def _volatile(text: str) -> list[tuple[int, int]]:
    """The spans of volatile parts. A quoted name (``'NoneType'``) is not volatile: it identifies the bug."""
    spans: list[tuple[int, int]] = []
    kept: list[tuple[int, int]] = []
    for hit in _QUOTED.finditer(text):
        inside = hit["inside"]
        name = re.fullmatch(r"[A-Za-z_][\w.:<>-]{0,60}(?: [A-Za-z_]\w*){0,2}(?:\(\))?", inside) and "/" not in inside
        (kept if name else spans).append(hit.span())
    # A placeholder of something private is not in any output.
    for hit in (*STANDS.finditer(text), *_HOME.finditer(text), *_VOLATILE.finditer(text)):
        start, end = hit.span()
        if start < end and not any(a <= start and end <= b for a, b in (*kept, *spans)):
            spans.append((start, end))
    return sorted(spans)


def _clauses(text: str, marks: Sequence[tuple[int, int]]) -> list[str]:
    """The clauses without volatile parts."""
    found, start = [], 0
    ends = [hit.span() for hit in _CLAUSE.finditer(text) if not any(a <= hit.start() < b - 1 for a, b in marks)]
    for left, right in [*ends, (len(text), len(text))]:
        if not any(a < left and b > start for a, b in marks):
            found.append(text[start:left].strip())
        start = right
    return found


def _between(text: str, marks: Sequence[tuple[int, int]]) -> list[str]:
    found, start = [], 0
    for a, b in [*marks, (len(text), len(text))]:
        if a >= start:
            found.append(text[start:a].strip(" \t,;:#=([{<'\"`-"))
        start = max(start, b)
    return found


def _is_specific(text: str) -> bool:
    return sum(character.isalpha() for character in text) >= (2 if re.search(r"[\u4e00-\u9fff]", text) else _LEAST)


def _bounded(text: str) -> str:
    text = text.strip()
    if len(text) > LONGEST:
        text = text[:LONGEST].rpartition(" ")[0] or text[:LONGEST]
    # /.../ is the format's form of a regular expression.
    return text.strip("/") if text.startswith("/") and text.endswith("/") else text


def _shown(text: str) -> str:
    return repr(text if len(text) <= 90 else text[:89] + "…")


# -- frames --------------------------------------------------------------------------------------------------------


def identifying_frames(frames: Sequence[Frame]) -> tuple[list[str], str]:
    """(frames that a signature names, outermost first; which these are, in words).

    The project's own, without the entry of the started program (its module level and its ``main``, which are in every
    traceback), then the innermost of libraries, where the exception was raised. A recursion counts once.
    """
    frames = [Frame(file=frame.file.replace("\\", "/"), line=frame.line, function=frame.function) for frame in frames]
    script = frames[0].file if frames else ""
    own = [frame for frame in frames if places.kind(frame) == "own" and not _entry(frame, script)]
    called = [frame for frame in frames if places.kind(frame) == "package"]
    names = _distinct(own)
    which = "the project's own frames, without the entry of the started program"
    if not names:
        names = _distinct(called[:1])
        which = "the library's function that was called"
    inner = frames[-1] if frames else None
    if inner is not None and called and inner in called and (name := places.name(inner)) and name not in names:
        names.append(name)
        which += ", and where it was raised"
    return [name for name in names if re.fullmatch(r"[^\s:]+:[^\s:]+", name)], which


def _entry(frame: Frame, script: str) -> bool:
    return frame.function == "<module>" or (frame.file == script and frame.function == "main")


def _distinct(frames: Iterable[Frame]) -> list[str]:
    return list(dict.fromkeys(places.name(frame) for frame in frames))


# -- crashes -------------------------------------------------------------------------------------------------------


def _of_crash(crash: Crash, text: str, piece: ReportPiece) -> Shown:
    line = piece.line + max(crash.line, 1) - 1
    identity = fingerprint(Ending(exit_code=None), text, crash=crash)
    note = f"line {line}: {one_line(crash.text, 80)!r}"
    if identity.kind == "signal" and re.fullmatch(r"SIG[A-Z]+", identity.message):
        return Shown(signature={"signal": identity.message}, notes={"signal": note}, line=line, last=line)
    words = one_line(crash.text, 300)
    if crash.kind in {"compiler-error", "ptxas-fatal"} and (
        found := re.search(r"(?:fatal )?error(?: #?\w+)?\s*:\s*(?P<text>.*)", words)
    ):
        words = found["text"]
    part, why = stable(words.replace("what():", " "))
    signature: dict[str, Any] = {"output": part} if part else {"exit_code": "nonzero"}
    key = next(iter(signature))
    building = has(crash.kind, Trait.COMPILER)
    return Shown(
        signature=signature, notes={key: f"{note}; {why}" if why else note}, line=line, last=line, building=building
    )

"""The failures that a piece of a report shows, each as a signature. Pure.

Tracebacks and crashes are read as they are in logs (:mod:`reprokit.evidence`); other lines that programs print, and
what people write, by ``data/failures.yaml``. A signature is held against its text before it is given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from reprokit.case import placeholders
from reprokit.core.text import one_line
from reprokit.evidence.fingerprint import fingerprint
from reprokit.evidence.model import Crash, Ending, ExceptionSeen
from reprokit.evidence.observation import last_exception, observe, primary_crash
from reprokit.evidence.parser import Trait
from reprokit.evidence.parsers import has
from reprokit.evidence.text import find as occurs
from reprokit.intake import notebooks
from reprokit.intake.pieces import ReportPiece
from reprokit.intake.shown import Shown, table
from reprokit.intake.signatures import LONGEST, identifying_frames, stable, without_question

_NAME = (
    r"(?!java|org\.|com\.|Conda|ResolvePackage|PackagesNotFound|Unsatisfiable|LibMamba)(?:(?:[A-Za-z_]\w*\.)*(?!(?:Get|Set|Is|On)[A-Z])[A-Z]\w*(?:Error|Exception|Interrupt|Timeout|NotFound|Warning)"
    r"|(?:[a-z_]\w*\.)+error(?=: ))"
)
_BARE = re.compile(rf"^(?:E\s+)?(?P<type>{_NAME})(?:[:：]\s*(?P<message>\S.*))?$", re.MULTILINE)
_WITHIN = re.compile(rf"(?<![A-Za-z0-9_.'\"/])(?P<quote>[`'\"]?)(?P<type>{_NAME})[:：]\s*(?P<message>[^\n]+)")
"""In running text, a name alone is not a failure: its message must follow."""
_TYPE_ALONE = re.compile(rf"^[ \t]{{0,8}}[`*]{{0,2}}(?P<type>{_NAME})[`*.]{{0,3}}[ \t]*$", re.MULTILINE)
_OUTPUT = re.compile(rf"^(?:.{{0,200}}#+ ?)?(?P<type>{_NAME}): (?P<message>\S+ \S+ .*)", re.MULTILINE)
"""What a program printed, pasted behind it or in a comment."""
_EXIT = re.compile(
    r"(?:exit(?:ed)?(?: with)?(?: (?:error )?(?:code|status))|exit code|return(?:ed)? code|退出代码|退出码"
    r"|退出状态)\s*[:：=]?\s*(?P<code>-?\d{1,10})\b(?P<rest>.*)",
    re.IGNORECASE,
)
_ENDS = {
    **dict.fromkeys((139, -11, -1073741819), "SIGSEGV"),
    **dict.fromkeys((134, -6, -1073740791), "SIGABRT"),
    **dict.fromkeys((135, -7), "SIGBUS"),
    **dict.fromkeys((136, -8), "SIGFPE"),
    **dict.fromkeys((132, -4), "SIGILL"),
    **dict.fromkeys((137, -9), "SIGKILL"),
}
"""Exit statuses of programs that a signal ended, and what Windows says in its place."""
_STAMP = re.compile(r"^(?:#\d{1,4} )?\d{1,5}\.\d{1,3}(?=[ \n])", re.MULTILINE)
"""Seconds, as ``docker build`` writes them before each line of output."""
_SUMMARY = re.compile(r"^(?:FAILED|ERROR) \S{1,300}::\S{1,300} - (?=[A-Z])", re.MULTILINE)
"""What pytest's summary says before an exception."""
_STARTED = frozenset({"CalledProcessError", "ChildFailedError"})
"""What Python raises where a program that it started failed."""
_GOES_ON = re.compile(r"Exception in thread |Task exception was never retrieved|future: <Task")
"""What Python prints above a traceback that does not end the program."""
_WARNED = re.compile(r".{0,40}\b(?:[IW] [\w./-]{1,200}\.cc:\d+\]|WARN(?:ING)?\b)")
"""A line of a log that the program goes on after."""
_FRAME = re.compile(r"^[ \t]+File \".+\", line \d+, in ", re.MULTILINE)
_NAN = re.compile(
    r"^.*?(?P<text>\w[\w .-]{0,30}(?:[ =:]\s{0,3}\[?|\(\[))(?P<nan>-?nan)\b", re.IGNORECASE | re.MULTILINE
)
_TIMES = re.compile(r"(\d+(?:\.\d+)?)\s?(?:x|×|times|倍)\s*(?:as )?slow|慢\s?了?\s?(\d+(?:\.\d+)?)\s?倍", re.IGNORECASE)
_SOURCE = frozenset(
    {"python", "py", "c++", "cpp", "c", "cuda", "diff", "yaml", "json", "toml", "js", "ts", "java", "rust"}
)
"""Languages of fences that hold programs rather than their output."""
_END = 50_000
"""Characters of a piece that are read from its beginning, and from its end."""


def ends(text: str) -> str:
    """A text with only the first and the last part of a very long one, on the lines that they have."""
    if len(text) <= 2 * _END:
        return text
    return text[:_END] + "\n" * text.count("\n", _END, -_END) + text[-_END:]


_KEPT = 8192
"""Pieces whose failures are kept: a document of many troubles asks for each piece several times."""


# -- pasted text ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=_KEPT)
def pasted(piece: ReportPiece) -> tuple[Shown, ...]:
    return tuple(_in_piece(piece))


def _in_piece(piece: ReportPiece) -> Iterator[Shown]:
    text = _SUMMARY.sub("E   ", _STAMP.sub("", ends(piece.text)))
    text = notebooks.indented(_begun(notebooks.as_tracebacks(text)))
    observation = observe(text)
    exception, crash = last_exception(observation), primary_crash(observation)
    if crash is None and exception is None:  # pip indents the output of a compiler, replies quote it
        text = "\n".join(re.sub(r"^[ \t>|]+", "", line) for line in text.split("\n"))
        crash = primary_crash(observe(text))
    if exception is not None and not exception.ignored:
        shown = _of_exception(exception, piece)
        # A program that starts others only says that one of them failed: what that one printed is the failure.
        if _type(exception.type) in _STARTED:
            if crash is not None and has(crash.kind, Trait.COMPILER):
                yield _of_crash(crash, text, piece)
                return
            if (own := next(_lines(piece, text), None)) and not own.echo:
                yield own
                return
            if child := [one for one in observation.exceptions if _type(one.type) not in _STARTED and not one.ignored]:
                yield _of_exception(child[-1], piece)
                return
        above = text.split("\n")[max(exception.line - 3, 0) : exception.line - 1]
        if any(_GOES_ON.match(line) for line in above):
            shown.signature["exit_code"] = "0"
            shown.notes["exit_code"] = (
                "Python goes on after such an exception; write nonzero if the program failed all the same"
            )
        yield shown
        return
    if piece.info in _SOURCE:
        if hit := _OUTPUT.search(text):
            at = text.count("\n", 0, hit.start("type")) + 1
            yield _of_exception(ExceptionSeen(type=hit["type"], message=hit["message"], line=at, end_line=at), piece)
        return
    bare = next((hit for hit in _BARE.finditer(text) if hit["message"] or not hit["type"].endswith("Warning")), None)
    # An exception whose message mentions a signal or CUDA is still how the program ended.
    if crash is not None and not (bare and text.count("\n", 0, bare.start()) + 1 == crash.line):
        yield _of_crash(crash, text, piece)
    elif bare:
        line = text.count("\n", 0, bare.start()) + 1
        seen = ExceptionSeen(type=bare["type"], message=bare["message"] or "", line=line, end_line=line)
        yield _of_exception(seen, piece)
    else:
        yield from _lines(piece, text)
        yield from _worded(piece, [row for row in table()["words"] if row.get("pasted")])
        yield from _ended(piece)


def _begun(text: str) -> str:
    """Complete a traceback that was pasted without its first line, which replaces the line above its frames."""
    first = _FRAME.search(text)
    if first is None or not text.count("\n", 0, first.start()) or "Traceback (most recent call last)" in text:
        return text
    above = text.rindex("\n", 0, first.start() - 1) + 1 if text.count("\n", 0, first.start() - 1) else 0
    return f"{text[:above]}Traceback (most recent call last):{text[first.start() - 1 :]}"


def _lines(piece: ReportPiece, text: str) -> Iterator[Shown]:
    """The first line that a rule of the table knows, by the first rule that knows one."""
    for row in table()["lines"]:
        hit = next((hit for hit in row["search"].finditer(text) if not _WARNED.match(_line_of(hit))), None)
        if hit is None:
            continue
        said = next((part for part in hit.groups() if part), hit[0])
        part, why = stable(said if piece.code else without_question(_within_quotes(said)))
        if len(re.findall(r"\w", part)) > 3 and occurs(part, text):
            line = piece.line + text.count("\n", 0, hit.start())
            yield Shown(
                signature={"output": part},
                notes={"output": f"line {line}; {why}"},
                line=line,
                last=line,
                building=row.get("building", False),
                echo=row.get("echo", False),
            )
            return


def _within_quotes(text: str) -> str:
    """What a sentence quotes, of a text that begins in quotes and goes on behind them."""
    for opens, closes in ("``", '""', "“”"):
        if opens == "`" and re.search("`[^`'\n]{1,200}'", text):  # as GNU quotes
            continue
        if text.count(closes) % 2 if opens == closes else text.count(closes) > text.count(opens):
            text = text.partition(closes)[0]
    return text


def _ended(piece: ReportPiece) -> Iterator[Shown]:
    """The end of a program with an exit status."""
    hit = _EXIT.search(piece.text)
    code = int(hit["code"]) if hit else 0
    if hit is None or code == 0:
        return
    line = piece.line + piece.text.count("\n", 0, hit.start())
    note = f"line {line}: exit status {code}"
    if code in _ENDS:
        signature = {"signal": _ENDS[code]}
    elif 0 < code <= 255:
        signature = {"exit_code": str(code)}
    else:
        signature = {"exit_code": "nonzero"}
        note += " is specific to Windows; the one on Linux is not known"
    yield Shown(signature=signature, notes=dict.fromkeys(signature, note), line=line, last=line, echo=code not in _ENDS)


# -- sentences -----------------------------------------------------------------------------------------------------


@lru_cache(maxsize=_KEPT)
def in_words(piece: ReportPiece, nan: str = "") -> tuple[Shown, ...]:
    """Failures in prose: text that was pasted without a fence, an exception that a sentence names, and plain words.

    ``nan``: the result of :func:`printed_nan` for the whole report.
    """
    return tuple(_in_words(piece, nan))


def _in_words(piece: ReportPiece, nan: str) -> Iterator[Shown]:
    piece = replace(piece, text=ends(piece.text))
    unquoted = "\n".join(map(_unquoted, piece.text.split("\n")))
    if piece.kind == "heading":  # a person says when it happens
        unquoted = re.split(r"\s+(?:when|while|during|after)\s", unquoted, maxsplit=1)[0]
    crash = primary_crash(observe(unquoted))
    alone = _BARE.search(unquoted)
    found = alone or _WITHIN.search(unquoted)
    line = unquoted.count("\n", 0, found.start()) + 1 if found else 0
    # A line that names an exception is identified by it, even if it also looks like a crash.
    if crash is not None and crash.line != line:
        yield _of_crash(crash, unquoted, piece)
    elif found and found["message"]:
        quote = found.groupdict().get("quote") or ""
        text = without_question(found["message"].strip()).rstrip("。，,")
        closing = re.search(rf"{quote}[)\]）】.,;:]*$", text) if quote else None
        text = (
            text[: closing.start()]
            if closing
            else text.partition(quote)[0]
            if quote and text.count(quote) % 2
            else text
        )
        seen = ExceptionSeen(type=found["type"], message=text, line=line, end_line=line)
        yield replace(_of_exception(seen, piece), inline=not alone)
        if not alone:
            of_line = piece.line + line - 1
            yield from (replace(one, inline=one.line == of_line) for one in _lines(piece, unquoted) if not one.echo)
    elif raised := _TYPE_ALONE.search(unquoted):
        at = piece.line + unquoted.count("\n", 0, raised.start("type"))
        note = {"exception": f"line {at}"}
        yield Shown(signature={"exception": _type(raised["type"])}, notes=note, line=at, last=at, inline=True)
    else:  # no program prints a title: one that begins like an echo is a person's sentence
        told = piece.kind == "heading" and _TOLD.match(unquoted)
        for one in next(
            filter(None, (list(_lines(part, part.text)) for part in _spans(piece))), _lines(piece, unquoted)
        ):
            if not (told and (one.echo or one.building)) and not (one.echo and _WHEN.search(one.title)):
                yield one
    yield from _worded(piece, table()["words"], nan)
    yield from _ended(piece)


_TOLD = re.compile(
    r"\W*(?:unable to|cannot|can't|could not|couldn't|failed to|failing to"
    r"|un(?:expected|known|supported)|invalid|no such)\b(?!.{0,80}: )",
    re.IGNORECASE,
)


def _spans(piece: ReportPiece) -> Iterator[ReportPiece]:
    """The texts between backticks in prose that have three words or more."""
    for span in re.finditer(r"`([^`\n]{8,300})`", piece.text):
        if len(span[1].split()) > 2:
            yield replace(piece, text=span[1], line=piece.line + piece.text.count("\n", 0, span.start()))


_WHEN = re.compile(r"\w (?:when|whenever|while|if) (?:\w+ing|I|we|you|the|a|an|there)\b")
"""What a person says of the time at which it happens."""


def _line_of(hit: re.Match[str]) -> str:
    """The line around a match."""
    end = hit.string.find("\n", hit.end())
    return hit.string[hit.string.rfind("\n", 0, hit.start()) + 1 : end if end >= 0 else None]


def _unquoted(line: str) -> str:
    """A line without marks of quotes, and without a backtick that begins or ends code of several lines."""
    line = re.sub(r"^[ \t]*(?:>[ \t]?)+", "", line)
    return re.sub(r"^\s*`|`\s*$", "", line, count=1) if line.count("`") % 2 else line


def _worded(piece: ReportPiece, rows: Sequence[Any], nan: str = "") -> Iterator[Shown]:
    """What the words of a piece say, by the first rule of the table that fits; of measurements, the first one."""
    measured: list[tuple[int, Shown]] = []
    for row in rows:
        if measured and row.get("kind") not in _MEASURED:
            break
        if row.get("kind") == "crash" and piece.kind != "heading" and not row.get("pasted"):
            continue
        for hit in row["search"].finditer(piece.text):
            start, end = piece.text.rfind("\n", 0, hit.start()) + 1, piece.text.find("\n", hit.end())
            around = piece.text[start : end if end >= 0 else None]
            if _DENIED.search(around[: hit.start() - start][-30:]) or re.search(row.get("not", r"(?!)"), around, re.I):
                continue
            line = piece.line + piece.text.count("\n", 0, hit.start())
            said = hit["text"] if row.get("kind") == "output" or row.get("quotes") else one_line(around, 80)
            found = _of_words(row, line, said, nan)
            if piece.kind != "heading" or row.get("kind") not in _MEASURED:
                yield found
                return
            measured.append((hit.start(), found))
            break
    if measured:
        yield min(measured, key=lambda one: one[0])[1]


_MEASURED = ("leak", "nan", "slow", "wrong")
"""Kinds that a title may name beside each other; the table has them in one run."""
_DENIED = re.compile(
    r"(?:\bno|\bnot|n't|\bwithout|\bnever|\bavoid|\bfix(?:e[ds])?|没有?|不会?|避免)\s+(?:a\s+|any\s+)?$", re.IGNORECASE
)


def of_kind(kind: str, line: int, around: str, nan: str) -> Shown:
    """A failure of a kind (hang, slow, wrong, leak, oom) that a line tells. ``around``: that line, for the comment.

    ``nan``: the result of :func:`printed_nan`.
    """
    return _of_words({"kind": kind}, line, around, nan)


def _of_words(row: Mapping[str, Any], line: int, around: str, nan: str) -> Shown:
    note = f"line {line}: {around!r}"
    kind = row.get("kind", "signal")
    signature: dict[str, Any] = {}
    missing, ratio = "", 0.0
    if kind == "signal":
        signature = {"signal": row["signal"]}
    elif kind == "oom":
        signature = {"out_of_memory": "true"}
        missing = "set resources.memory to what the reporter's machine has, so that it runs out here too"
    elif kind == "hang":
        signature = {"timed_out": "true"}
        missing = "set resources.timeout to a little more than the command takes where it does not hang"
    elif kind in ("nan", "wrong") and nan:
        signature = {"exit_code": "0", "output": nan}
    elif kind == "nan":
        signature = {"exit_code": "0", "output": "/(?i)\\bnan\\b/"}
    elif kind == "output":  # the words of the program itself
        signature = {"output": around}
    elif kind == "exception":
        signature = {"exception": row["exception"], **({"message": around} if row.get("quotes") else {})}
    elif kind in (
        "build",
        "crash",
    ):  # an installation also fails without the network, say, which is not what was reported
        signature = {"exit_code": "nonzero", "output": placeholders.OUTPUT}
    elif kind in ("slow", "leak", "wrong"):
        texts = {"slow": placeholders.SLOW, "leak": placeholders.LEAK, "wrong": placeholders.RESULT}
        signature = {"exit_code": "0", "output": texts[kind]}
        ratio = _ratio(around) if kind == "slow" else 0.0
    return Shown(
        signature=signature,
        notes={next(iter(signature)): note},
        line=line,
        last=line,
        words=kind,
        missing=missing,
        ratio=ratio,
        building=kind == "build",
        echo=kind in ("build", "crash"),
    )


def _ratio(around: str) -> float:
    """A careful ratio for what is slow: half of what the words say."""
    if times := _TIMES.search(around):
        return max(float(times[1] or times[2]) / 2, 1.2)
    return 1.5


def printed_nan(pieces: Iterable[ReportPiece]) -> str:
    """The first NaN that a report prints, with what stands before it; '' for none."""
    return next(filter(None, map(_nan_in, pieces)), "")


@lru_cache(maxsize=_KEPT)
def _nan_in(piece: ReportPiece) -> str:
    hit = _NAN.search(piece.text) if piece.code and piece.info not in _SOURCE else None
    return f"{hit['text']}{hit['nan']}".strip() if hit else ""


# -- exceptions and crashes ----------------------------------------------------------------------------------------


def _of_exception(seen: ExceptionSeen, piece: ReportPiece) -> Shown:
    line, last = piece.line + max(seen.line, 1) - 1, piece.line + max(seen.end_line, 1) - 1
    signature: dict[str, Any] = {"exception": _type(seen.type)}
    notes = {"exception": f"line {last}" if last == line else f"lines {line} to {last}"}
    text, why = stable(seen.message)
    if text and occurs(text, seen.message):
        signature["message"] = text
    if why:
        notes["message" if text else "exception"] = why if text else f"{notes['exception']}; {why}"
    if seen.type.endswith("Warning") and not seen.frames and text:  # a line that is printed, and ends no program
        signature = {"output": f"{seen.type}: {text}"}
        notes = {"output": f"line {line}{f'; {why}' if why else ''}"}
        return Shown(signature=signature, notes=notes, line=line, last=last, exception=seen)
    frames, which = identifying_frames(seen.frames)
    if frames and not notebooks.torn(piece.text):
        signature["frames"] = frames
        notes["frames"] = which
    builds = any(_BUILDS.search(frame.file) for frame in seen.frames)
    building = builds or (
        bool(re.search(r"compil|build|setup\.py|wheel|CUDA_HOME|cpp_extension", seen.message))
        and any(re.search(r"setuptools|distutils|pip/|cpp_extension|setup\.py", frame.file) for frame in seen.frames)
    )
    return Shown(
        signature=signature, notes=notes, line=line, last=last, frames=seen.frames, exception=seen, building=building
    )


_BUILDS = re.compile(r"[/\\]_in_process\.py$|pip-(?:build-env|install|req-build)-|pyproject_hooks|pep517")
"""Programs by which pip builds a package, and where."""


def _type(dotted: str) -> str:
    """The name without its module, which may change between versions; a lower-case name (``zlib.error``) keeps it."""
    *_, module, name = ("", *dotted.split("."))
    return f"{module}.{name}" if module and name.islower() else name


def _of_crash(crash: Crash, text: str, piece: ReportPiece) -> Shown:
    line = piece.line + max(crash.line, 1) - 1
    identity = fingerprint(Ending(exit_code=None), text, crash=crash)
    note = f"line {line}: {one_line(crash.text, 80)!r}"
    if identity.kind == "signal" and re.fullmatch(r"SIG[A-Z]+", identity.message):
        return Shown(signature={"signal": identity.message}, notes={"signal": note}, line=line, last=line)
    if crash.kind == "oom-kill":
        return Shown(signature={"out_of_memory": "true"}, notes={"out_of_memory": note}, line=line, last=line)
    words = one_line(crash.text, 300)
    if crash.kind == "assertion":  # the program and the place before it differ between machines
        words = words[max(words.find("Assertion "), 0) :]
    if crash.kind == "linker-error":  # the first of them: the others follow from the same cause
        first = re.search(r"undefined reference.*", text)
        words = one_line(first[0], 300) if first else words
    if crash.kind in {"compiler-error", "ptxas-fatal"} and (
        found := re.search(r"(?P<crash>internal compiler )?(?:fatal )?error(?: #?\w+)?\s*:\s*(?P<text>.*)", words)
    ):
        words = found[0] if found["crash"] else found["text"]
    part, why = stable(words.rpartition("what(): ")[2].strip())
    if crash.kind == "assertion":  # as it is in the source, numbers too
        part, why = words[:LONGEST].rstrip("."), "the assertion"
    signature: dict[str, Any] = {"output": part} if part and occurs(part, text) else {"exit_code": "nonzero"}
    if crash.kind in ("terminate", "abort") and "output" in signature:
        signature["signal"] = "SIGABRT"
    key = next(iter(signature))
    return Shown(
        signature=signature,
        notes={key: f"{note}; {why}" if why else note},
        line=line,
        last=line,
        building=has(crash.kind, Trait.COMPILER),
    )

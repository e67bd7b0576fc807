"""The line of a report that is most likely its failure, where no rule knows one. Pure.

Candidates for wrong output are what was pasted; for a line about an error lines of logs, and quoted words. What they
look like, and what the words before them say (``cues`` in ``data/failures.yaml``), adds up to a score; the best above a
threshold is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from reprokit.core.redaction import STANDS
from reprokit.evidence.text import find as occurs
from reprokit.intake import commands
from reprokit.intake.pieces import ReportPiece
from reprokit.intake.shown import Shown, table
from reprokit.intake.signatures import stable, without_question

_LEAST = {"printed": 4, "error": 5}
"""The lowest score of a candidate that is taken."""
_MOST = 3000
"""Most lines of a report that are looked at, half of them at its end."""
_WHOLE = 8
"""Most lines of a wrong output that are its signature together."""


@dataclass(frozen=True)
class _Candidate:
    text: str
    line: int
    score: int
    kind: str


def best(pieces: Sequence[ReportPiece], kinds: Sequence[str] = ("printed", "error")) -> Shown | None:
    """The best candidate of these kinds; None where none is good enough."""
    report = _Report(pieces)
    found = [one for kind in kinds for one in (_printed(report) if kind == "printed" else _errors(report))]
    good = [one for one in found if one.score >= _LEAST[one.kind]]
    if not good:
        return None
    first = max(good, key=lambda one: (one.score - _LEAST[one.kind], -one.line))
    if first.kind == "error":
        part, why = stable(first.text)
        signature, note = {"output": part}, f"line {first.line}; {why}"
    else:
        short = re.fullmatch(r"\w{1,6}", first.text)
        signature = {"exit_code": "0", "output": f"/^{first.text}$/" if short else first.text}
        note = f"line {first.line} is what it prints, by the words around it"
    return Shown(
        signature=signature,
        notes={"output": note},
        line=first.line,
        last=first.line,
        words="" if first.kind == "error" else "wrong",
    )


def titled(pieces: Sequence[ReportPiece]) -> Shown | None:
    """The pasted line that the title quotes, or of which it repeats many words; None where there is none."""
    title = next((piece.text for piece in pieces if piece.kind == "heading"), "")[:300]
    quotes = [text for text in map(_inside, _QUOTED.finditer(title)) if len(text.split()) >= _QUOTE]
    words = re.findall(r"\w+", title.lower())
    runs = {" ".join(words[at : at + _RUN]) for at in range(len(words) - _RUN + 1)}
    lines = 0
    for piece in pieces:
        if (
            piece.kind in ("heading", "tree")
            or (lines := lines + piece.text.count("\n")) > _MOST
            or (piece.code and _source(piece))
        ):
            continue
        for number, line in enumerate(piece.text.split("\n")[:_MOST], piece.line):
            line = line[:600]
            said = next((text for text in quotes if text.lower() in line.lower()), "")
            quote = line.lower().find(said.lower()) if said else -1
            if not piece.code and ((quote < 0 and not _LOGGED.match(line)) or _PERSON.search(line)):
                continue
            plain = " ".join(re.findall(r"\w+", line.lower()))
            repeats = any(run in plain for run in runs) and (_ERROR.search(line) or _LEVEL.match(line))
            other = _EXPECTED.match(line) or _PROMPT.match(line) or commands.role_of(line) or _CODE.match(line)
            if not (quote >= 0 or repeats) or other:
                continue
            own = line[quote:] if piece.code else line[quote : quote + len(said)]  # a sentence goes on behind it
            part, why = stable(own if said else PREFIX.sub("", line).strip())
            if len(part) > 9 and occurs(part, piece.text):
                note = f"line {number}, which the title names; {why}"
                return Shown(signature={"output": part}, notes={"output": note}, line=number, last=number)
    return None


_EXPECTED = re.compile(r"\W{0,8}(?:(?:expect(?:ed|ation)?|should)\b|期望|预期)[^:：]{0,20}[:：]", re.IGNORECASE)
"""How a line begins that says what is expected; ``Expecting value: line 1`` is a message."""
_QUOTE, _RUN = 3, 5
"""Least words that a title quotes, and least that it repeats in their order, from a line."""


class _Report:
    """A report and what of it counts for all candidates."""

    def __init__(self, pieces: Sequence[ReportPiece]) -> None:
        self.pieces = pieces
        self.title = next((piece.text for piece in pieces if piece.kind == "heading"), "")
        prose = "\n".join(piece.text[:2000] for piece in pieces if not piece.code)[:20_000]
        self.quoted = {text for text in map(_inside, _QUOTED.finditer(self.title)) if len(text) > 3}
        self.words = set(re.findall(r"[a-z]{4,}|\d{3,}", self.title.lower())) - _COMMON
        wrong = next(row["search"] for row in table()["words"] if row.get("kind") == "wrong")
        self.wrong = 2 if wrong.search(self.title) else 1 if wrong.search(prose) else 0
        self.fails = 2 if _FAILS.search(self.title) else 0
        self.warns = bool(re.search(r"warning|警告", self.title, re.IGNORECASE))
        printed = [piece for piece in pieces if piece.code and "expected" in _around(piece)]
        self.expects = (
            bool(printed)
            or any(role(piece.text) == "expected" for piece in pieces if piece.kind == "heading")
            or bool(re.search(r"\b(?:should|expect(?:ed)?)\b|应该|应为|期望|预期", prose))
        )
        self.expected = {line.strip() for piece in printed for line in piece.text.split("\n")}


# -- cues ----------------------------------------------------------------------------------------------------------


@cache
def _cues() -> tuple[re.Pattern[str], tuple[str, ...]]:
    rows = table()["cues"]
    text = "|".join(f"(?P<r{number}>{row['pattern']})" for number, row in enumerate(rows))
    return re.compile(text, re.IGNORECASE), tuple(row["role"] for row in rows)


@lru_cache(maxsize=8192)
def _roles(words: str) -> tuple[str, ...]:
    """What some words say; each lead and heading is asked for several times."""
    search, roles = _cues()
    return tuple(roles[int(str(hit.lastgroup)[1:])] for hit in search.finditer(words[-200:]) if hit.lastgroup)


def role(words: str) -> str:
    """What the words before a text say that it is: actual, printed, expected, fine, error, other, or ''."""
    said = _roles(words)
    decided = [one for one in said if one in ("actual", "expected", "fine")]
    if decided:
        return decided[-1]
    return next((one for one in ("error", "printed", "other") if one in said), "")


def _around(piece: ReportPiece) -> tuple[str, str]:
    """The roles by the line before a piece and by its heading."""
    return role(piece.lead), role(piece.heading)


_WEIGHT = {
    "printed": {"actual": 3, "printed": 2, "expected": -6, "fine": -6, "error": 0, "other": -2},
    "error": {"actual": 1, "printed": 0, "expected": -6, "fine": -6, "error": 3, "other": -1},
}


def _weight(piece: ReportPiece, kind: str) -> int:
    """What the line before a pasted text and its heading say for a kind of failure."""
    weights = _WEIGHT[kind]
    if not _roles(piece.lead):
        return weights.get(_said(piece.heading, kind), 0)
    lead, heading = _said(piece.lead, kind), weights.get(_said(piece.heading, kind), 0)
    return weights.get(lead, 0) + (0 if lead == "actual" else min(heading // 2, 1) if abs(heading) > 2 else 0)


def _said(words: str, kind: str) -> str:
    """The role by these words; an error that is neither expected nor gone is one, whoever got it."""
    found = role(words)
    return "error" if kind == "error" and found == "actual" and "error" in _roles(words) else found


# -- what lines look like ------------------------------------------------------------------------------------------

_COMMON = {"this", "that", "with", "when", "from", "after", "does", "doesn", "error", "errors", "issue", "wrong"}
_COMMON |= {"using", "version", "failed", "fails"}
_FAILS = re.compile(
    r"\b(?:fail\w*|errors?|crash\w*|cannot|can't|unable|exception|does(?:n't| not) (?:build|work|start|compile|run))\b"
    r"|失败|报错|错误|无法|异常",
    re.IGNORECASE,
)
_QUOTED = re.compile(
    r"`([^`\n]{1,200})`|\"([^\"\n]{1,200})\"|“([^”\n]{1,200})”|「([^」\n]{1,200})」|(?<!\w)'([^'\n]{1,200})'(?!\w)"
)
_PROMPT = re.compile(
    r"\s*(?:\([\w.-]{1,40}\)\s*)?(?:(?:<user>)?(?:@<host>)?[\w@:~/.\\-]{0,60}[$%>]>?|[\w@:~/.\\-]{1,60}#"
    r"|>>>|\.\.\.|(?:In|Out) ?\[\d*\]:)"
    r"(?:\s+(?P<typed>\S.*)|\s*$)"
)
_CODE = re.compile(
    r"\s*(?:import |from \w[\w.]* import|def |class |for .*:$|if .*[:{]$|while |return |print\(|#include|using |let "
    r"|var |const |fn |func |public |struct |@\w|[{}]\s*$|//|#|\w[\w.\[\]\"']* [-+*/]?= \S"
    r"|[\w.\[\]]*\.[a-z_]\w*\(.*\)$|\w+\(\)$|.*;$|.*\)\s*\{$)"
)
_LEVEL = re.compile(
    r"^.{0,60}?(?:\[ ?(?:ERROR|FATAL|FAIL(?:ED)?|CRITICAL|ERR|E)\s?\]|\b(?:ERROR|FATAL|CRITICAL|ERR)\b|(?<=:)err:"
    r"|(?:[Ee]rror|fatal)\s?[:：]|【(?:ERROR|错误)】)"
)
_QUIET = re.compile(r"^.{0,60}?(?:\b(?:INFO|DEBUG|TRACE|WARN(?:ING)?|NOTE|HINT|fixme)\b|[Ww]arning:|\bNote:)")
_ERROR = re.compile(
    r"\b(?:fail(?:s|ed|ure)?|can ?not|can't|could ?n[o']t|unable|undefined|invalid|no such|out of|refused|denied"
    r"|not (?:found|enough|supported|available|implemented|defined|exist|allowed|permitted|set)|unsupported|missing"
    r"|does ?n[o']t (?:exist|match|support)|illegal|overflow|mismatch\w*|must|exceed\w*|has (?:no|wrong)|unresolved"
    r"|too (?:short|long|large|small|many|few)|unknown|unexpected|unrecogni[sz]ed|errors?|abort(?:ed|ing)?|exception"
    r"|assert(?:ion)?|corrupt\w*|incompatible|expected|error ?code)\b"
    r"|失败|无法|不支持|错误|找不到|不存在|未找到|异常|缺少|必须",
    re.IGNORECASE,
)
_SHELL = re.compile(r"\b(?:then|fi|done)\b;|&& |\|\| |\$[({]|^\s*(?:RUN|#\d+|=>|>) ")
_NONE = re.compile(
    r"Could not collect"
    r"|(?:\b(?:no|without|any)|(?:^|[,;:|(=])\s{0,3}0) (?:\w+ )?(?:errors?|failures?|failed|problems?)\b"
    r"|\berrors? ?[:=] ?0\b",
    re.IGNORECASE,
)
_PERSON = re.compile(
    r"\b(?:I|I'm|I've|we|my|our|you|your|please|thanks|how|why|anyone|tried|maybe)\b|\?|？|请|我|你", re.IGNORECASE
)
_LOGGED = re.compile(
    r"\s*(?:\[|【|\(\w+ |[\d-]{4,10}[ T]\d\d:|[\w./\\~<>-]{1,300}:\d+|[\w./-]{2,40}: (?!//)\S|[A-Z]{3,8}:"
    r"|(?:ERROR|FATAL|FAIL(?:ED)?|WARN(?:ING)?|CRITICAL) )"
)
_WARNING = re.compile(r"\b(?:[A-Z]\w*)?(?:Warning|WARNING): \S.*")
PREFIX = re.compile(
    r"^\s*(?:\([^()\n]{1,60}\)\s*|(?::\s)?[WEFI](?:\d{4} [\d:.]{8,20}(?: +\d+)?)? [\w./-]{1,200}:\d+\]\s*"
    r"|[\d][\d\-:.,TZ/]{3,28}\s+|[\[【]\s?[\w .,:-]{1,40}[\]】]\s*:?\s*"
    r"|(?:ERROR|FATAL|CRITICAL|ERR)\b[:\s]*(?:[a-z]\w{0,40}(?:\.\w{1,40}){1,6} ?[:-] )?"
    r"|(?:[0-9a-f]{4}:)?err:[\w:]{1,80} )+"
)
"""What logs print before a message: its time, its level and where it comes from."""


def _inside(hit: re.Match[str]) -> str:
    return next(part for part in hit.groups() if part)


def _source(piece: ReportPiece) -> bool:
    """Whether a pasted text is a program, by most of its lines."""
    lines = [line for line in piece.text.split("\n")[:60] if line.strip()]
    code = sum(bool(_CODE.match(re.sub(r"\s(?:#|//).*", "", line))) for line in lines)
    sessions = sum(bool(_PROMPT.match(line)) for line in lines)
    begins = any(re.match(r"(?:import|from|def|class|#include|using|package|fn|func) ?\S", line) for line in lines)
    return not sessions and (
        2 * code > len(lines) or ((5 if begins else 4) * code >= len(lines) and (begins or piece.info in _LANGUAGES))
    )


_LANGUAGES = {"python", "py", "c++", "cpp", "c", "cuda", "js", "javascript", "ts", "typescript", "java", "rust", "go"}
_LANGUAGES |= {"sql", "ruby", "php"}
_DATA = {"yaml", "yml", "json", "toml", "xml", "ini", "diff", "dockerfile", "terraform", "hcl", "cmake", "makefile"}


# -- wrong output --------------------------------------------------------------------------------------------------


def _printed(report: _Report) -> Iterator[_Candidate]:
    base = report.wrong + report.expects - (report.fails > 0 and report.wrong < 2)
    above: ReportPiece | None = None
    for piece in report.pieces:
        if not piece.code:
            continue
        if _source(piece):
            above = piece
            continue
        behind = 2 if above is not None and piece.line - above.last <= 6 else 0
        said = _weight(piece, "printed")
        score = base + said + behind + 2 * _session(piece)
        score -= 2 * (piece.info in _DATA or piece.info in _LANGUAGES)
        for lines, typed in _outputs(piece):
            ran = 0 if typed is None else 2
            if text := _differing(lines, report):
                named = 2 * any(one in text[0] for one in report.quoted)
                score += named + (0 if behind else ran)
                # That a text is below a program is not enough.
                sure = said > 0 or ran > 0 or named
                yield _Candidate(text[0], text[1], score if sure else min(score, 3), "printed")
        above = None


def _outputs(piece: ReportPiece) -> Iterator[tuple[list[tuple[int, str]], str | None]]:
    """What was printed, with the command before it, where one was typed; only the last of several."""
    runs: list[tuple[list[tuple[int, str]], str | None]] = [([], None)]
    for number, line in enumerate(piece.text.split("\n")[:400], piece.line):
        if prompt := _PROMPT.match(line):
            runs.append(([], prompt["typed"] or ""))
        elif line.strip():
            runs[-1][0].append((number, line.rstrip()))
    kept = [run for run in runs if run[0]]
    yield from kept[-1:] if len(kept) == 1 or _session(piece) else ()


def _session(piece: ReportPiece) -> bool:
    """Whether a piece is what someone typed into Python to show the bug: its last output is the wrong one."""
    typed = re.search(r"^\s{0,8}>>> ", piece.text, re.MULTILINE)
    return bool(typed and _SHOWS.search(piece.heading) and not role(piece.lead))


_SHOWS = re.compile(r"\breproduc\w*|\bbug\b|\bcurrent|\bactual|\bproblem\b|\bissue\b|复现|重现|问题", re.IGNORECASE)


def _differing(lines: list[tuple[int, str]], report: _Report) -> tuple[str, int] | None:
    """(the text of an output that is wrong, its line); None where it cannot be printed."""
    lines = [(number, line) for number, line in lines if len(lines) == 1 or report.expected or not _CODE.match(line)]
    quoted = [(line, number) for number, line in lines if any(one in line for one in report.quoted)]
    other = [(line, number) for number, line in lines if line.strip() not in report.expected]
    if len(other) < len(lines):
        chosen = other[:1]
    elif len(quoted) == 1 and len(lines) > 1:
        chosen = quoted
    elif 1 < len(lines) <= _WHOLE and lines[-1][0] - lines[0][0] == len(lines) - 1:
        chosen = [("\n".join(line for _, line in lines), lines[0][0])]
    else:
        shapes = [re.sub(r"\d+", "0", re.sub(r"[A-Za-z_]+", "w", line)) for _, line in lines]
        alike = bool(shapes) and 10 * sum(shape == shapes[0] for shape in shapes) >= 6 * len(shapes)
        chosen = [(lines[0][1], lines[0][0])] if alike or len(lines) == 1 else []
    text, number = chosen[0] if chosen else ("", 0)
    text = text if "\n" in text else text.strip()
    if commands.role_of(text.partition("\n")[0]):
        return None
    bad = (
        _CHANGES.search(text)
        or STANDS.search(text)
        or (_LEVEL.match(text) and "\n" not in text)
        or not re.search(r"\w\w|\d|\W\w\W", text)
    )
    return None if bad or len(text) > 400 or text.startswith("/") else (text, number)


_CHANGES = re.compile(
    r"0x[0-9a-f]{5,}|\d(?:ms|us|s)/\w|(?:^|\s)(?:/[\w.-]+){2,}|[A-Z]:\\|\d\d:\d\d:\d\d|Traceback|\d it/s|https?://|successfully",
    re.IGNORECASE,
)
"""What differs between machines or runs, and what a result is not."""


def _sentences(text: str) -> Iterator[tuple[str, int]]:
    for number, line in enumerate(text.split("\n")):
        if len(line) < 1000:
            yield from ((part, number) for part in re.split(r"(?<=[.!?])\s+(?=[A-Z`])|[。！？]", line))


# -- lines about errors --------------------------------------------------------------------------------------------


def _errors(report: _Report) -> Iterator[_Candidate]:
    lines = 0
    for piece in report.pieces:
        if piece.kind in ("traceback", "tree") or lines > _MOST:
            continue
        if piece.kind == "heading":
            if piece.text == report.title:
                yield from _spans(piece, report)
            continue
        weight = _weight(piece, "error")
        if piece.code and _source(piece):
            continue
        if not piece.code:
            yield from _spans(piece, report)
        texts = piece.text.split("\n")
        lines += len(texts)
        last = max((number for number, line in enumerate(texts) if line.strip()), default=0)
        above = ""
        for number, line in enumerate(texts[: _MOST // 2] if len(texts) > _MOST else texts):
            line = line[:600]
            introduced = not piece.code and bool(_INTRODUCES.search(above[-80:])) and role(above) == "error"
            score = _error_score(line, piece, report, introduced)
            if score > 0 and (text := _message(line, piece.text)):
                bonus = weight if piece.code else 3 if introduced else max(min(weight, 1), -6)
                yield _Candidate(text, piece.line + number, score + bonus + (number == last and piece.code), "error")
            above = line.strip() or above


_INTRODUCES = re.compile(r"(?:[:：]|如下|following|below)\W*$", re.IGNORECASE)
"""The end of a line that says that the next one is what it tells of."""


def _error_score(line: str, piece: ReportPiece, report: _Report, introduced: bool) -> int:
    level = bool(_LEVEL.match(line))
    words = len(set(map(str.lower, _ERROR.findall(line))))
    warning = report.warns and _WARNING.search(line)
    if not (level or words or warning) or _NONE.search(line):
        return 0
    if not piece.code and (not (introduced or _LOGGED.match(line)) or _PERSON.search(line)):
        return 0
    if _SHELL.search(line):
        return 0
    score = 3 * level + 2 * bool(words) + 3 * bool(warning) + report.fails
    score += 2 * (len(report.words & set(re.findall(r"[a-z]{4,}|\d{3,}", line.lower()))) >= 2)
    score += bool(re.match(r"\s*[\w./\\-]{1,120}:\d+", line)) + 2 * any(one in line for one in report.quoted)
    return score - 5 * bool(_QUIET.match(line) and not warning)


def _message(line: str, whole: str) -> str:
    """The part of a line that a signature is made of; '' where none is sure to stay the same."""
    if hit := _WARNING.search(line):
        line = hit[0]
    text = PREFIX.sub("", line).strip().strip("*").strip()
    part, _ = stable(text)
    return text if len(part) > 9 and occurs(part, whole) else ""


def _spans(piece: ReportPiece, report: _Report) -> Iterator[_Candidate]:
    """Quoted words, and Latin words in a Chinese sentence, behind words about an error."""
    title = piece.kind == "heading"
    for sentence, number in _sentences(piece.text[:20_000]):
        end = 0
        for printed in () if title else _BEHIND.finditer(sentence):
            if not set(_roles(sentence[: printed.start()])) & {"expected", "fine"} and (
                text := _message(without_question(printed["text"]), piece.text)
            ):
                yield _Candidate(text, piece.line + number, 5, "error")
        hits = [*_QUOTED.finditer(sentence), *(_LATIN.finditer(sentence) if _HAN.search(sentence) else ())][:20]
        for hit in hits:
            text = _inside(hit) if hit.lastindex else hit[0]
            if re.match(r"\s*[:：]", sentence[hit.end() :]):  # the label of a form in two languages
                end = hit.end()
                continue
            before, end = sentence[min(end, hit.start()) : hit.start()], hit.end()
            said = _roles(before[-80:])
            if (
                "error" not in said[-2:]
                and not (said[-1:] == ("actual",) and _ERROR.search(text))
                and not (title and 3 * len(text) > 2 * len(sentence) and _ERROR.search(text))
            ) or len(re.findall(r"[A-Za-z]{2,}|[\u4e00-\u9fff]{2}", text)) < 3:
                continue
            if _CODE.match(text) or re.search(r"^https?:|^[./\\]|^\w+(?:\.\w+)*\(", text):
                continue
            score = 3 + 2 * bool(_ERROR.search(text)) + (not title)
            if message := _message(text, piece.text):
                yield _Candidate(message, piece.line + number, score, "error")


_BEHIND = re.compile(
    r"(?:error(?: message)?|报错(?:信息)?|错误(?:信息|提示)?|提示)(?: (?:is|was|says|said))?\s*(?:[:：]|为|是)\s*"
    r"(?P<text>(?:[^`\"”\s][^`\"”\n]{0,30}\s){2}[^`\"”\n]{4,300})",
    re.IGNORECASE,
)
_HAN = re.compile(r"[\u4e00-\u9fff]")
_LATIN = re.compile(r"[A-Za-z](?:[ -!#-~]|\"[^\"]{1,80}\"){10,300}")

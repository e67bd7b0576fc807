"""The failure that a reader states, as the report shows it. Pure."""

from __future__ import annotations

import re

from reprokit.core.redaction import STANDS
from reprokit.core.text import one_line
from reprokit.intake import commands, shown_failures
from reprokit.intake.facts_file import FailureFact
from reprokit.intake.pieces import ParsedReport, ReportPiece
from reprokit.intake.shown import Shown
from reprokit.intake.signatures import stable, without_question


def find(fact: FailureFact, report: ParsedReport) -> Shown | None:
    """The failure that a reader states, as the report shows it; None where its lines show none."""
    fact = fact.model_copy(update={"text": fact.text.strip()})
    last = max(fact.last, fact.line)
    note = f"line {fact.line}" if last == fact.line else f"lines {fact.line} to {last}"
    pasted = any(one.code and one.line <= last <= one.last for one in report.pieces)
    whole = marked = lines_of(report, fact.line, last)
    if not pasted:
        whole = "\n".join(_MARKUP.sub("", line) for line in whole.split("\n"))
        fact = fact.model_copy(update={"text": _MARKUP.sub("", fact.text)})
    text = fact.text or _telling(whole)
    if fact.kind == "signal" and (compiler := _compiler(whole, fact.line)):
        return compiler
    if fact.signal and re.search(_SIGNALS.get(fact.signal, fact.signal[3:]), report.text, re.IGNORECASE):
        return Shown(signature={"signal": fact.signal}, notes={"signal": note}, line=fact.line, last=last)
    if fact.kind == "signal":  # by the words of its lines
        piece = ReportPiece(kind="prose", text=whole, line=fact.line)
        signals = (one for one in shown_failures.in_words(piece) if "signal" in one.signature)
        return next(signals, None) or shown_failures.of_kind("crash", fact.line, one_line(whole, 80), "")
    # A sentence tells that a result is wrong, and is not itself what the program prints.
    told = fact.kind == "wrong" and not (fact.text and (pasted or _quotes(whole, fact.text)))
    if fact.kind in ("hang", "slow", "leak", "oom") or told:
        nan = shown_failures.printed_nan(report.pieces) if re.search(r"(?i)\bnan", whole) else ""
        return shown_failures.of_kind(fact.kind, fact.line, one_line(text, 80), nan)
    if fact.kind == "wrong":
        return _wrong(fact, text, note)
    if not (pasted or _LOGGED.match(whole)) and (found := _of_sentence(fact, whole, marked)):
        return found
    if fact.kind == "exception" and (found := _raised(fact.line, last, report)):
        return found
    if fact.kind == "exception" and not fact.text and "Traceback (most recent call last)" in whole:
        return None  # its end is missing, which may be elsewhere
    return _printed(fact, whole, text, pasted, note)


def _wrong(fact: FailureFact, text: str, note: str) -> Shown:
    """The wrong result that a program prints, up to what was removed from it as private."""
    timed = re.match(r"\W?\w?[\d/-]{0,10}[ T]?\d\d:\d\d:\d\d", text)
    bare = _PREFIX.sub("", text).strip() if timed else text
    bare = stable(bare)[0] if STANDS.search(bare) else bare
    if not re.search(r"\w", bare) or (bare != text and not _SAYS.search(bare)):  # what any program may print
        return shown_failures.of_kind("wrong", fact.line, one_line(text, 80), "")
    return Shown(
        signature={"exit_code": "0", "output": f"/^{text}$/" if re.fullmatch(r"\w{1,6}", text) else bare},
        notes={"output": f"{note}: what it prints"},
        words="wrong",
        line=fact.line,
        last=max(fact.last, fact.line),
    )


def _printed(fact: FailureFact, whole: str, text: str, pasted: bool, note: str) -> Shown:
    """The failure by a line that is printed. ``whole``: its lines; ``text``: the telling one of them."""
    last = max(fact.last, fact.line)
    if not fact.text:
        rules = shown_failures.pasted(ReportPiece(kind="fenced", text=whole, line=fact.line))
        if found := next((one for one in rules if not one.echo), None):
            return found
    bare = _PREFIX.sub("", text).strip()
    part, why = stable(bare if pasted else without_question(bare))
    if not (_SAYS.search(part) or (part == text and re.search(r"\w{3}", part))):  # a brace, the name of a logger
        return shown_failures.of_kind("crash", fact.line, one_line(whole, 80), "")
    return Shown(signature={"output": part}, notes={"output": f"{note}; {why}"}, line=fact.line, last=last)


def _compiler(text: str, line: int) -> Shown | None:
    """What a compiler prints that crashed itself: the signal is not that of the program which started it."""
    found = shown_failures.pasted(ReportPiece(kind="fenced", text=text, line=line)) if _CRASHED.search(text) else ()
    return next((one for one in found if "output" in one.signature), None)


_CRASHED = re.compile(r"internal compiler error", re.IGNORECASE)
_SIGNALS = {
    "SIGSEGV": r"seg\w{0,12}[ -]?(?:fault|v)|signal:? 11\b|\b139\b|段错误", "SIGABRT": r"abo?rt|assert|\b134\b",
    "SIGFPE": "fpe|floating|divi",
}  # fmt: skip
"""What programs print, and people write, of a signal; "it crashes" tells of none."""
_SAYS = re.compile(r"[^\W\d_]{2}\S{0,80}\s+\S{0,80}[^\W\d_]{2}|[\u4e00-\u9fff]{3}")
"""Two words, of which a message has more than a name."""
_MARKUP = re.compile(
    r"^[ \t]{0,8}(?:(?:#{1,6}|[-*+]|\d{1,2}[.)])[ \t]+)?(?:\[(?:bug|issue|question|help)\][: \t]*)?[`*]{0,3}"
    r"|[`*]{1,3}[ \t]*$",
    re.IGNORECASE,
)
"""What Markdown and a form put before and behind a line: marks of headings, items and code, a label."""


def _quotes(sentence: str, text: str) -> bool:
    """Whether a sentence has a text as what is printed: in quotes, behind a colon, with a number, or as all of it.

    The last two only where it is not a sentence itself.
    """
    before = sentence[: max(sentence.find(text), 0)].rstrip()
    if before and before[-1] in "`\"'“‘「:：=>":
        return True
    told = re.search(r"[\u4e00-\u9fff]{2}", text) or commands.spoken(text)
    return not told and (not before or bool(re.search(r"\d", text)))


def _of_sentence(fact: FailureFact, text: str, marked: str) -> Shown | None:
    """The failure in a sentence: what it quotes of it, where a reader names no text. ``marked``: with its Markdown."""
    quoted = max((hit[2] or hit[3] for hit in _QUOTED.finditer(marked)), key=len, default="")
    if fact.kind == "output" and (quoted or fact.text):
        part, why = stable(fact.text or quoted)
        note = f"line {fact.line}; {why}"
        return (
            Shown(signature={"output": part}, notes={"output": note}, line=fact.line, last=fact.line) if part else None
        )
    piece = ReportPiece(kind="prose", text=text, line=fact.line)
    found = shown_failures.in_words(piece)
    plain = next((one for one in found if not one.words), None)
    if plain or fact.text or not (found or _TOLD.search(text)):
        return plain
    return found[0] if found else shown_failures.of_kind("crash", fact.line, one_line(text, 80), "")


_QUOTED = re.compile(r"(?<!`)(`{1,3})(?!`)([^\n]{8,300}?)(?<!`)\1(?!`)|[\"“]([^`\"“”\n]{8,300})[\"”]")
_LOGGED = re.compile(r"\s{0,8}\[?(?:WARN(?:ING)?|ERROR|FATAL|CRITICAL)\]?\s{0,8}[:：]")
"""How a line of a log begins, which no person writes."""
_TOLD = re.compile(
    r"\b(?:I|I'm|we|my|our|you|please|thanks|fails|crashes|will (?:fail|crash))\b"
    r"|^\W*(?:after|when)\b|[?？请我你您]|报错|运行",
    re.IGNORECASE,
)
"""Words of people in a sentence, which is nothing that a program prints."""


def _telling(text: str) -> str:
    """The first line of a text that says something: what follows a message explains it. Of a traceback the last one."""
    lines = [line.strip() for line in text.split("\n") if re.search(r"\w{2}", line)]
    own = [line for line in lines if not _HEADINGS.match(line)]
    return next(iter(own if own == lines else own[::-1]), "")


_HEADINGS = re.compile(
    r"(?:C\+\+ |Python )?Traceback \(|(?:call |stack ?)(?:trace|stack)\b.{0,20}$"
    r"|During handling of the above|The above exception was|File \".{1,500}\", line \d+",
    re.IGNORECASE,
)
"""Lines of any traceback, which tell nothing of one."""


def _raised(first: int, last: int, report: ParsedReport) -> Shown | None:
    """The exception that ends in some lines, with its traceback, which may begin above them."""
    around = next((one for one in report.pieces if one.code and one.line <= last <= one.last), None)
    for begin in ([min(around.line, first)] if around else []) + [first]:
        text = lines_of(report, begin, last)
        piece = ReportPiece(kind="fenced", text=text, line=begin)
        seen = [one for one in shown_failures.pasted(piece) if "exception" in one.signature]
        if seen and seen[-1].last >= first:
            return seen[-1]
    return None


def lines_of(report: ParsedReport, first: int, last: int) -> str:
    """The text of some lines, without marks of quotes and the indentation that all of them have."""
    some = [_QUOTE.sub("", line) for line in report.lines[first - 1 : max(first, last)]]
    depth = min((len(line) - len(line.lstrip()) for line in some if line.strip()), default=0)
    return "\n".join(line[depth:] for line in some)


_PREFIX = re.compile(
    r"^\s*(?:\([^()\n]{1,60}\)\s*|(?::\s)?[WEFI](?:\d{4} [\d:.]{8,20}(?: +\d+)?)? [\w./-]{1,200}:\d+\]\s*"
    r"|[\d][\d\-:.,TZ/]{3,28}\s+|[\[【]\s?[\w .,:-]{1,40}[\]】]\s*:?\s*"
    r"|(?:ERROR|FATAL|CRITICAL|ERR)\b[:\s]*(?:[a-z]\w{0,40}(?:\.\w{1,40}){1,6} ?[:-] )?"
    r"|(?:[0-9a-f]{4}:)?err:[\w:]{1,80} )+"
)
"""What logs print before a message: its time, its level and where it comes from."""
_QUOTE = re.compile(r"^(?:[ \t]{0,8}>(?!>)[ \t]?){1,9}")
"""Marks of quotes, which ``>>>`` is not."""

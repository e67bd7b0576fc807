"""A report, cut into pieces (headings, code, tracebacks, consoles, prose), and as lines without Markdown. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from typing import Any

from reprokit.evidence.text import clean

MOST = 2000
"""Most pieces of a report that are read: of more the first and the last half of them."""
_SPACES = dict.fromkeys(map(ord, "\u00a0\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")
"""Characters that look like a space, and some that splitlines() takes for the end of a line, but editors do not."""
_FENCE = re.compile(r"^(?P<indent>[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_HEADING = re.compile(
    r"^ {0,3}(?P<marks>#{1,6})\s+(?P<text>\S.*?)\s*#*$|^\s*(?:\*\*|__)(?P<bold>[^*_].{0,88}?)(?:\*\*|__)\s*[:：]?$"
    r"|^.{0,40}<summary>(?P<summary>.{0,300}?)</summary>"
)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"</?(?:details|summary|pre|code|br|p|b|div|kbd)\b[^>\n]{0,200}>", re.IGNORECASE)
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)|^\s*File \".+\", line \d+")
_PROMPT = re.compile(
    r"^\s*(?:>>> |\.\.\. |In \[\d+\]: ?|(?:\([\w.-]+\)\s*)?(?:[\w.<>-]+@[\w.<>-]+[:\s][^\n$#]{0,80})?\$ (?=\S)"
    r"|[\w.<>-]+@[\w.<>-]+:[^\n$#]{0,80}[$#] ?(?=\S)|(?:PS )?(?:[A-Z]:|~)\\[^>\n]{0,120}>)"
)
_QUOTED = re.compile(r"^(?:[ \t]{0,8}>(?!>)[ \t]?){1,9}")
_INDENTED = re.compile(r"(?: {4}|\t)\s*\S")
_IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\([^)\n]{0,1000}\)|<img\b[^>\n]{0,1000}>")


@dataclass(frozen=True, kw_only=True)
class ReportPiece:
    """Consecutive lines."""

    kind: str
    """fenced, indented, traceback, console, heading or prose."""
    text: str
    line: int
    """The number of its first line in the report, from 1."""
    info: str = ""
    """The language of a fence, in lower case."""
    heading: str = ""
    """The heading above."""
    lead: str = ""
    """The last line of prose before it."""

    @property
    def code(self) -> bool:
        """Whether it was pasted rather than written."""
        return self.kind not in ("prose", "heading")

    @property
    def last(self) -> int:
        """The number of its last line in the report."""
        return self.line + self.text.rstrip("\n").count("\n")

    @property
    def where(self) -> str:
        """Its lines, for comments."""
        return f"line {self.line}" if self.line == self.last else f"lines {self.line} to {self.last}"


@dataclass(frozen=True, kw_only=True)
class ParsedReport:
    """A report and its pieces."""

    text: str
    pieces: tuple[ReportPiece, ...]
    title: str = ""
    pictures: int = 0
    """How many images it has."""

    @property
    def lines(self) -> list[str]:
        """Its lines as cut."""
        return self.text.split("\n")

    def lines_of(self, first: int, last: int) -> str:
        """The text of some lines, without marks of quotes and the indentation that all of them have."""
        some = [_QUOTED.sub("", line) for line in self.lines[first - 1 : max(first, last)]]
        depth = min((len(line) - len(line.lstrip()) for line in some if line.strip()), default=0)
        return "\n".join(line[depth:] for line in some)

    def code_at(self, line: int) -> bool:
        """Whether a line is in pasted text."""
        return any(one.code and one.line <= line <= one.last for one in self.pieces)


def cut_report(text: str) -> ParsedReport:
    """Cut a report into pieces. Comments of templates become empty lines; terminal colours are removed."""
    text = clean(text.replace("\r\n", "\n").replace("\r", "\n")).translate(_SPACES)
    text = _outside_fences(text)
    cutter = _Cutter(text.split("\n"))
    cutter.run()
    found = cutter.pieces
    prose = "\n".join(piece.text for piece in found if piece.kind == "prose")
    title = cutter.title
    kept = found if len(found) <= MOST else [*found[: MOST // 2], *found[-MOST // 2 :]]
    return ParsedReport(text=text, pieces=tuple(kept), title=title, pictures=len(_IMAGE.findall(prose)))


def _outside_fences(text: str) -> str:
    """The text without comments of templates, on the same lines; those within fences stay."""
    if "<!--" not in text:
        return text
    parts: list[str] = []
    fence = ""
    hidden = False
    for line in text.split("\n"):
        opening = _FENCE.match(line)
        if hidden:
            _, end, rest = line.partition("-->")
            hidden = not end
            line = rest
        elif fence:
            fence = "" if opening and _closes(opening, fence) else fence
        elif opening:
            fence = opening["fence"]
        elif "<!--" in line:
            line = _COMMENT.sub("", line) if "-->" in line[line.rfind("<!--") :] else line
            before, begin, _ = line.partition("<!--")
            hidden, line = bool(begin), before
        parts.append(line)
    return "\n".join(parts)


def _closes(match: re.Match[str], fence: str) -> bool:
    return match["fence"][0] == fence[0] and len(match["fence"]) >= len(fence) and not match["info"].strip()


@dataclass
class _Cutter:
    """One pass over the lines."""

    lines: list[str]
    pieces: list[ReportPiece] = field(default_factory=list)
    heading: str = ""
    lead: str = ""
    title: str = ""
    at: int = 0

    def run(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if opening := _FENCE.match(line):
                self._fenced(opening)
            elif found := _HEADING.match(line):
                self._headed(found)
            elif _TRACEBACK.search(line):
                self._loose("traceback", self._end_of_traceback())
            elif _PROMPT.match(line):
                self._loose("console", self._end_of_console())
            elif _INDENTED.match(line) and self._after_blank():
                self._loose("indented", self._while(lambda text: text[:1] in (" ", "\t") or not text.strip()))
            else:
                self._prose()

    def _headed(self, found: re.Match[str]) -> None:
        written = (found["text"] or found["bold"] or found["summary"] or "").strip()
        self.heading = _plain(written)
        if found["marks"] == "#" and not self.pieces:  # as the title of an issue is written above its text
            self.title = self.heading
        if self.heading:
            self.pieces.append(ReportPiece(kind="heading", text=written, line=self.at + 1, heading=self.heading))
        self.lead = ""
        self.at += 1

    def _fenced(self, opening: re.Match[str]) -> None:
        start, quote = self.at + 1, ">" in opening["indent"]
        end = start
        while end < len(self.lines):
            closing = _FENCE.match(self.lines[end])
            if closing and _closes(closing, opening["fence"]):
                break
            end += 1
        body = self.lines[start:end]
        if quote:
            body = [re.sub(r"^[ \t]*>[ \t]?", "", line) for line in body]
        depth = len(opening["indent"])
        body = [line[min(depth, len(line) - len(line.lstrip(" \t"))) :] for line in body]
        info = opening["info"].strip().lower().split()
        self._add("fenced", body, start, info=info[0].strip("{}.") if info else "")
        self.at = end + 1

    def _loose(self, kind: str, end: int) -> None:
        body = self.lines[self.at : end]
        if kind in ("indented", "traceback"):
            depth = min((len(line) - len(line.lstrip(" \t")) for line in body if line.strip()), default=0)
            body = [line[depth:] for line in body]
        self._add(kind, body, self.at)
        self.at = end

    def _prose(self) -> None:
        start = self.at
        while self.at < len(self.lines) and not self._special(self.lines[self.at]):
            self.at += 1
        self.at = max(self.at, start + 1)
        body = [_TAG.sub("", line) for line in self.lines[start : self.at]]
        self._add("prose", body, start)
        if written := [line for line in body if line.strip()]:
            self.lead = _plain(written[-1])

    def _special(self, line: str) -> bool:
        if any(pattern.match(line) for pattern in (_FENCE, _PROMPT, _HEADING)) or _TRACEBACK.search(line):
            return True
        return bool(_INDENTED.match(line) and self._after_blank())

    def _after_blank(self) -> bool:
        """Whether indented code may begin here: as in Markdown, after a blank line and not in a list."""
        if self.at and self.lines[self.at - 1].strip():
            return False
        above = next((line for line in reversed(self.lines[max(0, self.at - 4) : self.at]) if line.strip()), "")
        return not re.match(r"\s*(?:[-*+]|\d+[.)、])\s|(?: {4}|\t)\s*\S", above)

    def _while(self, fits: Callable[[str], bool]) -> int:
        end = self.at
        while end < len(self.lines) and fits(self.lines[end]) and not _FENCE.match(self.lines[end]):
            end += 1
        return max(end, self.at + 1)

    def _end_of_traceback(self) -> int:
        """The end of a traceback: frames may go on after blank lines; then comes the exception, up to a blank line."""
        end = self.at + 1
        in_frames = True
        while end < len(self.lines):
            line = self.lines[end]
            if _FENCE.match(line) or (line.startswith("#") and _HEADING.match(line)):
                break
            if _TRACEBACK.search(line) or line[:1] in (" ", "\t"):
                in_frames = True
            elif not line.strip():
                following = next((text for text in self.lines[end + 1 : end + 4] if text.strip()), "")
                linked = following.startswith(("During handling", "The above exception", "Error Message Summary"))
                if not (_TRACEBACK.search(following) or linked or (in_frames and self.lines[end - 1][:1] in " \t")):
                    break
            else:
                in_frames = False
            end += 1
        return end

    def _end_of_console(self) -> int:
        end = self.at + 1
        while end < len(self.lines):
            line = self.lines[end]
            if _FENCE.match(line) or _HEADING.match(line):
                break
            if not line.strip():
                following = next((text for text in self.lines[end + 1 : end + 3] if text.strip()), "")
                if not (_PROMPT.match(following) or _TRACEBACK.search(following)):
                    break
            end += 1
        return end

    def _add(self, kind: str, body: list[str], start: int, info: str = "") -> None:
        written = [number for number, line in enumerate(body) if line.strip()]
        if written:
            text = "\n".join(body[written[0] : written[-1] + 1])
            line = start + written[0] + 1
            self.pieces.append(
                ReportPiece(kind=kind, text=text, line=line, info=info, heading=self.heading, lead=self.lead)
            )


def _plain(text: str) -> str:
    """Text without Markdown's marks."""
    return re.sub(r"\*\*|`|^#+\s*", "", _TAG.sub("", text[:2000])).strip().rstrip(":：").strip()[:200]


# -- lines without Markdown --------------------------------------------------------------------------------------------

LONGEST = 2000
"""Characters of a line that are read: no line of an environment is longer, except the flags of a processor."""
_QUOTE = re.compile(r"^(?:\s{0,3}>)+ ?")
_EDGE = re.compile(r"^\s{0,3}(`{3,}|~{3,})")
_BULLET = re.compile(r"^(?:[-*+•·●]\s+(?:\[[ xX]\]\s+)?|\(?\d{1,2}\s?[.)、）]\s*(?=\D)|[a-h][.)]\s+)+")
_HTML = re.compile(
    r"<(?:/?(?:br|p|b|i|strong|em|code|pre|summary|details|li|ul|td|tr|kbd|sub|sup)\b[^<>]{0,80}|!--)[/-]*>"
)
_BOLD = re.compile(r"\*\*|__(?=\S)|(?<=\S)__|`")


@dataclass(frozen=True)
class ReportLine:
    """One line of a report."""

    number: int
    raw: str
    text: str = ""
    """Without marks of quotes, bullets, bold and code."""
    fence: int = 0
    """The number of the fenced block that contains it, 0 = outside."""
    edge: bool = False
    """It opens or closes a fenced block."""
    heading: bool = False
    item: bool = False
    """It has a bullet."""
    cells: tuple[str, ...] = ()
    """Of a table row."""
    taken: bool = False
    """It has been read as part of another block."""

    @property
    def blank(self) -> bool:
        """Whether it is empty."""
        return not self.text


def split_lines(text: str) -> list[ReportLine]:
    """The lines of a text, numbered from 1."""
    found, fence, fences, mark = [], 0, 0, ""
    for number, raw in enumerate(text.splitlines(), 1):
        body = _QUOTE.sub("", raw[:LONGEST])
        stripped = body.strip()
        edge = _EDGE.match(body)
        if edge and not mark:
            fences += 1
            mark, fence = edge[1], fences
            found.append(ReportLine(number, raw, edge=True))
        elif edge and edge[1].startswith(mark) and not stripped.strip(mark[0]):
            mark, fence = "", 0
            found.append(ReportLine(number, raw, edge=True))
        elif fence:
            found.append(ReportLine(number, raw, text=_BULLET.sub("", stripped), fence=fence))
        else:
            heading = bool(re.match(r"#{1,6}\s", stripped))
            cells = tuple(map(_bare, stripped.strip("|").split("|"))) if stripped.startswith("|") else ()
            shown, item = _bare(stripped.strip("#") if heading else stripped), bool(_BULLET.match(stripped))
            found.append(ReportLine(number, raw, text=shown, heading=heading, item=item, cells=cells))
    return found


def _bare(text: str) -> str:
    """A line's text without bullets, bold, code marks and HTML tags."""
    text = _HTML.sub("", text.replace("&emsp;", " ").replace("&nbsp;", " ")).strip()
    return _BOLD.sub("", _BULLET.sub("", text)).strip()


# -- tables -----------------------------------------------------------------------------------------------------------


@cache
def table(name: str = "environments") -> Mapping[str, Any]:
    """A table of ``data/``, by the name of its file: what is known of programs and of what reports call things."""
    import yaml

    text = resources.files("reprokit.intake").joinpath(f"data/{name}.yaml").read_text(encoding="utf-8")
    found: Mapping[str, Any] = yaml.safe_load(text)
    return found

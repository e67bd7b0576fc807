"""A report, cut into pieces: headings, forms, fenced and indented code, tracebacks and consoles in between. Pure.

Every line of the report is in at most one piece, and pieces know their line, so that a draft can say where something
comes from. Linear in the length of the report.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from reprokit.evidence.text import clean

MOST = 2000
"""Most pieces of a report that are read: of more the first and the last half of them."""
_LONGEST = 2000
"""Most lines of a block in HTML."""
_SPACES = dict.fromkeys(map(ord, "\u00a0\v\f\x1c\x1d\x1e\x85\u2028\u2029"), " ")
"""Characters that look like a space, and some that splitlines() takes for the end of a line, but editors do not."""
_FENCE = re.compile(r"^(?P<indent>[ \t>]*(?:(?:[-*+]|\d+[.)])[ \t]+)?)(?P<fence>`{3,}|~{3,})(?P<info>[^`\n]*)$")
_OPENS = re.compile(r"^[ \t]*`[^`\s][^`]{0,1000}$|^[ \t]*`$")
_ENDS = re.compile(r"[^`]*`[ \t]*[.,]?[ \t]*")
_SPAN = 200
"""Most lines between two single backticks."""
_CODED = re.compile(
    r"(?:import [a-z_][\w., ]*|from [a-z_][\w.]* import .{1,200}|[a-z_][\w.]{0,60} ?= ?\S.{0,300}"
    r"|[a-z_][\w.]{0,60}\(.{0,300}\)|(?:for|while|if|with|def|class) .{1,200}:|@\w.{0,100})\s*(?:#.{0,200})?$"
)
"""A line of a Python program."""
_HEADING = re.compile(
    r"^ {0,3}#{1,6}\s+(?!\.{1,2}/\w)(?P<text>\S.*?)\s*#*$"
    r"|^\s*(?:[-*\d.)]+\s+)?(?:\*\*|__)(?P<bold>[^*_].{0,88}?)(?:\*\*|__)\s*[:：]?$"
)
_FORM = re.compile(
    r"(?:the |your )?(?:bug|issue|problem|error)s?(?: (?:report|description|summary))?|descri(?:be|ption)\b.{0,30}"
    r"|(?:steps|environment|system info|reproduc|what happened|versions?\b).{0,40}|is there an existing issue.{0,40}"
    r"|(?:问题|错误|bug|环境|系统)\s*(?:描述|信息|确认|反馈|说明)?(?:\W.{0,30})?",
    re.IGNORECASE,
)
"""Headings of issue forms, which say nothing about the bug."""
_SUMMARY = re.compile(r"<summary>(?P<text>.{0,300}?)</summary>", re.IGNORECASE)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"</?(?:details|summary|pre|code|br|p|b|div|kbd)\b[^>\n]{0,200}>", re.IGNORECASE)
_PRE = re.compile(r"^[ \t>]{0,8}<pre\b[^<>\n]{0,200}>(?P<text>.*)$", re.IGNORECASE)
_STYLE = re.compile(r"</?(?:font|span|b|i|u|em|strong|code|samp|kbd|a)\b[^<>\n]{0,300}>", re.IGNORECASE)
"""Tags of what terminals copy as HTML."""
_LEAD = re.compile(r"[:：]\s*$")
_TRACEBACK = re.compile(r"Traceback \(most recent call last\)|^\s*File \".+\", line \d+")
_TREE = re.compile(r"^[ \t]*(?:[│|][ \t]*)*(?:├|└|\|--(?!-*[:|])|`--|\+--)")
_PROMPT = re.compile(
    r"^\s*(?:>>> |\.\.\. |In \[\d+\]: ?|(?:\([\w.-]+\)\s*)?(?:[\w.<>-]+@[\w.<>-]+[:\s][^\n$#]{0,80})?\$ (?=\S)"
    r"|[\w.<>-]+@[\w.<>-]+:[^\n$#]{0,80}[$#] ?(?=\S)|(?:PS )?(?:[A-Z]:|~)\\[^>\n]{0,120}>)"
)
_AS_ROOT = re.compile(
    r"(?:^# (?:[A-Z][A-Z0-9_]*=\S+ )*(?:cd|git|make|cmake|pip3?|python[\d.]*|pypy3?|docker|apt(?:-get)?"
    r"|yum|dnf|conda|export|bash|sh|\.\.?/\S+) (?![a-z]+ [a-z]+ [a-z]+)\S[^\n#]{0,300}(?:\n|\Z)){2,40}",
    re.MULTILINE,
)
"""Commands behind the prompt of root, which look like headings or comments: two or more, one below the other."""
_GLUED = re.compile(
    r"^[ \t]*\d{1,2}\.(?=(?:git|cd|mkdir|cmake3?|make|pip3?|python3?|conda|docker|npm|cargo|sudo) )", re.MULTILINE
)
"""The number of a step without a blank behind it: ``1.git clone``."""
_RULER = re.compile(r"^\s*(?:[-=*_]\s*){3,}$")
_MAIL = re.compile(r"^(?:From|To|Cc|Date|Subject|Title|Message-ID|Reply-To|标题|主题|发件人|收件人|日期)\s*[:：]")
_SUBJECT = re.compile(r"(?:subject|title|标题|主题)\s*[:：]\s*(.*\S)", re.IGNORECASE)
_EXAMPLE = re.compile(
    r"[(（](?:e\.g\.|for example|such as|如|例如)(?:[^()（）\n]|[(（][^()（）\n]{0,40}[)）]){0,200}[)）](?=[ \t]*[:：])"
    r"|(?<=[:：])[ \t]*[(（](?:please|请提供|e\.g\.|for example|such as|eg[.,: ]|如|例如|例)[^)）\n]{0,200}[)）]"
    r"|\[e\.g\.[^\]\n]{0,200}\]|<em>\s{0,9}Please [^<]{0,900}</em>|^[*_]{1,2}Please [^*\n]{0,400}[*_]{1,2}$",
    re.IGNORECASE | re.MULTILINE,
)
"""A form's own examples of what to fill in, and requests, which the reporter did not remove."""
_IMAGE = re.compile(r"!\[[^\]\n]{0,300}\]\([^)\n]{0,1000}\)|<img\b[^>\n]{0,1000}>")


@dataclass(frozen=True, kw_only=True)
class ReportPiece:
    """Consecutive lines. ``kind``: fenced, indented, traceback, console, tree, heading or prose.

    ``line``: the number of its first line in the report, from 1. ``info``: the language of a fence, in lower case.
    ``heading``: the heading above; ``lead``: the last line of prose before it (both '' where there are none).
    """

    kind: str
    text: str
    line: int
    info: str = ""
    heading: str = ""
    lead: str = ""

    @property
    def code(self) -> bool:
        """Whether it was pasted rather than written."""
        return self.kind not in ("prose", "heading")

    @property
    def under(self) -> str:
        """Its heading and lead in lower case, to search for words in."""
        return f"{self.heading}\n{self.lead}".lower()

    @property
    def last(self) -> int:
        """The number of its last line in the report."""
        return self.line + self.text.rstrip("\n").count("\n")


@dataclass(frozen=True, kw_only=True)
class ParsedReport:
    """A report and its pieces. ``title``: its own, '' for none. ``pictures``: how many images it has."""

    text: str
    pieces: tuple[ReportPiece, ...]
    title: str = ""
    pictures: int = 0

    @property
    def lines(self) -> list[str]:
        """Its lines as cut."""
        return self.text.split("\n")


_FRONT = re.compile(r"\A---[ \t]*\n(?P<body>.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
"""The front matter of an issue that was exported as a file."""


def cut(text: str) -> ParsedReport:
    """Cut a report into pieces. Comments of templates become empty lines; terminal colours are removed."""
    text = clean(text.replace("\r\n", "\n").replace("\r", "\n")).translate(_SPACES)
    text = _AS_ROOT.sub(lambda found: found[0].replace("# ", "$ "), _EXAMPLE.sub(_blank, _outside_fences(text)))
    text = _of_wiki(_GLUED.sub(r"\g<0> ", text))
    title = ""
    if front := _FRONT.match(text):
        found = re.search(r"^title:\s*[\"']?(.+?)[\"']?\s*$", front["body"], re.MULTILINE)
        title = found[1] if found else ""
        text = "\n" * front[0].count("\n") + text[front.end() :]
    lines = text.split("\n")
    title = title or _subject(lines)
    cutter = _Cutter(lines)
    cutter.run()
    prose = "\n".join(piece.text for piece in cutter.pieces if piece.kind == "prose")
    kept = cutter.pieces if len(cutter.pieces) <= MOST else [*cutter.pieces[: MOST // 2], *cutter.pieces[-MOST // 2 :]]
    title = title or cutter.title()
    # What is right below the title is under no heading of its own.
    kept = [replace(one, heading="") if one.code and one.heading == title else one for one in kept]
    return ParsedReport(text=text, pieces=tuple(kept), title=title, pictures=len(_IMAGE.findall(prose)))


_WIKI = re.compile(r"^[ \t]*\{(?:code|noformat)(?::(?P<options>[^{}\n]{1,200}))?\}[ \t]*$", re.MULTILINE)
_WIKI_HEADING = re.compile(r"^h([1-6])\.[ \t]+(?=\S)", re.MULTILINE)


def _of_wiki(text: str) -> str:
    """A text with the marks of Jira for code and headings as one with those of Markdown, line by line."""
    marks = len(_WIKI.findall(text))
    if not marks or marks % 2 or "```" in text:  # within fences they are what was printed
        return text

    def fence(mark: re.Match[str]) -> str:
        options = (mark["options"] or "").split("|")
        return f"```{next((one for one in options if re.fullmatch('[A-Za-z+#]+', one)), '')}"

    return _WIKI_HEADING.sub(lambda mark: f"{'#' * int(mark[1])} ", _WIKI.sub(fence, text))


def _outside_fences(text: str) -> str:
    """The text without comments of templates, each replaced by as many line ends."""
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


def _blank(match: re.Match[str]) -> str:
    return " " + "\n" * match[0].count("\n") if match[0].strip() else match[0]


_STAMP = re.compile(
    r"(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z"
    r"|\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?Z\]) "
)


def _unstamped(lines: list[str]) -> list[str]:
    """The lines of a log of CI without the time that it puts before each of them."""
    written = [line for line in lines if line.strip()]
    if len(written) < _STAMPED or not all(_STAMP.match(line) for line in written):
        return lines
    return [_STAMP.sub("", line, count=1) for line in lines]


_STAMPED = 2
"""Least lines of a log that say that it has such times."""


def _closes(match: re.Match[str], fence: str) -> bool:
    return match["fence"][0] == fence[0] and len(match["fence"]) >= len(fence) and not match["info"].strip()


def _subject(lines: Sequence[str]) -> str:
    """The subject of a mail, or the title in a line of its own at the start; '' where there is none."""
    for line in lines[:20]:
        if not line.strip():
            continue
        if not _MAIL.match(line):
            return ""
        if found := _SUBJECT.match(line):
            return found[1]
    return ""


@dataclass
class _Cutter:
    """One pass over the lines."""

    lines: list[str]
    pieces: list[ReportPiece] = field(default_factory=list)
    heading: str = ""
    lead: str = ""
    headings: list[tuple[int, str]] = field(default_factory=list)
    at: int = 0

    def run(self) -> None:
        while self.at < len(self.lines):
            line = self.lines[self.at]
            if opening := _FENCE.match(line):
                self._fenced(opening)
            elif (pre := _PRE.match(line)) and self._preformatted(pre):
                pass
            elif end := self._end_of_span(line):
                self._span(end)
            elif (summary := _SUMMARY.search(line)) or (_HEADING.match(line) and not self._comments(line)):
                self._headed(summary or _HEADING.match(line))
            elif _TRACEBACK.search(line):
                self._loose("traceback", self._end_of_traceback())
            elif _TREE.match(line):
                self._loose("tree", self._while(lambda text: bool(_TREE.match(text))))
            elif _PROMPT.match(line):
                self._loose("console", self._end_of_console())
            elif re.match(r"(?: {4}|\t)\s*\S", line) and self._after_blank():
                self._loose("indented", self._while(lambda text: text[:1] in (" ", "\t") or not text.strip()))
            else:
                self._prose()

    def title(self) -> str:
        """The first heading of the first level; else the heading at the start, if it is the only one of its level.

        Headings of issue forms do not count.
        """
        begins = bool(self.pieces) and self.pieces[0].kind == "heading"
        first, *rest = self.headings or [(0, "")]
        alone = begins and first[1] == self.pieces[0].heading and all(level > first[0] for level, _ in rest)
        found = [text for level, text in self.headings if level == 1][:1] or ([first[1]] if alone else [])
        return next((text for text in found if not _FORM.fullmatch(text)), "")

    def _headed(self, found: re.Match[str] | None) -> None:
        groups = found.groupdict() if found else {}
        written = (groups.get("text") or groups.get("bold") or "").strip()
        self.heading = _plain(written)
        if self.heading:
            self.pieces.append(ReportPiece(kind="heading", text=written, line=self.at + 1, heading=self.heading))
        if marks := re.match(r"\s*(#+)\s", self.lines[self.at]):
            self.headings.append((len(marks[1]), self.heading))
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
        body = _unstamped(body)
        info = opening["info"].strip().lower().split()
        if len(info) > 1 and not re.fullmatch(r"[\w+#.-]+|\{.*", info[0]):  # no language: the text begins on its line
            body, start, info = [opening["info"], *body], start - 1, []
        self._add("fenced", body, start, info=info[0].strip("{}.") if info else "")
        self.at = end + 1

    def _comments(self, line: str) -> bool:
        """Whether what looks like a heading is a comment of a Python program that has no fence."""
        following = "".join(self.lines[self.at + 1 : self.at + 2])
        above = self.lines[self.at - 1] if self.at else ""
        lower = line[2:3].islower() and line.startswith("# ")
        return bool(self.at and _CODED.match(following) and (lower or _CODED.match(above)))

    def _end_of_span(self, line: str) -> int:
        """The line on which code of several lines between single backticks ends, which begins a line; 0 for none."""
        if not _OPENS.match(line):
            return 0
        following = self.lines[self.at + 1 : self.at + _SPAN]
        for at, text in enumerate(following, self.at + 1):
            if "`" in text or not (text.strip() or self.lines[at - 1].strip()):
                return at if _ENDS.fullmatch(text[:1000]) else 0
        return 0

    def _span(self, end: int) -> None:
        body = self.lines[self.at : end + 1]
        body[0] = body[0].replace("`", "", 1)
        body[-1] = body[-1].rpartition("`")[0]
        self._add("fenced", body, self.at)
        self.at = end + 1

    def _preformatted(self, opening: re.Match[str]) -> bool:
        """Take a block of HTML's ``pre`` for a fence, without its tags; False where it has no end, or fences in it."""
        body = [opening["text"]]
        for end in range(self.at, min(len(self.lines), self.at + _LONGEST)):
            body += [self.lines[end]] if end > self.at else []
            if _FENCE.match(body[-1]):
                return False
            if "</pre>" in body[-1].lower():
                body[-1] = body[-1][: body[-1].lower().index("</pre>")]
                self._add("fenced", [html.unescape(_STYLE.sub("", line)) for line in body], self.at)
                self.at = end + 1
                return True
        return False

    def _loose(self, kind: str, end: int) -> None:
        body = self.lines[self.at : end]
        if kind in ("indented", "traceback"):
            body = _dedented(body)
        self._add(kind, body, self.at)
        self.at = end

    def _prose(self) -> None:
        start = self.at
        while self.at < len(self.lines) and not self._special(self.lines[self.at]):
            self.at += 1
        self.at = max(self.at, start + 1)
        body = [_TAG.sub("", line) for line in self.lines[start : self.at]]
        self._add("prose", body, start)
        written = [line for line in body if line.strip() and not _RULER.match(line)]
        if written:
            self.lead = _plain(written[-1])

    def _special(self, line: str) -> bool:
        if any(pattern.match(line) for pattern in (_FENCE, _PRE, _TREE, _PROMPT)) or self._end_of_span(line):
            return True
        if _HEADING.match(line) and not self._comments(line):
            return True
        indented = re.match(r"(?: {4}|\t)\s*\S", line) and self._after_blank()
        return bool(indented or _SUMMARY.search(line) or _TRACEBACK.search(line))

    def _after_blank(self) -> bool:
        """Whether indented code may begin here: as in Markdown, after a blank line and not in a list."""
        if self.at and self.lines[self.at - 1].strip():
            return False
        above = next((line for line in reversed(self.lines[max(0, self.at - 4) : self.at]) if line.strip()), "")
        return not re.match(r"\s*(?:[-*+]|\d+[.)、])\s|(?: {4}|\t)\s*\S", above)

    def _while(self, fits: object) -> int:
        end = self.at
        while end < len(self.lines) and fits(self.lines[end]):  # type: ignore[operator]
            if _FENCE.match(self.lines[end]):
                break
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
                linked = following.startswith(
                    ("During handling", "The above exception", "---", "Error Message Summary")
                )
                if not (_TRACEBACK.search(following) or linked or (in_frames and _frame_like(self.lines[end - 1]))):
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
        end = next((number for number in range(len(body), 0, -1) if body[number - 1].strip()), 0)
        body = body[:end]
        skipped = next((i for i, line in enumerate(body) if line.strip()), len(body))
        text = "\n".join(body[skipped:])
        if text:
            self.pieces.append(
                ReportPiece(
                    kind=kind, text=text, line=start + skipped + 1, info=info, heading=self.heading, lead=self.lead
                )
            )


def _frame_like(line: str) -> bool:
    return bool(re.match(r'^\s+File ".+", line \d+|^\s+\S', line))


def _dedented(lines: list[str]) -> list[str]:
    depths = [len(line) - len(line.lstrip(" \t")) for line in lines if line.strip()]
    depth = min(depths, default=0)
    return [line[depth:] for line in lines]


def _plain(text: str) -> str:
    """Text without Markdown's marks."""
    text = re.sub(r"\*\*|``?|^#+\s*|(?<=\S)\*(?=\s|$)", "", _TAG.sub("", text)) if len(text) < 2000 else text[:2000]
    return _LEAD.sub("", text.strip()).strip()[:200]

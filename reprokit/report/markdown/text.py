"""Texts of logs, cases and programs as GitHub-flavoured Markdown in which they are nothing but texts. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from reprokit.core.text import is_visible
from reprokit.evidence.text import clean

BREAK = "&#8203;"
"""A zero-width space, as Dependabot and Renovate put it into mentions that are not."""

_PUNCTUATION = re.compile(r"([\\`*_{}\[\]<>#|~&!$])|^(\d*)([-+=]|(?<=\d)[.)](?=\s|$))")
"""What Markdown or HTML act on anywhere, or at the beginning of a line."""
_LINKED = re.compile(
    r"(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=GH-)(?=\d)|(?<=\w:)(?=//)|(?<=www)(?=\.)|(?<=mailto)(?=:)|(?<=:)(?=[\w+-]+:)",
    re.IGNORECASE,
)
"""Where something that GitHub would make a link, a mention or a picture of is broken."""


def visible(text: str, *, keep: str = "\t") -> str:
    """A text in which no character moves a cursor, turns the direction of writing around or cannot be seen."""
    cleaned = clean(text)
    return cleaned.translate({ord(c): f"\\u{ord(c):04x}" for c in {*cleaned} if not is_visible(c) and c not in keep})


def line(text: str) -> str:
    """A text of any kind on one line."""
    return visible(" ".join(clean(text).split()))


def prose(text: str, most: int = 500) -> str:
    """A text that reads as it is written and means nothing to Markdown, HTML or GitHub; one line."""
    plain = _shortened(line(text), most)
    divided = _LINKED.sub("\N{ZERO WIDTH SPACE}", plain)
    return _PUNCTUATION.sub(_escaped, divided).replace("\N{ZERO WIDTH SPACE}", BREAK)


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}"


def code(text: str, most: int = 300, *, table: bool = False) -> str:
    """A text as a code span. ``table``: in a cell of a table, which a bar would end, in code too."""
    plain = _shortened(line(text), most)
    if not plain:
        return ""
    if table and "|" in plain:
        return html_code(plain, most)  # a bar ends a cell, in code too; which backslashes count is up to the reader
    ticks = "`" * (_longest_run(plain, "`") + 1)
    padded = f" {plain} " if "`" in (plain[0], plain[-1]) or plain[0] == plain[-1] == " " else plain
    return f"{ticks}{padded}{ticks}"


def html_code(text: str, most: int = 300) -> str:
    """A text as code where HTML stands, such as the summary of a folded block. It is text to whatever makes links."""
    divided = _LINKED.sub("\N{ZERO WIDTH SPACE}", _shortened(line(text), most))
    return f"<code>{''.join(c if c.isalnum() or c == ' ' else f'&#{ord(c)};' for c in divided)}</code>"


def fence(text: str, language: str = "") -> str:
    """A text as a block of code, behind a fence that nothing in it can end. Ends with a line break."""
    ticks = "`" * max(3, _longest_run(text, "`") + 1)
    body = text if text.endswith("\n") or not text else f"{text}\n"
    return f"{ticks}{language}\n{body}{ticks}\n"


def block(lines: Iterable[str], language: str = "text", most: int = 240) -> str:
    """Lines of logs or programs as a block of code: cut in width, without control characters."""
    shown = "\n".join(_shortened(visible(text), most) for text in lines)
    return fence(shown, language)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; its cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def details(summary: str, body: str) -> str:
    """A folded block; ``summary`` is HTML on one line, ``body`` Markdown."""
    return f"<details><summary>{summary}</summary>\n\n{body}\n</details>\n"


def size(text: str) -> int:
    """Characters by the largest of the counts in use: UTF-16 units as browsers do, two for a line end as forms do."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2 + text.count("\n")


def _longest_run(text: str, character: str) -> int:
    return max((len(run) for run in re.findall(f"{re.escape(character)}+", text)), default=0)


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 2]} …"


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of a text. ``forms``: from the whole one to the shortest; ``worth``: the least gives way first."""

    name: str
    worth: int
    forms: tuple[str, ...]


def fit(sections: Sequence[Section], limit: int, measure: Callable[[str], int] = size) -> tuple[list[str], list[str]]:
    """The form of each section in which all fit together, the shortest if none does, and the names of those cut."""
    sizes = [[measure(form) + 2 for form in section.forms] for section in sections]
    chosen = [0] * len(sections)
    total = sum(each[0] for each in sizes)
    for at in sorted(range(len(sections)), key=lambda at: sections[at].worth):
        while total > limit and chosen[at] + 1 < len(sections[at].forms):
            total += sizes[at][chosen[at] + 1] - sizes[at][chosen[at]]
            chosen[at] += 1
    texts = [section.forms[index] for section, index in zip(sections, chosen, strict=True)]
    cut = [section.name for section, index in zip(sections, chosen, strict=True) if index]
    return texts, cut

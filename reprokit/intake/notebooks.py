"""Tracebacks as IPython and notebooks print them, written as Python would have printed them. Pure.

IPython's format (``IPython/core/ultratb.py``, 5 to 9): the exception's type and ``Traceback (most recent call last)``
on one line, a block per frame that begins with ``File PATH:LINE, in FUNCTION(...)``, ``PATH in FUNCTION(...)`` or
``Input In [3], in <cell line: 1>()``, an arrow before the line, and the exception on the last line.
"""

from __future__ import annotations

import re

_HEADER = re.compile(r"^\s*(?P<type>[A-Za-z_][\w.]*)\s+Traceback \(most recent call last\)\s*:?\s*$")
_FRAME = re.compile(
    r"^\s*(?:File )?(?P<file>(?:[A-Za-z]:)?[^\s:,<>][^\s:,<>]*|<[^>\n]*>|(?:Input |Cell )?In "
    r"?\[\d+\])(?::(?P<line>\d+))?(?:, line (?P<at>\d+))?,?"
    r"(?: in (?P<function>[^\s(]+|<cell line: \d+>)(?:\(.*)?)?\s*$"
)
_ARROW = re.compile(r"^\s*-+>\s*(?P<line>\d+)\s?(?P<source>.*)$")
_END = re.compile(r"^(?P<type>[A-Za-z_][\w.]*)(?::.*)?$")


def as_tracebacks(text: str) -> str:
    """``text`` with each IPython traceback rewritten in Python's own form, on the same lines."""
    if "Traceback (most recent call last)" not in text:
        return text
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        header = _HEADER.match(lines[at])
        if header is None or header["type"] in {"Original"}:
            at += 1
            continue
        lines[at] = "Traceback (most recent call last):"
        at = _rewrite(lines, at + 1, header["type"])
    return "\n".join(lines)


_LOOSE = re.compile(r'[ \t]*(?P<where>File ".+", line \d+)(?:, in ?(?P<function>\S*))?[ \t]*$')
_UNINDENTED = re.compile(r"^(?: ?|\t)File \".+\", line \d+", re.MULTILINE)
_TORN = re.compile(r"^ +\S.*\n(?!Traceback|During|The above)\S.*\n  File \"", re.MULTILINE)
"""A line of a traceback that a terminal broke."""
_NAMELESS = re.compile(r'^[ \t]*File ".+", line \d+, in ?$', re.MULTILINE)
"""A frame whose function a web page took for a tag of its own."""


def indented(text: str) -> str:
    """``text`` with the indentation of a traceback that lost some: pages and mails drop it. On the same lines."""
    if "Traceback (most recent" not in text or not (_UNINDENTED.search(text) or _TORN.search(text)):
        return text
    lines = text.split("\n")
    inside = source = False
    for at, line in enumerate(lines):
        frame = _LOOSE.match(line) if inside else None
        if "Traceback (most recent call last)" in line:
            inside, source = True, False
        elif frame:
            lines[at] = f"  {frame['where']}, in {frame['function'] or '<module>'}"
            source = True
        elif source and line.strip():
            lines[at] = f"    {line.strip()}"
            source = re.fullmatch(r"\s*[\^~]+\s*", (lines[at + 1] if at + 1 < len(lines) else "")) is not None
        elif line.strip() and not line.startswith("  "):
            following = lines[at + 1] if at + 1 < len(lines) else ""
            torn = inside and (following.startswith("  File ") or not (line[0].isalpha() or line[0] in "_\"'<["))
            lines[at] = f"    {line}" if torn else line
            inside = torn
    return "\n".join(lines)


def torn(text: str) -> bool:
    """Whether names of functions may be incomplete in a traceback, since a page or a terminal broke its lines."""
    return bool(_NAMELESS.search(text) or _TORN.search(text))


def _rewrite(lines: list[str], at: int, kind: str) -> int:
    """Rewrite one traceback in place; returns the index of the line after it."""
    frame: tuple[int, str, str] | None = None
    while at < len(lines):
        line = lines[at]
        end = _END.match(line)
        if end and end["type"].rpartition(".")[2] == kind.rpartition(".")[2]:
            return at + 1
        if _HEADER.match(line):
            return at
        found = _FRAME.match(line)
        arrow = _ARROW.match(line)
        if found and (found["function"] or found["line"] or line.lstrip().startswith(("File ", "<ipython"))):
            function = re.sub(r"^<cell line: \d+>$|^<module>.*", "<module>", found["function"] or "<module>")
            name = "<ipython-input>" if re.match(r"(?:Input |Cell )?In ?\[|<ipython", found["file"]) else found["file"]
            frame = (at, name, function)
            lines[at] = f'  File "{name}", line {found["line"] or found["at"] or 0}, in {function}'
        elif arrow and frame:
            lines[at] = f"    {arrow['source']}"
        elif line.strip():
            lines[at] = f"    {line.strip()}"
        else:
            lines[at] = "    ."
        at += 1
    return at

"""What is wrong with a text that is not YAML, in words that say what to do about it. Pure."""

from __future__ import annotations

import re

import yaml

_TEMPLATE_VALUE = re.compile(r"(?:^\s*|:\s+|-\s+|[\[,]\s*)(\{\{|\{%)")
_COLON_VALUE = re.compile(r"^\s*(?:- +)?[\w.-]+:\s+(?![\"'|>{\[&*!])\S.*?:(?:\s|$)")


def explain(text: str, error: yaml.MarkedYAMLError) -> tuple[int, int, str, str]:
    """Line and column (from 1), message and hint for a syntax error that PyYAML raised."""
    problem = error.problem or "not valid YAML"
    mark = error.problem_mark or error.context_mark
    unclosed = "quoted scalar" in (error.context or "") and "end of stream" in problem
    if unclosed and error.context_mark:
        mark = error.context_mark
        problem = "a quote is opened here and never closed"
    if mark is None:
        return 1, 1, f"not valid YAML: {problem}", ""
    lines = re.split("\r\n|[\r\n\x85\u2028\u2029]", text)
    line = lines[mark.line] if mark.line < len(lines) else ""
    before = lines[mark.line - 1] if 0 < mark.line <= len(lines) else ""
    context = f" {error.context}" if error.context and not unclosed else ""
    return (
        mark.line + 1,
        mark.column + 1,
        f"not valid YAML: {problem}{context}",
        _hint(line, before, mark.column, problem),
    )


def _hint(line: str, before: str, column: int, problem: str) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    if "\t" in indent:
        return "indent with spaces, not with tabs"
    if _TEMPLATE_VALUE.search(line):
        return 'quote a value that begins with a template: "{{ ... }}"'
    if "escape" in problem:
        return "in double quotes a backslash is doubled; or use single quotes"
    if line[column : column + 1] in ("@", "`", "%"):
        return f"quote a value that begins with {line[column]}"
    if "never closed" in problem:
        return "close it, or put the whole value in the other kind of quotes"
    if _COLON_VALUE.match(line):
        return 'quote a value that holds ": "'
    if re.search(r":\s+- ", line):
        return "begin the list on a line of its own, or write [a, b]"
    if "','" in problem:
        return "a list or mapping in brackets is not closed, or misses a comma"
    if re.search(r"""(["']).*\1\s*\S""", line):
        return "nothing may follow a quoted value: put the quotes around all of it"
    if before and ":" not in before and "mapping values" in problem:
        return "is a colon missing on the line above?"
    return "check the indentation, here and in the line above"

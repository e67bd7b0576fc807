"""BuildKit's grammar of Dockerfiles, strictly: what a text says as instructions, flags, stages and scripts.

Written from the reference of the Dockerfile format. Where its versions differ (a doubled escape before a line's end,
here-documents since 1.4), a reader has both: what we render must mean the same to each. Checked against the parser of a
real engine in tests/integration/test_dockerfile_grammar.py.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

KEYWORDS = frozenset(
    [
        "ADD",
        "ARG",
        "CMD",
        "COPY",
        "ENTRYPOINT",
        "ENV",
        "EXPOSE",
        "FROM",
        "HEALTHCHECK",
        "LABEL",
        "MAINTAINER",
        "ONBUILD",
        "RUN",
        "SHELL",
        "STOPSIGNAL",
        "USER",
        "VOLUME",
        "WORKDIR",
    ]
)
_DIRECTIVE = re.compile(r"#\s*([a-zA-Z][a-zA-Z0-9]*)\s*=\s*(.+?)\s*")
_HEREDOC = re.compile(r"(\d*)<<(-?)([^<]*)")


class GrammarError(ValueError):
    """A text that is not a Dockerfile, or that uses what we never render: a directive or a here-document."""


@dataclass(frozen=True)
class Instruction:
    """``flags``: what stands between the keyword and its arguments, such as ``--mount=...``, in order."""

    keyword: str
    flags: tuple[str, ...]
    text: str


def parse(text: str, *, doubled: bool = True) -> list[Instruction]:
    """The instructions of a Dockerfile. ``doubled``: two backslashes at the end of a line do not continue it.

    Raises GrammarError.
    """
    lines = text.removeprefix("\ufeff").split("\n")
    if lines and _DIRECTIVE.fullmatch(lines[0].strip()) and lines[0].lstrip().startswith("#"):
        raise GrammarError(f"a directive: {lines[0]}")
    continued = re.compile(r"(?:(?<=[^\\])|^)\\[ \t]*$" if doubled else r"\\[ \t]*$")
    found, at = [], 0
    while at < len(lines):
        line = lines[at].removesuffix("\r")
        at += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        whole, more = _cut(line.lstrip(), continued)
        while more and at < len(lines):
            line = lines[at].removesuffix("\r")
            at += 1
            if line.strip() and not line.lstrip().startswith("#"):
                part, more = _cut(line, continued)
                whole += part
        found.append(_instruction(whole.strip()))
    return found


def _cut(line: str, continued: re.Pattern[str]) -> tuple[str, bool]:
    ended = continued.search(line)
    return (line[: ended.start()], True) if ended else (line, False)


def _instruction(line: str) -> Instruction:
    keyword, rest = (*line.split(None, 1), "")[:2]
    if keyword.upper() not in KEYWORDS:
        raise GrammarError(f"no instruction: {line[:80]!r}")
    flags, rest = _flags(rest)
    if keyword.upper() in ("RUN", "COPY", "ADD") and any(map(_HEREDOC.fullmatch, raw_words(rest))):
        raise GrammarError(f"a here-document: {line[:200]!r}")
    return Instruction(keyword.upper(), tuple(flags), rest.strip())


def _flags(text: str) -> tuple[list[str], str]:
    """The words with two hyphens at the start of an instruction's arguments, without their quotes, and the rest."""
    flags, at = [], 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if not text.startswith("--", at):
            return flags, text[at:]
        word, quote = "", ""
        while at < len(text) and (quote or not text[at].isspace()):
            letter = text[at]
            if letter == "\\" and at + 1 < len(text):
                at += 1
                word += text[at]
            elif letter in "'\"" and quote in ("", letter):
                quote = "" if quote else letter
            else:
                word += letter
            at += 1
        if word == "--":
            return flags, text[at:]
        flags.append(word)


def raw_words(text: str) -> Iterator[str]:
    """The words of a shell command with their quotes, as far as BuildKit looks at them for here-documents."""
    word, quote, at = "", "", 0
    while at < len(text):
        letter = text[at]
        if letter == "\\" and quote != "'" and at + 1 < len(text):
            word += text[at : at + 2]
            at += 2
            continue
        if letter in "'\"" and quote in ("", letter):
            quote = "" if quote else letter
        if letter.isspace() and not quote:
            if word:
                yield word
            word = ""
        else:
            word += letter
        at += 1
    if word:
        yield word


def acts(script: str) -> str:
    """The characters of a shell script that act: operators, expansions, comments. What is quoted is left out."""
    found, quote, at = [], "", 0
    while at < len(script):
        letter = script[at]
        if letter == "\\" and quote != "'":
            at += 2
            continue
        if letter in "'\"" and quote in ("", letter):
            quote = "" if quote else letter
        elif (not quote and letter in "|&;<>()$`\n*?[#~!{}") or (quote == '"' and letter in "$`"):
            found.append(letter)
        at += 1
    if quote:
        raise GrammarError(f"a quote that is not closed: {script[:200]!r}")
    return "".join(found)


def expanded(argument: str) -> str:
    """An argument of WORKDIR, COPY or FROM as BuildKit takes it. Raises GrammarError for variables and for quotes."""
    out, at = "", 0
    while at < len(argument):
        if argument[at] == "\\" and at + 1 < len(argument):
            at += 1
        elif argument[at] == "$" and argument[at + 1 : at + 2] in {*string.ascii_letters, "_", "{"}:
            raise GrammarError(f"a variable in {argument!r}")
        elif argument[at] in "'\"":
            raise GrammarError(f"a quote in {argument!r}")
        out += argument[at]
        at += 1
    return out


def shape(instructions: Sequence[Instruction]) -> list[tuple[str, tuple[str, ...], str]]:
    """What a value of a case must not change: instructions, flags (mounts, owners), stages, and what scripts do."""
    return [(one.keyword, one.flags, acts(one.text) if one.keyword == "RUN" else _stage(one)) for one in instructions]


def _stage(one: Instruction) -> str:
    if one.keyword != "FROM":
        return ""
    reference, *rest = one.text.split()
    expanded(reference)
    return " ".join(rest)

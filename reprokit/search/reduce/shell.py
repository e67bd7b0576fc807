"""The pieces that can be removed from a command: lines, parts between ``&&`` and ``;``, options, words. Pure.

A guess at the pieces is enough: running the rest decides whether a piece matters. What is hard to cut (here-documents,
substitutions, blocks) stays in one piece.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

TextSpan = tuple[int, int]
"""Start and end offset of something that can be cut out."""

_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}", re.DOTALL)
_TOKEN = re.compile(
    r"""(?P<space>[ \t]+|\\\n) | (?P<end>\n) | (?P<comment>(?<![^\s;&|])\#[^\n]*)
    | (?P<join>&&|\|\||;;?|\||&(?!>)) | (?P<into>\d*(?:&>>?|[<>]+&?-?))
    | (?P<word>(?:[^\s"'\\;&|<>]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+)""",
    re.VERBOSE | re.DOTALL,
)
_WHOLE = re.compile(r"<<|\$\(|`|\(\(")
"""A line with one of these is not split into words."""
_OPENING = ("if", "for", "while", "until", "case", "select", "{%if", "{%for")
_CLOSING = ("fi", "done", "esac", "{%endif", "{%endfor")


def lines(text: str) -> list[TextSpan]:
    """The lines of a shell text, each with its continuations, multi-line quotes, here-documents and blocks."""
    spans: list[TextSpan] = []
    start = end = 0
    for line in text.splitlines(keepends=True):
        end += len(line)
        if _complete(text[start:end]):
            spans.append((start, end))
            start = end
    if end > start:
        spans.append((start, end))
    return [span for span in spans if text[span[0] : span[1]].strip()]


def segments(text: str) -> list[TextSpan]:
    """Commands joined to others of their line by ``&&`` or ``;``, each with one of these joints."""
    found: list[TextSpan] = []
    for start, tokens in _cuttable(text):
        joints = [token for token in tokens if token["join"] in ("&&", ";")]
        if not joints:
            continue
        starts = [start, *(start + _space_behind(token) for token in joints)]
        found += itertools.pairwise(starts)
        found.append((start + _space_before(joints[-1]), start + tokens[-1].end()))
    return found


def options(text: str) -> list[TextSpan]:
    """Options with the values that follow them, and redirections."""
    found: list[TextSpan] = []
    for start, tokens in _cuttable(text):
        for unit in _units(tokens):
            if unit[0]["into"] or (unit[0]["word"] or "").startswith("-"):
                found.append((start + _space_before(unit[0]), start + unit[-1].end()))
    return found


def words(text: str) -> list[TextSpan]:
    """Single words after the program that a command runs."""
    found: list[TextSpan] = []
    for start, tokens in _cuttable(text):
        for command in _commands(tokens):
            program = next((place for place, token in enumerate(command) if not _assigns(token["word"] or "")), None)
            for place, token in enumerate(command):
                if token["word"] and place != program and not (place and command[place - 1]["into"]):
                    found.append((start + _space_before(token), start + token.end()))
    return found


def option_items(arguments: Sequence[str]) -> list[tuple[int, ...]]:
    """The indices of each option with its values, in a command in exec form."""
    found: list[list[int]] = []
    for index, argument in enumerate(arguments):
        if index and argument.startswith("-"):
            found.append([index])
        elif index and found and found[-1][-1] == index - 1:
            found[-1].append(index)
    return [tuple(indices) for indices in found]


def cut(text: str, spans: Sequence[TextSpan]) -> str:
    """``text`` without ``spans``, which may overlap."""
    kept, at = [], 0
    for start, end in sorted(spans):
        kept.append(text[at : max(at, start)])
        at = max(at, end)
    return "".join([*kept, text[at:]])


def _masked(text: str) -> str:
    """``text`` with a word of the same length for each template, so that offsets stay."""
    return _TEMPLATE.sub(lambda found: "T" * len(found[0]), text)


def _complete(text: str) -> bool:
    if text.rstrip("\n").endswith("\\"):
        return False
    blocks = re.findall(r"\{%-?\s*(\w+)", text)
    if any(blocks.count(name) > blocks.count(f"end{name}") for name in ("if", "for", "macro", "raw")):
        return False
    masked = _masked(text)
    for word in re.findall(r"<<-?\s*[\"']?(\w+)", masked):
        if not re.search(rf"^\s*{word}\s*$", masked.partition("\n")[2], re.MULTILINE):
            return False
    if "<<" in masked:
        return True
    if re.sub(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", "", masked, flags=re.DOTALL).count('"'):
        return False
    bare = re.sub(r"(?m)(?:^|\s)#.*$", "", re.sub(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", "Q", masked, flags=re.DOTALL))
    if "'" in bare:
        return False
    starts = [found[1] for found in re.finditer(r"(?:^|[;&|\n]|\b(?:then|do|else)\b)\s*([\w{}]+)", bare)]
    depth = sum(word in _OPENING for word in starts) - sum(word in _CLOSING for word in starts)
    braces = len(re.findall(r"(?:^|\s|\))\{(?=\s)", bare)) - len(re.findall(r"(?:^|[\s;])\}(?=\s|;|$)", bare))
    return depth <= 0 and braces <= 0


def _cuttable(text: str) -> list[tuple[int, list[re.Match[str]]]]:
    """(offset, tokens) of each line that can be split into words."""
    found = []
    masked = _masked(text)
    for start, end in lines(text):
        line = masked[start:end].rstrip()
        tokens = list(_TOKEN.finditer(line))
        split = not _WHOLE.search(line) and not any(token["end"] for token in tokens)
        if split and tokens and "".join(token[0] for token in tokens) == line:
            found.append((start, tokens))
    return found


def _commands(tokens: Sequence[re.Match[str]]) -> list[list[re.Match[str]]]:
    """The words and redirections of each simple command in a line."""
    commands: list[list[re.Match[str]]] = [[]]
    for token in tokens:
        if token["join"]:
            commands.append([])
        elif token["word"] or token["into"]:
            commands[-1].append(token)
    return commands


def _units(tokens: Sequence[re.Match[str]]) -> list[list[re.Match[str]]]:
    units: list[list[re.Match[str]]] = []
    for command in _commands(tokens):
        for place, token in enumerate(command):
            goes_on = place and units and not token["into"] and not token["word"].startswith("-")
            if goes_on and not (units[-1][0]["into"] and len(units[-1]) > 1):
                units[-1].append(token)
            else:
                units.append([token])
    return units


def _assigns(word: str) -> bool:
    return re.match(r"\w+=", word) is not None


def _space_before(token: re.Match[str]) -> int:
    found = re.search(r"(?:[ \t]|\\\n)*$", token.string[: token.start()])
    return found.start() if found else token.start()


def _space_behind(token: re.Match[str]) -> int:
    found = re.compile(r"(?:[ \t]|\\\n)*").match(token.string, token.end())
    return found.end() if found else token.end()

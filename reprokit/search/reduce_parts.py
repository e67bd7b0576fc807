"""The parts that can be removed from a case, in groups of similar ones, and the pieces of its command. Pure.

A guess at the pieces of a shell text is enough: running the rest decides whether a piece matters. Never removed: text
about the bug (title, description, report); ``os`` and ``python``, which every image has in some version; ``memory``,
``pids`` and ``timeout``, which protect the host.
"""

from __future__ import annotations

import copy
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.case.tree import Loc, value_at

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


def shell_lines(text: str) -> list[TextSpan]:
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


def shell_segments(text: str) -> list[TextSpan]:
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


def shell_options(text: str) -> list[TextSpan]:
    """Options with the values that follow them, and redirections."""
    found: list[TextSpan] = []
    for start, tokens in _cuttable(text):
        for unit in _units(tokens):
            if unit[0]["into"] or (unit[0]["word"] or "").startswith("-"):
                found.append((start + _space_before(unit[0]), start + unit[-1].end()))
    return found


def shell_words(text: str) -> list[TextSpan]:
    """Single words after the program that a command runs."""
    found: list[TextSpan] = []
    for start, tokens in _cuttable(text):
        for command in _commands(tokens):
            words = enumerate(token["word"] or "" for token in command)
            program = next((place for place, word in words if not re.match(r"\w+=", word)), None)
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


def cut_spans(text: str, spans: Sequence[TextSpan]) -> str:
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
    unquoted = re.sub(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"", "Q", masked, flags=re.DOTALL)
    bare = re.sub(r"(?m)(?:^|\s)#.*$", "", unquoted)
    if '"' in unquoted or "'" in bare:
        return False
    starts = [found[1] for found in re.finditer(r"(?:^|[;&|\n]|\b(?:then|do|else)\b)\s*([\w{}]+)", bare)]
    depth = sum(word in _OPENING for word in starts) - sum(word in _CLOSING for word in starts)
    braces = len(re.findall(r"(?:^|\s|\))\{(?=\s)", bare)) - len(re.findall(r"(?:^|[\s;])\}(?=\s|;|$)", bare))
    return depth <= 0 and braces <= 0


def _cuttable(text: str) -> list[tuple[int, list[re.Match[str]]]]:
    """(offset, tokens) of each line that can be split into words."""
    found = []
    masked = _masked(text)
    for start, end in shell_lines(text):
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


_SPACE = r"(?:[ \t]|\\\n)*"


def _space_before(token: re.Match[str]) -> int:
    found = re.search(_SPACE + "$", token.string[: token.start()])
    return found.start() if found else token.start()


def _space_behind(token: re.Match[str]) -> int:
    found = re.compile(_SPACE).match(token.string, token.end())
    return found.end() if found else token.end()


Data = Mapping[str, Any]
"""A case as plain mappings, lists and texts. Treat as immutable."""

Without = Callable[[frozenset[int]], Data]

KINDS = {
    "env": "environment variables",
    "command": "pieces of the command",
    "resources": "resources",
    "files": "files",
    "datasets": "datasets",
    "setup": "lines of setup",
    "sources": "sources",
    "pip": "pip packages",
    "apt": "apt packages",
    "dnf": "dnf packages",
    "image": "options of the image",
    "axes": "axes",
    "contents": "lines of files",
}
"""Kinds of parts in the order in which they are tried, with the names that users see."""

_BUILT = ("setup", "sources", "pip", "apt", "dnf", "image", "axes")
PROTECTING = ("memory", "pids", "timeout")
ALWAYS = ("os", "python")


@dataclass(frozen=True, kw_only=True)
class PartGroup:
    """Parts of one kind."""

    kind: str
    names: tuple[str, ...]
    without: Without  # from a set of indices to the case without these parts
    pairs: bool = False  # some neighbours can only be removed together, such as an option and its value

    @property
    def builds(self) -> bool:
        """Whether removing some of them changes the image."""
        return self.kind in _BUILT


def group_parts(data: Data, kind: str, *, axes: bool = True) -> Iterator[Callable[[Data], PartGroup]]:
    """Functions that make the groups of one kind, coarse ones first; call each with the case as reduced so far.

    ``axes`` False: the matrix stays.
    """
    if kind == "command":
        yield from (_shell(("command",), kind, cut) for cut in (shell_lines, shell_segments, shell_options))
        yield _shell(("command",), kind, shell_words, pairs=True)
    elif kind == "setup":
        yield _keys(kind, ("environment",), only=("setup",))
        yield _shell(("environment", "setup"), kind, shell_lines)
    elif kind == "sources":
        yield _keys(kind, ("sources",))
        yield _patches
    elif kind == "pip":
        yield _keys(kind, ("environment",), only=("pip_before",))
        yield _items(kind, ("environment", "pip_options"))
        for at, step in enumerate(value_at(data, ("environment", "pip")) or ()):
            if isinstance(step, dict):
                yield _items(kind, ("environment", "pip", at, "options"))
        yield _requirements
    elif kind in ("apt", "dnf"):
        yield _items(kind, ("environment", kind))
    elif kind == "image":
        yield _keys(kind, ("environment",), only=("image", "conflicts", "sanitize"))
    elif kind == "axes":
        if axes:
            yield _keys(kind, ("matrix",), leave=ALWAYS)
    elif kind != "contents":
        yield _keys(kind, (kind,), leave=PROTECTING if kind == "resources" else ())


def put_value(data: Data, loc: Loc, value: Any) -> Data:
    """The case with ``value`` at ``loc``; None removes the entry, and its parents where they become empty."""
    result = copy.deepcopy(dict(data))
    around = value_at(result, loc[:-1])
    if value is not None:
        around[loc[-1]] = value
        return result
    del around[loc[-1]]
    return result if around or len(loc) == 1 else put_value(result, loc[:-1], None)


def _keys(
    kind: str, loc: Loc, *, only: Sequence[str] | None = None, leave: Sequence[str] = ()
) -> Callable[[Data], PartGroup]:
    """The entries of a mapping, or those of them that ``only`` names."""

    def group(data: Data) -> PartGroup:
        here = value_at(data, loc) or {}
        names = tuple(name for name in here if name not in leave and (only is None or name in only))

        def without(gone: frozenset[int]) -> Data:
            dropped = {names[index] for index in gone}
            return put_value(data, loc, {name: value for name, value in here.items() if name not in dropped} or None)

        return PartGroup(kind=kind, names=names, without=without)

    return group


def _items(kind: str, loc: Loc) -> Callable[[Data], PartGroup]:
    """The items of a list."""

    def group(data: Data) -> PartGroup:
        here = value_at(data, loc) or []

        def without(gone: frozenset[int]) -> Data:
            return put_value(data, loc, [item for index, item in enumerate(here) if index not in gone] or None)

        return PartGroup(kind=kind, names=tuple(here), without=without)

    return group


def _requirements(data: Data) -> PartGroup:
    """The requirements of all steps of pip; a step without any goes, with its options."""
    here = value_at(data, ("environment", "pip")) or []
    steps = [step["requirements"] if isinstance(step, dict) else step for step in here]
    names = tuple(name for step in steps for name in ([step] if isinstance(step, str) else step))

    def without(gone: frozenset[int]) -> Data:
        numbers = itertools.count()
        left: list[Any] = []
        for item, step in zip(here, steps, strict=True):
            kept = [name for name in ([step] if isinstance(step, str) else step) if next(numbers) not in gone]
            if kept:
                whole = {**item, "requirements": kept} if isinstance(item, dict) else kept
                left.append(item if isinstance(step, str) else whole)
        return put_value(data, ("environment", "pip"), left or None)

    return PartGroup(kind="pip", names=names, without=without)


def _patches(data: Data) -> PartGroup:
    names = [name for name, source in (data.get("sources") or {}).items() if "patch" in source]

    def without(gone: frozenset[int]) -> Data:
        result = data
        for index in gone:
            result = put_value(result, ("sources", names[index], "patch"), None)
        return result

    return PartGroup(kind="sources", names=tuple(f"the patch of {name}" for name in names), without=without)


def _shell(
    loc: Loc, kind: str, cut: Callable[[str], list[TextSpan]], *, pairs: bool = False
) -> Callable[[Data], PartGroup]:
    """Pieces of a shell text, or of a command in exec form."""

    def group(data: Data) -> PartGroup:
        here = value_at(data, loc) or ""
        if not isinstance(here, str):
            return _arguments(data, kind, cut)
        spans = cut(here)

        def without(gone: frozenset[int]) -> Data:
            left = cut_spans(here, [spans[index] for index in gone])
            if len(left.strip().splitlines()) < 2:
                left = left.strip()
            return put_value(data, loc, left or None)

        return PartGroup(kind=kind, names=tuple(_name(here[a:b]) for a, b in spans), without=without, pairs=pairs)

    return group


def _arguments(data: Data, kind: str, cut: Callable[[str], list[TextSpan]]) -> PartGroup:
    here = data["command"]
    if cut is shell_options:
        pieces = option_items(here)
    else:
        pieces = [(index,) for index in range(1, len(here))] if cut is shell_words else []

    def without(gone: frozenset[int]) -> Data:
        dropped = {index for piece in gone for index in pieces[piece]}
        return put_value(data, ("command",), [item for index, item in enumerate(here) if index not in dropped])

    names = tuple(" ".join(here[index] for index in piece) for piece in pieces)
    return PartGroup(kind=kind, names=names, without=without, pairs=cut is shell_words)


def _name(piece: str) -> str:
    """A piece of a shell text in one line."""
    first, *more = piece.replace("\\\n", " ").strip().splitlines() or [""]
    return " ".join(first.split()) + (" ..." if more else "")

"""YAML text -> plain mappings, lists and texts, with the position of every key and value.

No scalar is guessed at: ``3.10``, ``False`` and ``no`` stay the texts that were written. The tree is built from
libyaml's events rather than with ``yaml.compose``, whose recursion in C ends the process on deep nesting.

A second implementation. Library: ruamel.yaml.
Why not: its composer recurses, it sets no limit to what aliases expand to, and it is Python where libyaml is C.
Owner of ours: the room ``case``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import yaml

from reprokit.core.errors import Problem
from reprokit.core.near_match import nearest


def listing(names: Iterable[str], *, limit: int = 12) -> str:
    """The names on one line, cut after ``limit``."""
    names = list(names)
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more


def found(value: Any, *, empty: bool = False) -> str:
    """What a value of the case is, in words. ``empty``: a plain value that has no text at all."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if empty or value is None:
        return "nothing"
    text = str(value)
    return repr(text if len(text) <= 60 else text[:57] + "...")


def dotted(loc: Iterable[str | int]) -> str:
    """``resources.shm_size``, ``matrix.cuda[0]``; on one line, whatever a key has in it."""
    out = ""
    for part in (repr(one)[1:-1] if isinstance(one, str) and not one.isprintable() else one for one in loc):
        out += f"[{part}]" if isinstance(part, int) else f".{part}" if out else part
    return out


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


_LOADER: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)

MAX_DEPTH = 50
"""Deepest nesting of a case file."""
MAX_NODES = 50_000
"""Most keys and values in a case file; most values, each alias counted with all that it refers to."""
MAX_TEXT = 16 * 1024**2
"""Most characters of them, counted so."""

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_STANDARD_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map")
)

Loc = tuple[str | int, ...]
"""Path to a value: keys and list indexes from the top of the case."""


class SourcePosition(NamedTuple):
    """Where a value is. Lines and columns from 1 within the text, offsets from 0; key 0:0 when it has no key."""

    line: int
    column: int
    start: int
    end: int
    style: str
    key_line: int = 0
    key_column: int = 0
    key_start: int = 0

    @property
    def empty(self) -> bool:
        """Whether there is no text at all, as in ``key:``."""
        return self.style == "" and self.start == self.end


@dataclass(kw_only=True)
class CaseTree:
    """A parsed case: its ``data``, and the ``places`` of everything in it.

    ``path``, ``first_line`` and ``shifts`` say where the text is in its file: lines above it, and
    columns cut from each line.
    """

    path: str
    text: str
    data: Any = None
    places: dict[Loc, SourcePosition] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    first_line: int = 0
    shifts: tuple[int, ...] = ()

    def problem(self, line: int, column: int, message: str, hint: str = "") -> Problem:
        """A problem at a line and column of the text, with the file's own line and column."""
        shift = self.shifts[line - 1] if line <= len(self.shifts) else 0
        return Problem(path=self.path, line=line + self.first_line, column=column + shift, message=message, hint=hint)

    def position(self, loc: Loc, *, key: bool = False) -> tuple[int, int]:
        """Line and column of the value at ``loc`` (of its key if asked), or of the nearest thing around it."""
        asked = loc
        while loc not in self.places and loc:
            loc = loc[:-1]
        place = self.places.get(loc)
        if place is None:
            return 1, 1
        if place.key_line and (key or loc != asked or place.empty):
            return place.key_line, place.key_column
        return place.line, place.column


def value_at(data: Any, loc: Loc) -> Any:
    """What lies at ``loc`` in plain data; None where there is nothing."""
    for part in loc:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def parse(path: str, text: str, *, first_line: int = 0, shifts: tuple[int, ...] = ()) -> CaseTree:
    """Parse one YAML document; never raises for content: what is not YAML is in the tree's ``problems``."""
    tree = CaseTree(path=path, text=text, first_line=first_line, shifts=shifts)
    bad = _UNPRINTABLE.search(text)
    if bad:
        line, column = line_column(text, bad.start())
        tree.problems.append(
            tree.problem(line, column, f"the character {bad[0]!r} is not allowed in YAML", "is this a text file?")
        )
        return tree
    try:
        root = _Builder(tree).document()
        if root is not None:
            tree.data = _Converter(tree).convert(root, (), None)
    except _Broken as error:
        tree.problems.append(tree.problem(error.line, error.column, error.message, error.hint))
    except yaml.MarkedYAMLError as error:
        tree.problems.append(tree.problem(*explain(text, error)))
    if not tree.problems and not isinstance(tree.data, dict):
        what = "nothing" if tree.data in (None, "") else "a list" if isinstance(tree.data, list) else "text"
        tree.problems.append(
            tree.problem(
                1, 1, f"expected a mapping of keys to values, found {what}", "a case begins with: schema: reprokit/v1"
            )
        )
    return tree


def line_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of an offset. Where YAML takes each character before it, both end lines alike."""
    lines = (text[:offset] + "x").splitlines()
    return len(lines), len(lines[-1])


class _Broken(Exception):
    """Something that leaves no tree to speak of."""

    def __init__(self, line: int, column: int, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.line, self.column, self.message, self.hint = line, column, message, hint


@dataclass(eq=False)
class _Node:
    """A value as composed; ``items`` are (key, value) for a mapping, values for a list."""

    kind: str
    line: int
    column: int
    start: int
    end: int = 0
    style: str = ""
    text: str = ""
    pairs: list[tuple[_Node, _Node]] = field(default_factory=list)
    items: list[_Node] = field(default_factory=list)


def _is(event: object, kind: type[yaml.Event]) -> bool:
    return type(event) is kind


class _Builder:
    """Events -> nodes, with aliases resolved and depth limited."""

    def __init__(self, tree: CaseTree) -> None:
        self.tree = tree
        # Any: PyYAML's stubs know neither the events' marks nor their anchors.
        self.events: Iterator[Any] = iter(yaml.parse(tree.text, Loader=_LOADER))
        self.anchors: dict[str, _Node] = {}
        self.count = 0

    def document(self) -> _Node | None:
        root: _Node | None = None
        for event in self.events:
            if _is(event, yaml.DocumentStartEvent) and root is not None:
                mark = event.start_mark
                raise _Broken(mark.line + 1, mark.column + 1, "a second YAML document begins here", "one case per file")
            if isinstance(event, yaml.NodeEvent):
                root = self.node(event, 0)
            if _is(event, yaml.StreamEndEvent):
                break
        return root

    def node(self, event: Any, depth: int) -> _Node:
        mark = event.start_mark
        line, column = mark.line + 1, mark.column + 1
        self.count += 1
        if self.count > MAX_NODES:
            raise _Broken(line, column, f"the file has more than {MAX_NODES} keys and values")
        if _is(event, yaml.AliasEvent):
            if event.anchor not in self.anchors:
                near = nearest(event.anchor, self.anchors)
                hint = f"did you mean '*{near}'?" if near else "quote a text that begins with *"
                raise _Broken(line, column, f"no anchor &{event.anchor} is defined before this alias", hint)
            return self.anchors[event.anchor]
        if depth > MAX_DEPTH:
            raise _Broken(line, column, f"more than {MAX_DEPTH} levels of nesting")
        tag = getattr(event, "tag", None)
        if tag and tag not in _STANDARD_TAGS and tag != "!":
            hint = "quote a text that begins with !"
            self.tree.problems.append(
                self.tree.problem(line, column, f"a case has no use for the YAML tag {tag}", hint)
            )
        node = _Node("text", line, column, mark.index, event.end_mark.index)
        if event.anchor:
            self.anchors[event.anchor] = node
        if _is(event, yaml.ScalarEvent):
            node.text, node.style = event.value, event.style or ""
        elif _is(event, yaml.SequenceStartEvent):
            node.kind, node.style = "list", "["
            while not _is(event := next(self.events), yaml.SequenceEndEvent):
                node.items.append(self.node(event, depth + 1))
            node.end = event.end_mark.index
        else:
            node.kind, node.style = "mapping", "{"
            while not _is(event := next(self.events), yaml.MappingEndEvent):
                key = self.node(event, depth + 1)
                node.pairs.append((key, self.node(next(self.events), depth + 1)))
            node.end = event.end_mark.index
        return node


class _Converter:
    """Nodes -> plain data and places; reports doubled keys, keys that are not text, and unquoted templates."""

    def __init__(self, tree: CaseTree) -> None:
        self.tree = tree
        self.count = self.length = 0
        self.active: set[int] = set()

    def convert(self, node: _Node, loc: Loc, key: _Node | None) -> Any:
        self.counted(node)
        if len(loc) > MAX_DEPTH:
            raise _Broken(node.line, node.column, f"more than {MAX_DEPTH} levels of nesting", "use fewer aliases")
        key_at = (key.line, key.column, key.start) if key else ()
        self.tree.places[loc] = SourcePosition(node.line, node.column, node.start, node.end, node.style, *key_at)
        if node.kind == "text":
            return node.text
        if id(node) in self.active:
            at = key or node
            raise _Broken(at.line, at.column, "an alias here refers to something that contains the alias itself")
        self.active.add(id(node))
        try:
            if node.kind == "list":
                return [self.convert(item, (*loc, index), None) for index, item in enumerate(node.items)]
            return self.mapping(node, loc)
        finally:
            self.active.discard(id(node))

    def mapping(self, node: _Node, loc: Loc) -> Any:
        data: dict[str, Any] = {}
        first: dict[str, _Node] = {}
        merged: list[_Node] = []
        for key, value in node.pairs:
            if key.kind != "text":
                if key.kind == "mapping" and self.tree.text.startswith("{{", node.start):
                    return self.unquoted(node, loc)
                self.report(key, "a key must be a text, not a mapping or a list", "quote the key")
            elif key.text == "<<" and key.style == "":
                merged += value.items if value.kind == "list" else [value]
            elif key.text in first:
                line = first[key.text].line + self.tree.first_line
                self.report(key, f"the key {key.text!r} appears a second time", f"it is already on line {line}")
            else:
                first[key.text] = key
                data[key.text] = self.convert(value, (*loc, key.text), key)
        for source in merged:
            if source.kind != "mapping":
                self.report(source, "<< merges mappings, and this is not a mapping", "write <<: *anchor-of-a-mapping")
                continue
            if id(source) in self.active:
                raise _Broken(
                    node.line, node.column, "an alias here refers to something that contains the alias itself"
                )
            self.merge(source, data, loc)
        return data

    def merge(self, source: _Node, data: dict[str, Any], loc: Loc) -> None:
        for name, value in self.flat(source):
            if name.text not in data:
                data[name.text] = self.convert(value, (*loc, name.text), name)

    def flat(self, source: _Node) -> Iterator[tuple[_Node, _Node]]:
        """The pairs of a mapping that is merged, then those that it merges; each mapping once, or they explode."""
        waiting, seen = [source], set[int]()
        while waiting:
            node = waiting.pop(0)
            self.counted(node)
            if id(node) in seen or node.kind != "mapping":
                continue
            seen.add(id(node))
            for key, value in node.pairs:
                if key.kind == "text" and key.text == "<<" and key.style == "":
                    waiting += value.items if value.kind == "list" else [value]
                elif key.kind == "text":
                    yield key, value

    def counted(self, node: _Node) -> None:
        self.count += 1
        self.length += len(node.text)
        if self.count > MAX_NODES or self.length > MAX_TEXT:
            most = f"{MAX_NODES} values" if self.count > MAX_NODES else f"{MAX_TEXT} characters"
            message = f"the file expands to more than {most}"
            raise _Broken(node.line, node.column, message, "use fewer aliases")

    def unquoted(self, node: _Node, loc: Loc) -> str:
        """``key: {{ cuda }}``: YAML sees a mapping in a mapping. Go on with the text that was meant."""
        text = self.tree.text[node.start : node.end]
        quote = "'" if '"' in text else '"'
        self.report(node, "YAML reads a value that begins with {{ as a mapping", f"quote it: {quote}{text}{quote}")
        self.tree.places[loc] = self.tree.places[loc]._replace(style='"')
        return text

    def report(self, node: _Node, message: str, hint: str) -> None:
        self.tree.problems.append(self.tree.problem(node.line, node.column, message, hint))

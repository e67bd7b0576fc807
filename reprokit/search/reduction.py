"""The smallest case that still fails in the same way: removes parts as long as the case keeps failing. Pure.

A second implementation. Library: picire.
Why not: its outcomes are PASS and FAIL alone; contents of files are reduced by lithium, the extra ``reduce``.
Owner of ours: the room ``search``.
"""

from __future__ import annotations

import ast
import json
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, cast

import yaml

from reprokit.evidence.reading import Reading
from reprokit.search.queries import Candidate, Query, Search
from reprokit.search.reduce_parts import KINDS, Data, PartGroup, group_parts, put_value

if TYPE_CHECKING:
    from lithium.strategies import ReductionIterator

    from reprokit.case.tree import Loc


Write = Callable[[Data, str], "Candidate | None"]
"""Makes the candidate of a smaller case from its data and a label; None where the data is not a valid case."""


@dataclass(kw_only=True)
class Trying:
    """Finds out whether smaller cases still fail in the same way, and remembers the results."""

    write: Write
    same: Callable[[Candidate], object]  # a key for what a candidate would run; of equal ones only the first is run
    holds: Callable[[Candidate, Reading], bool] = lambda _, reading: reading is Reading.FAIL  # is it the failure?
    repeat: Callable[[Candidate, Reading], Search[Reading]] | None = None  # more trials, where chance may have decided
    spent: Callable[[], bool] = lambda: False  # whether the budget is used up
    stopped: bool = False  # a case was not tried because of that
    known: dict[object, tuple[bool, Candidate]] = field(default_factory=dict)

    def knows(self, candidate: Candidate, *, fails: bool) -> None:
        """Record the result of a candidate that was run elsewhere."""
        self.known[self.same(candidate)] = (fails, candidate)

    def fails(self, data: Data, name: str, soon: Iterable[Data] = ()) -> Search[bool]:
        """Whether ``data`` still fails; False for an invalid case and once the budget is used up.

        ``name``: the label to show. ``soon``: what may be tried next, the most likely first.
        """
        candidate = self.write(data, name)
        if candidate is None:
            return False
        key = self.same(candidate)
        if key not in self.known:
            if self.spent():
                self.stopped = True
                return False
            following = (one for each in soon if (one := self.write(each, "")) and self.same(one) not in self.known)
            (reading,) = yield Query(candidates=(candidate,), soon=tuple(following))
            if self.repeat is not None:
                reading = yield from self.repeat(candidate, reading)
            self.known[key] = (self.holds(candidate, reading), candidate)
        return self.known[key][0]

    def decider(self, data: Data) -> Candidate | None:
        """The candidate that was run for ``data``, or for an equal case; None where none was."""
        candidate = self.write(data, "")
        known = self.known.get(self.same(candidate)) if candidate else None
        return known[1] if known else None


@dataclass(frozen=True, kw_only=True)
class KeptPart:
    """A part that was kept. ``without``: the case without it, which does not fail in the same way."""

    kind: str
    name: str
    without: Data


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """A reduced case."""

    data: Data
    kept: tuple[KeptPart, ...]  # the parts that are left
    gone: dict[str, list[str]]  # kind -> names of the removed parts


def minimize(data: Data, trying: Trying, kinds: Sequence[str] = tuple(KINDS), *, axes: bool = True) -> Search[Reduced]:
    """Remove every part of ``data`` that the failure does not need. ``data`` is known to fail.

    In each group first all parts at once, then halves, quarters and so on down to single ones; then, over all groups,
    single ones until none can be removed: the result is 1-minimal. Then the contents of files, and single parts again.
    ``kinds``: which kinds of parts may be removed (keys of ``KINDS``). ``axes`` False: the matrix stays.
    """
    gone: dict[str, list[str]] = {}
    data = yield from _parts(data, trying, kinds, gone, axes=axes, coarse=True)
    if "contents" in kinds:
        before = data
        data = yield from shorten_files(data, trying, gone)
        if data != before:
            data = yield from _parts(data, trying, kinds, gone, axes=axes, coarse=False)
    kept = [
        KeptPart(kind=group.kind, name=name, without=group.without(frozenset({index})))
        for kind in kinds
        for group in (make(data) for make in group_parts(data, kind, axes=axes))
        for index, name in enumerate(group.names)
    ]
    return Reduced(data=data, kept=tuple(kept), gone=gone)


def _parts(
    data: Data, trying: Trying, kinds: Sequence[str], gone: dict[str, list[str]], *, axes: bool, coarse: bool
) -> Search[Data]:
    """Rounds over all groups, until a round changes nothing."""
    while True:
        before = data
        for kind in kinds:
            for make in group_parts(data, kind, axes=axes):
                group = make(data)
                cut = yield from smallest(group, trying, coarse=coarse)
                if cut:
                    gone.setdefault(kind, []).extend(group.names[index] for index in sorted(cut))
                    data = group.without(cut)
        coarse = False
        if data == before or trying.stopped:
            return data


def smallest(group: PartGroup, trying: Trying, *, coarse: bool = True) -> Search[frozenset[int]]:
    """The indices of parts that can be removed together, such that no further single part can. Tries later ones first.

    ``coarse``: try large chunks first, rather than single parts only.
    """
    gone: frozenset[int] = frozenset()
    count = len(group.names)
    for size, smaller in pairwise([*(_sizes(count, pairs=group.pairs) if coarse else [1]), 1]):
        while True:
            before, end = gone, count
            while chunk := _chunk(end, gone, size):
                on = chunk[-1] if group.pairs and size == 2 else chunk[0]  # where to continue if these stay
                ways = ((gone | set(chunk), chunk[0]), (gone, on))
                soon = [
                    group.without(after | set(following))
                    # Most single parts can be removed, but few halves.
                    for after, at in (ways if size == 1 else ways[::-1])
                    if group.builds and (following := _chunk(at, after, size) or _chunk(count, after, smaller))
                ]
                names = [group.names[index] for index in chunk]
                some = ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]} and {len(names) - 2} more"
                name = f"{group.kind}: without {some}"
                fails = yield from trying.fails(group.without(gone | set(chunk)), name, soon)
                gone, end = ways[0] if fails else ways[1]
            if size > 1 or gone == before:
                break
    return gone


def _chunk(end: int, gone: frozenset[int], size: int) -> list[int]:
    """The last ``size`` parts before ``end`` that are still there."""
    return [index for index in range(end) if index not in gone][-size:]


def _sizes(count: int, *, pairs: bool) -> list[int]:
    """``count``, its half, and so on down to 1; ``pairs``: with 2 among them."""
    sizes = {count >> shift for shift in range(count.bit_length())}
    return sorted(sizes | ({2} if pairs and count > 2 else set()), reverse=True)


Pieces = list[tuple[str, bool]]
"""A text in pieces, each with whether it can be removed."""


def shorten_files(data: Data, trying: Trying, gone: dict[str, list[str]]) -> Search[Data]:
    """Remove lines from the files of ``data`` as long as it keeps failing, and note each file that became shorter.

    Lithium (``pip install lithium-reducer``) proposes texts: in a Python file without whole statements, outer ones
    first, then without lines. Raises ImportError without it.
    """
    for path, file in (data.get("files") or {}).items():
        loc, text = (("files", path), file) if isinstance(file, str) else (("files", path, "content"), file["content"])
        after = yield from _shortened(data, loc, text, trying)
        if after != text:
            left = f"{_lines(after)} of {_lines(text)} lines of {path} are left"
            gone.setdefault("contents", []).append(left)
            data = put_value(data, loc, after)
    return data


def _shortened(data: Data, loc: Loc, text: str, trying: Trying) -> Search[str]:
    from lithium.strategies import Minimize
    from lithium.testcases import TestcaseLine

    logging.getLogger("lithium").setLevel(logging.WARNING)
    # A text that the parser of its format rejects is not run, unless the parser rejected the original file too.
    path = loc[1]
    suffix = PurePosixPath(str(path)).suffix
    suffix = suffix if _parses(text, suffix) else ""
    for cut in _ways(text) if suffix == ".py" else [_by_lines]:
        testcase = TestcaseLine()
        testcase.parts = [piece.encode("utf-8", "surrogatepass") for piece, _ in cut(text)]
        testcase.reducible = [reducible for _, reducible in cut(text)]
        if not len(testcase):
            continue
        reduction = cast("ReductionIterator", Minimize().reduce(testcase))
        for attempt in reduction:
            left = _joined(attempt.parts)
            fails = False
            if _parses(left, suffix):
                name = f"{path} with {_lines(left)} of {_lines(text)} lines"
                fails = yield from trying.fails(put_value(data, loc, left), name)
            reduction.feedback(fails)
        text = _joined(reduction.testcase.parts)
    return text


def _joined(parts: Sequence[bytes]) -> str:
    return b"".join(parts).decode("utf-8", "surrogatepass")


def _lines(text: str) -> int:
    return len(text.splitlines())


def _by_lines(text: str) -> Pieces:
    return [(line, True) for line in text.splitlines(keepends=True)]


def _ways(text: str) -> Iterator[Callable[[str], Pieces]]:
    """Ways to cut a Python file: statements at each depth of nesting that has some, then lines."""
    depth = 0
    while any(reducible for _, reducible in _statements(text, depth)):
        yield partial(_statements, depth=depth)
        depth += 1
    yield _by_lines


def _statements(text: str, depth: int) -> Pieces:
    """The lines of each statement at a depth of nesting, and the lines in between."""
    lines = text.splitlines(keepends=True)
    pieces: Pieces = []
    at = 0
    for start, end in _spans(ast.parse(text), depth):
        if start < at:  # several on one line
            continue
        if start > at:
            pieces.append(("".join(lines[at:start]), False))
        pieces.append(("".join(lines[start:end]), True))
        at = end
    return [*pieces, ("".join(lines[at:]), False)]


def _spans(node: ast.AST, depth: int) -> Iterator[tuple[int, int]]:
    """First line and end, from 0, of the statements at a depth below ``node``, in order."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt) and depth == 0:
            first = min([child.lineno, *(each.lineno for each in getattr(child, "decorator_list", ()))])
            yield first - 1, child.end_lineno or child.lineno
        else:
            yield from _spans(child, depth - isinstance(child, ast.stmt))


def _parses(text: str, suffix: str) -> bool:
    """Whether the parser of a file's format takes the text; True for a format without one."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if suffix == ".py":
                ast.parse(text)
            elif suffix == ".json":
                json.loads(text)
            elif suffix in (".yaml", ".yml"):
                list(yaml.parse(text, Loader=yaml.SafeLoader))
    except (ValueError, SyntaxError, RecursionError, yaml.YAMLError):
        return False
    return True

"""The contents of a case's files, made shorter by Lithium (``pip install lithium-reducer``). Pure.

Lithium proposes texts, and the search runs them. In a Python file it removes whole statements, outer ones first, then
lines; in other files lines.
"""

from __future__ import annotations

import ast
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, cast

import yaml

from reprokit.search.reduce.parts import Data, changed

if TYPE_CHECKING:
    from lithium.strategies import ReductionIterator

    from reprokit.case.tree import Loc
    from reprokit.search.reduce.trying import Asking, Trying

Pieces = list[tuple[str, bool]]
"""A text in pieces, each with whether it can be removed."""


def shorter(data: Data, trying: Trying, gone: dict[str, list[str]]) -> Asking[Data]:
    """Remove lines from the files of ``data`` as long as it keeps failing. Raises ImportError without Lithium.

    ``gone``: gets a line for each file that became shorter, below ``contents``.
    """
    for path, file in (data.get("files") or {}).items():
        loc, text = (("files", path), file) if isinstance(file, str) else (("files", path, "content"), file["content"])
        after = yield from _shortened(data, loc, text, trying)
        if after != text:
            left = f"{_lines(after)} of {_lines(text)} lines of {path} are left"
            gone.setdefault("contents", []).append(left)
            data = changed(data, loc, after)
    return data


def _shortened(data: Data, loc: Loc, text: str, trying: Trying) -> Asking[str]:
    from lithium.strategies import Minimize
    from lithium.testcases import TestcaseLine

    logging.getLogger("lithium").setLevel(logging.WARNING)
    # A text that the parser of its format rejects is not run, unless the parser rejected the original file too.
    path = loc[1]
    reads = _PARSERS.get(PurePosixPath(str(path)).suffix, _anything)
    if not reads(text):
        reads = _anything
    for cut in _ways(text) if reads is _python else [_by_lines]:
        testcase = TestcaseLine()
        testcase.parts = [piece.encode("utf-8", "surrogatepass") for piece, _ in cut(text)]
        testcase.reducible = [reducible for _, reducible in cut(text)]
        if not len(testcase):
            continue
        reduction = cast("ReductionIterator", Minimize().reduce(testcase))
        for attempt in reduction:
            left = _joined(attempt.parts)
            fails = False
            if reads(left):
                name = f"{path} with {_lines(left)} of {_lines(text)} lines"
                fails = yield from trying.fails(changed(data, loc, left), name)
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

    def at(depth: int) -> Callable[[str], Pieces]:
        return lambda text: _statements(text, depth)

    depth = 0
    while any(reducible for _, reducible in _statements(text, depth)):
        yield at(depth)
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


def _python(text: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def _json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _yaml(text: str) -> bool:
    try:
        for _ in yaml.parse(text, Loader=yaml.SafeLoader):
            pass
    except yaml.YAMLError:
        return False
    return True


def _anything(_: str) -> bool:
    return True


_PARSERS = {".py": _python, ".json": _json, ".yaml": _yaml, ".yml": _yaml}

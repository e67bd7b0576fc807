"""The well-known datasets in directory trees as people draw them (``tree``, ├── and │). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reprokit.intake.table import table

_BRANCH = re.compile(r"^(?P<before>[ \t│|]*)(?:├|└|\+--|\|--|`--)[─-]*[ \t]*(?P<name>.*)$")
_NAME = re.compile(r"^(?P<name>[^\s#]+?)[/\\]?(?:\s+(?:#|//|<-|←|-{1,2}|:|\().*)?\s*$")
_DEEPEST = 40
"""Folders within each other; no real tree has more."""


@dataclass(frozen=True, kw_only=True)
class DatasetInTree:
    """A dataset in a tree. ``path``: from the tree's root on; ``layout``: globs below it; ``line``: of its folder."""

    name: str
    path: str
    layout: tuple[str, ...]
    line: int


def datasets(text: str, first_line: int = 1, project: str = "") -> Iterator[DatasetInTree]:
    """The datasets with well-known folders in the tree that a text draws, if it draws one.

    ``first_line``: the number of its first line in the report; ``project``: the project that reads them, since some
    projects read files that they prepare themselves.
    """
    paths = _paths(text, first_line)
    children: dict[str, set[str]] = {}
    for path in paths:
        parent, _, name = path.rpartition("/")
        children.setdefault(parent, set()).add(name)
    for parent, names in children.items():
        for dataset, row in table("datasets").items():
            if set(row["needs"]) <= names and (not row.get("any") or set(row["any"]) & names):
                files = {**row["files"], **row.get("readers", {}).get(project, {})}
                layout = tuple(_globs(paths, parent, files))
                yield DatasetInTree(name=dataset, path=parent, layout=layout, line=paths.get(parent, first_line))
                break


def _paths(text: str, first_line: int) -> dict[str, int]:
    """Each path of a drawn tree, from its root on -> the number of its line; {} for other text."""
    lines = text.split("\n")
    found: dict[str, int] = {}
    root = ""
    stack: list[tuple[int, str]] = []
    for number, line in enumerate(lines, first_line) if any(map(_BRANCH.match, lines)) else ():
        branch = _BRANCH.match(line)
        name = _name(branch["name"] if branch else line)
        if branch is None:
            root = root if found else name or root
            continue
        depth = len(branch["before"].expandtabs(4))
        while stack and stack[-1][0] >= depth:
            stack.pop()
        if name and len(stack) <= _DEEPEST:
            above = stack[-1][1] if stack else root
            path = f"{above}/{name}" if above else name
            stack.append((depth, path))
            found.setdefault(path, number)
    return found


def _name(text: str) -> str:
    """The name that a line gives, without a comment behind it and the slash at its end."""
    found = _NAME.match(text.strip())
    return found["name"].replace("\\", "/").removeprefix("./").strip("/") if found else ""


def _globs(paths: Mapping[str, int], parent: str, files: Mapping[str, str]) -> Iterator[str]:
    """One glob for each folder of the tree whose files the table knows, in the tree's order; for none, all of these."""
    prefix = f"{parent}/" if parent else ""
    folders = {path.rpartition("/")[0] for path in paths}
    named = False
    for path in paths:
        inside = path[len(prefix) :] if path.startswith(prefix) else ""
        first, _, split = inside.partition("/")
        of_split = files.get(f"{first}/{{split}}")
        pattern = files.get(inside) or (of_split if split and "/" not in split else None)
        if pattern and (of_split or path not in folders):
            named = True
            yield f"{inside}/{pattern}"
    if not named:
        yield from (f"{name.format(split='*')}/{pattern}" for name, pattern in files.items())

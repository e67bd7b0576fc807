"""Directory trees as people draw them (``tree``, ├── and │, plain indentation), and the datasets in them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.intake.table import table

_BRANCH = re.compile(r"^(?P<before>[ \t│|]*)(?P<branch>├|└|\+--|\|--|`--)[─-]*[ \t]*(?P<name>.*)$")
_NAME = re.compile(r"^(?P<name>[^\s#]+?)(?P<folder>[/\\])?(?:\s+(?:#|//|<-|←|-{1,2}|:|\().*)?\s*$")
_DATA = re.compile(
    r"(?:^|[/_-])(?:data|datasets?|images?|imgs|labels?|annotations?|train\w*|val\w*|test\w*|masks?|voc\w*|coco\w*)(?:$|[/_\d-])",
    re.IGNORECASE,
)
_CODE = re.compile(r"\.(?:py|pyc|c|cc|cpp|cu|cuh|h|hpp|js|ts|java|go|rs|md|sh|toml|cfg|so|whl|ipynb)$")
_OMITTED = re.compile(r"^(?:\.{2,}|…+|\*|etc\.?|<.*>|xxx+.*|\[.*\])$", re.IGNORECASE)
_FILE = re.compile(r"\.[A-Za-z][A-Za-z0-9]{1,4}$")


@dataclass(frozen=True, kw_only=True)
class TreeEntry:
    """A folder or file of a tree. ``path``: below the tree's own root; ``leaf``: it has no entries below."""

    path: str
    leaf: bool
    line: int


@dataclass(frozen=True, kw_only=True)
class DrawnTree:
    """A drawn tree. ``root``: the name above its first branch, '' where there is none."""

    root: str
    entries: tuple[TreeEntry, ...]


@dataclass(frozen=True, kw_only=True)
class DatasetInTree:
    """A dataset in a tree. ``path``: below the tree's root; ``layout``: globs below the dataset, in the tree's order.

    ``known``: the name of the well-known dataset with these folders, or ''; ``line``: of its folder.
    """

    name: str
    path: str
    layout: tuple[str, ...]
    known: str
    line: int


def read(text: str, first_line: int = 1) -> DrawnTree | None:
    """The tree that a text draws; None for other text. ``first_line``: the number of its first line in the report."""
    lines = text.split("\n")
    if any(_BRANCH.match(line) for line in lines):
        return _drawn(lines, first_line)
    return _indented(lines, first_line)


def _drawn(lines: Sequence[str], first_line: int) -> DrawnTree:
    root = ""
    rows: list[tuple[int, str, int]] = []
    for number, line in enumerate(lines, first_line):
        branch = _BRANCH.match(line)
        if branch is None:
            if not rows and line.strip():
                root = _name(line.strip()) or root
            continue
        if name := _name(branch["name"].strip()):
            rows.append((len(branch["before"].expandtabs(4)), name, number))
    return DrawnTree(root=root, entries=_entries(rows))


def _indented(lines: Sequence[str], first_line: int) -> DrawnTree | None:
    """A tree without branches: one name per line, deeper ones indented."""
    rows = []
    for number, line in enumerate(lines, first_line):
        if not line.strip():
            continue
        name = _name(line.strip().lstrip("-*").strip())
        if not name or not re.fullmatch(r"[\w.@+-]+", name):
            return None
        rows.append((len(line) - len(line.lstrip(" \t-*")), name, number))
    depths = {depth for depth, _, _ in rows}
    folders = sum(line.rstrip().endswith(("/", "\\")) for line in lines)
    if len(rows) < 3 or len(depths) < 2 or not (folders >= 2 or _DATA.search("/".join(name for _, name, _ in rows))):
        return None
    least = min(depths)
    if rows[0][0] == least and sum(depth == least for depth, _, _ in rows) == 1:
        return DrawnTree(root=rows[0][1], entries=_entries(rows[1:]))
    return DrawnTree(root="", entries=_entries(rows))


def _name(text: str) -> str:
    """The name that a line gives, without a comment behind it and the slash at its end."""
    found = _NAME.match(text)
    return found["name"].replace("\\", "/").removeprefix("./").strip("/") if found else ""


def _entries(rows: Iterable[tuple[int, str, int]]) -> tuple[TreeEntry, ...]:
    stack: list[tuple[int, str]] = []
    found: list[list[Any]] = []
    by_path: dict[str, int] = {}
    for depth, name, line in rows:
        while stack and stack[-1][0] >= depth:
            stack.pop()
        above = stack[-1][1] if stack else ""
        if len(stack) > 40:  # no real tree is as deep
            continue
        path = f"{above}/{name}" if above else name
        if above in by_path:
            found[by_path[above]][1] = False
        stack.append((depth, path))
        if _OMITTED.match(name):
            continue
        if path not in by_path:
            by_path[path] = len(found)
            found.append([path, True, line])
    return tuple(TreeEntry(path=path, leaf=leaf, line=line) for path, leaf, line in found)


def datasets(tree: DrawnTree, project: str = "") -> tuple[DatasetInTree, ...]:
    """The datasets of a tree: those with well-known folders, else the folder that looks like data.

    ``project``: the project that reads them, since some projects read files that they prepare themselves.
    """
    known = tuple(_known(tree, project))
    return known or tuple(_unknown(tree))


def _known(tree: DrawnTree, project: str) -> Iterable[DatasetInTree]:
    children: dict[str, set[str]] = {}
    for entry in tree.entries:
        parent, _, name = entry.path.rpartition("/")
        children.setdefault(parent, set()).add(name)
    for parent, names in children.items():
        for dataset, row in table("datasets").items():
            last = parent.rpartition("/")[2] or tree.root
            if (
                set(row["needs"]) <= names
                and (not row.get("any") or set(row["any"]) & names)
                and (not row.get("under") or last in row["under"])
            ):
                files = {**row["files"], **row.get("readers", {}).get(project, {})}
                layout = tuple(_globs(tree, parent, files))
                line = next((entry.line for entry in tree.entries if entry.path == parent), 0)
                yield DatasetInTree(name=dataset, path=parent, layout=layout, known=dataset, line=line)
                break


def _globs(tree: DrawnTree, parent: str, files: Mapping[str, str]) -> Iterable[str]:
    """One glob for each folder of the tree whose files the table knows, in the tree's order."""
    named: set[str] = set()
    prefix = f"{parent}/" if parent else ""
    below = [entry for entry in tree.entries if entry.path.startswith(prefix)]
    for entry in below:
        inside = entry.path[len(prefix) :]
        first, _, split = inside.partition("/")
        pattern = files.get(inside) or (files.get(f"{first}/{{split}}") if split and "/" not in split else None)
        deeper = any(other.path.startswith(f"{entry.path}/") for other in below) and f"{first}/{{split}}" not in files
        if pattern and inside not in named and not deeper:
            named.add(inside)
            yield f"{inside}/{pattern}"
    if not named:
        yield from (f"{name.format(split='*')}/{pattern}" for name, pattern in files.items())


def _unknown(tree: DrawnTree) -> Iterable[DatasetInTree]:
    """The highest folder that looks like data, with everything below each of its innermost folders."""
    whole = f"{tree.root}/" if tree.root else ""
    candidates = [entry for entry in tree.entries if not entry.leaf and _DATA.search(entry.path.rpartition("/")[2])]
    if _DATA.search(tree.root) and not any(_CODE.search(entry.path) for entry in tree.entries):
        top, line = "", tree.entries[0].line if tree.entries else 0
    elif candidates:
        top, line = candidates[0].path, candidates[0].line
    else:
        return
    inside = [entry for entry in tree.entries if not top or entry.path.startswith(f"{top}/")]
    # "data" itself contains datasets: a single folder below it is the dataset.
    below = list(dict.fromkeys(entry.path[len(top) :].strip("/").partition("/")[0] for entry in inside))
    if top.rpartition("/")[2].lower() in {"data", "dataset", "datasets"} and len(below) == 1:
        alone = f"{top}/{below[0]}"
        if any(entry.path.startswith(f"{alone}/") for entry in inside):
            top, inside = alone, [entry for entry in inside if entry.path.startswith(f"{alone}/")]
    layout = []
    for entry in inside:
        path = entry.path[len(top) :].strip("/") if top else entry.path
        if entry.leaf:
            layout.append(_glob(path))
    layout = list(dict.fromkeys(layout))[:50]
    if layout and not any(_CODE.search(glob) for glob in layout):
        name = re.sub(r"[^a-z0-9]+", "-", (top or whole).strip("/").rpartition("/")[2].lower()).strip("-") or "data"
        yield DatasetInTree(name=name, path=top, layout=tuple(layout), known="", line=line)


def _glob(path: str) -> str:
    """``train`` -> everything below it; ``train/0001.png`` -> all files of that type; other files stay as they are."""
    escaped = re.sub(r"([\[\]*?])", r"[\1]", path)
    if not _FILE.search(path):
        return f"{escaped}/**/*"
    folder, slash, name = escaped.rpartition("/")
    stem, dot, suffix = name.rpartition(".")
    return f"{folder}{slash}*{dot}{suffix}" if re.search(r"\d", stem) else escaped

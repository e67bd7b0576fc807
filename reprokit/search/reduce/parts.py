"""The parts that can be removed from a case, in groups of similar ones. Pure, on the data of a case as it was written.

Never removed: text about the bug (title, description, report); ``os`` and ``python``, which every image has in some
version; ``memory``, ``pids`` and ``timeout``, which protect the host.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reprokit.case.tree import Loc, value_at
from reprokit.search.reduce import shell

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
    """Parts of one kind by ``names``; ``without`` maps a set of indices to the case without these parts.

    ``pairs``: some neighbours can only be removed together, such as an option and its value.
    """

    kind: str
    names: tuple[str, ...]
    without: Without
    pairs: bool = False

    @property
    def builds(self) -> bool:
        """Whether removing some of them changes the image."""
        return self.kind in _BUILT


def groups(data: Data, kind: str, *, axes: bool = True) -> Iterator[Callable[[Data], PartGroup]]:
    """Functions that make the groups of one kind, coarse ones first; call each with the case as reduced so far.

    ``axes`` False: the matrix stays.
    """
    if kind == "command":
        yield from (_shell(("command",), kind, cut) for cut in (shell.lines, shell.segments, shell.options))
        yield _shell(("command",), kind, shell.words, pairs=True)
    elif kind == "setup":
        yield _keys(kind, ("environment",), only=("setup",))
        yield _shell(("environment", "setup"), kind, shell.lines)
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


def changed(data: Data, loc: Loc, value: Any) -> Data:
    """The case with ``value`` at ``loc``; None removes the entry, and its parents where they become empty."""
    result = copy.deepcopy(dict(data))
    around = value_at(result, loc[:-1])
    if value is not None:
        around[loc[-1]] = value
        return result
    del around[loc[-1]]
    return result if around or len(loc) == 1 else changed(result, loc[:-1], None)


def _keys(
    kind: str, loc: Loc, *, only: Sequence[str] | None = None, leave: Sequence[str] = ()
) -> Callable[[Data], PartGroup]:
    """The entries of a mapping, or those of them that ``only`` names."""

    def group(data: Data) -> PartGroup:
        here = value_at(data, loc) or {}
        names = tuple(name for name in here if name not in leave and (only is None or name in only))

        def without(gone: frozenset[int]) -> Data:
            dropped = {names[index] for index in gone}
            return changed(data, loc, {name: value for name, value in here.items() if name not in dropped} or None)

        return PartGroup(kind=kind, names=names, without=without)

    return group


def _items(kind: str, loc: Loc) -> Callable[[Data], PartGroup]:
    """The items of a list."""

    def group(data: Data) -> PartGroup:
        here = value_at(data, loc) or []

        def without(gone: frozenset[int]) -> Data:
            return changed(data, loc, [item for index, item in enumerate(here) if index not in gone] or None)

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
        return changed(data, ("environment", "pip"), left or None)

    return PartGroup(kind="pip", names=names, without=without)


def _patches(data: Data) -> PartGroup:
    names = [name for name, source in (data.get("sources") or {}).items() if "patch" in source]

    def without(gone: frozenset[int]) -> Data:
        result = data
        for index in gone:
            result = changed(result, ("sources", names[index], "patch"), None)
        return result

    return PartGroup(kind="sources", names=tuple(f"the patch of {name}" for name in names), without=without)


def _shell(
    loc: Loc, kind: str, cut: Callable[[str], list[shell.TextSpan]], *, pairs: bool = False
) -> Callable[[Data], PartGroup]:
    """Pieces of a shell text, or of a command in exec form."""

    def group(data: Data) -> PartGroup:
        here = value_at(data, loc) or ""
        if not isinstance(here, str):
            return _arguments(data, kind, cut)
        spans = cut(here)

        def without(gone: frozenset[int]) -> Data:
            left = shell.cut(here, [spans[index] for index in gone])
            if len(left.strip().splitlines()) < 2:
                left = left.strip()
            return changed(data, loc, left or None)

        return PartGroup(kind=kind, names=tuple(_name(here[a:b]) for a, b in spans), without=without, pairs=pairs)

    return group


def _arguments(data: Data, kind: str, cut: Callable[[str], list[shell.TextSpan]]) -> PartGroup:
    here = data["command"]
    if cut is shell.options:
        pieces = shell.option_items(here)
    else:
        pieces = [(index,) for index in range(1, len(here))] if cut is shell.words else []

    def without(gone: frozenset[int]) -> Data:
        dropped = {index for piece in gone for index in pieces[piece]}
        return changed(data, ("command",), [item for index, item in enumerate(here) if index not in dropped])

    names = tuple(" ".join(here[index] for index in piece) for piece in pieces)
    return PartGroup(kind=kind, names=names, without=without, pairs=cut is shell.words)


def _name(piece: str) -> str:
    """A piece of a shell text in one line."""
    first, *more = piece.replace("\\\n", " ").strip().splitlines() or [""]
    return " ".join(first.split()) + (" ..." if more else "")

"""The text of a case with parts removed. Pure: what is kept stays as it was written, comments and quotes included.

Own code rather than a round-trip library: those read scalars by YAML's guesses, or write flow collections and quotes
their own way, whereas :mod:`reprokit.case.tree` already knows the position of everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reprokit.case import emit
from reprokit.case.tree import CaseTree, Loc, SourcePosition, parse

Edit = tuple[int, int, str]
"""Start and end offset of the text to replace, and its replacement."""


def rewrite(tree: CaseTree, data: Mapping[str, Any]) -> str:
    """The text of ``tree`` edited so that :func:`reprokit.case.tree.parse` reads ``data`` from it.

    Meant for data with entries removed, scalars changed and keys added at the end of mappings. Where cutting and
    replacing cannot do that (anchors, merged keys), the whole text is written again, without comments.
    """
    text = tree.text
    # From the end, so that the offsets before an edit stay valid.
    for start, end, new in sorted(_edits(tree, (), tree.data, data), reverse=True):
        text = text[:start] + new + text[end:]
    text = re.sub(r"\n{3,}", "\n\n", text) if "\n\n\n" not in tree.text else text
    written = parse(tree.path, text)
    return text if not written.problems and written.data == data else emit.document(data)


def _edits(tree: CaseTree, loc: Loc, old: Any, new: Any) -> Iterator[Edit]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict) and new:
        yield from _mapping(tree, loc, old, new)
    elif isinstance(old, list) and isinstance(new, list) and new and (gone := _left_out(old, new)) is not None:
        yield from _cuts(tree, [(*loc, index) for index in range(len(old))], {(*loc, index) for index in gone}, loc)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _edits(tree, (*loc, index), one, other)
    else:
        yield _replaced(tree, loc, new)


def _mapping(tree: CaseTree, loc: Loc, old: dict[str, Any], new: dict[str, Any]) -> Iterator[Edit]:
    added = {key: value for key, value in new.items() if key not in old}
    if added and (_flow(tree, loc) or not set(old) & set(new)):
        yield _replaced(tree, loc, new)
        return
    yield from _cuts(tree, [(*loc, key) for key in old], {(*loc, key) for key in old if key not in new}, loc)
    for key, value in old.items():
        if key in new:
            yield from _edits(tree, (*loc, key), value, new[key])
    if added:
        last = (*loc, [key for key in old if key in new][-1])
        indent = " " * (tree.places[last].key_column - 1)
        end = _line_end(tree.text, _end(tree, last))
        yield end, end, "".join(indent + line + "\n" for line in emit.document(added).splitlines())


def _left_out(old: Sequence[Any], new: Sequence[Any]) -> set[int] | None:
    """The indices of ``old`` that ``new`` leaves out; None where ``new`` differs in more than that."""
    kept: list[int] = []
    for item in new:
        start = kept[-1] + 1 if kept else 0
        place = next((index for index in range(start, len(old)) if old[index] == item), None)
        if place is None:
            return None
        kept.append(place)
    return set(range(len(old))) - set(kept)


def _cuts(tree: CaseTree, entries: Sequence[Loc], gone: set[Loc], parent: Loc) -> Iterator[Edit]:
    """Cut the entries that are gone out of a mapping or list that keeps at least one entry."""
    if not _flow(tree, parent):
        for entry in entries:
            if entry in gone:
                start = _with_comment(tree.text, _line_start(tree.text, _start(tree, entry)))
                yield start, _line_end(tree.text, _end(tree, entry)), ""
        return
    for place, entry in enumerate(entries):
        if entry not in gone:
            continue
        # Up to the next entry; after the last entry that stays, from the end of the one before.
        if any(later not in gone for later in entries[place:]):
            yield _start(tree, entry), _start(tree, entries[place + 1]), ""
        else:
            yield _end(tree, entries[place - 1]), _end(tree, entry), ""


def _replaced(tree: CaseTree, loc: Loc, new: Any) -> Edit:
    place = tree.places[loc]
    keyed = place.key_line > 0
    indent = place.key_column - 1 if keyed else place.column - 1
    text = emit.document({"key": new} if keyed else [new])
    first, *rest = text.removeprefix("key:" if keyed else "-").rstrip("\n").split("\n")
    new_text = "\n".join([first.strip(), *(" " * indent + line if line.strip() else "" for line in rest)])
    start, end = place.start, _end(tree, loc)
    if keyed and not first.strip():  # a collection, on the lines below its key
        start = tree.text.index(":", place.key_start + len(str(loc[-1]))) + 1
    elif (keyed and place.line > place.key_line) or place.empty:
        start = tree.text.index(":", place.key_start + len(str(loc[-1]))) + 1
        new_text = " " + new_text
    return start, max(start, end), new_text


def _flow(tree: CaseTree, loc: Loc) -> bool:
    return tree.text[tree.places[loc].start : tree.places[loc].start + 1] in ("[", "{")


def _start(tree: CaseTree, loc: Loc) -> int:
    place = tree.places[loc]
    return place.key_start if place.key_line else place.start


def _end(tree: CaseTree, loc: Loc) -> int:
    """Offset after the last character of a value; libyaml's own end of a block includes comments that follow."""
    place = tree.places[loc]
    if place.style in ("[", "{") and not _flow(tree, loc):
        return max(_end(tree, below) for below in _children(tree.places, loc))
    return place.start + len(tree.text[place.start : place.end].rstrip()) if place.end > place.start else place.end


def _children(places: Mapping[Loc, SourcePosition], loc: Loc) -> Iterator[Loc]:
    return (below for below in places if len(below) == len(loc) + 1 and below[:-1] == loc)


def _line_start(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def _line_end(text: str, offset: int) -> int:
    found = text.find("\n", offset)
    return len(text) if found < 0 else found + 1


def _with_comment(text: str, start: int) -> int:
    """The start of the comment lines right above a line with the same indent; else the start of the line itself."""
    indent = re.match(r" *", text[start:])
    while start:
        above = _line_start(text, start - 1)
        line = text[above:start]
        if not (line.lstrip().startswith("#") and indent and len(line) - len(line.lstrip()) == len(indent[0])):
            break
        start = above
    return start

"""Smaller cases as text: with parts removed, with a stricter signature, as candidates that can be run.

A second implementation. Library: ruamel.yaml.
Why not: it reads scalars by YAML's guesses, and writes flow collections and quotes its own way.
Owner of ours: the room ``search``; :mod:`reprokit.case.tree` already knows the position of everything.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reprokit.case import emit
from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell
from reprokit.case.model import Failure
from reprokit.case.render import TemplateProblem, render
from reprokit.case.tree import CaseTree, Loc, parse
from reprokit.core.errors import CaseError
from reprokit.core.text import one_line
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.cases import load_text
from reprokit.evidence.fingerprint import last_words
from reprokit.evidence.frames import relevant_frames
from reprokit.evidence.judgement import judge
from reprokit.evidence.model import Ending, ExceptionSeen, Outcome
from reprokit.evidence.normalise import essence
from reprokit.evidence.observation import remove_cuts
from reprokit.run.case_warnings import shell_error, shell_texts
from reprokit.search.queries import Candidate
from reprokit.search.reduce_parts import Data, put_value

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
        return max(_end(tree, below) for below in tree.places if len(below) == len(loc) + 1 and below[:-1] == loc)
    return place.start + len(tree.text[place.start : place.end].rstrip()) if place.end > place.start else place.end


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


# ASCII, as RE2 takes \w and \d in the pattern that is made of it.
_VARYING = re.compile(r"0x[0-9a-fA-F]+|(?:/[\w.+-]+){2,}|\d+(?:\.\d+)?(?:e[+-]?\d+)?", re.ASCII)
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_FRAME = re.compile(r"[^\s:]+:[^\s:]+")


@dataclass(frozen=True, kw_only=True)
class FailedTrial:
    """One trial that failed with the case's signature: how it ended, and its log."""

    ending: Ending
    log: str


def tighten(failure: Mapping[str, Any], seen: Sequence[FailedTrial]) -> dict[str, Any]:
    """The signature ``failure`` (as written in the case), completed from the trials ``seen``, which it matched.

    Added are the exit status, the exception's type, its message without numbers, addresses and paths, the frames that
    identify it (as in a fingerprint), or the text of a crash; where there is neither, and only an exit status is given,
    the last line of output. Each is added only where all the trials match it.
    """
    strict = dict(failure)
    for key, value in _additions(failure, seen[0]):
        trial = {**strict, key: value}
        if all(_matches(trial, one) for one in seen):
            strict = trial
    return strict


def _matches(failure: Mapping[str, Any], seen: FailedTrial) -> bool:
    return judge(Failure.model_validate(failure), seen.ending, seen.log).outcome is Outcome.REPRODUCED


def _additions(failure: Mapping[str, Any], seen: FailedTrial) -> list[tuple[str, Any]]:
    """(key, value) pairs that would make the signature stricter, taken from one trial."""
    judgement = judge(Failure.model_validate(failure), seen.ending, seen.log)
    exception, crash = judgement.exception, judgement.crash
    killed = {"out_of_memory", "timed_out", "signal"} & set(failure)
    found: list[tuple[str, Any]] = []
    if failure.get("exit_code", "nonzero") == "nonzero" and not killed and seen.ending.exit_code is not None:
        found.append(("exit_code", str(seen.ending.exit_code)))
    # A traceback identifies the failure only where the case says so, or where nothing else does.
    if exception is not None and not exception.ignored and ("output" not in failure or "exception" in failure):
        found += _of_exception(exception)
    elif crash is not None:
        # C++ prints an exception on two lines, and a pattern matches one: its message rather than its type.
        parts = re.split(r"\s+what\(\):\s+", crash.text)
        found += [("output", pattern(one_line(text))) for text in dict.fromkeys((*parts, crash.text))]
    elif not set(failure) - {"exit_code"}:
        found.append(("output", pattern(one_line(last_words(remove_cuts(seen.log))))))
    return [(key, value) for key, value in found if value and (key not in failure or key == "exit_code")]


def _of_exception(seen: ExceptionSeen) -> list[tuple[str, Any]]:
    # The first line of the message itself: frameworks print stacks and advice around it.
    own = essence(seen.message)
    lines = (line.strip() for line in seen.message.splitlines() if line.strip())
    message = next((one_line(line) for line in lines if own.startswith(" ".join(line.split())[:100])), "")
    frames = [text for text in relevant_frames(seen.frames, message=bool(own))[0] if _FRAME.fullmatch(text)]
    return [("exception", seen.type), ("message", pattern(message)), ("frames", frames[::-1])]


def pattern(text: str) -> str:
    """A signature's pattern that finds ``text`` with any numbers, addresses and paths: plain text, or ``/regex/``."""
    text = text.rstrip("…")
    if not _VARYING.search(text) and not (text.startswith("/") and text.endswith("/")):
        return text
    pieces, at = [], 0
    for found in _VARYING.finditer(text):
        pieces.append(_SPECIAL.sub(r"\\\g<0>", text[at : found.start()]))
        pieces.append(r"[\w./+-]+")
        at = found.end()
    return "/" + "".join(pieces) + _SPECIAL.sub(r"\\\g<0>", text[at:]) + "/"


def first_reduction(file: CaseFile, cell: Cell, failure: Mapping[str, Any], *, keep_matrix: bool) -> Data:
    """The case with which a reduction begins: a name of its own, the strict signature and, by default, one cell."""
    data: Data = {**file.positions.data, "id": f"{file.case.id}-reduced"}
    expect = {**(data.get("expect") or {}), "failure": dict(failure)}
    if not keep_matrix:
        expect["reproduces"] = "all"
        data = put_value(data, ("matrix",), {name: [value] for name, value in cell.items()} or None) if cell else data
    return put_value(data, ("expect",), expect)


def write_candidate(file: CaseFile, cell: Cell, data: Data, name: str, path: str) -> Candidate | None:
    """The candidate for ``data``, a smaller version of ``file``; None where it is not a valid case or shell script.

    ``path``: the file to be written. Axes that are gone leave the cell; a fix that no longer fits is left out.
    """
    for attempt in (data, put_value(data, ("fix",), None)) if "fix" in data else (data,):
        try:
            smaller = replace(load_text(path, rewrite(file.positions, attempt)), trust=file.trust)
            axes = {*smaller.case.matrix.axes, *(name for extra in smaller.case.matrix.include for name in extra)}
            left = {name: value for name, value in cell.items() if name in axes}
            if _readable(file, cell) and not _readable(smaller, left):
                return None
        except (CaseError, TemplateProblem):
            continue
        return Candidate(cell=left, file=smaller, name=name)
    return None


def what_runs(candidate: Candidate) -> object:
    """A key for what a candidate would run: equal keys give equal results. Free axes count only by their effect."""
    assert candidate.file is not None
    case = candidate.file.case
    spec = render(case, candidate.cell)
    known = [(name, value) for name, value in candidate.cell.items() if name in AXIS_NAMES]
    parts = {name: value for name, value in vars(spec).items() if name not in ("cell", "reproduces")}
    return repr((known, parts, case.trials, case.expect.failure))


def _readable(file: CaseFile, cell: Cell) -> bool:
    return not any(shell_error(text) for _, text in shell_texts(render(file.case, cell)))


def header(lines: Sequence[str]) -> str:
    """Lines as a comment at the top of a case."""
    # Replaces characters that would end the comment, or are not allowed in YAML.
    shown = ("".join(c if c.isprintable() else " " for c in line) for line in lines)
    wrapped = (part for line in shown for part in textwrap.wrap(line, 110, subsequent_indent="    "))
    return "".join(f"# {line}\n" for line in wrapped)

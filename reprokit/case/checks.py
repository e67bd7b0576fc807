"""What the format demands beyond the types of keys. The checks walk the plain data and step over whatever has the
wrong type (the models report that), so that one mistake hides no other. Pure.
"""

from __future__ import annotations

import posixpath
import re
import signal
from collections.abc import Collection, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from reprokit.case import units
from reprokit.case.axes import KnownAxes
from reprokit.case.inspection import RAW_HINT
from reprokit.case.measures import MEASURES
from reprokit.case.model import FIX_CHANGES, FIX_KEYS, RESERVED, TEMPLATED
from reprokit.case.structure import FormatProblem
from reprokit.case.templates import inspect, is_template
from reprokit.case.tree import CaseTree, Loc, SourcePosition, dotted, listing
from reprokit.core.near_match import near
from reprokit.core.text import whole_number

MOST_AXES = 500
MOST_TAGS = 1_000
"""``{{ }}`` and ``{% %}`` of a case, its fix included: Jinja2 takes a third of a millisecond for each."""
MOST_TAG_TEXT = 20_000
"""Characters in them."""
_RAW = re.compile(r"\{% raw %\}.*?(?=\{%[-+]?\s*endraw)", re.DOTALL)
_PLACEHOLDER = re.compile(r"\{\{-?\s*(\w+)\b")


def templates(data: Mapping[str, Any]) -> Iterator[tuple[Loc, str]]:
    """Every text of the templated sections with its path."""
    for section in TEMPLATED:
        if section in data:
            yield from _texts((section,), data[section])


def _texts(loc: Loc, value: Any) -> Iterator[tuple[Loc, str]]:
    if isinstance(value, str):
        yield loc, value
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts((*loc, key), inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _texts((*loc, index), inner)


def names_used(data: Mapping[str, Any]) -> frozenset[str]:
    """Every name that a template of the case, or of its fix, uses."""
    fix = data.get("fix")
    used: set[str] = set()
    for part in (data, fix if isinstance(fix, dict) else {}):
        for _, text in templates(part):
            inspection = inspect(text)
            used |= inspection.names | inspection.guarded
    return frozenset(used)


def axes_of(data: Mapping[str, Any]) -> dict[str, list[str]]:
    """The axes that are written rightly enough to speak of: name -> values."""
    matrix = data.get("matrix")
    if not isinstance(matrix, dict):
        return {}
    return {
        name: [value for value in values if isinstance(value, str)] if isinstance(values, list) else []
        for name, values in matrix.items()
        if name not in RESERVED
    }


def cells_of(data: Mapping[str, Any], key: str) -> Iterator[tuple[Loc, dict[str, str]]]:
    """The partial cells of ``exclude`` or ``include`` that are mappings of texts."""
    matrix = data.get("matrix")
    entries = matrix.get(key) if isinstance(matrix, dict) else None
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        if isinstance(entry, dict) and all(isinstance(value, str) for value in entry.values()):
            yield ("matrix", key, index), entry


def check_amounts(data: Mapping[str, Any]) -> Iterator[FormatProblem]:
    """More axes or templates than are looked at: every further check may take time for each of them."""
    if len(axes_of(data)) > MOST_AXES:
        yield FormatProblem(loc=("matrix",), message=f"matrix: more than {MOST_AXES} axes", on_key=True)
    fix = data.get("fix")
    count = length = 0
    for prefix, part in (((), data), (("fix",), fix if isinstance(fix, dict) else {})):
        for loc, text in templates(part):
            raw = _RAW.match(text)  # only here does Jinja2 surely see it, too
            for start, end in tags(text, raw.end() if raw else 0, len(text)):
                count, length = count + 1, length + end - start
            if count > MOST_TAGS or length > MOST_TAG_TEXT:
                most = f"more than {MOST_TAGS} {{{{ }}}} and {{% %}}, or {MOST_TAG_TEXT} characters in them"
                hint = "compute it in a script of the case, from variables in env"
                yield FormatProblem(
                    loc=(*prefix, *loc), message=f"{dotted(loc)}: the templates up to here have {most}", hint=hint
                )
                return


def check_templates(tree: CaseTree, data: Mapping[str, Any], known: KnownAxes) -> Iterator[FormatProblem]:
    """Templates that are not valid, and names that are not defined."""
    axes = axes_of(data)
    included = (name for _, cell in cells_of(data, "include") for name in cell)
    defined = {*axes, *included}
    for loc, text in templates(data):
        inspection = inspect(text)
        if inspection.error:
            yield FormatProblem(
                loc=loc,
                message=f"{dotted(loc)}: not a valid template: {inspection.error.rstrip('.')}",
                hint=inspection.hint,
                at=line_in(tree, loc, inspection.line),
            )
        is_generate = len(loc) == 3 and loc[0] == "datasets" and loc[2] == "generate"
        allowed = defined | ({"out"} if is_generate else set())
        undefined = inspection.names - allowed
        places = names_in(tree, loc, undefined)
        for name in sorted(undefined):
            yield FormatProblem(
                loc=loc,
                message=f"{dotted(loc)}: {name!r} is not defined: the matrix has no such axis",
                hint=near(name, allowed) or _undefined_hint(name, axes, known),
                at=places.get(name),
            )


def _undefined_hint(name: str, axes: Mapping[str, Any], known: KnownAxes) -> str:
    if name in known.names:
        return f"add the axis {name} to the matrix, or write {{{{ {name} | default('...') }}}}"
    return (f"axes: {listing(axes)}; " if axes else "") + RAW_HINT


def check_paths(data: Mapping[str, Any]) -> Iterator[FormatProblem]:
    """Sources, files and datasets that would lie in one another's place."""
    taken: dict[str, Loc] = {}
    places: list[tuple[str, Loc]] = []
    for loc, text in _paths(data):
        try:
            path = units.below_workdir(text)
        except ValueError:
            continue  # the models report it
        if (same := units.fold_path(path)) in taken:
            yield FormatProblem(
                loc=loc,
                message=f"{dotted(loc)}: {path!r} is already the place of {dotted(taken[same])}",
                hint="give each its own path below workdir, that differs in more than case, accents' form or end dots",
                on_key=loc[0] == "files",
            )
        else:
            taken[same] = loc
            places.append((path, loc))
    for path, loc in places:
        parent = posixpath.dirname(path)
        while parent:
            owner = taken.get(units.fold_path(parent))
            if owner is not None and owner[0] in ("files", "datasets"):
                what = "a file" if owner[0] == "files" else "a dataset, mounted read-only"
                yield FormatProblem(
                    loc=loc,
                    message=f"{dotted(loc)}: {path!r} lies inside {parent!r}, which is {what} ({dotted(owner)})",
                    hint="choose another path",
                    on_key=loc[0] == "files",
                )
            parent = posixpath.dirname(parent)


def check_digests(data: Mapping[str, Any]) -> Iterator[FormatProblem]:
    """Files of datasets with a digest that would lie elsewhere."""
    for name, entry in _items(data.get("datasets")):
        for path, _ in _items(entry.get("sha256") if isinstance(entry, dict) else None):
            try:
                units.below_dataset(path)
            except ValueError as error:
                loc: Loc = ("datasets", name, "sha256", path)
                yield FormatProblem(
                    loc=loc, message=f"{dotted(loc[:3])}: expected {error}, found {path!r}", on_key=True
                )


def _paths(data: Mapping[str, Any]) -> Iterator[tuple[Loc, str]]:
    for section in ("sources", "datasets"):
        for name, entry in _items(data.get(section)):
            path = entry.get("path") if isinstance(entry, dict) else None
            if isinstance(path, str) and not is_template(path):
                yield (section, name, "path"), path
    for name, _ in _items(data.get("files")):
        yield ("files", name), name


def _items(value: Any) -> list[tuple[str, Any]]:
    return list(value.items()) if isinstance(value, dict) else []


def check_failure(data: Mapping[str, Any]) -> Iterator[FormatProblem]:
    """Keys of a signature that no trial can match together, and known failures that cannot be distinguished."""
    expect = data.get("expect")
    if not isinstance(expect, dict):
        return
    yield from _check_no_templates(data, expect)
    yield from _check_signature(("expect", "failure"), expect.get("failure"))
    known = expect.get("known")
    seen: set[object] = set()
    for index, entry in enumerate(known if isinstance(known, list) else []):
        if not isinstance(entry, dict):
            continue
        loc: Loc = ("expect", "known", index)
        yield from _check_signature((*loc, "failure"), entry.get("failure"))
        if entry.get("failure") == {}:
            message = f"{dotted(loc)}.failure: it fits every failure"
            yield FormatProblem(
                loc=(*loc, "failure"), message=message, hint="say how it looks: exception, message, output ..."
            )
        for key in ("timed_out", "out_of_memory"):
            if isinstance(entry.get("failure"), dict) and str(entry["failure"].get(key)).lower() == "true":
                # Such an end is a verdict of its own, inconclusive, and never a different failure.
                message = f"{dotted(loc)}.failure: no other failure is known by {key}"
                yield FormatProblem(loc=(*loc, "failure", key), message=message, hint="the verdict says that by itself")
        name = entry.get("id")
        if isinstance(name, str) and name in seen:
            message = f"{dotted(loc)}: another known failure is called {name!r} too"
            yield FormatProblem(loc=(*loc, "id"), message=message, hint="give each its own id")
        seen.add(name if isinstance(name, str) else None)


def _check_no_templates(data: Mapping[str, Any], expect: Mapping[str, Any]) -> Iterator[FormatProblem]:
    """Texts that name an axis as a template does: they are compared as they are written, and would never match."""
    axes = {*axes_of(data), *(name for _, cell in cells_of(data, "include") for name in cell)}
    for loc, text in _texts(("expect",), expect):
        if named := [name for name in _PLACEHOLDER.findall(text) if name in axes]:
            yield FormatProblem(
                loc=loc,
                message=f"{dotted(loc)}: expect is not a template: {{{{ {named[0]} }}}} is not replaced by its value",
                hint=r"write a regular expression, such as /cuda \d+/; for braces that the program prints, /\{\{/",
            )


def _check_signature(loc: Loc, failure: Any) -> Iterator[FormatProblem]:
    if not isinstance(failure, dict):
        return
    code, name = failure.get("exit_code"), failure.get("signal")
    number = signal.Signals.__members__.get(name) if isinstance(name, str) else None
    status = whole_number(code) if isinstance(code, str) else None
    if number and status not in (None, 128 + number):
        yield FormatProblem(
            loc=(*loc, "exit_code"),
            message=f"{dotted(loc)}: exit_code {code} and signal {name} contradict each other",
            hint=f"{name} ends a container with {128 + number}: leave out exit_code",
        )


def _partial_cells(value: object) -> bool:
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(cell, dict) and cell and all(isinstance(v, str) for v in cell.values()) for cell in value)


def check_fix_keys(data: Mapping[str, Any]) -> Iterator[FormatProblem]:
    """Keys that ``fix`` does not take, and a fix that changes nothing."""
    fix = data.get("fix")
    if not isinstance(fix, dict):
        return
    for key in fix:
        if key not in FIX_KEYS:
            yield FormatProblem(
                loc=("fix", key),
                message=f"unknown key {key!r} in fix",
                hint=near(key, FIX_KEYS) or f"a fix can change: {listing(FIX_CHANGES)}",
                on_key=True,
            )
    if isinstance(fix.get("summary", ""), (dict, list)):
        yield FormatProblem(
            loc=("fix", "summary"), message="fix.summary: expected text", hint="say in one line what changes"
        )
    if "only" in fix and not _partial_cells(fix["only"]):
        yield FormatProblem(
            loc=("fix", "only"),
            message="fix.only: expected a list of partial cells",
            hint="such as [{torch: 2.0.1}]; leave it out where the fix makes sense everywhere",
        )
    if not set(fix) & set(FIX_CHANGES) and set(fix) <= set(FIX_KEYS):
        yield FormatProblem(
            loc=("fix",),
            message="fix: it changes nothing of the case",
            hint=f"give what it changes: {listing(FIX_CHANGES)}",
            on_key=True,
        )


_WORD = re.compile(r"(?<![\w.\"'])\w+(?![\w\"'])")
_OPENING = re.compile(r"\{\{|\{%")
_CLOSING = {"{{": "}}", "{%": "%}"}


def names_in(tree: CaseTree, loc: Loc, names: Collection[str]) -> dict[str, tuple[int, int]]:
    """Line and column (from 1 within the text) of the first use of each of ``names`` in a template at ``loc``."""
    found: dict[str, tuple[int, int]] = {}
    place = tree.places.get(loc)
    if place is None or not names:
        return found
    for start, end in tags(tree.text, place.start, place.end):
        for word in _WORD.finditer(tree.text, start, end):
            if word[0] in names and word[0] not in found:
                found[word[0]] = _at(tree, place, word.start())
    return found


def _at(tree: CaseTree, place: SourcePosition, offset: int) -> tuple[int, int]:
    """Line and column of an offset in a value, which is read from the value's beginning."""
    lines = (tree.text[place.start : offset] + "x").splitlines()
    return place.line + len(lines) - 1, len(lines[-1]) + (place.column - 1 if len(lines) == 1 else 0)


def tags(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Start and end of what is inside each tag, in linear time: no end is looked for again after there was none."""
    unclosed: set[str] = set()
    for opening in _OPENING.finditer(text, start, end):
        if opening.start() < start or opening[0] in unclosed:
            continue
        closing = text.find(_CLOSING[opening[0]], opening.end(), end)
        if closing < 0:
            unclosed.add(opening[0])
        else:
            yield opening.end(), closing
            start = closing + 2


def line_in(tree: CaseTree, loc: Loc, number: int) -> tuple[int, int] | None:
    """Line and column of the first tag on line ``number`` (from 1) of the value at ``loc``.

    Only a literal block (``|``) keeps its lines; of other values it is the first tag, whatever the line.
    """
    place = tree.places.get(loc)
    if place is None:
        return None
    start, end = place.start, place.end
    if place.style == "|":
        for _ in range(max(number, 1)):
            start = tree.text.find("\n", start, end) + 1 or end
        newline = tree.text.find("\n", start)
        end = newline if newline >= 0 else len(tree.text)
    opening = re.compile(r"\{\{|\{%|\{#").search(tree.text, start, end)
    if opening:
        return _at(tree, place, opening.start())
    return _at(tree, place, start + len(tree.text[start:end]) - len(tree.text[start:end].lstrip()))


_LOC: Loc = ("expect", "compare")


def check_compare(data: Mapping[str, Any]) -> Iterator[FormatProblem]:
    """A signature beside it, axes that the case lacks, and a file that is not one of the case."""
    expect = data.get("expect")
    compare = expect.get("compare") if isinstance(expect, dict) else None
    if not isinstance(expect, dict) or not isinstance(compare, dict):
        return
    if "failure" in expect:
        yield FormatProblem(
            loc=("expect", "failure"),
            message="expect.failure: a case states either failure or compare",
            hint="leave out failure: a trial that fails is a different failure than other numbers",
            on_key=True,
        )
    reference = compare.get("reference")
    if not isinstance(reference, dict):
        return
    if isinstance(reference.get("cell"), dict):
        yield from check_reference((*_LOC, "reference", "cell"), reference["cell"], data)
    if isinstance(reference.get("file"), str):
        yield from _check_file(reference["file"], compare.get("outputs"), data)


def check_reference(loc: Loc, cell: Mapping[str, Any], data: Mapping[str, Any]) -> Iterator[FormatProblem]:
    """The values of a reference cell, at ``loc``: none, or of axes that the case lacks."""
    axes = {*axes_of(data), *(name for _, one in cells_of(data, "include") for name in one)}
    if not cell:
        message = f"{dotted(loc)}: expected the values of one axis or more"
        yield FormatProblem(loc=loc, message=message, hint="such as {numpy: 1.26.4}")
    for name in cell:
        if name not in axes:
            message = f"{dotted(loc)}: the matrix has no axis {name!r}"
            hint = near(name, axes) or (f"axes: {listing(sorted(axes))}" if axes else "add it to the matrix")
            yield FormatProblem(loc=(*loc, name), message=message, hint=hint, on_key=True)


def _check_file(file: str, outputs: Any, data: Mapping[str, Any]) -> Iterator[FormatProblem]:
    loc = (*_LOC, "reference", "file")
    files = data.get("files")
    names = [str(name) for name in files] if isinstance(files, dict) else []
    if file not in names:
        message = f"{dotted(loc)}: {file!r} is not one of the files of the case"
        yield FormatProblem(loc=loc, message=message, hint=near(file, names) or "put what is expected into files")
    one = outputs[0] if isinstance(outputs, list) and len(outputs) == 1 and isinstance(outputs[0], str) else ""
    if not one or any(c in one for c in "*?[") or PurePosixPath(one).suffix != PurePosixPath(file).suffix:
        yield FormatProblem(
            loc=loc,
            message=f"{dotted(loc)}: a file is the reference of one output, of the same kind as it",
            hint=f"such as outputs: [result{PurePosixPath(file).suffix}]",
        )


_ORACLES = ("failure", "compare", *MEASURES)


def check_measures(data: Mapping[str, Any]) -> Iterator[FormatProblem]:
    """More than one answer to what is looked for, and a reference of axes that the case lacks."""
    expect = data.get("expect")
    if not isinstance(expect, dict):
        return
    given = [key for key in _ORACLES if key in expect]
    if len(given) > 1 and {*given} & {*MEASURES}:
        yield FormatProblem(
            loc=("expect", given[1]),
            message=f"expect.{given[1]}: a case states either {given[0]} or {given[1]}",
            hint="keep one: a trial that fails is a different failure than a measured number",
            on_key=True,
        )
    for key in MEASURES:
        measure = expect.get(key)
        if isinstance(measure, dict) and isinstance(measure.get("of"), dict):
            yield from check_reference(("expect", key, "of"), measure["of"], data)

"""What ``expect.compare`` demands beyond the types of its keys: a reference that the case has. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from reprokit.case.checks import axes_of, cells_of
from reprokit.case.descriptions import dotted, listing
from reprokit.case.structure import FormatProblem
from reprokit.case.tree import Loc
from reprokit.core.near_match import near

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

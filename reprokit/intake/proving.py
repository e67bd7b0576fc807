"""What a run of a draft proves of it, and comments in the draft that say so. Pure.

A draft is confirmed where it fails as its report shows, and passes in every cell that passes by the report: a program
that fails in the same way everywhere, such as one that lacks a file, is not the reported bug.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reprokit.case import placeholders
from reprokit.case.matrix import label, matches
from reprokit.core.redaction import scrub
from reprokit.core.text import pluralize
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.intake.draft import Draft

_FAILS = (Verdict.REPRODUCED, Verdict.FLAKY)
_LISTED = 20
"""Most cells that a comment lists."""
_DECIDING = ("command", "matrix", "environment", "sources", "files", "env", "expect")
"""Keys of a case that decide its verdict."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What a run says of a draft. ``status``: 0 confirmed, 1 not confirmed, 3 not decided; ``words``: one sentence.

    ``cells``: the verdict of each cell, in words. ``reproduced``: whether a cell fails as the report shows, and no cell
    does that passes by the report.
    """

    status: int
    words: str
    cells: tuple[str, ...] = ()
    reproduced: bool = False


def open_parts(made: Draft) -> list[str]:
    """The places of a draft that decide its verdict and are still to be written, such as ``expect.failure.output``."""
    found = [place for key in _DECIDING for place, text in _texts(made.data.get(key), key) if placeholders.MARK in text]
    found += [f"the data of {name}" for name, one in made.data.get("datasets", {}).items() if not one.get("generate")]
    return found


def _texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(item, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item, place)
    elif isinstance(value, str):
        yield place, value


def not_run(parts: Sequence[str]) -> Proof:
    """Of a draft that is not run, since these parts of it are still to be written."""
    return Proof(status=3, words=f"not run: write {', '.join(dict.fromkeys(parts))} first")


def judge_draft(made: Draft, cells: Sequence[CellRecord]) -> Proof:
    """What the cells of a run prove of the draft that was run."""
    passing = [cell for cell in cells if any(matches(cell.cell, one) for one in made.passing)]
    failing = [cell for cell in cells if cell not in passing]
    axes = dict.fromkeys(axis for cell in cells for axis in cell.cell)
    varying = [axis for axis in axes if len({cell.cell.get(axis) for cell in cells}) > 1]

    def name(cell: CellRecord) -> str:
        return label({axis: cell.cell[axis] for axis in varying if axis in cell.cell} or cell.cell)

    def said(status: int, words: str, *, reproduced: bool = False) -> Proof:
        # What a program printed may name a home or a token; a draft is passed on.
        listed = tuple(scrub(f"{name(cell)}: {cell.verdict}: {cell.reason}").text for cell in cells[:_LISTED])
        return Proof(
            status=status, words=scrub(words).text, cells=(*listed, *_measured(failing)), reproduced=reproduced
        )

    if too := next((cell for cell in passing if cell.verdict in _FAILS), None):
        why = f"{name(too)} passes by the report, and fails in the same way here"
        return said(1, f"not confirmed: {why}: the draft lacks what the bug depends on")
    shown = [cell for cell in failing if cell.verdict in _FAILS]
    if not shown:
        if decided := next((cell for cell in failing if cell.verdict and cell.verdict.conclusive), None):
            return said(1, f"not confirmed: no cell fails as the report shows: {decided.reason}")
        return said(3, f"not decided: {failing[0].reason if failing else 'no cell of the draft fails by the report'}")
    where = f"in {len(shown)} of {pluralize(len(failing), 'cell')} ({_trials(shown)})"
    if not _identifies(made.data.get("expect", {})):
        return said(3, f"not decided: it fails {where}, and any failure would match expect.failure: name this one")
    if other := next((cell for cell in passing if cell.verdict is not Verdict.NOT_REPRODUCED), None):
        known = bool(other.verdict and other.verdict.conclusive)
        how = f"{name(other)} passes by the report: {other.verdict}: {other.reason}"
        end = "not confirmed" if known else "not decided"
        return said(1 if known else 3, f"{end}: it fails as the report shows {where}, but {how}")
    compared = "; the report names no version that passes, so nothing is compared with one"
    if passing:
        compared = f", and {', '.join(map(name, passing[:_LISTED]))} passes ({_trials(passing)})"
    return said(0, f"confirmed: it fails as the report shows {where}{compared}", reproduced=True)


def _measured(cells: Sequence[CellRecord]) -> Iterator[str]:
    """What was measured of the axes in the image of the first cell that fails by the report."""
    for cell in cells[:1]:
        found = {axis: cell.environment[axis] for axis in cell.cell if cell.environment and axis in cell.environment}
        if text := ", ".join(f"{axis} {version}" for axis, version in found.items() if version):
            yield f"measured in its image: {text}"


def _trials(cells: Sequence[CellRecord]) -> str:
    return pluralize(sum(len(cell.trials) for cell in cells), "trial")


def _identifies(expect: Mapping[str, Any]) -> bool:
    """Whether what is expected tells the failure of the report from any other one."""
    failure = dict(expect.get("failure", {}))
    if str(failure.get("exit_code")) in ("nonzero", "1"):
        del failure["exit_code"]
    return bool(failure) or any(key in expect for key in ("slower_than", "leaks", "compare"))


def mark(made: Draft, proof: Proof, run: str = "", advice: Sequence[str] = ()) -> Draft:
    """The draft with comments on what was confirmed and what was not.

    ``run``: the id of its run, '' where it was not run; ``advice``: what differs from the report and what to change.
    """
    of = f", run {run}" if run else ""
    notes = dict(made.notes)
    notes[()] = (*notes.get((), ()), f"Tried by `reprokit new --try`{of}: {proof.words}.", *advice)
    if proof.cells:
        notes[("matrix",)] = (*notes.get(("matrix",), ()), *(f"seen{of}: {one}" for one in proof.cells))
        end = f"confirmed by run {run}" if proof.reproduced else f"not confirmed by run {run}"
        notes[("expect",)] = (*notes.get(("expect",), ()), end)
    return replace(made, notes=notes)

"""What a run of a draft proves of it, comments in the draft that say so, and what to change. Pure.

A draft is confirmed where it fails as its report shows, and passes in every cell that passes by the report: a program
that fails in the same way everywhere, such as one that lacks a file, is not the reported bug.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from reprokit.case import placeholders
from reprokit.case.matrix import label, matches
from reprokit.case.model import Case
from reprokit.core.redaction import scrub
from reprokit.core.text import pluralize
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, TrialRecord
from reprokit.intake.draft import Draft
from reprokit.intake.requirements import pip_name

_FAILS = (Verdict.REPRODUCED, Verdict.FLAKY)
_LISTED = 20
"""Most cells that a comment lists."""
_DECIDING = ("command", "matrix", "environment", "sources", "files", "env", "expect")
"""Keys of a case that decide its verdict."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What a run says of a draft."""

    status: int
    """0 confirmed, 1 not confirmed, 3 not decided."""
    words: str
    cells: tuple[str, ...] = ()
    """The verdict of each cell, in words."""
    reproduced: bool = False
    """Whether a cell fails as the report shows, and no cell does that passes by the report."""


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

    def proof(status: int, words: str, *, reproduced: bool = False) -> Proof:
        # What a program printed may name a home or a token; a draft is passed on.
        listed = tuple(scrub(f"{name(cell)}: {cell.verdict}: {cell.reason}").text for cell in cells[:_LISTED])
        text = scrub(words).text
        return Proof(status=status, words=text, cells=(*listed, *_measured(failing)), reproduced=reproduced)

    if too := next((cell for cell in passing if cell.verdict in _FAILS), None):
        why = f"{name(too)} passes by the report, and fails in the same way here"
        return proof(1, f"not confirmed: {why}: the draft lacks what the bug depends on")
    shown = [cell for cell in failing if cell.verdict in _FAILS]
    if not shown:
        if decided := next((cell for cell in failing if cell.verdict and cell.verdict.conclusive), None):
            return proof(1, f"not confirmed: no cell fails as the report shows: {decided.reason}")
        return proof(3, f"not decided: {failing[0].reason if failing else 'no cell of the draft fails by the report'}")
    where = f"in {len(shown)} of {pluralize(len(failing), 'cell')} ({_trials(shown)})"
    if not _identifies(made.data.get("expect", {})):
        return proof(3, f"not decided: it fails {where}, and any failure would match expect.failure: name this one")
    if other := next((cell for cell in passing if cell.verdict is not Verdict.NOT_REPRODUCED), None):
        known = bool(other.verdict and other.verdict.conclusive)
        how = f"{name(other)} passes by the report: {other.verdict}: {other.reason}"
        end = "not confirmed" if known else "not decided"
        return proof(1 if known else 3, f"{end}: it fails as the report shows {where}, but {how}")
    compared = "; the report names no version that passes, so nothing is compared with one"
    if passing:
        compared = f", and {', '.join(map(name, passing[:_LISTED]))} passes ({_trials(passing)})"
    return proof(0, f"confirmed: it fails as the report shows {where}{compared}", reproduced=True)


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

    ``run``: the id of its run, '' where it was not run; ``advice``: what to change.
    """
    of = f", run {run}" if run else ""
    notes = dict(made.notes)
    notes[()] = (*notes.get((), ()), f"Tried by `reprokit new --try`{of}: {proof.words}.", *advice)
    if proof.cells:
        notes[("matrix",)] = (*notes.get(("matrix",), ()), *(f"seen{of}: {one}" for one in proof.cells))
        end = f"confirmed by run {run}" if proof.reproduced else f"not confirmed by run {run}"
        notes[("expect",)] = (*notes.get(("expect",), ()), end)
    return replace(made, notes=notes)


# -- what to change ----------------------------------------------------------------------------------------------------

_BY_VERDICT = {
    Verdict.DIFFERENT_FAILURE: (),
    Verdict.BUILD_FAILED: (),
    Verdict.TIMED_OUT: ("raise resources.timeout, or write {timed_out: true} under expect.failure for a hang",),
    Verdict.OUT_OF_MEMORY: ("raise resources.memory, or write {out_of_memory: true} if that is the bug",),
    Verdict.NOT_REPRODUCED: ("if it fails only sometimes, add --trials auto; else add what the draft lacks",),
}
"""The verdicts that say what to change, the most telling first, and what to change."""
_HINTS = (
    (r"(lib[\w+.-]{1,60}?\.so[\w.]{0,20}): cannot open shared", "add the package that has {} to environment.apt"),
    (r"line \d+: (\S*/(?:python|pip)\S*): No such file", "{} is of the reporter's machine: write its name in command"),
    (r"([\w.+-]{1,60}): (?:command )?not found", "add the package that has {} to environment.apt or environment.pip"),
    (r"No such file or directory: b?'([^'\n]{1,300})'", "put {} into the case: files, sources or datasets"),
    (r"can't open file '([^'\n]{1,300})'", "put {} into the case: files, sources or datasets"),
    (r"^SyntaxError\b", "choose the Python with which the report runs the program: the axis python of matrix"),
    (r"^(?:Attribute|Import|Type)Error\b", "if the report has another failure, pin its versions in environment.pip"),
)  # fmt: skip
"""What a failure of an incomplete draft prints, and what the draft then lacks; the first that fits counts."""


def advise(case: Case, cells: Sequence[CellRecord], path: str, log: Callable[[TrialRecord], str]) -> list[str]:
    """What to change in a draft whose run does not show the reported failure, and what to type next.

    ``path``: of the case. ``log``: the end of a trial's output.
    """
    file = shlex.quote(path)
    count = sum(cell.verdict in _FAILS for cell in cells)
    if count:
        of = f" in {count} of {len(cells)} cells" if len(cells) > 1 else ""
        return [f"it reproduces{of}; next: reprokit isolate {file}, or write the fix and run reprokit run {file} --fix"]
    cell = next((cell for verdict in _BY_VERDICT for cell in cells if cell.verdict is verdict), None)
    if cell is None:
        return []
    changes = list(_BY_VERDICT[cell.verdict])  # type: ignore[index]  # of a verdict that is in it
    if cell.details.build and cell.details.build.put:
        changes.append(cell.details.build.put)
    trial = next((one for one in cell.trials if one.exception or one.exit_code), None)
    if cell.verdict is Verdict.DIFFERENT_FAILURE and trial and (hint := _hint(trial, log(trial))):
        changes.append(hint.replace(f"{case.workdir}/", ""))
    then = f"then: reprokit run {file}; reprokit show last {cell.number} --log prints the whole log"
    return [*(f"change: {one}" for one in changes), then]


def _hint(trial: TrialRecord, log: str) -> str:
    """What a failure of an incomplete draft says that it lacks; '' where it says nothing of that kind."""
    seen = f"{trial.exception.type}: {trial.exception.message}" if trial.exception else ""
    if found := re.search(r"No module named '?([\w.]+)", seen):
        module = found[1].partition(".")[0]
        return f"add {pip_name(module) or f'the package that has the module {module}'} to environment.pip"
    for pattern, words in _HINTS:
        if found := re.search(pattern, f"{seen}\n{log}"):
            return words.format(found[found.re.groups])
    return ""

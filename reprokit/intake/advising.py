"""What to change in a draft whose first run does not show the reported failure. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from reprokit.case.model import Case
from reprokit.core.text import one_line, pluralize
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, TrialRecord
from reprokit.intake.requirements import pip_name

_TELLING = (
    Verdict.DIFFERENT_FAILURE,
    Verdict.BUILD_FAILED,
    Verdict.TIMED_OUT,
    Verdict.OUT_OF_MEMORY,
    Verdict.NOT_REPRODUCED,
)
"""The verdicts that say what to change, the most telling first."""
_NO_FILE = re.compile(r"No such file or directory: b?'([^'\n]{1,300})'|can't open file '([^'\n]{1,300})'")


def advice(case: Case, cells: Sequence[CellRecord], path: str, log: Callable[[TrialRecord], str]) -> list[str]:
    """What the run of a draft shows, how that differs from the report, and what to type next.

    ``path``: of the case. ``log``: the end of a trial's output.
    """
    file = shlex.quote(path)
    count = sum(cell.verdict in (Verdict.REPRODUCED, Verdict.FLAKY) for cell in cells)
    if count:
        of = f" in {count} of {len(cells)} cells" if len(cells) > 1 else ""
        return [f"it reproduces{of}; next: reprokit isolate {file}, or write the fix and run reprokit run {file} --fix"]
    cell = next((cell for verdict in _TELLING for cell in cells if cell.verdict is verdict), None)
    if cell is None:
        return [f"nothing was decided: {cell.reason}" for cell in cells[:1]]
    found = list(_WAYS[cell.verdict](case, cell, log))  # type: ignore[index]  # of a verdict that tells
    return [*found, f"then: reprokit run {file}; reprokit show last {cell.number} --log prints the whole log"]


def _differs(case: Case, cell: CellRecord, log: Callable[[TrialRecord], str]) -> Iterator[str]:
    """The report's failure beside the one that was seen."""
    trial = next((one for one in cell.trials if one.exception or one.exit_code), None)
    if trial is None:
        return
    yield from _compared(case, trial)
    if hint := _hint(trial, log(trial)):
        yield f"change: {hint.replace(f'{case.workdir}/', '')}"


def _compared(case: Case, trial: TrialRecord) -> Iterator[str]:
    asked, seen = case.expect.failure, trial.exception
    if asked.exception and seen is None:
        yield f"the report has {asked.exception}; here there is no traceback, and {_ended(trial)}"
    elif seen is not None and asked.exception and seen.type.rpartition(".")[2] != asked.exception.rpartition(".")[2]:
        yield f"the report has {asked.exception}, here it is {_shown(seen.type, seen.message)}"
    elif seen is not None and asked.message:
        yield f"the report's message has {asked.message!r}, here it is {_shown(seen.type, seen.message)}"
    if asked.frames and seen is not None and seen.frames:
        last = seen.frames[-1]
        here = f"{last.file.rpartition('/')[2]}:{last.function}"
        both = here == asked.frames[-1].rpartition("/")[2]
        where = f"the report's trace ends in {asked.frames[-1]}, here in {here}, line {last.line}"
        yield f"both traces end in {here}" if both else where
    if asked.signal:
        yield f"the report has the signal {asked.signal}; here {_ended(trial)}"
    elif asked.exit_code not in (None, "nonzero") and str(asked.exit_code) != str(trial.exit_code):
        yield f"the report has the exit status {asked.exit_code}; here {_ended(trial)}"
    if asked.output:
        yield f"the report's output has {asked.output!r}; here {_ended(trial)}"


def _ended(trial: TrialRecord) -> str:
    seen = trial.exception
    more = f" with {_shown(seen.type, seen.message)}" if seen else ""
    return f"the command ended with exit status {trial.exit_code}{more}"


def _shown(kind: str, message: str) -> str:
    return one_line(f"{kind}: {message}" if message else kind, 120)


def _hint(trial: TrialRecord, log: str) -> str:
    """What a failure of an incomplete draft says that it lacks; '' where it says nothing of that kind."""
    kind, message = (trial.exception.type, trial.exception.message) if trial.exception else ("", "")
    if found := re.search(r"No module named '?([\w.]+)", message):
        module = found[1].partition(".")[0]
        return f"add {pip_name(module) or f'the package that has the module {module}'} to environment.pip"
    if found := re.search(r"(lib[\w+.-]{1,60}?\.so[\w.]{0,20}): cannot open shared object file", f"{message}\n{log}"):
        return f"add the package that has {found[1]} to environment.apt"
    if found := re.search(r"([\w.+-]{1,60}): (?:command )?not found", log if trial.exit_code == 127 else ""):
        return f"add the package that has {found[1]} to environment.apt or environment.pip"
    if found := re.search(r"line \d+: (\S*/(?:python|pip)\S*): No such file", log if trial.exit_code == 127 else ""):
        return f"{found[1]} is of the reporter's machine: write {found[1].rpartition('/')[2]} in command"
    if trial.exit_code == 127:
        return "the command was not found: correct it, or add its package to environment.apt"
    if found := _NO_FILE.search(message + log):
        return f"put {found[1] or found[2]} into the case: files, sources or datasets"
    if kind == "SyntaxError":
        return "choose the Python with which the report runs the program: the axis python of matrix"
    if kind in ("AttributeError", "ImportError", "TypeError"):
        return "if this is not the report's failure, pin the versions that the report had in environment.pip"
    return ""


def _passed(case: Case, cell: CellRecord, log: Callable[[TrialRecord], str]) -> Iterator[str]:
    yield f"the command passed in {pluralize(len(cell.trials), 'trial')}: reprokit show prints what was measured there"
    yield "if it fails only sometimes, --trials auto runs it until that is decided; else add what the draft lacks"


def _not_built(case: Case, cell: CellRecord, log: Callable[[TrialRecord], str]) -> Iterator[str]:
    build = cell.details.build
    yield f"the image of cell {cell.number} could not be built: {(build.cause if build else '') or cell.reason}"
    if build and build.put:
        yield f"change: {build.put}"


def _stopped(case: Case, cell: CellRecord, log: Callable[[TrialRecord], str]) -> Iterator[str]:
    if cell.verdict is Verdict.TIMED_OUT:
        yield "the command did not end in its time"
        yield "change: raise resources.timeout, or write {timed_out: true} under expect.failure for a hang"
        return
    yield "the memory ran out"
    yield "change: raise resources.memory, or write {out_of_memory: true} under expect.failure if that is the bug"


_WAYS = {
    Verdict.DIFFERENT_FAILURE: _differs,
    Verdict.BUILD_FAILED: _not_built,
    Verdict.TIMED_OUT: _stopped,
    Verdict.OUT_OF_MEMORY: _stopped,
    Verdict.NOT_REPRODUCED: _passed,
}

"""The search of ``reprokit reduce``: finds a cell that reproduces, reduces the case, and runs the result once more."""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, label
from reprokit.case.measures import MEASURES
from reprokit.core.errors import RecordError, UsageError
from reprokit.core.files import write
from reprokit.core.json_record import JsonRecord
from reprokit.core.text import one_line, pluralize
from reprokit.core.version import __version__
from reprokit.environment.cases import load_text
from reprokit.environment.measured import Measured
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.reading import Reading
from reprokit.evidence.records import CellRecord
from reprokit.evidence.sequential import failure_rate_bound, interval
from reprokit.evidence.strength import EXACT_TRIALS
from reprokit.run.plan import cells_of
from reprokit.run.task import expected_verdict
from reprokit.search.queries import Candidate, CellWithout, Query, ReduceAnswer, ReducedPart, Search, SearchAnswer
from reprokit.search.reduce_parts import KINDS
from reprokit.search.reduce_text import FailedTrial, first_reduction, header, tighten, what_runs, write_candidate
from reprokit.search.reduction import KeptPart, Reduced, Trying, minimize
from reprokit.search.repeating import MOST_TRIALS, seconds_of, tally_of
from reprokit.search.search_session import SearchSession, Spent
from reprokit.store.places import read_log

STEADY = 20
"""Trials of the whole case after which a failure that always showed is taken to be steady: at 80 %, 1 in 100 is not."""
MISSED = 0.01
"""How often a smaller case that fails as often as the whole one may pass all trials that it gets."""

COUNTED = ("env", "resources", "files", "datasets", "sources", "pip", "apt", "dnf", "image", "axes")
"""Kinds whose parts have names, rather than being pieces of a text."""

_WITHOUT = {
    Verdict.BUILD_FAILED: "the image cannot be built",
    Verdict.DIFFERENT_FAILURE: "the program fails in another way",
}


def signature_note(given: Mapping[str, Any], strict: Mapping[str, Any]) -> str:
    """A line that says how the signature ``given`` in the case was made stricter, to ``strict``."""
    added = {key: value for key, value in strict.items() if given.get(key) != value}
    if not set(strict) - {"exit_code"}:
        return "only the exit status identifies this failure: any failure with that status counts as the same one"
    if not added:
        return "the signature is already strict: the reduced case must fail in the same way"
    keys = "; ".join(f"{key}: {', '.join(value) if isinstance(value, list) else value}" for key, value in added.items())
    return f"the signature was made stricter from the failure seen, so that no other failure matches: {keys}"


def versions_moved(before: Measured | None, after: Measured | None) -> dict[str, tuple[str, str]]:
    """Python packages whose version differs between two measured environments: name -> (before, after)."""
    one, other = ((image.packages.get("pip", {}) if image else {}) for image in (before, after))
    return {name: (one[name], other[name]) for name in sorted(one) if name in other and one[name] != other[name]}


@dataclass(kw_only=True)
class ReductionText:
    """The result of a reduction with the facts to report."""

    case_id: str
    digest: str
    cell: Mapping[str, str]
    result: Reduced
    why: Mapping[tuple[str, str], CellWithout]  # (kind, name) of a part -> the record without it
    rate: float = 1.0  # the share of the first cell's trials that showed the failure
    fix_left_out: bool = False
    stopped: bool = False
    cells: int = 0
    seconds: float = 0.0
    versions: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def comment(self) -> list[str]:
        """Lines for the top of the written case."""
        return [
            f"Reduced from {self.case_id} ({self.digest[:19]}) by reprokit {__version__}, in the cell",
            f"{label(self.cell)}.",
            *(line for kind in KINDS for line in self._kind(kind, reasons=False)),
            *self._moved(),
            *self._notes(),
        ]

    def lines(self) -> list[str]:
        """Lines for the terminal."""
        return [
            f"reduced in {pluralize(self.cells, 'cell')}, {self.seconds / 60:.1f} minutes",
            *(line for kind in KINDS for line in self._kind(kind, reasons=True)),
            *self._moved(),
            *self._notes(),
        ]

    def _kind(self, kind: str, *, reasons: bool) -> list[str]:
        gone = self.result.gone.get(kind, [])
        if kind not in COUNTED:
            words = "" if kind == "contents" else "did not matter: "
            return [f"{KINDS[kind]}: {words}{'; '.join(gone)}"] if gone else []
        kept = [part for part in self.result.kept if part.kind == kind]
        line = f"{KINDS[kind]}: {len(kept)} of {len(kept) + len(gone)} kept"
        line += f"; did not matter: {', '.join(gone)}" if gone else ""
        details = [f"  {self._part(part, reasons=reasons)}" for part in kept if self._without(part)]
        return [line, *details] if details or gone else []

    def _part(self, part: KeptPart, *, reasons: bool) -> str:
        """A line about a kept part: that it matters, or why it was kept although that is not known."""
        if self.matters(part):
            return f"matters: {part.name}" + (f" ({self._without(part)})" if reasons else "")
        return f"kept: {part.name} ({self._without(part) if reasons else self._without(part).partition(': ')[0]})"

    def matters(self, part: KeptPart) -> bool:
        """Whether trials confirmed that the failure does not show, or not always, without the part.

        A failed build or another failure without the part says nothing about this failure. Neither do a few passing
        trials where the failure is flaky: they may have missed it.
        """
        why = self.why.get((part.kind, part.name))
        if why is None or why.trials is None or why.verdict is Verdict.FLAKY:
            return why is not None and self.rate == 1
        return why.verdict is Verdict.NOT_REPRODUCED and failure_rate_bound(why.trials) <= self.rate

    def _without(self, part: KeptPart) -> str:
        why = self.why.get((part.kind, part.name))
        if why and why.verdict:
            return f"without it {_WITHOUT.get(why.verdict, why.verdict)}: {one_line(why.reason or '', 120)}"
        # There may be no valid case without it, such as an axis that a template uses.
        return "not tried any more" if self.stopped else ""

    def _notes(self) -> list[str]:
        notes = []
        if self.stopped:
            notes.append("The limit of cells or time was reached: reducing this case again may remove more.")
        if self.fix_left_out:
            notes.append("The fix was left out: it changes a part that was removed.")
        return notes

    def _moved(self) -> list[str]:
        moved = ", ".join(f"{name} {before} -> {after}" for name, (before, after) in self.versions.items())
        return [f"versions that changed, since nothing pins them any more: {moved}"] if moved else []

    def answer(self, more: Sequence[str], exit_status: int, file: str, verdict: Verdict, text: str) -> ReduceAnswer:
        """The answer of the search; ``more``: lines behind its words. ``text``, for ``file``, gave ``verdict``."""
        return ReduceAnswer(
            words=(*self.lines(), *more),
            exit_status=exit_status,
            cell=self.cell,
            kept=tuple(
                ReducedPart(
                    kind=part.kind,
                    name=part.name,
                    matters=True if self.matters(part) else None,
                    without=self.why.get((part.kind, part.name), CellWithout()),
                )
                for part in self.result.kept
            ),
            did_not_matter={kind: tuple(names) for kind, names in self.result.gone.items()},
            stopped=self.stopped,
            cells_run=self.cells,
            seconds=round(self.seconds, 1),
            versions=self.versions,
            file=file,
            verdict=verdict,
            text=text,
        )


SHOWN = 5
"""Most cells that are listed where none reproduces."""


@dataclass(frozen=True, kw_only=True)
class ReductionRequest(JsonRecord):
    """The arguments of a reduction, as recorded."""

    out: str  # the file to write
    kinds: tuple[str, ...]  # what may be removed: keys of ``KINDS``
    max_cells: int = 0  # stops it early; 0 for no such limit
    seconds: float = 0.0  # stops it early
    keep_matrix: bool = False  # all cells stay in the case


def make(session: SearchSession, folder: Path) -> Search[SearchAnswer]:
    """The search over ``session.file``. ``folder``: the store's, for the logs.

    Raises UsageError where there is no cell, and where the case states no failure that a log shows.
    """
    if other := find_measure(session.file):
        raise UsageError(
            f"{session.file.path}: expect.{other}: reduce needs a failure with a signature (expect.failure), "
            "which says whether a smaller case fails in the same way"
        )
    cells = _cells(session)
    arguments = ReductionRequest.from_json(session.arguments)
    spent = Spent(session=session, max_cells=arguments.max_cells, most_seconds=arguments.seconds)
    return spent.watch(_reduce(session, folder, arguments, spent, cells))


def find_measure(file: CaseFile) -> str:
    """The key of ``expect`` that states the bug of a case by what is measured; empty for one with a signature."""
    return next((name for name in ("compare", *MEASURES) if getattr(file.case.expect, name) is not None), "")


def _cells(session: SearchSession) -> list[Cell]:
    """The cells to choose from: those that are expected to reproduce, else those without an expectation, else all."""
    cells = [cell for _, cell in cells_of([session.file], session.request)]
    if not cells:
        raise UsageError("the selection is empty: --only, --skip and the axis options leave no cell")
    promised = [(expected_verdict(session.file, cell), cell) for cell in cells]
    wanted = [cell for verdict, cell in promised if verdict is Verdict.REPRODUCED]
    return wanted or [cell for verdict, cell in promised if verdict is None] or cells


def _reduce(
    session: SearchSession, folder: Path, arguments: ReductionRequest, spent: Spent, cells: list[Cell]
) -> Search[SearchAnswer]:
    found = yield from _verified(session, spent, cells)
    if found is None:
        return SearchAnswer(words=_nothing(spent, cells), exit_status=_departs(spent.records))
    needed = yield from _passes_needed(session, found)
    record = session.record_of(found)
    assert record is not None
    shown = tally_of(record)
    seen = f"the failure shows in {shown.failed} of {shown.of} trials"
    if needed > EXACT_TRIALS and session.request.confirm == "auto":
        cost = (
            f"a part counts as needed after {needed} trials without it that pass, {needed * seconds_of(record):.0f} s"
        )
        words = (f"too flaky to reduce: {seen}", cost, "--confirm always reduces it all the same")
        return SearchAnswer(words=words, exit_status=3)
    if needed > 1:
        session.note(f"{seen}: a part counts as needed after {needed} trials without it that pass")
    given = (session.file.positions.data.get("expect") or {}).get("failure") or {}
    failure = tighten(given, _seen(record, folder))
    data = first_reduction(session.file, found.cell, failure, keep_matrix=arguments.keep_matrix)
    session.note(signature_note(given, failure))

    def holds(candidate: Candidate, reading: Reading) -> bool:
        # A failure that always showed must not become a flaky one.
        tried = session.record_of(candidate)
        return reading is Reading.FAIL and tried is not None and tried.verdict in (record.verdict, Verdict.REPRODUCED)

    def repeat(candidate: Candidate, reading: Reading) -> Search[Reading]:
        while reading is Reading.PASS and session.trials.tally(candidate).of < needed:
            before = session.trials.tally(candidate).of
            (reading,) = yield Query(candidates=(candidate,), again=True)
            if session.trials.tally(candidate).of == before:
                break  # no trial came about
        return reading

    trying = Trying(
        repeat=repeat,
        write=partial(write_candidate, session.file, found.cell, path=arguments.out),
        same=what_runs,
        holds=holds,
        spent=spent.all,
    )
    whole = trying.write(data, "")
    if whole is None:
        raise UsageError(f"{session.file.path}: its text cannot be rewritten as a case of one cell; try --keep-matrix")
    trying.knows(whole, fails=True)
    result = yield from minimize(data, trying, arguments.kinds, axes=not arguments.keep_matrix)
    return (yield from _final_check(session, folder, arguments, spent, found, trying, result))


def _verified(
    session: SearchSession, spent: Spent, cells: list[Cell]
) -> Generator[Query, tuple[Reading, ...], Candidate | None]:
    """The first cell that reproduces, cheapest first; None when none of those tried within the limits does."""
    waiting, passing = [Candidate(cell=cell) for cell in cells], list[Candidate]()
    if len(waiting) > 1:
        waiting.sort(key=session.cost)
    for candidate in waiting:
        if spent.all():
            return None
        (reading,) = yield Query(candidates=(candidate,))
        if reading is Reading.FAIL:
            return candidate
        passing += [candidate] if reading is Reading.PASS else []
    for _ in range(STEADY):
        for candidate in passing:
            if not spent.all() and _may_repeat(session, candidate, STEADY):
                (reading,) = yield Query(candidates=(candidate,), again=True)
                if reading is Reading.FAIL:
                    return candidate
    return None


def _may_repeat(session: SearchSession, candidate: Candidate, most: int) -> bool:
    """Whether a candidate may have one more trial, of ``most``, within what ``--confirm`` allows."""
    return session.trials.tally(candidate).of < most and session.trials.seconds(candidate) <= session.trials.left()


def _passes_needed(session: SearchSession, found: Candidate) -> Search[int]:
    """How many passing trials of a smaller case show that it lost the failure, after more trials of the whole case.

    One where the failure always showed, or nothing is to be repeated; else so many that a failure at the lowest rate
    which these trials leave passes all of them once in a hundred times.
    """
    while _may_repeat(session, found, MOST_TRIALS if session.trials.tally(found).passed else STEADY):
        yield Query(candidates=(found,), again=True)
    shown = session.trials.tally(found)
    if not shown.passed or session.request.confirm == "never":
        return 1
    return math.ceil(math.log(MISSED) / math.log1p(-interval(shown.failed, shown.of, 0.9)[0]))


def _nothing(spent: Spent, cells: list[Cell]) -> tuple[str, ...]:
    lines = [f"{label(record.cell)}: {record.verdict}: {record.reason}" for record in spent.records]
    lines = lines if len(lines) <= SHOWN else [*lines[:SHOWN], f"and {len(lines) - SHOWN} more"]
    tried = len(spent.asked)
    some = "" if tried == len(cells) else f" ({tried} of {len(cells)} cells were tried before the limit was reached)"
    return (f"nothing to reduce: no cell that was tried reproduces{some}", *(f"  {line}" for line in lines))


def _seen(record: CellRecord, folder: Path) -> list[FailedTrial]:
    failed = [trial for trial in record.trials if trial.outcome is Outcome.REPRODUCED]
    logs = [read_log(folder, trial.log).decode("utf-8", "replace") for trial in failed]
    return [FailedTrial(ending=trial.ending, log=log) for trial, log in zip(failed, logs, strict=True)]


def _final_check(
    session: SearchSession,
    folder: Path,
    arguments: ReductionRequest,
    spent: Spent,
    found: Candidate,
    trying: Trying,
    result: Reduced,
) -> Search[SearchAnswer]:
    """Run the reduced case once more, exactly as it will be written, and write it if it still fails."""
    first = session.record_of(found)
    smaller = trying.write(result.data, "")
    assert first is not None
    assert smaller is not None
    assert smaller.file is not None
    decider = trying.decider(result.data)
    last = session.record_of(decider) if decider else None
    report = ReductionText(
        case_id=session.file.case.id,
        digest=session.file.digest,
        cell=found.cell,
        result=result,
        why={
            (kept.kind, kept.name): without
            for kept in result.kept
            if (without := _without(session, trying.decider(kept.without)))
        },
        rate=sum(trial.outcome is Outcome.REPRODUCED for trial in first.trials) / len(first.trials),
        fix_left_out="fix" in result.data and smaller.file.case.fix is None,
        stopped=trying.stopped,
        versions=versions_moved(first.environment, last.environment if last else None),
    )
    text = header(report.comment()) + smaller.file.text
    written = replace(load_text(arguments.out, text), trust=session.file.trust)
    final = Candidate(cell=smaller.cell, file=written, name="the reduced case, once more")
    (reading,) = yield Query(candidates=(final,))
    if trying.repeat is not None:
        reading = yield from trying.repeat(final, reading)
    record = session.record_of(final)
    assert record is not None
    report.cells, report.seconds = len(spent.asked), spent.seconds
    holds = trying.holds(final, reading)
    assert record.verdict is not None
    if holds:
        # Before the answer is recorded: a search that is killed in between writes it again.
        place, why = _written(Path(arguments.out), text, folder)
        status = RecordError.exit_status if why else 0
        return report.answer([f"written: {place}{why}"], status, str(place), record.verdict, text)
    gave = f"the reduced case, run once more, gave {record.verdict} ({record.reason}): nothing was written"
    hint = "if the failure is flaky, give the case more trials and reduce it again"
    return report.answer([gave, hint], _departs([record]), arguments.out, record.verdict, text)


def _departs(records: Sequence[CellRecord]) -> int:
    """The exit status where none of these reproduced: 1, or 3 where one of them is inconclusive."""
    return 1 if all(record.verdict is not None and record.verdict.conclusive for record in records) else 3


def _written(out: Path, text: str, folder: Path) -> tuple[Path, str]:
    """Write the reduced case, or put it into the store where ``out`` cannot be written; returns the path and why."""
    try:
        write(out, text)
    except OSError as error:
        write(folder / out.name, text)
        return folder / out.name, f" ({out} cannot be written: {error.strerror})"
    return out, ""


def _without(session: SearchSession, decider: Candidate | None) -> CellWithout | None:
    record = session.record_of(decider) if decider else None
    return None if record is None else CellWithout.pick(record, trials=len(record.trials))

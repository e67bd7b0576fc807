"""The search of ``reprokit reduce``: finds a cell that reproduces, reduces the case, and runs the result once more."""

from __future__ import annotations

import time
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
from reprokit.environment.cases import load_text
from reprokit.environment.measured import Measured
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.reading import Reading
from reprokit.evidence.records import CellRecord
from reprokit.run.plan import cells_of
from reprokit.run.task import expected_verdict
from reprokit.search.queries import Candidate, Query, Search
from reprokit.search.reduce import candidates, summary
from reprokit.search.reduce.algorithm import Reduced, reduced
from reprokit.search.reduce.signature import FailedTrial, tightened
from reprokit.search.reduce.trying import Trying
from reprokit.search.search_session import SearchAnswer, SearchSession
from reprokit.store.places import read_log

SHOWN = 5
"""Most cells that are listed where none reproduces."""


@dataclass(frozen=True, kw_only=True)
class ReductionRequest:
    """The arguments of a reduction, as recorded.

    ``out``: the file to write. ``kinds``: what may be removed (keys of ``parts.KINDS``). ``max_cells`` and ``seconds``
    stop it early; 0 for no such limit. ``keep_matrix``: all cells stay in the case.
    """

    out: str
    kinds: tuple[str, ...]
    max_cells: int = 0
    seconds: float = 0.0
    keep_matrix: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ReductionRequest:
        """The inverse of ``dataclasses.asdict``, for what a record holds."""
        return cls(**{**data, "kinds": tuple(data["kinds"])})


@dataclass(kw_only=True)
class Spent:
    """The cells and time that a search has used, as recorded: a resumed search stops where the first would have.

    ``seconds``: the total time that candidates took to be decided.
    """

    session: SearchSession
    arguments: ReductionRequest
    asked: list[Candidate] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def records(self) -> list[CellRecord]:
        """The records of the candidates, in the order in which they were run."""
        return [record for one in self.asked if (record := self.session.record_of(one)) is not None]

    def all(self) -> bool:
        """Whether a limit is reached; one cell is kept for the final check."""
        cells, seconds = self.arguments.max_cells, self.arguments.seconds
        return bool(cells and len(self.asked) + 1 >= cells) or bool(seconds and self.seconds >= seconds)

    def watch(self, search: Search[Any]) -> Search[Any]:
        """``search``, with its candidates and their time counted."""
        readings: tuple[Reading, ...] | None = None
        while True:
            try:
                ask = next(search) if readings is None else search.send(readings)
            except StopIteration as end:
                return end.value
            started = time.monotonic()
            readings = yield ask
            self.asked += ask.candidates
            took = round(time.monotonic() - started, 2)
            self.seconds += float(self.session.recall(f"seconds {len(self.asked)}", partial(float, took)))


def make(session: SearchSession, folder: Path) -> Search[SearchAnswer]:
    """The search over ``session.file``. ``folder``: the store's, for the logs. Raises UsageError.

    It is raised where there is no cell, and where the case states no failure that a log shows.
    """
    if other := measured(session.file):
        raise UsageError(
            f"{session.file.path}: expect.{other}: reduce needs a failure with a signature (expect.failure), "
            "which says whether a smaller case fails in the same way"
        )
    cells = _cells(session)
    arguments = ReductionRequest.from_json(session.arguments)
    spent = Spent(session=session, arguments=arguments)
    return spent.watch(_reduce(session, folder, arguments, spent, cells))


def measured(file: CaseFile) -> str:
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
    record = session.record_of(found)
    assert record is not None
    given = (session.file.positions.data.get("expect") or {}).get("failure") or {}
    failure = tightened(given, _seen(record, folder))
    data = candidates.start(session.file, found.cell, failure, keep_matrix=arguments.keep_matrix)
    session.note(summary.signature(given, failure))

    def holds(candidate: Candidate, reading: Reading) -> bool:
        # A failure that always showed must not become a flaky one.
        tried = session.record_of(candidate)
        return reading is Reading.FAIL and tried is not None and tried.verdict in (record.verdict, Verdict.REPRODUCED)

    trying = Trying(
        write=partial(candidates.written, session.file, found.cell, path=arguments.out),
        same=candidates.same,
        holds=holds,
        spent=spent.all,
    )
    whole = trying.write(data, "")
    if whole is None:
        raise UsageError(f"{session.file.path}: its text cannot be rewritten as a case of one cell; try --keep-matrix")
    trying.knows(whole, fails=True)
    result = yield from reduced(data, trying, arguments.kinds, axes=not arguments.keep_matrix)
    return (yield from _final_check(session, folder, arguments, spent, found, trying, result))


def _verified(
    session: SearchSession, spent: Spent, cells: list[Cell]
) -> Generator[Query, tuple[Reading, ...], Candidate | None]:
    """The first cell that reproduces, cheapest first; None when none of those tried within the limits does."""
    waiting = [Candidate(cell=cell) for cell in cells]
    if len(waiting) > 1:
        waiting.sort(key=session.cost)
    for candidate in waiting:
        if spent.all():
            return None
        (reading,) = yield Query(candidates=(candidate,))
        if reading is Reading.FAIL:
            return candidate
    return None


def _nothing(spent: Spent, cells: list[Cell]) -> tuple[str, ...]:
    lines = [f"{label(record.cell)}: {record.verdict}: {record.reason}" for record in spent.records]
    lines = lines if len(lines) <= SHOWN else [*lines[:SHOWN], f"and {len(lines) - SHOWN} more"]
    tried = len(spent.asked)
    some = "" if tried == len(cells) else f" ({tried} of {len(cells)} cells were tried before the limit was reached)"
    return (f"nothing to reduce: no cell that was tried reproduces{some}", *(f"  {line}" for line in lines))


def _seen(record: CellRecord, folder: Path) -> list[FailedTrial]:
    return [
        FailedTrial(
            ending=trial.ending,
            log=read_log(folder, trial.log).decode("utf-8", "replace"),
        )
        for trial in record.trials
        if trial.outcome is Outcome.REPRODUCED
    ]


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
    report = summary.ReductionText(
        case_id=session.file.case.id,
        digest=session.file.digest,
        cell=found.cell,
        result=result,
        why={(kept.kind, kept.name): _why(session, trying.decider(kept.without)) for kept in result.kept},
        rate=sum(trial.outcome is Outcome.REPRODUCED for trial in first.trials) / len(first.trials),
        fix_left_out="fix" in result.data and smaller.file.case.fix is None,
        stopped=trying.stopped,
        versions=summary.versions(first.environment, _environment(session, trying.decider(result.data))),
    )
    text = candidates.header(report.comment()) + smaller.file.text
    written = replace(load_text(arguments.out, text), trust=session.file.trust)
    final = Candidate(cell=smaller.cell, file=written, name="the reduced case, once more")
    (reading,) = yield Query(candidates=(final,))
    record = session.record_of(final)
    assert record is not None
    report.cells, report.seconds = len(spent.asked), spent.seconds
    holds = trying.holds(final, reading)
    data = {**report.to_json(), "file": arguments.out, "verdict": str(record.verdict), "text": text}
    if holds:
        # Before the answer is recorded: a search that is killed in between writes it again.
        place, why = _written(Path(arguments.out), text, folder)
        status = RecordError.exit_status if why else 0
        data["file"] = str(place)
        return SearchAnswer(words=(*report.lines(), f"written: {place}{why}"), data=data, exit_status=status)
    gave = f"the reduced case, run once more, gave {record.verdict} ({record.reason}): nothing was written"
    hint = "if the failure is flaky, give the case more trials and reduce it again"
    return SearchAnswer(words=(*report.lines(), gave, hint), data=data, exit_status=_departs([record]))


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


def _environment(session: SearchSession, decider: Candidate | None) -> Measured | None:
    record = session.record_of(decider) if decider else None
    return record.environment if record else None


def _why(session: SearchSession, decider: Candidate | None) -> Mapping[str, Any]:
    record = session.record_of(decider) if decider else None
    if record is None:
        return {}
    verdict = str(record.verdict)
    return {"number": record.number, "verdict": verdict, "reason": record.reason, "trials": len(record.trials)}

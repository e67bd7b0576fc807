"""What a report shows of a case, out of the store: read once, for :mod:`.overview`, :mod:`.case` and :mod:`.cell`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from reprokit.case.matrix import cell_key
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, Result, RunRecord
from reprokit.report import explanation
from reprokit.report.explanation import Explained, FileOf
from reprokit.report.history.changes import CellChange, describe
from reprokit.report.history.series import CaseHistory, Series, gather

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.store.database import Store

Recorded = tuple[RunRecord, CellRecord]
CHANGES = 30  # the newest transitions of a case that its page shows, with what changed around each


@dataclass(frozen=True, kw_only=True)
class RecordedCase:
    """A case and what is recorded of it.

    ``current``: the newest verdict of each cell of the matrix and variant, of the case as it ran last and the engine
    that served it last, in the matrix's order; a conclusive verdict wins over a newer inconclusive one, as in
    ``reprokit show --why CASE``. Its records are lean: without trials, Dockerfile and repeat line.
    """

    id: str
    path: str
    title: str
    digest: str
    engine: str
    file: CaseFile | None  # the case as it ran last; None where this version cannot read it
    runs: tuple[RunRecord, ...]  # in which the case has results, searches too, the oldest first, without cells
    history: CaseHistory  # the series of this case alone
    current: tuple[Recorded, ...]
    explained: Explained  # what the cells of ``current`` explain
    store: Store = field(repr=False)  # where changes are read

    @cached_property
    def changes(self) -> tuple[CellChange, ...]:
        """The newest transitions, the newest first: the overview does without them."""
        found = [(one, each) for one in self.history.series for each in one.transitions if each.old is not None]
        ranks = {run_id: at for at, run_id in enumerate(self.history.runs)}
        found.sort(key=lambda pair: (ranks[pair[0].results[pair[1].after].run_id], _first(pair[0], ranks)))
        return tuple(reversed(describe(self.store, self.history, found[-CHANGES:])))

    def results(self, run_id: str) -> tuple[Result, ...]:
        """What the cells came to in a run, in their order."""
        found = (one for series in self.history.series for one in series.results.select([run_id]))
        return tuple(sorted(found, key=lambda one: one.number))

    @cached_property
    def plain_runs(self) -> tuple[RunRecord, ...]:
        """The runs that were not searches."""
        return tuple(run for run in self.runs if not run.searches)

    @property
    def last(self) -> RunRecord:
        """The last run that was not a search, where there is one."""
        return (self.plain_runs or self.runs)[-1]

    @cached_property
    def courses(self) -> Mapping[tuple[str, str], Series]:
        """Cells over time, by their key and variant, as the engine that served the case last served them."""
        own = [one for one in self.history.series if one.engine == self.engine] or self.history.series
        return {(cell_key(one.cell), one.variant): one for one in own}

    @cached_property
    def blind(self) -> int:
        """How many cells were decided, and are inconclusive since: their verdict in ``current`` is not the newest."""
        found = (self.courses.get((cell_key(one.cell), one.variant)) for _, one in self.current if _sure(one.verdict))
        return sum(not _sure(newest.verdict) for one in found if one and (newest := one.newest()))


def _sure(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.conclusive


def known_cases(store: Store, chosen: Sequence[str] = ()) -> Iterator[RecordedCase]:
    """Every case that was ever run, or the chosen ones, by id. One at a time: memory may not hold all."""
    history = gather(store, chosen)
    file_of = explanation.files_in(store)
    by_case: dict[str, list[Series]] = {}
    for one in history.series:
        by_case.setdefault(one.case_key, []).append(one)
    for case_key, series in sorted(by_case.items()):
        found = _known(store, case_key, CaseHistory(runs=history.runs, series=tuple(series)), file_of)
        if found is not None:
            yield found


def _known(store: Store, case_key: str, history: CaseHistory, file_of: FileOf) -> RecordedCase | None:
    runs = tuple(run for run in history.runs.values() if run.id in history.run_ids)
    last = next((run for run in reversed(runs) if not run.searches), runs[-1])
    serving = {one.engine for one in history.series if any(one.results.select([last.id]))}
    current = _current(store, history, serving, last, file_of)
    if not current:  # a run that has decided nothing yet
        return None
    records = [record for _, record in current]
    newest = records[0]
    file = file_of(newest.case_digest)
    return RecordedCase(
        id=case_key,
        path=newest.case_path,
        title=" ".join(file.case.title.split()) if file else "",
        digest=newest.case_digest,
        engine=last.engine,
        file=file,
        runs=runs,
        history=history,
        current=tuple(current),
        explained=explanation.explain_records(records, file_of),
        store=store,
    )


def _current(store: Store, history: CaseHistory, engines: set[str], last: RunRecord, file_of: FileOf) -> list[Recorded]:
    """See :class:`RecordedCase`. Of each series only the cells that can be the answer are read."""
    serving = [series for series in history.series if series.engine in engines]
    newest = [one for series in serving for sure in (False, True) if (one := series.newest(conclusive=sure))]
    records = store.records({one.place for one in newest}, lean=True)
    ranks = {run_id: at for at, run_id in enumerate(history.runs)}
    newest_first = sorted(records, key=lambda place: (ranks[place[0]], place[1]), reverse=True)
    digest = next((records[place].case_digest for place in newest_first if place[0] == last.id), None)
    if digest is None:  # the last run has decided nothing yet: the newest that has
        digest = records[newest_first[0]].case_digest if newest_first else ""
    recorded = [
        (history.runs[place[0]], records[place]) for place in newest_first if records[place].case_digest == digest
    ]
    chosen = {id(record) for record in explanation.newest(recorded, file_of(digest))}
    order = {(cell_key(one.cell), one.variant): at for at, one in enumerate(history.series)}
    found = [(run, record) for run, record in recorded if id(record) in chosen]
    return sorted(found, key=lambda one: order.get((cell_key(one[1].cell), one[1].variant), len(order)))


def _first(series: Series, ranks: Mapping[str, int]) -> tuple[int, int]:
    first = series.results[0]
    return ranks[first.run_id], first.number

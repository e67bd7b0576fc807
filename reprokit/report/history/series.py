"""The verdicts of each cell over time, out of the store: one series per case, cell, variant and kind of engine."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reprokit.core import json_text
from reprokit.engine import registry
from reprokit.evidence.details import CellDetails
from reprokit.evidence.records import Result, RunRecord
from reprokit.report.history.transitions import FailedOf, State, Transition, state_of, transitions, wavers

if TYPE_CHECKING:
    from reprokit.store.database import Store


@dataclass(frozen=True, kw_only=True)
class Series:
    """One cell over time, the oldest result first, as one kind of engine served it: kinds are never mixed.

    ``rate``: in how many trials, of how many, a failure that is there but does not always show did since it is there.
    """

    case_id: str
    cell: Mapping[str, str]
    variant: str
    engine: str
    results: tuple[Result, ...]
    transitions: tuple[Transition, ...]
    rate: FailedOf | None = None

    @property
    def standing(self) -> Transition | None:
        """What led to the state that the cell is in; None where no result was conclusive."""
        counted = [one for one in self.transitions if one.confirmed]
        return counted[-1] if counted else next(iter(self.transitions), None)

    @property
    def candidate(self) -> Transition | None:
        """A change that was seen once, by the newest conclusive result; None where there is none."""
        last = self.transitions[-1] if self.transitions else None
        return last if last is not None and last.old is not None and not last.confirmed else None

    @property
    def blind(self) -> int | None:
        """The first result since which every one was inconclusive; None where the newest was not."""
        at = len(self.results)
        while at and (verdict := self.results[at - 1].verdict) is not None and not verdict.conclusive:
            at -= 1
        return at if at < len(self.results) else None

    def shown(self) -> list[Result]:
        """The results in which the failure showed."""
        return [one for one in self.results if state_of(one.verdict) is State.REPRODUCING]


@dataclass(frozen=True, kw_only=True)
class CaseHistory:
    """What is recorded of some cases. ``runs``: by id, the oldest first, without their cells."""

    runs: Mapping[str, RunRecord]
    series: tuple[Series, ...]


def by_a_test(details: CellDetails) -> bool:
    """Whether a sequential test decided a cell, from its details."""
    return details.trials is not None and details.trials.decided is not None


def gather(
    store: Store, cases: Collection[str] = (), keep: Callable[[Mapping[str, str]], bool] = lambda cell: True
) -> CaseHistory:
    """The history of these cases, or of all; ``keep`` chooses cells. A few queries, however much there is.

    What a search asked of the case itself is a result as any; what it asked of a case that it rewrote is not one.
    """
    runs = {run.id: run for run in reversed(store.runs(limit=None))}
    searches = {run.id: run.request.search for run in runs.values()}
    rewritten = store.rewritten({run_id: search.digest for run_id, search in searches.items() if search})
    rank = {run_id: at for at, run_id in enumerate(runs)}
    engines = _engines(runs)
    kept: dict[str, bool] = {}
    grouped: dict[tuple[str, str, str, str], list[Result]] = {}
    for one in store.results(cases):
        if one.cell_key not in kept:
            kept[one.cell_key] = keep(json_text.loads(one.cell_key))
        # A run may have begun since the runs were read.
        if kept[one.cell_key] and one.row not in rewritten and one.run_id in runs:
            key = one.case_id, one.cell_key, one.variant, engines[one.run_id]
            grouped.setdefault(key, []).append(one)
    for results in grouped.values():
        results.sort(key=lambda one: (rank[one.run_id], one.number))
    wavering = [results for results in grouped.values() if wavers([one.verdict for one in results])]
    ends = [results[-1].row for results in grouped.values()]
    tested = [row for results in grouped.values() for row in _differing(results)]
    origins = store.origins({*ends, *tested, *(one.row for results in wavering for one in results)})
    decided = {row for row, (_, details) in origins.items() if by_a_test(details)}
    tallies = store.tallies([one.row for results in wavering for one in results])
    series = [_one(key, origins[results[-1].row][0], results, decided, tallies) for key, results in grouped.items()]
    # As whole runs number them: what was selected from the matrix has other numbers.
    series.sort(
        key=lambda one: (
            one.case_id,
            not registry.is_reference(one.engine),
            one.engine,
            max(r.number for r in one.results),
        )
    )
    return CaseHistory(runs=runs, series=tuple(series))


def _engines(runs: Mapping[str, RunRecord]) -> dict[str, str]:
    """What served each run. One that did not get as far as asking an engine is taken for one of the engine before it.

    Its cells are inconclusive, and say nothing of any; what makes no images only stands in for an engine that does.
    """
    engines, usual = {}, registry.entries()[0].kind
    for run_id, run in runs.items():
        engines[run_id] = run.engine or usual
        if run.engine and registry.capabilities(run.engine).images:
            usual = run.engine
    return engines


def _differing(results: Sequence[Result]) -> list[int]:
    """The rows of the results that say another thing than the one before: where it matters how sure they are."""
    rows = []
    before: State | None = None
    for one in results:
        state = state_of(one.verdict)
        if state is not None and state is not before:
            rows.append(one.row)
            before = state
    return rows


def _one(
    key: tuple[str, str, str, str],
    cell: Mapping[str, str],
    results: Sequence[Result],
    decided: Collection[int],
    tallies: Mapping[int, FailedOf],
) -> Series:
    trials = [tallies.get(one.row) for one in results]
    states = [state_of(one.verdict) for one in results]
    found = transitions(states, lambda at: results[at].row in decided, trials.__getitem__)
    case_id, _, variant, engine = key
    series = Series(
        case_id=case_id,
        cell=cell,
        variant=variant,
        engine=engine,
        results=tuple(results),
        transitions=tuple(found),
    )
    return replace(series, rate=_rate(series, trials))


def _rate(one: Series, trials: Sequence[FailedOf | None]) -> FailedOf | None:
    """How often the failure showed since it is there; None where it always did, or is not there."""
    if one.standing is None or one.standing.new is not State.REPRODUCING:
        return None
    matched, total = (sum(column) for column in zip((0, 0), *filter(None, trials[one.standing.after :]), strict=True))
    return (matched, total) if matched < total else None

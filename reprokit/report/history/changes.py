"""Transitions with their records, and what changed around each: environment, hardware, sources, the case, its judge."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from reprokit.case.render import render
from reprokit.core.errors import ReprokitError
from reprokit.core.json_record import JsonDocument, JsonRecord
from reprokit.environment.cases import recorded_case
from reprokit.evidence.details import FailureRecord
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report import differences
from reprokit.report.differences import Difference, EnvironmentFacts
from reprokit.report.history.rejudging import judged_by
from reprokit.report.history.series import CaseHistory, Series
from reprokit.report.history.transitions import State, Transition

if TYPE_CHECKING:
    from reprokit.store.database import Store


_SPAN = re.compile(r"([0-9]{1,5}) ?(h|d|w|minute|hour|day|week)s?( ago)?")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?")


def moment(text: str, now: datetime) -> str | None:
    """The moment as records have it (RFC 3339 in UTC, milliseconds), or None where the text is neither span nor date.

    ``7d``, ``12h`` and ``2 weeks ago`` are before ``now``; ``today``, ``yesterday`` and the last ``monday`` (``mon``)
    begin at midnight; a date or time without a zone is in UTC, as runs are listed. Raises ValueError for what looks
    like a date and is not.
    """
    word = text.strip().lower()
    midnight = now.astimezone(timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [day for day in _WEEKDAYS if word in (day, day[:3])]
    if span := _SPAN.fullmatch(word):
        at = now - timedelta(**{_UNITS[span[2][0]]: int(span[1])})
    elif word in ("now", "today", "yesterday"):
        at = now if word == "now" else midnight - timedelta(days=word == "yesterday")
    elif days:
        at = midnight - timedelta(days=(midnight.weekday() - _WEEKDAYS.index(days[0])) % 7)
    elif _DATE.fullmatch(text):
        at = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text))
        at = at if at.tzinfo else at.replace(tzinfo=timezone.utc)
    else:
        return None
    return stamp(at)


def stamp(at: datetime) -> str:
    """A time as records have it."""
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Record = tuple[RunRecord, CellRecord]
Texts = Callable[[str], str]
"""The text of a case by its digest, as :meth:`reprokit.store.database.Store.case_text` returns it."""


def collect_facts(texts: Texts, run: RunRecord, cell: CellRecord) -> EnvironmentFacts:
    """A recorded cell as ``reprokit diff`` compares it, with what its case asked for."""
    return differences.read_cell(f"{run.id}:{cell.number}", run, cell, _asked(texts(cell.case_digest), cell))


def differences_between(texts: Texts, before: Record, after: Record) -> tuple[Difference, ...]:
    """Every recorded fact that differs between two records of a cell, what is likely to matter most first."""
    found = differences.compare(_whole(texts, *before), _whole(texts, *after))
    edited = ", ".join(_sections(texts(before[1].case_digest), texts(after[1].case_digest)))
    return tuple(
        dataclasses.replace(one, name=f"text ({edited})") if edited and (one.concern, one.name) == TEXT else one
        for one in found
    )


TEXT = ("case", "text")
SHORT = len("sha256:") + 12
"""Characters of a digest that people are shown, as Docker shows them."""


def _sections(before: str, after: str) -> list[str]:
    """The keys of a case that differ between two texts of it, such as ``environment``; none where only words do."""
    files = [recorded_case(text) for text in (before, after)]
    old, new = ({} if file is None else file.case.model_dump() for file in files)
    return [name for name in new if old and old[name] != new[name]]


def _whole(texts: Texts, run: RunRecord, cell: CellRecord) -> EnvironmentFacts:
    """A side with what matters over time alone: within one run these are the same, or the matter of the comparison."""
    found = collect_facts(texts, run, cell)
    base = cell.details.base
    facts = {concern: dict(values) for concern, values in found.facts.items()}
    facts["operating system"]["base image"] = (base.digest or base.id if base else "")[:SHORT]
    facts["case"] = {"text": cell.case_digest[:SHORT], "trials": str(len(cell.trials))}
    if (signature := judged_by(cell)) != cell.case_digest:
        facts["case"]["judged again by the signature of"] = signature[:SHORT]
    version = (cell.details.job.version if cell.details.job else "") or run.version
    facts["reprokit"] = {"version": version, "rules": cell.rules}
    known = {concern: {name: value for name, value in values.items() if value} for concern, values in facts.items()}
    return dataclasses.replace(found, facts=known)


def _asked(text: str, cell: CellRecord) -> Mapping[str, Mapping[str, str]]:
    """What the case, as it was, asks for in the cell: variables, command and limits. Nothing where it cannot tell."""
    file = recorded_case(text)
    names = file.names if file else ()
    return _rendered(text, cell.variant, tuple(one for one in cell.cell.items() if one[0] in names))


@lru_cache(maxsize=1024)
def _rendered(text: str, variant: str, used: Sequence[tuple[str, str]]) -> Mapping[str, Mapping[str, str]]:
    """The same. ``used``: of the cell the axes that the case's templates name, which few cells of many differ in."""
    file = recorded_case(text)
    if file is None:
        return {}
    case = file.fixed if variant == "fix" and file.fixed else file.case
    try:
        spec = render(case, dict(used))
    except (ReprokitError, ValueError):
        return {}
    values = {one.name: getattr(spec.limits, one.name) for one in dataclasses.fields(spec.limits)}
    limits = {name: str(value) for name, value in values.items() if value is not None}
    return {"environment variables": spec.env, "command": {"command": spec.command[-1].strip()}, "limits": limits}


@dataclass(frozen=True, kw_only=True)
class CellChange:
    """A transition of one cell."""

    series: Series
    transition: Transition
    before: Record | None  # the last of the old state, None for a new cell
    after: Record  # the first of the new state
    settled: RunRecord | None  # the run that made it count
    differences: tuple[Difference, ...] = ()  # between the two records


def describe(store: Store, history: CaseHistory, chosen: Sequence[tuple[Series, Transition]]) -> list[CellChange]:
    """These transitions with their records. A few queries, however many there are."""
    places = {series.results[at].place for series, one in chosen for at in (one.before, one.after) if at is not None}
    records = store.records(places)
    texts = lru_cache(maxsize=None)(store.case_text)

    def record(series: Series, at: int) -> Record:
        result = series.results[at]
        return history.runs[result.run_id], records[result.place]

    def change(series: Series, one: Transition) -> CellChange:
        before = record(series, one.before) if one.before is not None else None
        after = record(series, one.after)
        return CellChange(
            series=series,
            transition=one,
            before=before,
            after=after,
            settled=history.runs[series.results[one.settled].run_id] if one.settled is not None else None,
            differences=differences_between(texts, before, after) if before else (),
        )

    return [change(series, one) for series, one in chosen]


@dataclass(frozen=True, kw_only=True)
class CellOverTime(JsonRecord):
    """What names a cell over time: results of different engines are kept apart."""

    case: str
    cell: Mapping[str, str]
    variant: Literal["case", "fix"]
    engine: str


@dataclass(frozen=True, kw_only=True)
class RunMoment(JsonRecord):
    """A run and when it began."""

    run: str
    at: str


@dataclass(frozen=True, kw_only=True)
class SeenCell(RunMoment):
    """A result on one side of a change."""

    number: int
    verdict: Verdict | None
    reason: str
    failure: FailureRecord | None
    case_digest: str


@dataclass(frozen=True, kw_only=True)
class DescribedChange(CellOverTime):
    """A change of a cell over time: enough to open an issue from it."""

    from_: State | None
    """null where the cell is new"""
    to: State
    words: str
    confirmed: bool
    before: SeenCell | None
    after: SeenCell
    confirmed_by: RunMoment | None
    seen: int
    """how many results say so"""
    earlier: tuple[int, int]
    """how many trials failed before, and of how many"""
    since: tuple[int, int]
    """the same of the trials since"""
    chance: float | None
    """at most so likely at one constant rate; null: the cell is new"""
    changed: tuple[Difference, ...]


@dataclass(frozen=True, kw_only=True)
class UnjudgedCell(CellOverTime):
    """A cell without a conclusive verdict now."""

    verdict: Verdict
    since: RunMoment
    run: str


@dataclass(frozen=True, kw_only=True)
class ChangeList(JsonDocument):
    """What changed since a moment."""

    FORMAT = "reprokit-changes/v1"

    since: str
    runs: tuple[str, ...]
    changes: tuple[DescribedChange, ...]
    inconclusive: tuple[UnjudgedCell, ...]


@dataclass(frozen=True, kw_only=True)
class PastResult(RunMoment):
    """A result of a cell."""

    number: int
    verdict: Verdict | None
    as_expected: bool | None


@dataclass(frozen=True, kw_only=True)
class PastCell(CellOverTime):
    """A cell over time. `first_seen` and `last_seen`: of the failure."""

    first_seen: RunMoment | None
    last_seen: RunMoment | None
    first_run: RunMoment
    last_run: RunMoment
    state: State | None
    results: tuple[PastResult, ...]
    transitions: tuple[DescribedChange, ...]


@dataclass(frozen=True, kw_only=True)
class History(JsonDocument):
    """The cells of one case over time."""

    FORMAT = "reprokit-history/v1"

    cells: tuple[PastCell, ...]


def describe_change(change: CellChange) -> DescribedChange:
    """A change for programs."""
    one = change.transition
    return DescribedChange.pick(
        one,
        **_name_series(change.series),
        from_=one.old,
        to=one.new,
        before=change.before and _seen_cell(*change.before),
        after=_seen_cell(*change.after),
        confirmed_by=change.settled and _moment_of(change.settled),
        changed=change.differences,
    )


def _name_series(series: Series) -> dict[str, Any]:
    return {"case": series.case_key, "cell": series.cell, "variant": series.variant, "engine": series.engine}


def _moment_of(run: RunRecord) -> RunMoment:
    return RunMoment(run=run.id, at=run.started_at)


def _seen_cell(run: RunRecord, cell: CellRecord) -> SeenCell:
    return SeenCell.pick(cell, run=run.id, at=run.started_at, failure=cell.details.failure)


def describe_changes(
    history: CaseHistory, since: str, runs: Sequence[str], changes: Sequence[CellChange], blind: Sequence[Series]
) -> ChangeList:
    """What changed since a moment. ``blind``: the cells without a conclusive verdict."""
    unjudged = ((one, one.results[one.blind or 0], one.results[-1]) for one in blind)
    return ChangeList(
        since=since,
        runs=tuple(runs),
        changes=tuple(map(describe_change, changes)),
        inconclusive=tuple(
            UnjudgedCell.pick(last, **_name_series(one), since=_moment_of(history.runs[first.run_id]), run=last.run_id)
            for one, first, last in unjudged
        ),
    )


def describe_history(store: Store, history: CaseHistory, shown: Sequence[str]) -> History:
    """All cells, their results in the runs ``shown``, and their changes."""
    moments = {run.id: _moment_of(run) for run in history.runs.values()}
    changes = describe(store, history, [(one, each) for one in history.series for each in one.transitions])
    return History(
        cells=tuple(
            PastCell(
                **_name_series(one),
                first_seen=moments[one.failing[0].run_id] if one.failing else None,
                last_seen=moments[one.failing[1].run_id] if one.failing else None,
                first_run=moments[one.results[0].run_id],
                last_run=moments[one.results[-1].run_id],
                state=one.state,
                results=tuple(
                    PastResult.pick(each, run=each.run_id, at=moments[each.run_id].at)
                    for each in one.results.select(shown)
                ),
                transitions=tuple(describe_change(change) for change in changes if change.series is one),
            )
            for one in history.series
        )
    )

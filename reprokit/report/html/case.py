"""A case's page: its matrix as columns, what it explains, its history. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar

from reprokit.case.emit import inline
from reprokit.case.matrix import cell_key, label
from reprokit.core.json_record import JsonRecord
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.evidence.spans import PARTS, Timings, critical_path, sums
from reprokit.report import differences, explanation
from reprokit.report.differences import Difference
from reprokit.report.explanation import FixSeen
from reprokit.report.history import timeline
from reprokit.report.history.changes import CellChange, SeenCell, describe_change
from reprokit.report.history.series import Series
from reprokit.report.history.transitions import describe_trials
from reprokit.report.html import writing
from reprokit.report.html.gathering import RecordedCase
from reprokit.report.html.overview import VERDICTS, RunRow, letter, list_run, name_verdict
from reprokit.report.html.writing import Folder
from reprokit.search.conditions import values_in_order

if TYPE_CHECKING:
    from reprokit.case.model import Case

T = TypeVar("T")
HasPage = Callable[[str, int], bool]  # whether the cell of that number of that run has a page of its own in this report
NIGHTS = 60  # runs of which every verdict is shown
RUNS = 200  # runs that are listed
NAMED = 4  # partial cells that are named of those in which a failure is expected
FEW = 20  # cells that are named of a change that many share


@dataclass(frozen=True, kw_only=True)
class AxisValues(JsonRecord):
    """An axis of a case and its values, in their order."""

    name: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CellEntry:
    """A cell in the columns of a :class:`MatrixTable`; positions are those in its lists, -1: none."""

    cell: Mapping[str, str]
    variant: int  # 1: with the fix
    verdict: int = -1  # a position in the overview's verdicts
    expected: int = -1  # the same
    fits: int = -1  # 1: as expected, 0: departs
    reason: int = -1
    state: int = -1
    failure: int = -1
    run: int = -1
    number: int = -1  # -1: in the matrix, and not run as the case is now
    page: int = 0  # 1: it has a page
    strip: str  # a letter of :data:`.overview.LETTERS` for each of the nights


COLUMNS = [field.name for field in fields(CellEntry) if field.name != "cell"]


@dataclass(frozen=True, kw_only=True)
class ShownFailure(JsonRecord):
    """A way in which cells failed."""

    id: str
    title: str
    known: str | None
    other: bool  # it is not what the case expects


@dataclass(frozen=True, kw_only=True)
class CaseRun(RunRow):
    """A run, and how many cells of the case came to which verdict in it."""

    found: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class MatrixTable(JsonRecord):
    """Axes, cells, and the lists that these name."""

    axes: tuple[AxisValues, ...]
    cells: Mapping[str, Sequence[int] | Sequence[str] | Mapping[str, Sequence[int]]]
    """a column for each field of :class:`CellEntry`, so that ten thousand are small; ``at``: axis -> positions"""
    former: int  # cells more that were run when the case was another
    reasons: tuple[str, ...]
    states: tuple[str, ...]
    failures: tuple[ShownFailure, ...]
    runs: tuple[CaseRun, ...]
    nights: tuple[str, ...]  # ids of runs


@dataclass(frozen=True, kw_only=True)
class TellingLine(JsonRecord):
    """A cell whose result would tell explanations apart, and the line to type for it."""

    cell: str
    line: str


@dataclass(frozen=True, kw_only=True)
class ShownExplanation(JsonRecord):
    """What ``reprokit show --why`` says of a case."""

    claim: str
    lead: str
    words: str
    lines: tuple[str, ...]
    decided: int
    open: tuple[str, ...]
    fix: FixSeen | None
    axes: tuple[str, ...]
    commands: tuple[TellingLine, ...]


@dataclass(frozen=True, kw_only=True)
class AlikeChanges(JsonRecord):
    """Changes that are alike, as ``history --since --json`` has the first of them."""

    words: str
    confirmed: bool
    seen: int
    before: SeenCell | None
    after: SeenCell
    changed: tuple[Difference, ...]
    trials: str
    count: int
    cells: tuple[str, ...]  # the first of them


@dataclass(frozen=True, kw_only=True)
class ShownTimes(JsonRecord):
    """What the cells of a case took in a run, and the images that were built for them."""

    run: str
    began: str
    seconds: float
    sum: Mapping[str, float]
    path: tuple[tuple[str, str, float, float, int], ...]
    """the longest spans of the critical path: kind, name, start and seconds, cell"""


@dataclass(frozen=True, kw_only=True)
class CasePage(MatrixTable):
    """A case of ``data/case/NAME.js``."""

    id: str
    name: str
    title: str
    description: str
    report: str
    tags: tuple[str, ...]
    path: str
    digest: str
    text: str
    fix: str | None  # its summary
    expected: str
    signature: tuple[tuple[str, str], ...]
    engine: str
    blind: int
    explanation: ShownExplanation
    changes: tuple[AlikeChanges, ...]
    concerns: tuple[str, ...]
    unmeasured: tuple[str, ...]  # concerns that are known without an image
    whole: Sequence[str]  # runs with all pages
    timing: ShownTimes | None  # of the last run


def write_case(
    folder: Folder, known: RecordedCase, has_page: HasPage, whole: Sequence[str], timings: Timings | None
) -> None:
    """Write ``data/case/NAME.js``; ``whole``: runs with all pages; ``timings``: of the last run."""
    case, last = known.file.case if known.file else None, known.last
    times = timings and _time_cells(last.id, timings, {one.number for one in known.results(last.id)})
    name = writing.name(known.id)
    page = CasePage.pick(
        known,
        **vars(_matrix(known, has_page)),
        name=name,
        description=case.description if case else "",
        report=case.report.url if case and case.report else "",
        tags=case.tags if case else (),
        text=known.file.text if known.file else "",
        fix=str(case.fix.get("summary") or "") if case and case.fix is not None else None,
        expected=_expected(case) if case else "",
        signature=tuple(_signature(case)) if case else (),
        explanation=_explanation(known),
        changes=tuple(_describe_alike(alike, known) for alike in timeline.group_alike(known.changes)),
        concerns=differences.ORDER,
        unmeasured=differences.ASKED,
        whole=whole,
        timing=times,
    )
    folder.data(f"case/{name}", page.to_json())


def _expected(case: Case) -> str:
    """In which cells the case says that its failure shows: all, none, unknown, or the first of them."""
    found = case.expect.reproduces
    if isinstance(found, str):
        return found
    more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return "; ".join(map(label, found[:NAMED])) + more


def _signature(case: Case) -> Iterator[tuple[str, str]]:
    """How the failure looks, by the keys of the case."""
    asked = case.expect.model_dump(exclude_unset=True, exclude={"reproduces", "known"})
    keys = {**asked.pop("failure", {}), **asked} or {"exit_code": "nonzero"}
    return ((key, value if isinstance(value, str) else inline(value)) for key, value in keys.items())


def _matrix(known: RecordedCase, has_page: HasPage) -> MatrixTable:
    """Axes, cells as columns, and the lists that they name."""
    unrun = explanation.find_not_run(known.file, known.explained.records) if known.file else []
    axes = _axes(known, [*(record.cell for _, record in known.current), *unrun])
    chosen = dict.fromkeys([*(run.id for run in known.runs[-RUNS:]), *(run.id for run, _ in known.current)])
    runs = {run_id: at for at, run_id in enumerate(chosen)}
    nights = [run.id for run in known.plain_runs[-NIGHTS:]]
    reasons: dict[str, int] = {}
    states: dict[str, int] = {}
    failures: dict[ShownFailure, int] = {}
    stamp = timeline.stamps(known.runs)
    rows: list[CellEntry] = []
    for run, record in known.current:
        series = known.courses.get((cell_key(record.cell), record.variant))
        failure = _describe_failure(record)
        rows.append(
            CellEntry(
                cell=record.cell,
                variant=int(record.variant == "fix"),
                verdict=VERDICTS.index(name_verdict(record.verdict)),
                expected=VERDICTS.index(name_verdict(record.expected)) if record.expected else -1,
                fits={True: 1, False: 0, None: -1}[record.as_expected],
                reason=_place(reasons, record.marked_reason),
                state=_place(states, timeline.describe_state(known.history, series, stamp)) if series else -1,
                failure=_place(failures, failure) if failure else -1,
                run=runs[run.id],
                number=record.number,
                page=int(has_page(run.id, record.number)),
                strip=_strip(series, nights),
            )
        )
    for cell in unrun:
        series = known.courses.get((cell_key(cell), "case"))
        before = f"{timeline.describe_state(known.history, series, stamp)}; " if series else ""
        state = _place(states, f"{before}not run since the case was edited") if before else -1
        rows.append(CellEntry(cell=cell, variant=0, state=state, strip=_strip(series, nights)))
    here = {(cell_key(row.cell), row.variant) for row in rows}
    return MatrixTable(
        axes=tuple(AxisValues(name=name, values=tuple(values)) for name, values in axes.items()),
        cells={
            "at": {name: _places(values, name, rows) for name, values in axes.items()},
            **{name: [getattr(row, name) for row in rows] for name in COLUMNS},
        },
        former=sum((cell, int(variant == "fix")) not in here for cell, variant in known.courses),
        reasons=tuple(reasons),
        states=tuple(states),
        failures=tuple(failures),
        runs=tuple(CaseRun.pick(list_run(known.history.runs[run]), found=_count(known, run)) for run in runs),
        nights=tuple(nights),
    )


def _places(values: Sequence[str], name: str, rows: Sequence[CellEntry]) -> list[int]:
    """Of each row the position of its value of an axis."""
    places = {value: at for at, value in enumerate(values)}
    return [places[row.cell[name]] if name in row.cell else -1 for row in rows]


def _strip(series: Series | None, nights: Sequence[str]) -> str:
    """What a cell came to in each of the nights."""
    found = {one.run_id: one for one in series.results.select(nights) if one.verdict} if series else {}
    letters = [letter(found[night].verdict, found[night].as_expected) if night in found else " " for night in nights]
    return "".join(letters).rstrip()


def _axes(known: RecordedCase, cells: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """The axes in the order of the case, their values in their own order where they have one, else as they came."""
    seen: dict[str, dict[str, None]] = {name: {} for name in (known.file.case.matrix.axes if known.file else ())}
    for cell in cells:
        for name, value in cell.items():
            seen.setdefault(name, {})[value] = None
    used = {name: list(values) for name, values in seen.items() if values}
    return {name: (values_in_order(name, values) if name != "os" else []) or values for name, values in used.items()}


def _place(known: dict[T, int], value: T) -> int:
    """The position of a value among those that are listed once."""
    return known.setdefault(value, len(known))


def _describe_failure(record: CellRecord) -> ShownFailure | None:
    """The way in which a cell failed, if it did."""
    one = record.details.failure
    if not one:
        return None
    other = record.verdict is Verdict.DIFFERENT_FAILURE
    return ShownFailure(id=one.id, title=one.title, known=one.known or None, other=other)


def _count(known: RecordedCase, run_id: str) -> dict[str, int]:
    """How many cells of the case came to which verdict in a run."""
    return Counter(one.verdict.value if one.verdict else "undecided" for one in known.results(run_id))


def _explanation(known: RecordedCase) -> ShownExplanation:
    """What ``reprokit show --why`` says of the case, with the lines to type for cells that would decide it."""
    shown = explanation.explain_case(known.explained)
    more = shown.more_often
    return ShownExplanation(
        claim=shown.claim,
        lead=explanation.lead(known.explained) if shown.claim != "none" or more else "no explanation:",
        words=more.words if more else shown.words,
        lines=tuple(explanation.full(known.explained))[1:],
        decided=shown.decided,
        open=tuple(explanation.left_open(known.explained)),
        fix=explanation.judge_fix(known.explained),
        axes=tuple(dict.fromkeys(each.axis for one in shown.conditions for each in one.axes)),
        commands=tuple(TellingLine(cell=label(one.cell), line=one.command) for one in shown.tell_apart if one.command),
    )


def _describe_alike(alike: Sequence[CellChange], known: RecordedCase) -> AlikeChanges:
    """Changes that are alike, as one."""
    _, name = timeline.names(known.history.series)
    first = describe_change(alike[0])
    return AlikeChanges.pick(
        first,
        trials=describe_trials(first.earlier, first.since, first.chance),
        count=len(alike),
        cells=tuple(name(one.series) for one in sorted(alike, key=lambda one: one.after[1].number)[:FEW]),
    )


PATH = 15  # spans of the critical path that are listed, the longest


def _time_cells(run_id: str, timings: Timings, numbers: Set[int]) -> ShownTimes:
    """What the cells of those ``numbers`` took, and the images that were built for them."""
    images = {at for at, cells in enumerate(timings.images) if numbers & {*cells}}
    own = [one for one in timings.spans if one.cell in numbers or (one.image in images and not one.cell)]
    start = min((one.start for one in own), default=0.0)
    path = sorted(critical_path(replace(timings, spans=tuple(own))), key=lambda one: -one.seconds)[:PATH]
    return ShownTimes(
        run=run_id,
        began=timings.began,
        seconds=round(max((one.end for one in own), default=start) - start, 3),
        sum={kind: round(seconds, 1) for kind, seconds in sums(own).items() if kind not in PARTS},
        path=tuple(
            (one.kind, one.name, round(one.start - start, 1), round(one.seconds, 1), one.cell)
            for one in sorted(path, key=lambda one: one.start)
        ),
    )

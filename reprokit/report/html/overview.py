"""The overview: a row per case; and every run that is recorded, in few bytes. Pure, but for reading the store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reprokit.case.facts import CaseFacts, facts
from reprokit.case.matrix import cell_key
from reprokit.core.json_record import JsonRecord
from reprokit.core.text import pluralize
from reprokit.engine import registry
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import Result, RunRecord
from reprokit.evidence.strength import trials_each
from reprokit.report.explanation import FixSeen, claim, judge_fix
from reprokit.report.flip import flip
from reprokit.report.history.changes import RunMoment
from reprokit.report.html import writing
from reprokit.report.html.gathering import RecordedCase
from reprokit.report.html.writing import Folder
from reprokit.search.conditions import words
from reprokit.search.explain import Statement
from reprokit.store.summaries import Layout, Summary

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.store.database import Store

NIGHTS = 14  # runs of a case in its strip
VERDICTS = (*(verdict.value for verdict in Verdict), "undecided")  # what positions in columns of verdicts mean
LETTERS = dict(zip(VERDICTS, "RFNXTMIBEU!C?", strict=True))  # verdicts in strips of runs, where a blank is: not run


def name_verdict(verdict: str | None) -> str:
    """One of ``VERDICTS``; for a word that only a newer reprokit knows ``undecided``: its cell's page has the word."""
    return str(verdict) if verdict in VERDICTS else "undecided"


def letter(verdict: str | None, as_expected: bool | None) -> str:
    """A verdict as one of :data:`LETTERS`, in lower case where it is not as expected."""
    found = LETTERS[name_verdict(verdict)]
    return found.lower() if as_expected is False else found


def status(as_expected: Sequence[tuple[Verdict | None, bool | None]]) -> str:
    """One word for verdicts, each with whether it is as expected: what is most pressing among them."""
    if any(expected is False for _, expected in as_expected):
        return "departs"
    if any(verdict is None or not verdict.conclusive for verdict, _ in as_expected):
        return "inconclusive"
    return "as-expected" if any(expected for _, expected in as_expected) else "no-expectation"


@dataclass(frozen=True, kw_only=True)
class FlipWords(JsonRecord):
    """Under which condition a case reproduces, and the trials that carry it."""

    claim: str
    words: str
    axes: tuple[str, ...] = ()
    trials: str = ""


@dataclass(frozen=True, kw_only=True)
class NewestRun(RunMoment):
    """The last run of a case; ``engine``: '' for the usual one."""

    engine: str


@dataclass(frozen=True, kw_only=True)
class Square(RunMoment):
    """A run in the strip of a case."""

    status: str
    words: str
    whole: bool  # it had every cell that there is now


@dataclass(frozen=True, kw_only=True)
class CaseRow(JsonRecord):
    """A case in the overview."""

    id: str
    name: str
    title: str
    tags: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()
    status: str
    cells: int
    blind: int = 0  # cells that were decided and are inconclusive since: the case then is, too
    tally: Mapping[str, int] = field(default_factory=dict)  # verdict -> cells, the newest without the fix
    fix: FixSeen | None = None
    departs: int = 0
    flip: FlipWords
    failures: tuple[str, ...] = ()
    strip: tuple[Square, ...] = ()  # the last runs, the oldest first
    last: NewestRun | None = None
    changed: bool = False  # the case file is not the one that ran last
    elsewhere: bool = False  # it is not in the folder


@dataclass(frozen=True, kw_only=True)
class Overview(JsonRecord):
    """What ``data/overview.js`` has."""

    format: str = writing.FORMAT
    version: str
    verdicts: tuple[str, ...] = VERDICTS
    newest: str  # when the newest run of a case began
    cases: tuple[CaseRow, ...]


def write_overview(folder: Folder, rows: Sequence[CaseRow], version: str) -> None:
    """Write ``data/overview.js``: the cases that were run, and those that never were."""
    newest = max((row.last.at for row in rows if row.last), default="")
    whole = Overview(version=version, newest=newest, cases=tuple(sorted(rows, key=lambda row: row.id)))
    folder.data("overview", whole.to_json())


def row(known: RecordedCase, file: CaseFile | None = None, *, elsewhere: bool = False) -> CaseRow:
    """A case that was run; ``file``: as it is in the folder now, if there is one; ``elsewhere``: it is not there."""
    records = [record for _, record in known.current]
    own = [record for record in records if record.variant == "case"]
    cells = frozenset(cell_key(record.cell) for record in records)
    here = file or known.file
    titles = [one.title for record in records if (one := record.details.failure)]
    usual = registry.is_reference((last := known.last).engine)
    return CaseRow.pick(
        known,
        name=writing.name(known.id),
        **(_about(here, facts(here.case)) if here else {"tags": (), "needs": (), "frameworks": ()}),
        status=status([*((one.verdict, one.as_expected) for one in records), *[(None, None)] * known.blind]),
        cells=len(own),
        tally=Counter(name_verdict(record.verdict) for record in own),
        fix=judge_fix(known.explained),
        departs=sum(record.as_expected is False for record in records),
        flip=_flip(known),
        failures=tuple([title[:200] for title in dict.fromkeys(titles)][:5]),
        strip=tuple(_square(run, known.results(run.id), cells) for run in known.plain_runs[-NIGHTS:]),
        last=NewestRun(run=last.id, at=last.started_at, engine="" if usual else last.engine),
        changed=file is not None and file.digest != known.digest,
        elsewhere=elsewhere,
    )


def never_run(file: CaseFile) -> CaseRow:
    """A case of the folder that no run is recorded of."""
    derived = facts(file.case)
    where = flip(file.case, derived.cells)
    return CaseRow(
        id=file.case.id,
        name=writing.name(file.case.id),
        **_about(file, derived),
        status="never-run",
        cells=len(derived.cells),
        flip=FlipWords(claim="expected", words=where.words(), axes=where.axes),
    )


def _about(file: CaseFile, derived: CaseFacts) -> dict[str, Any]:
    return {
        "title": " ".join(file.case.title.split()),
        "tags": file.case.tags,
        "needs": tuple(derived.needs),
        "frameworks": tuple(sorted(derived.frameworks)),
    }


def _flip(known: RecordedCase) -> FlipWords:
    explained, found = known.explained, known.explained.explanation
    if explained.difference:
        oftener = claim(explained)
        return FlipWords(
            claim="more-often",
            words=f"more often when {oftener.condition}",
            axes=tuple(one.axis for one in (explained.difference.condition, *explained.difference.others)),
            trials=oftener.seen,
        )
    if found.claim is Statement.NONE:
        return FlipWords(claim="none", words=explained.why)
    axes = dict.fromkeys(each.axis for one in found.found for each in one)
    weak = f"{trials_each(explained.trials)}, {explained.bound}" if found.claim is Statement.EXACT else ""
    return FlipWords(
        claim=found.claim.value,
        words=words(found.found),
        axes=tuple(axes),
        trials=claim(explained).seen if explained.supported else weak,
    )


@dataclass(frozen=True, kw_only=True)
class RunRow(JsonRecord):
    """A run, without what it found."""

    id: str
    at: str
    ended: str | None
    engine: str
    version: str
    search: str


def list_run(run: RunRecord) -> RunRow:
    """A run, without what it found."""
    return RunRow.pick(
        run,
        at=run.started_at,
        ended=run.finished_at,
        engine=run.host.engine or "",
        search=run.request.search.kind if run.request.search else "",
    )


def _square(run: RunRecord, results: Sequence[Result], now: Set[str]) -> Square:
    """A run in the strip; ``now``: the keys of the cells that there are now."""
    found = [(result.verdict, result.as_expected) for result in results]
    cells = {result.cell_key for result in results}
    some = (
        "" if cells == now else f"{len(cells)} of {pluralize(len(now), 'cell')}: " if cells < now else "other cells: "
    )
    return Square(
        run=run.id, at=run.started_at, status=status(found), words=f"{some}{_counts(results)}", whole=cells >= now
    )


def _counts(results: Sequence[Result]) -> str:
    counts = Counter(result.verdict.value if result.verdict else "undecided" for result in results)
    text = ", ".join(
        f"{count} {verdict}" for verdict, count in sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    )
    departs = sum(result.as_expected is False for result in results)
    return f"{text}; {departs} depart{'s' * (departs == 1)}" if departs else text


BLOCK = 100  # runs of one file: ten thousand are few files, and a link to one of them reads little
LONGEST = 300  # characters of a reason, of which the record has all


@dataclass(frozen=True, kw_only=True)
class AxisColumn(JsonRecord):
    """An axis of a layout: its values, and of each cell the position of its own; -1: it is without the axis."""

    name: str
    values: tuple[str, ...]
    at: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class LayoutColumns(JsonRecord):
    """The cells of a case that runs had, as columns."""

    case: str
    numbers: tuple[int, ...]
    fix: tuple[int, ...]  # 1: with the fix
    axes: tuple[AxisColumn, ...]


@dataclass(frozen=True, kw_only=True)
class CaseOfRun(JsonRecord):
    """What the cells of a case came to in a run."""

    layout: int  # a position in the block's
    verdict: str  # a letter for each cell
    reasons: tuple[tuple[int, tuple[int, ...]], ...]
    """positions in the block's, each with the numbers of its cells; what passed as expected has none"""


@dataclass(frozen=True, kw_only=True)
class RunOfBlock(RunRow):
    """A run with its cases."""

    cases: tuple[CaseOfRun, ...]


@dataclass(frozen=True, kw_only=True)
class RunBlock(JsonRecord):
    """What ``data/runs/K.js`` has."""

    layouts: tuple[LayoutColumns, ...]
    reasons: tuple[str, ...]
    runs: tuple[RunOfBlock, ...]


def write_runs(folder: Folder, store: Store, cases: Sequence[str]) -> None:
    """Write ``data/runs.js``, whose ``run`` has the ids of all runs, the oldest first, and the blocks of runs."""
    layouts, summaries = store.summaries(cases)
    of_run: dict[str, list[Summary]] = {}
    for one in summaries:
        of_run.setdefault(one.run_id, []).append(one)
    runs = [run for run in reversed(store.runs(limit=None)) if run.id in of_run]
    folder.data("runs", {"run": " ".join(run.id for run in runs)})
    for at in range(0, len(runs), BLOCK):
        folder.data(f"runs/{at // BLOCK}", _block(store, runs[at : at + BLOCK], of_run, layouts).to_json())


def _block(
    store: Store, runs: Sequence[RunRecord], of_run: Mapping[str, Sequence[Summary]], layouts: Mapping[str, Layout]
) -> RunBlock:
    failed = store.failed([run.id for run in runs])
    used: dict[str, int] = {}
    reasons: dict[str, int] = {}
    rows = []
    for run in runs:
        cases = []
        for one in sorted(of_run[run.id], key=lambda one: layouts[one.layout].cells[:1]):
            letters, why = "", dict[int, list[int]]()
            for number, *_ in layouts[one.layout].cells:
                verdict, fits, reason = failed.get((run.id, number), (Verdict.NOT_REPRODUCED, None, ""))
                letters += letter(verdict, fits)
                if reason:
                    short = reason if len(reason) <= LONGEST else f"{reason[:LONGEST]} ..."
                    why.setdefault(reasons.setdefault(short, len(reasons)), []).append(number)
            layout = used.setdefault(one.layout, len(used))
            found = tuple((at, tuple(numbers)) for at, numbers in why.items())
            cases.append(CaseOfRun(layout=layout, verdict=letters, reasons=found))
        rows.append(RunOfBlock.pick(list_run(run), cases=tuple(cases)))
    columns = tuple(_columns(layouts[one]) for one in used)
    return RunBlock(layouts=columns, reasons=tuple(reasons), runs=tuple(rows))


def _columns(layout: Layout) -> LayoutColumns:
    names = dict.fromkeys(name for _, _, cell in layout.cells for name in cell)
    values = {name: {cell[name]: 0 for _, _, cell in layout.cells if name in cell} for name in names}
    places = {name: {value: at for at, value in enumerate(found)} for name, found in values.items()}
    return LayoutColumns(
        case=layout.case_key,
        numbers=tuple(number for number, _, _ in layout.cells),
        fix=tuple(int(variant == "fix") for _, variant, _ in layout.cells),
        axes=tuple(
            AxisColumn(
                name=name,
                values=tuple(values[name]),
                at=tuple(places[name][cell[name]] if name in cell else -1 for _, _, cell in layout.cells),
            )
            for name in names
        ),
    )

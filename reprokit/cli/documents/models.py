"""What each command prints as JSON, as models: their JSON Schema is what `reprokit integrate schema NAME` prints.

A key with a default may be missing; every other key is always there. Newer versions may add keys.
"""

from __future__ import annotations

import dataclasses
import typing
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, create_model

from reprokit.cli.doctor.finding import Status
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails, FailureRecord
from reprokit.evidence.model import Frame, Outcome, Verdict
from reprokit.evidence.origin import HostRecord
from reprokit.evidence.reading import Reading
from reprokit.evidence.records import ExceptionRecord, ImageRecord
from reprokit.evidence.strength import Tally
from reprokit.evidence.usage import Usage
from reprokit.report.history.transitions import State

Cell = dict[str, str]
Variant = Literal["case", "fix"]


class Document(BaseModel):
    """Base of all."""

    model_config = ConfigDict(frozen=True)


# --- reprokit-result/v1: run, show, merge, report --format json

_HINTS = typing.get_type_hints(Measured)
Environment: Any = create_model(  # type: ignore[call-overload]
    "Environment",
    __config__=ConfigDict(extra="allow"),
    __doc__="What the tools in an image say. Further axes stand beside these keys, each with its version.",
    **{one.name: (_HINTS[one.name], ...) for one in dataclasses.fields(Measured) if one.name != "further"},
)


class TrialResult(Document):
    """One execution in a fresh container. `log` is a path below the store's folder."""

    number: int
    outcome: Outcome
    exit_code: int | None
    seconds: float
    oom: bool
    timed_out: bool
    reason: str
    exception: ExceptionRecord | None
    usage: Usage | None
    log: str


class CellResult(Document):
    """One cell of a run. `image` and `environment` are null where no image was built."""

    number: int
    cell: Cell
    variant: Variant
    verdict: Verdict
    expected: Verdict | None
    as_expected: bool | None = Field(description="null where the verdict is inconclusive or nothing is expected")
    reason: str
    rules: str = Field(description="the version of the rules that judged the logs")
    reused_from: str | None = Field(description="RUN:CELL that it was taken over from; null where it ran")
    seconds: float | None
    image: ImageRecord | None
    environment: Environment | None
    details: CellDetails
    trials: list[TrialResult]


class AxisCondition(Document):
    """What an axis must be."""

    axis: str
    op: str
    values: list[str]


class Condition(Document):
    """One condition under which a case reproduces, and the cells that show it."""

    words: str
    axes: list[AxisCondition]
    reproducing: list[Cell]
    near: list[Cell]


class Rival(Document):
    """Another explanation that fits as well: any of `conditions`, each of them a list that holds as a whole."""

    words: str
    conditions: list[list[AxisCondition]]


class TellApart(Document):
    """A cell whose result would tell explanations apart."""

    cell: Cell
    in_matrix: bool
    command: str | None
    if_reproduced: list[str]


class UndecidedCell(Document):
    """A cell that was not run, or is inconclusive."""

    cell: Cell
    verdict: Verdict | None
    predicted: Reading | None


class ExplanationTrials(Document):
    """How many trials carry an explanation: `each` is the fewest and the most of a cell."""

    each: tuple[int, int]
    total: int
    repeats: int


class Explanation(Document):
    """Under which conditions a case reproduces."""

    claim: str
    words: str
    strength: Literal["supported", "open"]
    trials: ExplanationTrials
    decided: int
    minimal: bool
    conditions: list[Condition]
    rivals: list[Rival]
    more_rivals: int
    tell_apart: list[TellApart]
    undecided: list[UndecidedCell]
    undecided_more: int


class CaseResult(Document):
    """A case of a run with its cells."""

    id: str
    path: str
    digest: str
    cells: list[CellResult]
    explanation: Explanation


class FailureGroup(Document):
    """A way of failing that cells, by number, share: its fingerprint, as in `details.failure` of those cells."""

    verdict: Verdict
    known: str | None
    version: str
    id: str
    kind: str
    frames: list[str]
    message: str
    cause: str
    title: str
    trials: list[int] = []
    stack: list[Frame] = []
    cells: list[int]


class SearchOfResult(Document):
    """That a run is a search, and what it answered."""

    kind: str
    arguments: dict[str, Any]
    line: list[str]
    digest: str
    trust: str = ""
    answer: Answer | None


class Result(Document):
    """The result file of a run. Paths of logs are relative to `store`."""

    format: Literal["reprokit-result/v1"]
    run_id: str
    reprokit_version: str
    started_at: str
    finished_at: str | None
    exit_status: int | None
    store: str
    host: HostRecord
    cases: list[CaseResult]
    failures: list[FailureGroup]
    search: SearchOfResult | None = None


# --- reprokit-explanation/v1: explain


class ExplainedCase(Document):
    """A case with its explanation."""

    id: str
    explanation: Explanation


class Explanations(Document):
    """What `explain` found."""

    format: Literal["reprokit-explanation/v1"]
    cases: list[ExplainedCase]


# --- reprokit-search/v1: isolate, bisect, reduce


class SearchedCell(Document):
    """A cell that a search ran. `digest`: of the text of the case that it ran, which `reduce` changes."""

    number: int
    digest: str
    cell: Cell
    verdict: Verdict
    reading: Reading
    reason: str
    trials: Tally


class NamedCell(Document):
    """A cell, its number in the search, and its verdict; null where it was not run."""

    cell: Cell
    number: int | None
    verdict: Verdict | None


class AxisChange(Document):
    """The values of an axis in the good and the bad cell; null where one has none."""

    axis: str
    good: str | None
    bad: str | None


class Boundary(Document):
    """Where along the values of an axis the failure begins."""

    axis: str
    values: list[str]
    good: str
    bad: str
    unjudged: list[str]
    open: list[str]
    confirmed: bool


class KeptPart(Document):
    """A part of a case that `reduce` kept; `matters` is null where that is not known."""

    kind: str
    name: str
    matters: bool | None
    without: dict[str, Any]


class Answer(Document):
    """What a search answered: `words` for people, and the keys of its kind."""

    words: list[str]
    exit_status: int
    confirmed: bool = Field(default=False, description="isolate, bisect")
    decided: bool = Field(default=False, description="isolate")
    ends: dict[Literal["bad", "good"], NamedCell] = Field(default={}, description="isolate")
    differ: list[AxisChange] = Field(default=[], description="isolate")
    changes: list[list[AxisChange]] = Field(
        default=[], description="isolate: each list is enough on its own; empty where nothing is decided"
    )
    rivals: list[list[list[AxisChange]]] = Field(default=[], description="isolate")
    closest: list[NamedCell] = Field(default=[], description="isolate")
    boundary: list[Boundary] = Field(default=[], description="isolate")
    unknown: list[NamedCell] | list[str] = Field(default=[], description="isolate: cells; bisect: values")
    mixes: int = Field(default=0, description="isolate")
    matrix: int = Field(default=0, description="isolate")
    axis: str = Field(default="", description="bisect")
    of: str = Field(default="", description="bisect")
    values: list[str] = Field(default=[], description="bisect")
    left_out: dict[str, str] = Field(default={}, description="bisect")
    notes: list[str] = Field(default=[], description="bisect")
    readings: dict[str, Reading] = Field(default={}, description="bisect")
    change: Literal["broken", "fixed"] | None = Field(default=None, description="bisect")
    last: str = Field(default="", description="bisect")
    since: str | None = Field(default=None, description="bisect: null where it is not decided")
    next: str = Field(default="", description="bisect: the first value known to differ, where `since` is not decided")
    unclear: list[str] = Field(default=[], description="bisect")
    untried: dict[str, str] = Field(default={}, description="bisect")
    trials: dict[str, Tally] = Field(default={}, description="bisect")
    against: list[str] | dict[str, str] = Field(default=[], description="bisect")
    cell: Cell = Field(default={}, description="reduce")
    kept: list[KeptPart] = Field(default=[], description="reduce")
    did_not_matter: dict[str, list[str]] = Field(default={}, description="reduce")
    stopped: str | bool = Field(default="", description="reduce")
    cells_run: int = Field(default=0, description="reduce")
    seconds: float = Field(default=0, description="reduce")
    versions: dict[str, tuple[str, str]] = Field(default={}, description="reduce")
    file: str = Field(default="", description="reduce: the case that was written")
    verdict: str = Field(default="", description="reduce")
    text: str = Field(default="", description="reduce")


class CaseReference(Document):
    """The case of a search."""

    id: str
    path: str
    digest: str


class SearchDocument(Document):
    """A search with its cells; `answer` is null while it has none."""

    format: Literal["reprokit-search/v1"]
    kind: Literal["isolate", "bisect", "reduce"]
    run_id: str
    case: CaseReference
    arguments: dict[str, Any]
    cells: list[SearchedCell]
    answer: Answer | None


# --- without a run: validate, matrix, list


class MatrixCell(Document):
    """A cell of a case. `unsupported`: why this host cannot serve it."""

    case: str
    cell: Cell
    expected: Verdict | None
    unsupported: str | None
    notes: list[str]


class Matrix(RootModel[list[MatrixCell]]):
    """The cells of cases, after selection."""


class LastRun(Document):
    """The newest run of a case."""

    run_id: str
    started_at: str
    case_changed_since: bool
    engine: str | None
    summary: str
    departures: int


class ListedCase(Document):
    """A case with its last result; `last_run` is null where it was never run."""

    id: str
    path: str
    digest: str
    title: str
    tags: list[str]
    cells: int
    frameworks: dict[str, list[str]]
    needs: list[str]
    last_run: LastRun | None


class CaseList(RootModel[list[ListedCase]]):
    """Cases with their last results."""


# --- exec


class ExecutedCell(Document):
    """What a command wrote in a cell; `exit_code` is null where it never started."""

    case: str
    cell: Cell
    exit_code: int | None
    timed_out: bool
    output: str


class Executed(Document):
    """What `exec` ran."""

    format: Literal["reprokit-exec/v1"]
    command: list[str]
    cells: list[ExecutedCell]


# --- over runs: diff, history, changes, rejudge


class Difference(Document):
    """A fact that differs; null on the side that lacks it."""

    concern: str
    name: str
    before: str | None
    after: str | None


class DiffSide(Document):
    """A cell of a run, or an environment of a lock."""

    name: str
    title: str
    verdict: str


class DiffPair(Document):
    """Two sides and what differs; a side is null where only the other has the cell."""

    before: DiffSide | None
    after: DiffSide | None
    differences: list[Difference]


class Diff(Document):
    """What `diff` compared."""

    format: Literal["reprokit-diff/v1"]
    pairs: list[DiffPair]


class Moment(Document):
    """A run and when it began."""

    run: str
    at: str


class Series(Document):
    """What names a cell over time: results of different engines are kept apart."""

    case: str
    cell: Cell
    variant: Variant
    engine: str


class Seen(Moment):
    """A result on one side of a change."""

    number: int
    verdict: Verdict | None
    reason: str
    failure: FailureRecord | None
    case_digest: str


class Change(Series):
    """A change of a cell over time. `from` is null where the cell is new."""

    before_: State | None = Field(alias="from")
    to: State
    words: str
    confirmed: bool
    before: Seen | None
    after: Seen | None
    confirmed_by: Moment | None
    seen: Any
    chance: float | None
    changed: list[Difference]


class Unjudged(Series):
    """A cell without a conclusive verdict now."""

    verdict: Verdict
    since: Moment
    run: str


class Changes(Document):
    """What `changes` found."""

    format: Literal["reprokit-changes/v1"]
    since: str
    runs: list[str]
    changes: list[Change]
    inconclusive: list[Unjudged]


class PastResult(Moment):
    """A result of a cell."""

    number: int
    verdict: Verdict | None
    as_expected: bool | None


class PastCell(Series):
    """A cell over time. `first_seen` and `last_seen`: of the failure."""

    first_seen: Moment | None
    last_seen: Moment | None
    first_run: Moment
    last_run: Moment
    state: State | None
    results: list[PastResult]
    transitions: list[Change]


class History(Document):
    """The cells of one case over time."""

    format: Literal["reprokit-history/v1"]
    cells: list[PastCell]


class Judged(Document):
    """What a record says."""

    verdict: Verdict | None
    reason: str
    rules: str
    as_expected: bool | None


class JudgedTrial(Document):
    """What a trial was judged to be."""

    outcome: Outcome
    reason: str


class ChangedTrial(Document):
    """A trial that is judged otherwise now."""

    number: int
    before: JudgedTrial
    after: JudgedTrial


class Place(Document):
    """A cell of a run."""

    run: str
    number: int
    case: str
    cell: Cell
    variant: Variant


class Rejudged(Place):
    """A cell that is judged otherwise now."""

    before: Judged
    after: Judged
    trials: list[ChangedTrial]


class NotJudged(Place):
    """A cell that cannot be judged again."""

    why: str


class Rejudgement(Document):
    """What judging recorded cells again came to."""

    format: Literal["reprokit-rejudge/v1"]
    written: bool
    judged: int
    changed: list[Rejudged]
    not_judged: list[NotJudged]


# --- of this host: doctor, config, gc


class DoctorFinding(Document):
    """A finding; `fix` is a command, a sentence, or empty."""

    check: str
    status: Status
    text: str
    fix: str


class Doctor(Document):
    """What `doctor` found."""

    format: Literal["reprokit-doctor/v1"]
    findings: list[DoctorFinding]


class Setting(Document):
    """The value of a key, and where it comes from."""

    value: Any
    origin: str


class BuildSetting(Setting):
    """What reaches builds from this host."""

    name: str


class Config(Document):
    """The whole configuration; `config KEY --json` prints one setting, or those below a key."""

    format: Literal["reprokit-config/v1"]
    files: list[str]
    settings: dict[str, Setting]
    builds: list[BuildSetting]


# --- images, locks, the store, runs


class BuiltCell(Document):
    """A cell that an image serves."""

    case: str
    cell: Cell
    variant: Variant


class BuiltImage(Document):
    """An image, and the cells that share it. `built`: now, in `seconds`; `size` in bytes."""

    tag: str
    id: str
    built: bool
    seconds: float
    size: int
    cells: list[BuiltCell]


class CellWithoutImage(BuiltCell):
    """A cell that has no image, and why."""

    verdict: Verdict
    reason: str


class Build(Document):
    """What `build` built or found, and what it could not build."""

    format: Literal["reprokit-build/v1"]
    images: list[BuiltImage]
    failed: list[CellWithoutImage]


class Lock(Document):
    """A lock. `faults`: what was missing or stale; `state`: whether the file holds for all cells now."""

    case: str
    path: str
    state: Literal["fresh", "stale", "written"]
    faults: list[str]


class NotLocked(Document):
    """Cells of a case that no lock was made for; `lasting`: since they are unsupported, which is locked."""

    case: str
    cells: list[Cell]
    reason: str
    lasting: bool


class Locks(Document):
    """What `lock` wrote, or found with --check."""

    format: Literal["reprokit-locks/v1"]
    locks: list[Lock]
    refused: list[NotLocked]


# --- reprokit-timings/v1: show --timings --json


class TimedPart(Document):
    """A step of a build, or a file that it fetched."""

    name: str
    seconds: float


class TimedImage(Document):
    """An image, its cells by their numbers, and the seconds of each kind that it took."""

    cells: list[int]
    seconds: dict[str, float]
    steps: list[TimedPart]
    downloads: list[TimedPart] = Field(description="files that this host did not have")


class TimedCell(Document):
    """A cell, and the seconds of each kind that it took, with all of the image that it shares."""

    number: int
    case: str
    cell: Cell
    variant: Variant
    seconds: dict[str, float]


class CriticalSpan(Document):
    """What the next of the critical path waited for. `cells` is empty where it was about the whole run."""

    kind: str
    name: str
    cells: list[int]
    trial: int | None
    start: float
    seconds: float


class TimedRun(Document):
    """A run from when it was begun or resumed. `sum`: seconds of each kind, over all that ran side by side."""

    began: str
    seconds: float
    sum: dict[str, float]
    images: list[TimedImage]
    cells: list[TimedCell]
    critical_path: list[CriticalSpan]


class RunTimings(Document):
    """Where the time of a run went: a part for each time that it was begun or resumed."""

    format: Literal["reprokit-timings/v1"]
    run_id: str
    parts: list[TimedRun]

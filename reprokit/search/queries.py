"""How a search asks for cells, and what it answers: a generator yields candidates and is sent their readings. Pure.

It has to be deterministic: given the same readings, costs and values from ``SearchSession.recall``, it asks for the
same candidates in the same order. A killed search is resumed by running it again over the cells that were decided.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

from reprokit.case.matrix import Cell
from reprokit.core.json_record import ABSENT, JsonDocument, JsonRecord
from reprokit.evidence.auditing import AuditFinding, ConditionTrials
from reprokit.evidence.model import Verdict
from reprokit.evidence.reading import Reading
from reprokit.evidence.records import SearchRecord
from reprokit.evidence.strength import Tally

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A cell to run."""

    cell: Cell
    file: CaseFile | None = None  # None for the case of the search, else another, such as a reduced one
    name: str = ""  # the label to show instead of the cell, where the cell alone does not identify it
    fresh: bool = False  # in an image of this search's own, built by all its steps


@dataclass(frozen=True, kw_only=True)
class Query:
    """A request for cells, which are all decided, in parallel where there is room."""

    candidates: tuple[Candidate, ...]
    soon: tuple[Candidate, ...] = ()  # likely next candidates; their images are built while the candidates run
    again: bool = False  # the candidates are decided, and each gets one more trial


Search = Generator[Query, tuple[Reading, ...], T]
"""A search: it is sent one reading for each candidate of its last query, in their order, and returns its result."""


def drive(search: Search[T], answer: Callable[[Query], tuple[Reading, ...]]) -> T:
    """Run a search to its end and return its result. ``answer`` gives the readings for each query."""
    readings: tuple[Reading, ...] | None = None
    while True:
        try:
            query = next(search) if readings is None else search.send(readings)
        except StopIteration as end:
            result: T = end.value
            return result
        readings = answer(query)


# What a search answers: printed with ``--json``, kept in the store, in result files.


@dataclass(frozen=True, kw_only=True)
class SearchAnswer(JsonRecord):
    """The result of a search."""

    words: tuple[str, ...]
    """for people, in lines"""
    exit_status: int = 0
    """of the command"""


@dataclass(frozen=True, kw_only=True)
class AxisDifference(JsonRecord):
    """An axis in which the two cells differ, with its value in either; null where a cell does not have the axis."""

    axis: str
    good: str | None
    bad: str | None


@dataclass(frozen=True, kw_only=True)
class NamedCell(JsonRecord):
    """A cell, its number in the search, and its verdict; null where it was not run."""

    cell: Mapping[str, str]
    number: int | None
    verdict: Verdict | None


@dataclass(frozen=True, kw_only=True)
class AxisBoundary(JsonRecord):
    """Where along the values of an axis the failure begins."""

    axis: str
    values: tuple[str, ...]
    good: str
    bad: str
    unjudged: tuple[str, ...]
    open: tuple[str, ...]
    """why it may be at another value"""
    confirmed: bool


@dataclass(frozen=True, kw_only=True)
class IsolateAnswer(SearchAnswer):
    """What `isolate` answered."""

    decided: bool
    confirmed: bool
    ends: Mapping[Literal["bad", "good"], NamedCell]
    differ: tuple[AxisDifference, ...]
    changes: tuple[tuple[AxisDifference, ...], ...]
    """each list is enough on its own; empty where nothing is decided"""
    rivals: tuple[tuple[tuple[AxisDifference, ...], ...], ...]
    closest: tuple[NamedCell, ...]
    boundary: tuple[AxisBoundary, ...]
    unknown: tuple[NamedCell, ...]
    mixes: int
    """how many mixes of the two cells there are"""
    matrix: int
    """how many cells the case has"""


@dataclass(frozen=True, kw_only=True)
class Commit(JsonRecord):
    """A commit of a source."""

    value: str
    """its name in cells: its tag where the case or the user names that, else a short hash"""
    hash: str
    author: str
    date: str
    subject: str
    tags: tuple[str, ...] = ()
    merge: bool = False

    @property
    def details(self) -> str:
        """Its other tags, its day and its subject."""
        return ", ".join([*(tag for tag in self.tags if tag != self.value), f"{self.date} {self.subject}".strip()])


@dataclass(frozen=True, kw_only=True)
class BisectAnswer(SearchAnswer):
    """What `bisect` answered."""

    axis: str
    of: str
    values: tuple[str, ...]
    left_out: Mapping[str, str]
    """value -> why"""
    notes: tuple[str, ...]
    readings: Mapping[str, Reading]
    change: Literal["broken", "fixed"] | None
    last: str
    since: str | None
    """null where it is not decided"""
    unclear: tuple[str, ...]
    untried: Mapping[str, str]
    unknown: tuple[str, ...]
    confirmed: bool
    trials: Mapping[str, Tally]
    next: str = field(default="", metadata=ABSENT)
    """the first value known to differ, where `since` is not decided"""
    against: tuple[str, ...] = field(default=(), metadata=ABSENT)
    """values whose reading, here or in the last run of the case, contradicts that this is the only change"""
    commit: Commit | None = field(default=None, metadata=ABSENT)
    """that `since` or `next` names, of a source"""
    merges: tuple[Commit, ...] = field(default=(), metadata=ABSENT)
    """those that it is inside of, the outermost first; the values are those of the innermost branch"""


@dataclass(frozen=True, kw_only=True)
class CellWithout(JsonRecord):
    """What a case without one of its parts came to; empty where that was not tried."""

    number: int | None = field(default=None, metadata=ABSENT)
    verdict: Verdict | None = field(default=None, metadata=ABSENT)
    reason: str | None = field(default=None, metadata=ABSENT)
    trials: int | None = field(default=None, metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class ReducedPart(JsonRecord):
    """A part of a case that `reduce` kept."""

    kind: str
    name: str
    matters: bool | None
    """null where that is not known"""
    without: CellWithout


@dataclass(frozen=True, kw_only=True)
class ReduceAnswer(SearchAnswer):
    """What `reduce` answered."""

    cell: Mapping[str, str]
    kept: tuple[ReducedPart, ...]
    did_not_matter: Mapping[str, tuple[str, ...]]
    """kind -> the parts that were removed"""
    stopped: bool
    """at a limit of cells or time"""
    cells_run: int
    seconds: float
    versions: Mapping[str, tuple[str, str]]
    """Python packages whose version is another without a pin: before, after"""
    file: str
    """the case that was written"""
    verdict: Verdict
    text: str


@dataclass(frozen=True, kw_only=True)
class AuditAnswer(SearchAnswer):
    """What `audit` answered of a case."""

    cell: Mapping[str, str]
    finding: AuditFinding
    trials: tuple[ConditionTrials, ...]


KnownAnswer = IsolateAnswer | BisectAnswer | ReduceAnswer | AuditAnswer | SearchAnswer
"""The last where nothing could be searched."""
SearchKind = Literal["isolate", "bisect", "reduce", "audit"]
_CLASSES: tuple[type[SearchAnswer], ...] = (IsolateAnswer, BisectAnswer, ReduceAnswer, AuditAnswer)
_ANSWERS: Mapping[str, type[SearchAnswer]] = dict(zip(get_args(SearchKind), _CLASSES, strict=True))


@dataclass(frozen=True, kw_only=True)
class SearchResult(SearchRecord):
    """That a run is a search, and what it answered."""

    answer: KnownAnswer | None


def answer_from_json(kind: str, data: Mapping[str, Any]) -> SearchAnswer:
    """The answer of a search of that kind, as the store has it; the words alone where it is of another version."""
    try:
        return _ANSWERS.get(kind, SearchAnswer).from_json(data)
    except TypeError:  # a key is missing
        return SearchAnswer.from_json(data)


@dataclass(frozen=True, kw_only=True)
class SearchedCase(JsonRecord):
    """The case of a search."""

    id: str
    path: str
    digest: str


@dataclass(frozen=True, kw_only=True)
class SearchedCell(JsonRecord):
    """A cell that a search ran."""

    number: int
    digest: str
    """of the text of the case that it ran, which `reduce` changes"""
    cell: Mapping[str, str]
    verdict: Verdict
    reading: Reading
    reason: str
    trials: Tally


@dataclass(frozen=True, kw_only=True)
class SearchDocument(JsonDocument):
    """A search with its cells."""

    FORMAT = "reprokit-search/v1"

    kind: SearchKind
    run_id: str
    case: SearchedCase
    arguments: Mapping[str, Any]
    cells: tuple[SearchedCell, ...]
    answer: KnownAnswer | None
    """null while it has none"""


@dataclass(frozen=True, kw_only=True)
class AuditedCase(JsonRecord):
    """What a case is; `answer` is null where that was interrupted."""

    run_id: str
    case: SearchedCase
    answer: AuditAnswer | None


@dataclass(frozen=True, kw_only=True)
class AuditDocument(JsonDocument):
    """An audit of several cases."""

    FORMAT = "reprokit-audit/v1"

    cases: tuple[AuditedCase, ...]
    left_out: Mapping[str, str]
    """path of a case that was not audited -> why"""

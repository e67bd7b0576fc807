"""The verdicts of each cell over time, out of the store: one series per case, cell, variant and kind of engine."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from reprokit.case.matrix import Cell, cell_key
from reprokit.core.json_record import member
from reprokit.engine import registry
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import Result, RunRecord
from reprokit.report.history.transitions import Counts, FailedOf, State, Transition, state_of, transitions
from reprokit.store.summaries import Mark, palette

if TYPE_CHECKING:
    from reprokit.store.database import Store


STATES = {"R": State.REPRODUCING, "F": State.REPRODUCING, "N": State.NOT_REPRODUCING, "O": State.OTHER_FAILURE}
"""What the letters of :attr:`Course.states` say of the bug. Inconclusive is ``-``, and not decided yet a blank."""
_LETTERS = {State.REPRODUCING: "R", State.NOT_REPRODUCING: "N", State.OTHER_FAILURE: "O"}
NONE = "\0"
"""In a text of codes: no result."""


class Code(NamedTuple):
    """What one code means."""

    verdict: Verdict | None
    mark: Mark


class Codes:
    """One code for each thing that a result can be, of all palettes of a store."""

    def __init__(self) -> None:
        self._codes: dict[Mark, str] = {}
        self._known: list[Code] = []
        self._tables: dict[str, dict[int, str]] = {}
        self._states: dict[int, str] = {}

    def of(self, letters: str, meanings: str) -> str:
        """The codes of the letters of a summary."""
        table = self._tables.get(meanings)
        if table is None:
            marks = palette(meanings)
            table = self._tables[meanings] = {
                ord(letter): self._code(mark) if mark else NONE for letter, mark in marks.items()
            }
        return letters.translate(table)

    def _code(self, mark: Mark) -> str:
        if mark not in self._codes:
            verdict = None if mark.verdict is None else member(Verdict, mark.verdict)
            code = chr(ord(NONE) + 1 + len(self._known))
            self._codes[mark] = code
            self._known.append(Code(verdict, mark))
            self._states[ord(code)] = _letter(verdict)
        return self._codes[mark]

    def __getitem__(self, code: str) -> Code:
        return self._known[ord(code) - ord(NONE) - 1]

    def states(self, codes: str) -> str:
        """The letters of :data:`STATES`."""
        return codes.translate(self._states)


def _letter(verdict: Verdict | None) -> str:
    if verdict is None or verdict is Verdict.FLAKY:
        return "F" if verdict else " "
    state = state_of(verdict)
    return _LETTERS[state] if state else "-"


class RunsInTime:
    """The runs of some results, the oldest first. Cells that have the same share one object."""

    def __init__(self, ids: Sequence[str]) -> None:
        self.ids = ids
        self._positions: dict[str, list[int]] = {}

    def positions(self, run_id: str) -> Sequence[int]:
        """Where a run stands; more than once where a search asked for a cell again."""
        if not self._positions:
            for at, one in enumerate(self.ids):
                self._positions.setdefault(one, []).append(at)
        return self._positions.get(run_id, ())


@dataclass(frozen=True, kw_only=True, eq=False)
class Course(Sequence[Result]):
    """The results of one cell, the oldest first: a letter each, since a store of years has hundreds of thousands."""

    case_key: str
    cell_key: str
    variant: str
    runs: RunsInTime
    numbers: int | Sequence[int]  # the cell's number in each run, or in all of them
    codes: str
    known: Codes
    states: str  # the letters of :data:`STATES`, in which what changed is searched for

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        if isinstance(at, slice):
            return tuple(self[one] for one in range(*at.indices(len(self))))
        verdict, mark = self.known[self.codes[at]]
        run_id, number = self.runs.ids[at], self.numbers if isinstance(self.numbers, int) else self.numbers[at]
        return Result(run_id, number, self.case_key, self.cell_key, self.variant, verdict, mark.as_expected)

    def __iter__(self) -> Iterator[Result]:
        return map(self.__getitem__, range(len(self)))

    def select(self, runs: Iterable[str]) -> Iterator[Result]:
        """The results of these runs."""
        return (self[at] for run_id in runs for at in self.runs.positions(run_id))

    @property
    def last_number(self) -> int:
        """The highest number that the cell had in a run."""
        return self.numbers if isinstance(self.numbers, int) else max(self.numbers)

    def tested(self, at: int) -> bool:
        """Whether a sequential test decided a result."""
        return self.known[self.codes[at]].mark.tested

    def counts(self, at: int) -> Counts | None:
        """In how many trials of a result the failure showed, and how many there were; None without trials."""
        mark = self.known[self.codes[at]].mark
        return Counts(mark.matched, mark.others, mark.trials) if mark.trials else None


@dataclass(frozen=True, kw_only=True)
class Series:
    """One cell over time, the oldest result first, as one kind of engine served it: kinds are never mixed."""

    case_key: str
    cell: Mapping[str, str]
    variant: str
    engine: str
    results: Course
    transitions: tuple[Transition, ...]
    rate: FailedOf | None = None  # in how many trials a failure that does not always show did, in the current state

    @property
    def standing(self) -> Transition | None:
        """What led to the state that the cell is in; None where no result was conclusive."""
        counted = [one for one in self.transitions if one.confirmed]
        return counted[-1] if counted else next(iter(self.transitions), None)

    @property
    def state(self) -> State | None:
        """The state that the cell is in; None where no result was conclusive. What is flaky reproduces."""
        if self.rate is not None:
            return State.REPRODUCING
        return self.standing.new if self.standing else None

    @property
    def candidate(self) -> Transition | None:
        """A change that was seen once, by the newest conclusive result; None where there is none."""
        last = self.transitions[-1] if self.transitions else None
        return last if last is not None and last.old is not None and not last.confirmed else None

    @property
    def blind(self) -> int | None:
        """The first result since which every one was inconclusive; None where the newest was not."""
        at = len(self.results.states.rstrip("-"))
        return at if at < len(self.results) else None

    @property
    def failing(self) -> tuple[Result, Result] | None:
        """The first and the last result in which the failure showed; None where there is none."""
        found = re.search("[RF](.*[RF])?", self.results.states)
        return (self.results[found.start()], self.results[found.end() - 1]) if found else None

    def newest(self, *, conclusive: bool = False) -> Result | None:
        """The newest result that was decided."""
        at = len(self.results.states.rstrip(" -" if conclusive else " "))
        return self.results[at - 1] if at else None


@dataclass(frozen=True, kw_only=True)
class CaseHistory:
    """What is recorded of some cases. ``runs``: by id, the oldest first, without their cells."""

    runs: Mapping[str, RunRecord]
    series: tuple[Series, ...]

    @cached_property
    def run_ids(self) -> Collection[str]:
        """The runs in which some cell has a result."""
        shared = {id(one.results.runs): one.results.runs for one in self.series}
        return set().union(*(runs.ids for runs in shared.values()))


def gather(
    store: Store, cases: Collection[str] = (), keep: Callable[[Mapping[str, str]], bool] = lambda cell: True
) -> CaseHistory:
    """The history of these cases, or of all; ``keep`` chooses cells. A few queries, however much there is.

    What a search asked of the case itself is a result as any; what it asked of a case that it rewrote is not one.
    """
    layouts, summaries = store.summaries(cases)
    runs = {run.id: run for run in reversed(store.runs(limit=None))}
    ranks = {run_id: at for at, run_id in enumerate(runs)}
    engines, known = _engines(runs), Codes()
    blocks: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for one in summaries:
        if one.run_id in runs:  # one may have begun since, or was removed
            block = blocks.setdefault((one.layout, engines[one.run_id]), [])
            block.append((ranks[one.run_id], known.of(one.letters, one.palette)))
    ids = tuple(runs)
    parts: dict[tuple[str, str, str, str], list[_Part]] = {}
    for (digest, engine), rows in blocks.items():
        rows.sort()
        times = [rank for rank, _ in rows]
        in_time = RunsInTime([ids[rank] for rank in times])
        columns = map("".join, zip(*(codes for _, codes in rows), strict=True))
        layout = layouts[digest]
        for (number, variant, cell), codes in zip(layout.cells, columns, strict=True):
            if keep(cell):
                part = _Part(number, cell, times, in_time, codes)
                parts.setdefault((layout.case_key, cell_key(cell), variant, engine), []).append(part)
    series = [found for key, some in sorted(parts.items()) if (found := _joined(key, some, ids, known)) is not None]
    # As whole runs number them: what was selected from the matrix has other numbers.
    series.sort(
        key=lambda one: (one.case_key, not registry.is_reference(one.engine), one.engine, one.results.last_number)
    )
    return CaseHistory(runs=runs, series=tuple(series))


class _Part(NamedTuple):
    """What a cell came to in all runs of a layout, which began in the order ``times``."""

    number: int
    cell: Cell
    times: Sequence[int]
    runs: RunsInTime
    codes: str


def _joined(key: tuple[str, str, str, str], parts: Sequence[_Part], ids: Sequence[str], known: Codes) -> Series | None:
    """One series of a cell's parts; None where none of them is a result."""
    number: int | Sequence[int]
    number, cell, _, runs, codes = parts[0]
    if len(parts) > 1 or NONE in codes:
        found = [
            (rank, part.number, at, code)
            for at, part in enumerate(parts)
            for rank, code in zip(part.times, part.codes, strict=True)
            if code != NONE
        ]
        if not found:
            return None
        found.sort()
        cell = parts[found[-1][2]].cell
        runs = RunsInTime([ids[rank] for rank, *_ in found])
        number = [each for _, each, _, _ in found]
        codes = "".join(code for *_, code in found)
    case, key_of_cell, variant, engine = key
    results = Course(
        case_key=case,
        cell_key=key_of_cell,
        variant=variant,
        runs=runs,
        numbers=number,
        codes=codes,
        known=known,
        states=known.states(codes),
    )
    found_all = tuple(_transitions(results))
    series = Series(case_key=case, cell=cell, variant=variant, engine=engine, results=results, transitions=found_all)
    return replace(series, rate=_rate(series))


def _engines(runs: Mapping[str, RunRecord]) -> dict[str, str]:
    """What served each run. One that did not get as far as asking an engine is taken for one of the engine before."""
    engines, usual = {}, registry.entries()[0].kind
    for run_id, run in runs.items():
        engines[run_id] = run.engine or usual
        if run.engine and registry.capabilities(run.engine).images:
            usual = run.engine
    return engines


_ALIKE = re.compile("[R -]*|[N -]*|[O -]*")


def _transitions(results: Course) -> Sequence[Transition]:
    """The transitions of a cell. Of one whose results are all alike, as most are, only the first two matter."""
    states = results.states
    if not _ALIKE.fullmatch(states):
        return transitions([STATES.get(one) for one in states], results.tested, results.counts)
    chosen = [found.start() for found in itertools.islice(re.finditer("[RNO]", states), 2)]
    found = transitions([STATES[states[at]] for at in chosen], lambda at: results.tested(chosen[at]))
    return [
        replace(
            one,
            after=chosen[0],
            latest=chosen[one.latest],
            settled=None if one.settled is None else chosen[one.settled],
        )
        for one in found
    ]


def _rate(one: Series) -> FailedOf | None:
    """How often the failure showed since the last change that counts; None where it always or never did."""
    if one.standing is None:
        return None
    end = one.candidate.after if one.candidate else len(one.results)
    if _ALIKE.fullmatch(one.results.states, one.standing.after, end):
        return None
    since = [one.results.counts(at) for at in range(one.standing.after, end) if one.results.states[at] in STATES]
    matched, others, total = (sum(column) for column in zip((0, 0, 0), *filter(None, since), strict=True))
    total -= others
    return (matched, total) if 0 < matched < total else None

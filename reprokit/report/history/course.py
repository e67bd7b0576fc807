"""The results of one cell over time as a text: a letter each, in which what changed is searched for. Pure.

A store of years has hundreds of thousands of results, nearly all of them like the one before. A result becomes an
object where it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from reprokit.core.json_record import member
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import Result
from reprokit.report.history.transitions import FailedOf, State, state_of
from reprokit.store.summaries import Mark, palette

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
    if verdict is None:
        return " "
    if verdict is Verdict.FLAKY:
        return "F"
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
    """The results of one cell, the oldest first. ``numbers``: the cell's number in each run, or in all of them."""

    case_id: str
    cell_key: str
    variant: str
    runs: RunsInTime
    numbers: int | Sequence[int]
    codes: str
    known: Codes
    states: str

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, at):  # type: ignore[no-untyped-def]
        if isinstance(at, slice):
            return tuple(self[one] for one in range(*at.indices(len(self))))
        verdict, mark = self.known[self.codes[at]]
        run_id, number = self.runs.ids[at], self.numbers if isinstance(self.numbers, int) else self.numbers[at]
        return Result(run_id, number, self.case_id, self.cell_key, self.variant, verdict, mark.as_expected)

    def __iter__(self) -> Iterator[Result]:
        return map(self.__getitem__, range(len(self)))

    def of(self, runs: Iterable[str]) -> Iterator[Result]:
        """The results of these runs."""
        return (self[at] for run_id in runs for at in self.runs.positions(run_id))

    @property
    def last_number(self) -> int:
        """The highest number that the cell had in a run."""
        return self.numbers if isinstance(self.numbers, int) else max(self.numbers)

    def tested(self, at: int) -> bool:
        """Whether a sequential test decided a result."""
        return self.known[self.codes[at]].mark.tested

    def tally(self, at: int) -> FailedOf | None:
        """In how many trials of a result the failure showed, and how many there were; None without trials."""
        mark = self.known[self.codes[at]].mark
        return (mark.matched, mark.trials) if mark.trials else None

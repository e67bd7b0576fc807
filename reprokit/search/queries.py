"""How a search asks for cells: a generator yields candidates and is sent their readings. Pure.

It has to be deterministic: given the same readings, costs and values from ``SearchSession.recall``, it asks for the
same candidates in the same order. A killed search is resumed by running it again over the cells that were decided.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from reprokit.case.matrix import Cell
from reprokit.evidence.reading import Reading

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A cell to run."""

    cell: Cell
    file: CaseFile | None = None  # None for the case of the search, else another, such as a reduced one
    name: str = ""  # the label to show instead of the cell, where the cell alone does not identify it


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

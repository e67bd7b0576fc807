"""How a search asks for cells: a generator yields candidates and is sent their readings. Pure.

A search never sees an engine, so that containers (:mod:`reprokit.search.search_session`) or, in tests and benchmarks, a
function can drive the same code. It has to be deterministic: given the same readings, the same costs and the same
values from ``SearchSession.recall``, it asks for the same candidates in the same order. A search that was killed is
resumed by running it again over the cells that were decided.
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
    """A cell to run. ``file``: None for the case of the search, else another, such as a reduced one.

    ``name``: the label to show instead of the cell, where the cell alone does not identify it.
    """

    cell: Cell
    file: CaseFile | None = None
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Query:
    """A request for cells. ``candidates``: all of them are decided, in parallel where there is room.

    ``soon``: likely next candidates; their images are built while the candidates run. ``again``: the candidates are
    decided, and each gets one more trial, with which its reading may be another.
    """

    candidates: tuple[Candidate, ...]
    soon: tuple[Candidate, ...] = ()
    again: bool = False


Search = Generator[Query, tuple[Reading, ...], T]
"""A search: it is sent one reading for each candidate of its last Ask, in their order, and returns its result."""


def drive(search: Search[T], answer: Callable[[Query], tuple[Reading, ...]]) -> T:
    """Run a search to its end and return its result. ``answer`` gives the readings for each Ask.

    Raises what the search or ``answer`` raises.
    """
    readings: tuple[Reading, ...] | None = None
    while True:
        try:
            ask = next(search) if readings is None else search.send(readings)
        except StopIteration as end:
            result: T = end.value
            return result
        readings = answer(ask)

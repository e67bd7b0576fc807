"""How a search asks for cells: a generator yields what it wants decided and is sent the readings. Pure.

A search never sees an engine, so that the same code is driven by containers (:mod:`reprokit.search.session`) and, in
tests and benchmarks, by a function. It has to be deterministic: given the same readings (and the same costs, and what
else it got from outside through ``SearchSession.recall``) it asks for the same candidates in the same order. A search
that was killed is resumed by running it again over what was decided.
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
    """A cell that is asked for. ``file``: None for the case of the search, else another, such as a reduced one.

    ``name``: what people see in its place, where the cell alone does not tell.
    """

    cell: Cell
    file: CaseFile | None = None
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """``candidates``: all of them are to be decided, side by side where there is room.

    ``soon``: what is likely to be asked for next; its images are built while the candidates run.
    """

    candidates: tuple[Candidate, ...]
    soon: tuple[Candidate, ...] = ()


Search = Generator[Ask, tuple[Reading, ...], T]
"""A search: is sent one reading for each candidate of its last Ask, in their order, and returns its result."""


def drive(search: Search[T], answer: Callable[[Ask], tuple[Reading, ...]]) -> T:
    """Run a search to its end, with ``answer`` deciding what it asks for. Raises what either of them raises."""
    readings: tuple[Reading, ...] | None = None
    while True:
        try:
            ask = next(search) if readings is None else search.send(readings)
        except StopIteration as end:
            result: T = end.value
            return result
        readings = answer(ask)

"""What travels between the driver of a run and the nodes that serve it: plain values, which both have the types of."""

from __future__ import annotations

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reprokit.case.files import CaseFile
from reprokit.case.model import Case
from reprokit.evidence.records import CellRecord
from reprokit.evidence.spans import Timings
from reprokit.run.request import Request
from reprokit.run.task import Task

FleetEvent = tuple[Any, ...]
"""The key of an order, a method of :class:`reprokit.run.listener.Listener` (or "began", with a node's id), and its
arguments."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """One cell to be decided; one trial more where it has a ``record``. ``key``: of this attempt.

    ``bases``: the digest that each base image of a registry had when the run's store met it first. ``homes``: nodes
    that have the image.
    """

    key: int
    run_id: str
    request: Request
    task: Task
    record: CellRecord | None = None
    bases: Mapping[str, str] = field(default_factory=dict)
    homes: tuple[str, ...] = ()


CommonParts = tuple[CaseFile, Case, Case | None, Request]
"""What the orders of a case have in common: for a case of many cells, most of their bytes."""


def common_parts(order: Order) -> CommonParts:
    """What an order has in common with others."""
    file = order.task.file
    return file, file.case, file.fixed, order.request


def packed(order: Order) -> bytes:
    """The order without its common parts."""
    stream = io.BytesIO()
    pickler = _Pickler(stream)
    pickler.numbers = {id(part): number for number, part in enumerate(common_parts(order)) if part is not None}
    pickler.dump(order)
    return stream.getvalue()


def unpacked(content: bytes, common: CommonParts) -> Order:
    """The order whose common parts are these. ``content``: of :func:`packed`."""
    unpickler = _Unpickler(io.BytesIO(content))
    unpickler.common = common
    order = unpickler.load()
    assert isinstance(order, Order)
    return order


class _Pickler(pickle.Pickler):
    numbers: Mapping[int, int]

    def persistent_id(self, value: Any) -> int | None:
        return self.numbers.get(id(value))


class _Unpickler(pickle.Unpickler):
    common: CommonParts

    def persistent_load(self, number: int) -> Any:
        return self.common[number]


@dataclass(frozen=True, kw_only=True)
class KeptFile:
    """A file of a cell's folder in the store, by its path below that."""

    path: str
    mode: int
    content: bytes


@dataclass(frozen=True, kw_only=True)
class ServedImage:
    """What became of an order. ``record``: None where a trial more was not made, as a note among ``events`` says.

    ``store``: the folder on the node that stands in paths for the store; ``files``: what was written there.
    ``timings``: where the time went.
    """

    record: CellRecord | None
    node: str
    store: str = ""
    files: tuple[KeptFile, ...] = ()
    events: tuple[FleetEvent, ...] = ()
    timings: Timings | None = None


@dataclass(frozen=True, kw_only=True)
class Lost:
    """An order of which no result comes. ``why``: in words; ``cancelled``: before it began, on request."""

    why: str
    cancelled: bool = False

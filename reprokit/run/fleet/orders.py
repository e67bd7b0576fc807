"""What travels between the driver of a run and the nodes that serve it: plain values, which both have the types of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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

    ``bases``: the digest that each base image of a registry had when the run's store met it first.
    """

    key: int
    run_id: str
    request: Request
    task: Task
    record: CellRecord | None = None
    bases: Mapping[str, str] = field(default_factory=dict)


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

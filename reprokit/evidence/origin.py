"""Where records come from: the host, the process that writes a run, and the job of a workflow that it was."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reprokit.core.json_record import ABSENT, JsonRecord
from reprokit.core.ownership import HOST, IMPORTED, MACHINE, PID, OwnerState, here, machine, state_of_owner


@dataclass(frozen=True, kw_only=True)
class HostRecord(JsonRecord):
    """``host`` of the contract. ``engine`` describes the engine, None when no cell needed one; ``gpus``: their names.

    ``engine_kind``: as ``--engine`` names it; None where no cell needed one. ``nodes``: the names of the
    hosts of a cluster that the run had, whether they served a cell or not.
    """

    engine: str | None = None
    engine_kind: str | None = None
    kernel: str | None = None
    driver: str | None = None
    gpus: tuple[str, ...] = ()
    nodes: tuple[str, ...] = field(default=(), metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class OwnerRecord:
    """The process that writes a run, as the ownership ``labels`` of :mod:`reprokit.core.ownership`; none: merged."""

    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def machine(self) -> str:
        """The name of the machine that the process runs on; '' when unknown."""
        return self.labels.get(HOST, "").partition("/")[0]

    def __str__(self) -> str:
        return f"process {self.labels.get(PID, '?')} on the machine {self.machine or '?'}"

    @property
    def state(self) -> OwnerState:
        """Whether the process still runs, as far as this host knows."""
        return state_of_owner(self.labels)

    @property
    def is_this_process(self) -> bool:
        """Whether the process is the one that asks."""
        return (self.labels.get(HOST), self.labels.get(PID)) == (here(), str(os.getpid()))

    @property
    def is_here(self) -> bool:
        """Whether the process certainly ran on this machine."""
        known = self.labels.get(MACHINE)
        return self.labels.get(HOST) == here() or (known == machine() and bool(known))

    @property
    def imported(self) -> bool:
        """Whether the run was brought here from another store, whose word on what was approved counts for nothing."""
        return IMPORTED in self.labels

    def as_imported(self) -> OwnerRecord:
        """The same, of a run that is brought here."""
        return OwnerRecord(labels={**self.labels, IMPORTED: "1"}) if self.labels else self

    def same_as(self, other: OwnerRecord) -> bool:
        """Whether both name one process, wherever their runs were brought since."""
        return {**self.labels, IMPORTED: ""} == {**other.labels, IMPORTED: ""}

    @property
    def gone(self) -> bool:
        """Whether the process certainly runs no more."""
        return self.state is OwnerState.EXITED

    def to_json(self) -> dict[str, Any]:
        """The labels."""
        return dict(self.labels)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> OwnerRecord:
        """The reverse of ``to_json``."""
        return cls(labels=data)


@dataclass(frozen=True, kw_only=True)
class LossRecord(JsonRecord):
    """An attempt at a cell that came to nothing, and why: the ``node``, '' = not known, and the ``id`` of the job."""

    node: str
    id: str
    why: str

    def __str__(self) -> str:
        return self.why + (f", on {self.node}" if self.node else "")


@dataclass(frozen=True, kw_only=True)
class NodeRecord(JsonRecord):
    """The node that served a cell for another machine: its ``name``, the ``id`` of the job ('' = none did), and what
    was ``lost`` before.
    """

    name: str = ""
    id: str = ""
    lost: tuple[LossRecord, ...] = field(default=(), metadata=ABSENT)

    def __str__(self) -> str:
        where = f"{self.name}, by job {self.id}" if self.id else "none"
        return where + "".join(f"; attempt {number} was lost: {one}" for number, one in enumerate(self.lost, 1))


@dataclass(frozen=True, kw_only=True)
class WorkflowRecord(JsonRecord):
    """The run of a workflow of GitHub Actions; ``attempt`` where one job of it is meant."""

    run: str = ""
    attempt: str = field(default="", metadata=ABSENT)
    repository: str = ""


@dataclass(frozen=True, kw_only=True)
class JobRecord(JsonRecord):
    """The job that recorded a cell of a merged run: its own ``run``, when it started, and by which reprokit and host.

    ``finished_at`` and ``machine`` (there to be taken out of what is published) are kept once, in the run's request.
    """

    run: str
    attempt: str = "1"
    started_at: str = ""
    finished_at: str = field(default="", metadata=ABSENT)
    version: str = ""
    host: HostRecord = field(default_factory=HostRecord)
    machine: str = field(default="", metadata=ABSENT)

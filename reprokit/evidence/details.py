"""What a cell's record says beside its verdict: what its image was made of, how its trials failed, who judged it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from reprokit.case.trust import Trust
from reprokit.core.json_record import ABSENT, JsonRecord
from reprokit.evidence.differences import ComparisonRecord
from reprokit.evidence.model import Fingerprint, Frame, Outcome, Verdict
from reprokit.evidence.origin import JobRecord, NodeRecord
from reprokit.evidence.ratio import RatioRecord
from reprokit.evidence.sequential import TrialFigures


@dataclass(frozen=True, kw_only=True)
class FailureRecord(Fingerprint, JsonRecord):
    """How a trial failed. ``known``: the id of the case's known failure that it is.

    ``trials``: the numbers of all trials that failed so, where a cell lists several ways of failing. ``stack``: where
    it crashed or hung, innermost frame first, native frames and Python's, where that was taken.
    """

    known: str = field(default="", metadata=ABSENT)
    trials: tuple[int, ...] = field(default=(), metadata=ABSENT)
    stack: tuple[Frame, ...] = field(default=(), metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class BaseRecord(JsonRecord):
    """The base image: as :class:`reprokit.environment.model.Base`, with its id and digest in the engine."""

    name: str = ""
    source: str = ""
    reference: str = ""
    id: str = ""
    digest: str = ""


@dataclass(frozen=True, kw_only=True)
class StartImageRecord(JsonRecord):
    """An image that the Dockerfile starts from."""

    id: str = ""
    digest: str = ""


@dataclass(frozen=True, kw_only=True)
class SourceRecord(JsonRecord):
    """A source tree: its full commit ('' for a folder without one), and a digest of content and patch."""

    commit: str = ""
    digest: str = ""


@dataclass(frozen=True, kw_only=True)
class LockRecord(JsonRecord):
    """The entry of a lock that the image was built from: where it is, its date, and the image that it names."""

    path: str
    date: str
    image: str


@dataclass(frozen=True, kw_only=True)
class FailedBuildRecord(JsonRecord):
    """The step of a build that failed, and its last lines.

    ``cause``: why, in a sentence; ``put``: what to put into the case, where the lines prove it.
    """

    step: str = ""
    tail: tuple[str, ...] = ()
    cause: str = field(default="", metadata=ABSENT)
    put: str = field(default="", metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class LimitsRecord(JsonRecord):
    """What a trial and the build of its image got at most: bytes, seconds, cores; None = the engine's own default."""

    timeout: float
    memory: int | None = None
    cpus: float | None = None
    pids: int | None = None
    shm_size: int | None = None
    ulimits: tuple[str, ...] = field(default=(), metadata=ABSENT)
    ipc: str = "private"
    gpu_capabilities: tuple[str, ...] = field(default=(), metadata=ABSENT)
    disk: int | None = None
    build_time: float | None = None


@dataclass(frozen=True, kw_only=True)
class FormerTrial(JsonRecord):
    """What a trial was judged to be before it was judged again."""

    number: int
    outcome: Outcome
    reason: str


@dataclass(frozen=True, kw_only=True)
class FormerJudgement(JsonRecord):
    """What a record said; ``by``: the digest of the case whose signature was asked."""

    verdict: Verdict | None
    reason: str
    rules: str
    by: str
    trials: tuple[FormerTrial, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RejudgementRecord(JsonRecord):
    """That a record was judged again: when, by the signature of which case, and what it said before."""

    at: str
    by: str
    before: FormerJudgement


@dataclass(frozen=True, kw_only=True)
class CellDetails(JsonRecord):
    """``details`` of the contract.

    Of an image that was built: ``base``, ``images`` (what its Dockerfile starts from, by reference), ``served_by``
    (which source serves what, in words), ``lock``, ``notes`` for the user, ``sources`` and the ``engine``.
    ``trials``: their figures. ``build``: where it failed. ``failure``, ``failures``, ``known``: see
    :func:`reprokit.evidence.judging.add_failures`. ``repeats``: how many of the trials were added to carry a
    statement about several cells. ``tried``: what a search tried, in words. ``rejudged``: the
    oldest first. ``job``: where the run was merged. ``trust``: in the case, when the cell ran. ``limits``: of
    trials and build; ``unenforced``: which limits the engine does not hold on that host. ``comparison``: of the numbers
    that its trials wrote. ``ratio``: how many times as much as in another cell they needed.
    ``node``: of the cluster that it ran on.
    """

    base: BaseRecord | None = field(default=None, metadata=ABSENT)
    images: Mapping[str, StartImageRecord] = field(default_factory=dict)
    served_by: Mapping[str, str] = field(default_factory=dict)
    lock: LockRecord | None = field(default=None, metadata=ABSENT)
    notes: tuple[str, ...] = ()
    sources: Mapping[str, SourceRecord] = field(default_factory=dict)
    engine: str = field(default="", metadata=ABSENT)
    engine_kind: str = field(default="", metadata=ABSENT)
    trials: TrialFigures | None = field(default=None, metadata=ABSENT)
    build: FailedBuildRecord | None = field(default=None, metadata=ABSENT)
    failure: FailureRecord | None = field(default=None, metadata=ABSENT)
    failures: tuple[FailureRecord, ...] = field(default=(), metadata=ABSENT)
    known: str = field(default="", metadata=ABSENT)
    repeats: int = field(default=0, metadata=ABSENT)
    tried: str = field(default="", metadata=ABSENT)
    rejudged: tuple[RejudgementRecord, ...] = field(default=(), metadata=ABSENT)
    job: JobRecord | None = field(default=None, metadata=ABSENT)
    trust: Trust = field(default=Trust.OWN, metadata=ABSENT)
    limits: LimitsRecord | None = field(default=None, metadata=ABSENT)
    unenforced: tuple[str, ...] = field(default=(), metadata=ABSENT)
    comparison: ComparisonRecord | None = field(default=None, metadata=ABSENT)
    ratio: RatioRecord | None = field(default=None, metadata=ABSENT)
    node: NodeRecord | None = field(default=None, metadata=ABSENT)

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object; without a base, it lacks what is empty of an image."""
        values = super().to_json()
        empty = () if self.base else ("images", "served_by", "notes", "sources")
        return {name: value for name, value in values.items() if value or name not in empty}

    @property
    def ways(self) -> tuple[FailureRecord, ...]:
        """Each way in which the trials failed, once."""
        return self.failures or ((self.failure,) if self.failure else ())

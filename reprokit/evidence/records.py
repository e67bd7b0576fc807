"""What the store keeps, as plain records. No database in sight: reports and tests use these."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from reprokit.case.facts import canonical
from reprokit.case.trust import Trust, case_key
from reprokit.core.errors import UsageError
from reprokit.core.json_record import ABSENT, JsonRecord
from reprokit.environment import versions
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails, FailureRecord
from reprokit.evidence.model import Ending, Frame, Outcome, Verdict
from reprokit.evidence.origin import HostRecord, JobRecord, OwnerRecord, WorkflowRecord
from reprokit.evidence.usage import Usage
from reprokit.evidence.verdict import fits

ANSWER = "answer"
"""The key under which a search's findings hold its result."""


@dataclass(frozen=True, kw_only=True)
class ExceptionRecord(JsonRecord):
    """The exception that was judged, and the lines of the log file (from 1) that its traceback takes."""

    type: str
    message: str
    frames: tuple[Frame, ...] = ()
    line: int = 0
    end_line: int = 0

    @property
    def lines(self) -> range:
        """The lines of its traceback."""
        return range(self.line, self.end_line + 1)


@dataclass(frozen=True, kw_only=True)
class TrialRecord(JsonRecord):
    """One trial: outcome, ending, the exception that was judged, and its log (a path below the store's folder).

    ``lines``: those of the log file that the signature matched. ``failure``: None where it did not fail by itself.
    ``usage``: None where it was not measured.
    """

    number: int
    outcome: Outcome
    exit_code: int | None
    seconds: float
    oom: bool
    timed_out: bool
    reason: str
    log: str
    exception: ExceptionRecord | None = None
    lines: tuple[int, ...] = ()
    failure: FailureRecord | None = None
    usage: Usage | None = None

    @property
    def ending(self) -> Ending:
        """How its container ended."""
        return Ending(
            exit_code=self.exit_code, oom=self.oom, timed_out=self.timed_out, seconds=self.seconds, usage=self.usage
        )

    @property
    def outputs(self) -> str:
        """Where what it wrote to be compared is kept, if it was to be: an archive below the store's folder."""
        return f"{self.log.removesuffix('.log')}.outputs.tar"


@dataclass(frozen=True, kw_only=True)
class ImageRecord(JsonRecord):
    """``image`` of the contract. ``built``: for this run, in ``seconds``; ``size`` in bytes, 0 = unknown.

    ``fetched``: for this run, from the registry of the site. ``digest``: in that registry, where it is known.
    """

    tag: str
    id: str
    built: bool = False
    seconds: float = 0.0
    size: int = 0
    fetched: bool = field(default=False, metadata=ABSENT)
    digest: str = field(default="", metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class CellRecord(JsonRecord):
    """One cell of one run. ``verdict`` is None until decided; ``environment``: as measured in the image.

    ``reused_from``: ``RUN:CELL`` of an earlier run from which all of it was taken over; None where it ran.
    """

    number: int
    case_id: str
    case_path: str
    case_digest: str
    cell: Mapping[str, str]
    variant: str = "case"
    verdict: Verdict | None = None
    expected: Verdict | None = None
    reason: str = ""
    rules: str = ""
    seconds: float | None = None
    image: ImageRecord | None = None
    environment: Measured | None = None
    dockerfile: str = ""
    repeat: str = ""
    details: CellDetails = field(default_factory=CellDetails)
    trials: tuple[TrialRecord, ...] = ()
    reused_from: str | None = None

    @property
    def case_key(self) -> str:
        """What names its case in a store: see :func:`reprokit.case.trust.case_key`."""
        return case_key(self.case_id, self.case_path, self.case_digest, self.details.trust)

    @property
    def marked_reason(self) -> str:
        """The reason, behind where the record was taken over from, if it was."""
        return mark_reused(self.reason, self.reused_from)

    @property
    def as_expected(self) -> bool | None:
        """Whether a conclusive verdict is what the case expects; None when inconclusive or nothing is expected.

        A different failure is expected only where it is a known one (``expect.known``), and that it must be.
        """
        if self.verdict is None or not self.verdict.conclusive or self.expected is None:
            return None
        if self.verdict is Verdict.DIFFERENT_FAILURE and not self.details.known:
            return False
        return fits(self.verdict, self.expected, self.details.trials)


@dataclass(frozen=True, kw_only=True)
class SearchRecord(JsonRecord):
    """That a run is a search: its ``kind`` with its ``arguments`` (JSON), the command ``line``, the case's digest.

    ``trust``: in the case.
    """

    kind: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    line: tuple[str, ...] = ()
    digest: str = ""
    trust: Trust = field(default=Trust.OWN, metadata=ABSENT)


@dataclass(frozen=True, kw_only=True)
class RequestRecord(JsonRecord):
    """What a run was asked, enough to resume it.

    ``asked``: the JSON object of :class:`reprokit.run.request.Request`. ``search``: where the run is one. ``workflow``:
    whose job it was, or was merged from; ``merged``: the jobs that it was merged from.
    """

    asked: Mapping[str, Any] = field(default_factory=dict)
    search: SearchRecord | None = field(default=None, metadata=ABSENT)
    workflow: WorkflowRecord | None = field(default=None, metadata=ABSENT)
    merged: tuple[JobRecord, ...] | None = field(default=None, metadata=ABSENT)

    @property
    def cases(self) -> tuple[str, ...]:
        """The cases as they were named, files by absolute paths."""
        return tuple(self.asked.get("cases", ()))

    def to_json(self) -> dict[str, Any]:
        """One JSON object: the keys of ``asked`` and the others' side by side."""
        values = super().to_json()
        return {**values.pop("asked"), **values}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> RequestRecord:
        """The reverse of ``to_json``."""
        own = {name: data[name] for name in ("search", "workflow", "merged") if name in data}
        asked = {name: value for name, value in data.items() if name not in own}
        return super().from_json({**own, "asked": asked})


@dataclass(frozen=True, kw_only=True)
class RunRecord(JsonRecord):
    """One invocation of ``reprokit run``. Times are RFC 3339 in UTC."""

    id: str
    started_at: str
    version: str
    request: RequestRecord = field(default_factory=RequestRecord)
    host: HostRecord = field(default_factory=HostRecord)
    owner: OwnerRecord = field(default_factory=OwnerRecord)
    finished_at: str | None = None
    exit_status: int | None = None
    cells: tuple[CellRecord, ...] = ()

    def of_case(self, key: str) -> RunRecord:
        """The run with the cells of the case of that ``case_key`` alone."""
        return replace(self, cells=tuple(cell for cell in self.cells if cell.case_key == key))

    def cell(self, number: int) -> CellRecord:
        """The cell of that number. Raises UsageError."""
        found = next((cell for cell in self.cells if cell.number == number), None)
        if found is None:
            raise UsageError(f"run {self.id} has no cell {number}; it has 1 to {len(self.cells)}")
        return found

    @property
    def searches(self) -> bool:
        """Whether it is a search over cells, such as a bisection, rather than a run of cases."""
        return self.request.search is not None

    @property
    def engine(self) -> str:
        """What served it: ``docker``, ``podman``, ``venv``; '' when no cell came so far and none was asked for."""
        asked = str(self.request.asked.get("engine", ""))
        return self.host.engine_kind or ("" if asked == "auto" else asked)


CellPlace = tuple[str, int]
"""A cell in a store: the id of its run, and its number there."""


class Result(NamedTuple):
    """A recorded cell without what it was made of: enough to follow verdicts over time. ``place`` finds the whole."""

    run_id: str
    number: int
    case_key: str
    cell_key: str
    variant: str
    verdict: Verdict | None
    as_expected: bool | None

    @property
    def place(self) -> CellPlace:
        """Where the whole record is."""
        return self.run_id, self.number


def mark_reused(reason: str, reused_from: str | None) -> str:
    """The reason of a record, behind where it was taken over from (``RUN:CELL``), if it was."""
    return f"reused from {reused_from}: {reason}" if reused_from else reason


class CellOutline(NamedTuple):
    """What a cell came to, without what it was made of and its trials."""

    case_key: str
    verdict: Verdict | None
    expected: Verdict | None
    as_expected: bool | None
    reused_from: str | None


FACTS = (*AXIS_NAMES[:1], "glibc", *AXIS_NAMES[1:])
"""What is measured of an environment beside its packages."""
MOST_SAME = 4
"""Measured differences that are named of more."""


def same_changes(good: Sequence[CellRecord], bad: Sequence[CellRecord], axes: Collection[str]) -> str:
    """What else changes between just the cells that pass and those that fail, as a sentence; '' for nothing.

    ``axes``: those that a statement about these cells names. What follows from their values is left out: the release
    that an axis pins, and the system's libraries.
    """
    cells = [*good, *bad]
    if not (good and bad) or not all(one.environment for one in cells):
        return ""
    facts = [_facts_of(one, libraries="os" not in axes) for one in cells]
    asked = [[versions.parts(one.cell.get(axis, "")) for one in cells] for axis in axes]
    named = {canonical(axis) for axis in axes}
    found = []
    for name in dict.fromkeys(name for some in facts for name in some):
        have = [some.get(name, "none") for some in facts]
        before, after = dict.fromkeys(have[: len(good)]), dict.fromkeys(have[len(good) :])
        follows = any(all(versions.parts(a)[: len(b)] == b for a, b in zip(have, one, strict=True)) for one in asked)
        if all(have) and canonical(name) not in named and not follows and not before.keys() & after.keys():
            found.append(f"{name} {', '.join(before)}/{', '.join(after)}")
    more = f" and {len(found) - MOST_SAME} more" if len(found) > MOST_SAME else ""
    change = "changes" if len(found) == 1 else "change"
    return f"{'; '.join(found[:MOST_SAME])}{more} {change} at the same place" if found else ""


def _facts_of(record: CellRecord, *, libraries: bool) -> dict[str, str]:
    """Name -> version of what was measured, and who provides CUDA, '' where there is none."""
    measured = record.environment or Measured()
    system = {**measured.packages.get("rpm", {}), **measured.packages.get("apt", {})}
    return {
        "the provider of CUDA": record.details.served_by.get("cuda", "").partition(" ")[0],
        **{name: version for name in FACTS if (version := measured.versions.get(name))},
        **measured.packages.get("pip", {}),
        **{name: version for name, version in system.items() if libraries and name.startswith("lib")},
    }


def exit_status(cells: tuple[CellRecord, ...] | list[CellRecord]) -> int:
    """The contract's exit status for decided cells: 0, 1 (a departure) or 3 (something inconclusive)."""
    if any(cell.as_expected is False for cell in cells):
        return 1
    if any(cell.verdict is None or not cell.verdict.conclusive for cell in cells):
        return 3
    return 0

"""What the store keeps, as plain records. No database in sight: reports and tests use these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.verdict import fits

ANSWER = "answer"
"""The key under which a search's findings hold its result."""


@dataclass(frozen=True, kw_only=True)
class TrialRecord:
    """One trial: outcome, ending, the exception that was judged, and its log (a path below the store's folder).

    ``failure`` (its fingerprint, with ``known`` where it is a known one) is kept in the cell's details: a trial that
    was read from a store has none.
    """

    number: int
    outcome: Outcome
    exit_code: int | None
    seconds: float
    oom: bool
    timed_out: bool
    reason: str
    log: str
    exception: Mapping[str, Any] | None = None
    lines: tuple[int, ...] = ()
    failure: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class CellRecord:
    """One cell of one run; ``verdict`` is None until decided, ``image`` and ``environment`` are as in the contract."""

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
    image: Mapping[str, Any] | None = None
    environment: Mapping[str, Any] | None = None
    dockerfile: str = ""
    repeat: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    trials: tuple[TrialRecord, ...] = ()

    @property
    def as_expected(self) -> bool | None:
        """Whether a conclusive verdict is what the case expects; None when inconclusive or nothing is expected.

        A different failure is expected only where it is a known one (``expect.known``), and that it must be.
        """
        if self.verdict is None or not self.verdict.conclusive or self.expected is None:
            return None
        if self.verdict is Verdict.DIFFERENT_FAILURE and "known" not in self.details:
            return False
        return fits(self.verdict, self.expected, self.details.get("trials"))


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One invocation of ``reprokit run``. Times are RFC 3339 in UTC; ``request`` is enough to resume it."""

    id: str
    started_at: str
    version: str
    request: Mapping[str, Any]
    host: Mapping[str, Any]
    owner: Mapping[str, Any]
    finished_at: str | None = None
    exit_status: int | None = None
    cells: tuple[CellRecord, ...] = ()

    def of_case(self, case_id: str) -> RunRecord:
        """The run with the cells of that case alone."""
        return replace(self, cells=tuple(cell for cell in self.cells if cell.case_id == case_id))

    @property
    def searches(self) -> bool:
        """Whether it is a search over cells, such as a bisection, rather than a run of cases."""
        return "search" in self.request

    @property
    def engine(self) -> str:
        """The kind of the engine that served it; '' when no cell came so far and none was asked for."""
        asked = str(self.request.get("engine", ""))
        return self.host.get("engine_kind") or ("" if asked == "auto" else asked)


class Result(NamedTuple):
    """A recorded cell without what it was made of: enough to follow verdicts over time. ``row`` finds the whole."""

    row: int
    run_id: str
    number: int
    case_id: str
    cell_key: str
    variant: str
    verdict: Verdict | None
    as_expected: bool | None


def exit_status(cells: tuple[CellRecord, ...] | list[CellRecord]) -> int:
    """The contract's exit status for decided cells: 0, 1 (a departure) or 3 (something inconclusive)."""
    if any(cell.as_expected is False for cell in cells):
        return 1
    if any(cell.verdict is None or not cell.verdict.conclusive for cell in cells):
        return 3
    return 0

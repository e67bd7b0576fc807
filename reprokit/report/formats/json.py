"""The result file, ``reprokit-result/v1``: a run as one JSON object, the record as it is, for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from reprokit.case.matrix import Cell
from reprokit.core.json_record import ABSENT, JsonDocument, JsonRecord
from reprokit.core.terminal import json_text
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.origin import HostRecord
from reprokit.evidence.records import CellRecord, ExceptionRecord, ImageRecord, RunRecord
from reprokit.evidence.usage import Usage
from reprokit.report import explanation
from reprokit.report.explanation import CaseExplanation, explain_case
from reprokit.report.formats import FormatSources, RunFormat
from reprokit.report.labels import FailureGroup, failure_groups
from reprokit.search.queries import SearchResult


@dataclass(frozen=True, kw_only=True)
class TrialResult(JsonRecord):
    """One execution in a fresh container."""

    number: int
    outcome: Outcome
    exit_code: int | None
    seconds: float
    oom: bool
    timed_out: bool
    reason: str
    exception: ExceptionRecord | None
    usage: Usage | None
    log: str
    """a path below the store's folder"""


@dataclass(frozen=True, kw_only=True)
class CellResult(JsonRecord):
    """One cell of a run. `image` and `environment` are null where no image was built."""

    number: int
    cell: Cell
    variant: Literal["case", "fix"]
    verdict: Verdict
    expected: Verdict | None
    as_expected: bool | None
    """null where the verdict is inconclusive or nothing is expected"""
    reason: str
    rules: str
    """the version of the rules that judged the logs"""
    reused_from: str | None
    """RUN:CELL that it was taken over from; null where it ran"""
    seconds: float | None
    image: ImageRecord | None
    environment: Measured | None
    details: CellDetails
    trials: tuple[TrialResult, ...]


@dataclass(frozen=True, kw_only=True)
class CaseResult(JsonRecord):
    """A case of a run with its cells."""

    id: str
    path: str
    digest: str
    cells: tuple[CellResult, ...]
    explanation: CaseExplanation


@dataclass(frozen=True, kw_only=True)
class RunResult(JsonDocument):
    """The result file of a run."""

    FORMAT = "reprokit-result/v1"

    run_id: str
    reprokit_version: str
    started_at: str
    finished_at: str | None
    exit_status: int | None
    store: str
    """the folder below which the logs are"""
    host: HostRecord
    cases: tuple[CaseResult, ...]
    failures: tuple[FailureGroup, ...]
    search: SearchResult | None = field(default=None, metadata=ABSENT)


def result(
    run: RunRecord,
    store: Path,
    file_of: explanation.FileOf = lambda digest: None,
    search: SearchResult | None = None,
) -> RunResult:
    """The run as the contract's object.

    ``file_of``: finds the case of a digest, for the cells of its matrix that were not run. ``search``: of a search.
    """
    cases: dict[tuple[str, str], list[CellRecord]] = {}
    for cell in run.cells:
        cases.setdefault((cell.case_key, cell.case_digest), []).append(cell)
    return RunResult.pick(
        run,
        run_id=run.id,
        reprokit_version=run.version,
        store=str(store),
        cases=tuple(
            CaseResult(
                id=cells[0].case_id,
                path=cells[0].case_path,
                digest=cells[0].case_digest,
                cells=tuple(map(_cell_result, cells)),
                explanation=explain_case(explained),
            )
            for cells, explained in zip(cases.values(), explanation.explain_run(run, file_of), strict=True)
        ),
        failures=failure_groups(run.cells),
        search=search,
    )


def _cell_result(cell: CellRecord) -> CellResult:
    return CellResult.pick(
        cell,
        verdict=cell.verdict or Verdict.CANCELLED,
        reason=cell.reason or "stopped before it was decided",
        trials=tuple(map(TrialResult.pick, cell.trials)),
    )


def _write(run: RunRecord, sources: FormatSources) -> str:
    found = result(run, sources.folder, sources.file_of, sources.search)
    return json_text(found.to_json())


FORMAT = RunFormat(
    name="json",
    help="the result file",
    suffix=".json",
    scrubbed=False,
    write=_write,
)

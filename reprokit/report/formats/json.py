"""The result file, ``reprokit-result/v1``: a run as one JSON object, the record as it is, for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reprokit.evidence.records import CellRecord, RunRecord, TrialRecord
from reprokit.report import explanation
from reprokit.report.formats import RunFormat
from reprokit.report.labels import failure_groups

RESULT_FORMAT = "reprokit-result/v1"


def result(run: RunRecord, store: Path, file_of: explanation.FileOf = lambda digest: None) -> dict[str, Any]:
    """The run as the contract's object. Log paths are relative to the store's folder, which the result names.

    ``file_of``: finds the case of a digest, for the cells of its matrix that were not run.
    """
    cases: dict[tuple[str, str], dict[str, Any]] = {}
    for cell in run.cells:
        case = cases.setdefault(
            (cell.case_id, cell.case_digest),
            {"id": cell.case_id, "path": cell.case_path, "digest": cell.case_digest, "cells": []},
        )
        case["cells"].append(_cell(cell))
    for case, explained in zip(cases.values(), explanation.of_run(run, file_of), strict=True):
        case["explanation"] = explanation.to_json(explained)
    return {
        "format": RESULT_FORMAT,
        "run_id": run.id,
        "reprokit_version": run.version,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "exit_status": run.exit_status,
        "store": str(store),
        "host": run.host.to_json(),
        "cases": list(cases.values()),
        "failures": [group.to_json() for group in failure_groups(run.cells)],
    }


def _cell(cell: CellRecord) -> dict[str, Any]:
    return {
        "number": cell.number,
        "cell": dict(cell.cell),
        "variant": cell.variant,
        "verdict": cell.verdict.value if cell.verdict else "cancelled",
        "expected": cell.expected.value if cell.expected else None,
        "as_expected": cell.as_expected,
        "reason": cell.reason or "stopped before it was decided",
        "rules": cell.rules,
        "reused_from": cell.reused_from,
        "seconds": cell.seconds,
        "image": cell.image and cell.image.to_json(),
        "environment": cell.environment and cell.environment.to_json(),
        "details": cell.details.to_json(),
        "trials": [_trial(trial) for trial in cell.trials],
    }


def _trial(trial: TrialRecord) -> dict[str, Any]:
    return {
        "number": trial.number,
        "outcome": trial.outcome.value,
        "exit_code": trial.exit_code,
        "seconds": trial.seconds,
        "oom": trial.oom,
        "timed_out": trial.timed_out,
        "reason": trial.reason,
        "exception": trial.exception and trial.exception.to_json(),
        "usage": trial.usage and trial.usage.to_json(),
        "log": trial.log,
    }


def dumps(run: RunRecord, store: Path, file_of: explanation.FileOf = lambda digest: None, **more: Any) -> str:
    """The result file's text. ``more``: further keys."""
    return json.dumps(result(run, store, file_of) | more, indent=2, ensure_ascii=False) + "\n"


FORMAT = RunFormat(
    name="json",
    help="the result file",
    suffix=".json",
    scrubbed=False,
    write=lambda run, sources: dumps(run, sources.folder, sources.file_of, **sources.more),
)

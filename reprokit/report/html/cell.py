"""A cell's page: its trials with their logs, environment, Dockerfile, and how to repeat it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reprokit.report import detail
from reprokit.report.html.gathering import Known
from reprokit.store.records import CellRecord, RunRecord, TrialRecord


@dataclass(frozen=True, kw_only=True)
class Log:
    """A trial's log as it may be shown: ``text`` whole and scrubbed ('' where there is none), with as many lines as the

    recorded one has. ``file``: where the report keeps it below ``data/``, '' where it does not; ``note``: why not, or
    what is left out of it.
    """

    text: str
    file: str = ""
    note: str = ""


def cell_data(known: Known, run: RunRecord, record: CellRecord, log: Callable[[TrialRecord], Log]) -> dict[str, Any]:
    """``data/cell/RUN/N.js``: ``{case, run, at, number, cell, variant, verdict, expected, asExpected, reason, trials,

    environment, dockerfile, repeat}``. ``trials``: ``{number, outcome, exitCode, seconds, reason, lines, log, file,
    note}``; ``log`` are the parts around the signature, as ``reprokit show`` prints them.
    """
    trials = []
    for trial in record.trials:
        found = log(trial)
        trials.append(
            {
                "number": trial.number,
                "outcome": trial.outcome.value,
                "exitCode": trial.exit_code,
                "seconds": trial.seconds,
                "reason": trial.reason,
                "log": list(detail.mark(found.text, trial, False)),
                "file": found.file,
                "note": found.note,
            }
        )
    return {
        "case": known.id,
        "run": run.id,
        "at": run.started_at,
        "number": record.number,
        "cell": dict(record.cell),
        "variant": record.variant,
        "verdict": record.verdict.value if record.verdict else "undecided",
        "expected": record.expected and record.expected.value,
        "asExpected": record.as_expected,
        "reason": record.reason,
        "trials": trials,
        "environment": record.environment and dict(record.environment),
        "dockerfile": record.dockerfile,
        "repeat": record.repeat,
    }

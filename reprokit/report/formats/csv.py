"""A run as CSV (RFC 4180): a header, then one line per cell, for spreadsheets and data frames. Pure."""

from __future__ import annotations

import csv as rfc4180
import io
from collections.abc import Iterator

from reprokit.environment.measured import FURTHER, Measured
from reprokit.evidence.model import Outcome
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report.formats import RunFormat

FORMULA = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the beginning of a formula (owasp.org/www-community/attacks/CSV_Injection)."""

MEASURED = ("os", "glibc", "python", "gcc", "cuda", "cudnn", "driver", *(axis.name for axis in FURTHER))
"""What is measured of an environment, in columns of their own. New ones come last: people count columns, too."""


def csv(run: RunRecord) -> str:
    """The table. Axes are the columns ``axis NAME``; a text that would be a formula is given an apostrophe in front."""
    axes = list(dict.fromkeys(name for cell in run.cells for name in cell.cell))
    stream = io.StringIO()
    table = rfc4180.writer(stream)
    table.writerow(
        ["run", "started_at", "case", "digest", "cell", "variant"]
        + [plain(f"axis {name}") for name in axes]
        + ["verdict", "expected", "as_expected", "reason", "seconds", "trials", "trials_reproduced"]
        + ["failure", "failure_title", *(f"measured {name}" for name in MEASURED)]
    )
    for cell in run.cells:
        table.writerow(plain(text) for text in _row(run, cell, axes))
    return stream.getvalue()


def _row(run: RunRecord, cell: CellRecord, axes: list[str]) -> Iterator[str]:
    yield from (run.id, run.started_at, cell.case_id, cell.case_digest, str(cell.number), cell.variant)
    yield from (cell.cell.get(name, "") for name in axes)
    yield cell.verdict.value if cell.verdict else "cancelled"
    yield cell.expected.value if cell.expected else ""
    yield "" if cell.as_expected is None else str(cell.as_expected).lower()
    yield cell.marked_reason
    yield "" if cell.seconds is None else f"{cell.seconds:.3f}"
    yield str(len(cell.trials))
    yield str(sum(trial.outcome is Outcome.REPRODUCED for trial in cell.trials))
    failure = cell.details.failure
    yield from (failure.id, failure.title) if failure else ("", "")
    measured = cell.environment or Measured()
    yield from (measured.versions.get(name) or "" for name in MEASURED)


def plain(text: str) -> str:
    """A text on one line, without control characters, that no spreadsheet calculates."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return f"'{line}" if line.startswith(FORMULA) else line


FORMAT = RunFormat(
    name="csv", help="a table with a line for each cell", suffix=".csv", scrubbed=True, write=lambda run, _: csv(run)
)

"""A failed build as a cell's record has it."""

from __future__ import annotations

from dataclasses import replace

from reprokit.core.errors import BuildFailed
from reprokit.evidence.details import FailedBuildRecord

TAIL = 100
"""Last lines of a failed step that are recorded."""


def explained(error: BuildFailed) -> tuple[str, FailedBuildRecord]:
    """The reason, cause first, and the record of the step."""
    record = FailedBuildRecord(step=error.step, tail=error.tail[-TAIL:])
    if error.reason:
        return error.reason, record
    from reprokit.evidence.build_failure import explain  # most runs have no failed build

    found = explain(error.step, error.tail, str(error))
    return found.reason, replace(record, cause=found.cause, put=found.put)

"""What another store brings is untrusted input: ids become names of folders, and logs are read by their paths."""

from __future__ import annotations

from datetime import datetime

from reprokit.core.json_record import fits
from reprokit.evidence.records import RunRecord
from reprokit.store.places import is_name

LONGEST_RUN, LONGEST_CASE = 40, 200
VARIANTS = ("case", "fix")


def unfit(run: RunRecord) -> str:
    """Why a run from another store cannot be taken over, in words; '' when it can. Its logs are another matter."""
    if not fits(run, RunRecord):
        return "a field has a value of another type"
    if not is_name(run.id, LONGEST_RUN):
        return f"its id {run.id[:50]!r} is not a name"
    for at in (run.started_at, *(job.started_at for job in run.request.merged or ())):
        try:
            datetime.fromisoformat(at.replace("Z", "+00:00"))
        except ValueError:
            return f"{at[:50]!r} is not a time"
    if len({cell.number for cell in run.cells}) < len(run.cells):
        return "two of its cells have the same number"
    for cell in run.cells:
        if not is_name(cell.case_id, LONGEST_CASE):
            return f"the id {cell.case_id[:50]!r} of a case is not a name"
        if cell.variant not in VARIANTS:
            return f"the variant {cell.variant[:50]!r} is not one of {', '.join(VARIANTS)}"
        if len({trial.number for trial in cell.trials}) < len(cell.trials):
            return f"two trials of its cell {cell.number} have the same number"
    return ""

"""Which run ``--resume`` goes on with, which of its cells run again, and what is said when none can."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from reprokit.core.errors import UsageError
from reprokit.core.ownership import OwnerState
from reprokit.core.text import pluralize
from reprokit.evidence.model import RULES_VERSION, Verdict
from reprokit.evidence.origin import HostRecord
from reprokit.evidence.records import CellRecord, RunRecord

if TYPE_CHECKING:
    from reprokit.store.database import Store

UNDECIDED = (None, Verdict.CANCELLED, Verdict.ENGINE_ERROR)
"""What says nothing about the case or the host: a resumed run does it again, and the end of a run offers to."""


def cells_to_repeat(cells: Iterable[CellRecord]) -> list[CellRecord]:
    """The cells that a resumed run does again: those that are undecided, or else every inconclusive one."""
    cells = list(cells)
    if stopped := [cell for cell in cells if cell.verdict in UNDECIDED or cell.rules != RULES_VERSION]:
        return stopped
    return [cell for cell in cells if cell.verdict is None or not cell.verdict.conclusive]


def is_over(run: RunRecord, unseen: list[RunRecord]) -> bool:
    """Whether no process writes the run any more. One whose state is not known here goes to ``unseen``."""
    if run.finished_at is not None:
        return True
    state = run.owner.state
    if state is OwnerState.UNKNOWN:
        unseen.append(run)
    return state is OwnerState.EXITED


def find_resumable(store: Store, cases: Sequence[str] | None) -> RunRecord | None:
    """The newest run over these cases (None: over any) that can be resumed, without searches: they resume themselves.

    One that was interrupted or has undecided cells comes before one with inconclusive cells only. None: there is none.
    Raises UsageError where no cases are named and all that there is may still be running out of sight.
    """
    unseen: list[RunRecord] = []
    runs = [
        run
        for run in store.runs()
        if run.owner.labels  # not one that was merged from several
        and not run.owner.imported  # nor one of another store: what it asks for, and may run, is its word alone
        and not run.searches
        and (cases is None or list(run.request.cases) == list(cases))
        and is_over(run, unseen)
    ]
    verdicts = store.verdicts([run.id for run in runs])

    def is_stopped(run: RunRecord) -> bool:
        return run.exit_status in (None, 130) or not verdicts.get(run.id, set()).isdisjoint(UNDECIDED)

    inconclusive = (run for run in runs if any(one and not one.conclusive for one in verdicts.get(run.id, ())))
    found = next(filter(is_stopped, runs), None) or next(inconclusive, None)
    if found is None and unseen and cases is None:
        raise UsageError(f"nothing to resume: {out_of_sight(unseen[0])}")
    return store.run(found.id) if found else None


def find_in_progress(store: Store, cases: Sequence[str]) -> RunRecord | None:
    """The newest run over these cases that another process writes now."""
    runs = (run for run in store.runs() if run.finished_at is None and list(run.request.cases) == list(cases))
    return next((run for run in runs if run.owner.state is OwnerState.ALIVE), None)


def out_of_sight(run: RunRecord) -> str:
    """What to say of an unfinished run of which it is unknown whether it still runs."""
    return (
        f"run {run.id} is not finished, and whether it still runs is unknown here: it is {run.owner}; "
        "resume it there, or run again"
    )


def changes_of_host(then: HostRecord, now: HostRecord) -> str:
    """What of the host differs from when a run began, in words; '' for nothing."""
    pairs = (
        ("kernel", then.kernel, now.kernel),
        ("driver", then.driver, now.driver),
        ("GPUs", ", ".join(then.gpus), ", ".join(now.gpus)),
    )
    return "; ".join(f"{what} {old or 'none'} then, {new or 'none'} now" for what, old, new in pairs if old != new)


def resume_line(cells: Sequence[CellRecord]) -> str:
    """The line that offers to resume a finished run; '' where that would not help."""
    count = sum(cell.verdict in UNDECIDED for cell in cells)
    if not count:
        return ""
    return f"{pluralize(count, 'cell has', 'cells have')} no verdict on the bug; try again with: reprokit run --resume"

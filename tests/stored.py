"""Writes into a store what else only a run writes, through its journal."""

from __future__ import annotations

from reprokit.evidence.origin import HostRecord
from reprokit.store.database import Store
from reprokit.store.journal import line_of


def finish(store: Store, run_id: str, *, finished_at: str, exit_status: int, host: HostRecord) -> None:
    """The end of a run."""
    end = line_of("finish", finished_at=finished_at, exit_status=exit_status, host=host)
    store._write(run_id, [end])

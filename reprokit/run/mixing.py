"""Verdicts of two engines are never mixed in one run."""

from __future__ import annotations

from collections.abc import Iterable

from reprokit.core.errors import UsageError
from reprokit.evidence.origin import engine_kind
from reprokit.evidence.records import CellRecord


def check_engine(done: Iterable[CellRecord], engine: str) -> None:
    """Raise UsageError when a run whose ``done`` cells another engine served would go on with ``engine``."""
    before = {engine_kind(record.details.engine) for record in done} - {""}
    now = engine_kind(engine)
    if before - {now}:
        begun = ", ".join(sorted(before))
        raise UsageError(
            f"this run was begun with {begun} and cannot go on with {now}: have {begun} answer again, or leave out "
            "--resume to run anew"
        )

"""Verdicts of two engines are never mixed in one run."""

from __future__ import annotations

from collections.abc import Iterable

from reprokit.core.errors import UsageError
from reprokit.evidence.records import CellRecord


def check_engine(done: Iterable[CellRecord], now: str) -> None:
    """Raise UsageError when a run whose ``done`` cells another kind of engine served would go on with ``now``."""
    before = {kind for record in done if (kind := record.details.engine_kind)}
    if before - {now}:
        begun = ", ".join(sorted(before))
        raise UsageError(
            f"this run was begun with {begun} and cannot go on with {now}: have {begun} answer again, or leave out "
            "--resume to run again"
        )

"""Where an invocation shows what it does. The command line implements it; nothing in this room prints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from reprokit.case.files import CaseFile
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.run.listener import Listener


class Display(Protocol):
    """Shows progress and results to a user."""

    def say(self, text: str) -> None:
        """Show a line. A reader that has gone away is not an error."""

    def progress(self) -> AbstractContextManager[Listener]:
        """What receives the progress of a run, for as long as the context lasts."""

    def run_ended(self, record: RunRecord, file_of: Callable[[str], CaseFile | None], *, interrupted: bool) -> None:
        """Show the result of a run. ``file_of``: a case by the digest of its text."""

    def search_ended(self, cells: Sequence[CellRecord]) -> None:
        """Show the cells that a search tried."""

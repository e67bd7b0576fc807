"""Where a run reports: its progress to a listener, its result to a display. Threads call it: be quick."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from reprokit.case.files import CaseFile
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.run.task import Task


class Listener:
    """Receives the progress of a run. This one shows nothing: others override what they show."""

    def planned(self, run_id: str, tasks: Sequence[Task]) -> None:
        """The run begins with these tasks."""

    def appended(self, names: Mapping[int, str]) -> None:
        """A search asks for more tasks, by number; how many will follow is not known."""

    def state(self, numbers: Sequence[int], state: str, text: str = "") -> None:
        """These tasks are now ``queued``, ``building``, ``waiting`` (for what), ``running`` or ``confirming``.

        ``text``: the step's number and name, what is waited for, or which trial.
        """

    def build_ended(self, numbers: Sequence[int], took: float, *, failed: bool = False) -> None:
        """The image of these tasks is built, or its build failed, after ``took`` seconds."""

    def build_output(self, numbers: Sequence[int], text: str) -> None:
        """Output of a build step that these tasks wait for."""

    def output(self, number: int, data: bytes) -> None:
        """Output of a task's container, as it comes."""

    def decided(self, record: CellRecord) -> None:
        """A task has its verdict."""

    def repeated(self, record: CellRecord) -> None:
        """A decided task has had one more trial, with which its verdict may be another."""

    def note(self, text: str) -> None:
        """Something that the user should know: what was cleaned up, which stand-in served."""


class Display(Protocol):
    """Shows progress and results to a user."""

    def say(self, text: str) -> None:
        """Show a line. A reader that has gone away is not an error."""

    def progress(self) -> AbstractContextManager[Listener]:
        """What receives the progress of a run, for as long as the context lasts."""

    def run_ended(
        self, record: RunRecord, file_of: Callable[[str], CaseFile | None], *, interrupted: bool, recorded: bool
    ) -> None:
        """Show a run's result; an error follows where not all is recorded. ``file_of``: a case by its text's digest."""

    def search_ended(self, cells: Sequence[CellRecord]) -> None:
        """Show the cells that a search tried."""

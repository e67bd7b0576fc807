"""What a run reports to its display. Called from worker threads: implementations must be thread-safe and quick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from reprokit.evidence.records import CellRecord
from reprokit.run.task import Task


class Listener(Protocol):
    """Receives the progress of a run."""

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


class Silent:
    """A listener that shows nothing."""

    def planned(self, run_id: str, tasks: Sequence[Task]) -> None:
        """Nothing."""

    def appended(self, names: Mapping[int, str]) -> None:
        """Nothing."""

    def state(self, numbers: Sequence[int], state: str, text: str = "") -> None:
        """Nothing."""

    def build_ended(self, numbers: Sequence[int], took: float, *, failed: bool = False) -> None:
        """Nothing."""

    def build_output(self, numbers: Sequence[int], text: str) -> None:
        """Nothing."""

    def output(self, number: int, data: bytes) -> None:
        """Nothing."""

    def decided(self, record: CellRecord) -> None:
        """Nothing."""

    def repeated(self, record: CellRecord) -> None:
        """Nothing."""

    def note(self, text: str) -> None:
        """Nothing."""

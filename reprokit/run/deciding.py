"""The decided cells of a run: whatever stops a cell is its verdict and reason, written before they are shown."""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from reprokit.core.errors import BuildFailed, Cancelled, RecordError, ReprokitError, Unsupported
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.run.cell_records import CellFacts, decided_record, explain_build
from reprokit.run.comparing import Comparisons
from reprokit.run.listener import Listener
from reprokit.run.sources import SourceError
from reprokit.run.task import Task

if TYPE_CHECKING:
    from reprokit.store.recorder import Recorder

T = TypeVar("T")


class Decisions:
    """Compares, records and shows each cell the moment it is decided. Safe to share between threads.

    ``folder``: the store's; without a ``recorder`` nothing is recorded; ``cancel`` is set where nothing can be.
    """

    def __init__(self, folder: Path, recorder: Recorder | None, listener: Listener, cancel: threading.Event) -> None:
        self._recorder = recorder
        self._listener = listener
        self._cancel = cancel
        self._records: dict[int, CellRecord] = {}
        self._unrecorded: RecordError | None = None
        self._over = False
        self._lock = threading.Lock()
        self._comparisons = Comparisons(folder, lambda: self.records)

    @property
    def records(self) -> tuple[CellRecord, ...]:
        """The decided cells so far, in the order of their numbers."""
        with self._lock:
            return tuple(self._records[number] for number in sorted(self._records))

    def serve(self, task: Task, attempt: Callable[[Task], T], facts: CellFacts | None = None) -> T | None:
        """What ``attempt`` gives; None if something stopped it, which is then the verdict, beside ``facts`` so far."""
        facts = facts or CellFacts()
        try:
            if self._cancel.is_set():
                raise Cancelled("stopped before it was decided")
            return attempt(task)
        except Cancelled as error:
            self.decide(decided_record(task, Verdict.CANCELLED, str(error), facts))
        except Unsupported as error:
            self.decide(decided_record(task, Verdict.UNSUPPORTED, str(error), facts))
        except BuildFailed as error:
            reason, failed = explain_build(error)
            facts.details = replace(facts.details, build=failed)
            self.decide(decided_record(task, Verdict.BUILD_FAILED, reason, facts))
        except SourceError as error:
            self.decide(decided_record(task, Verdict.BUILD_FAILED, str(error), facts))
        except ReprokitError as error:
            self.decide(decided_record(task, Verdict.ENGINE_ERROR, str(error), facts))
        except OSError as error:
            # The disk of the store, where a file of a trial cannot be written, or of the cache: no defect of ours.
            where = f"{error.filename}: {error.strerror}" if error.filename else f"the store cannot be written: {error}"
            self.decide(decided_record(task, Verdict.ENGINE_ERROR, where, facts))
        except Exception as error:
            # A defect of ours must not look like a finding, nor take the other cells down.
            self.decide(decided_record(task, Verdict.ENGINE_ERROR, self.defect(error), facts))
        return None

    def defect(self, error: Exception) -> str:
        """The reason of a cell that a defect of ours stopped; where it is, is noted."""
        reason = f"internal error of reprokit: {type(error).__name__}: {error}"
        where = "".join(traceback.format_exception(type(error), error, error.__traceback__, limit=-3))
        with contextlib.suppress(Exception):
            self._listener.note(f"{reason}\n{where}")
        return reason

    def serve_all(self, tasks: Iterable[Task], attempt: Callable[[Task], T]) -> list[T]:
        """What ``attempt`` gives for each; what it stops is decided and left out, see :meth:`serve`."""
        return [found for task in tasks if (found := self.serve(task, attempt)) is not None]

    def decide(self, record: CellRecord) -> None:
        """Take over a verdict, and those that waited to be compared with it."""
        for one in self._comparisons.settle(record):
            self.keep(one, self._listener.decided)

    def keep(self, record: CellRecord, show: Callable[[CellRecord], None]) -> None:
        """Take a verdict over and show it, once it is on disk; from the first that cannot be written on, stop."""
        if self._over:  # a thread that was given up, see GaveUp: the cell is decided
            return
        if self._recorder is not None and self._unrecorded is None:
            try:
                self._recorder.decide(record)
            except RecordError as error:
                self._unrecorded = error
                self._cancel.set()
        if self._unrecorded is not None:
            return
        with self._lock:
            self._records[record.number] = record
        with contextlib.suppress(Exception):  # a display that fails changes no verdict
            show(record)

    def refuse(self, task: Task, facts: CellFacts, error: Exception) -> None:
        """Decide a task by what stopped it elsewhere."""

        def fail(_: Task) -> None:
            raise error

        self.serve(task, fail, facts)

    def reuse(self, record: CellRecord) -> None:
        """Take over a cell that an interrupted run had decided, or that was decided without an engine."""
        with self._lock:
            self._records[record.number] = record

    def begin(self, tasks: Sequence[Task]) -> None:
        """Take on the tasks that are to be decided now."""
        self._comparisons.begin(tasks)

    def end(self, tasks: Sequence[Task], *, given_up: bool) -> None:
        """Decide what is left as cancelled. ``given_up``: threads may go on, whose cells are decided all the same.

        Raises RecordError where a cell could not be written.
        """
        for task in tasks:
            if task.number not in self._records:
                self.decide(decided_record(task, Verdict.CANCELLED, "stopped before it was decided"))
        self._over = given_up
        if self._unrecorded is not None:
            raise self._unrecorded

    def record(self, task: Task) -> CellRecord:
        """The record of a decided task."""
        return self._records[task.number]

    def compared_again(self, task: Task, record: CellRecord) -> CellRecord:
        """A decided cell with a trial more, compared as before."""
        return self._comparisons.again(task, record)

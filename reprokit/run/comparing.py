"""Cells whose outputs are compared: what they are compared with, and when that is known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.matrix import Cell, cell_key, label
from reprokit.core.errors import UsageError
from reprokit.engine.outputs import OutputsRefused, unpacked
from reprokit.evidence.comparing import NotKept, Outputs, Reference, compare, is_comparable, majority
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, TrialRecord
from reprokit.run.resuming import UNDECIDED
from reprokit.run.task import Task
from reprokit.store.errors import StoreError
from reprokit.store.places import read_log, why_removed

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.case.model import Case


class Gone(NotKept):
    """The outputs of a trial were kept, and are not there any more."""


def outputs_of(folder: Path, trial: TrialRecord) -> Outputs:
    """What a trial wrote, from the store in ``folder``. Raises NotKept."""
    try:
        return unpacked(read_log(folder, trial.outputs))
    except OutputsRefused as error:
        raise NotKept(str(error)) from None
    except FileNotFoundError:
        raise Gone(why_removed(folder, trial.outputs) or f"its outputs {trial.outputs} are gone") from None
    except (OSError, StoreError, ValueError) as error:
        raise Gone(f"its outputs {trial.outputs} cannot be read: {error}") from None


def reference_cell(case: Case, cell: Cell) -> Cell | None:
    """The cell that ``cell`` is compared with; None where it is compared with something else, or not at all."""
    compare = case.expect.compare
    if compare is None or isinstance(compare.reference, str) or compare.reference.cell is None:
        return None
    return {**cell, **compare.reference.cell}


def with_references(cells: Sequence[tuple[CaseFile, Cell, bool]]) -> list[tuple[CaseFile, Cell, bool]]:
    """The cells of a plan, and behind them the cells that they are compared with, where those are not among them."""
    known = {(file.digest, cell_key(cell)) for file, cell, _ in cells}
    found = list(cells)
    for file, cell, fix in cells:
        other = reference_cell(file.case, cell)
        if other is not None and (file.digest, cell_key(other)) not in known:
            known.add((file.digest, cell_key(other)))
            found.append((file, other, fix))
    return found


def check_search(case: Case) -> None:
    """Raise UsageError where a case is compared with what a search, which runs a few cells, does not know."""
    if case.expect.compare is not None and case.expect.compare.reference == "majority":
        raise UsageError(
            f"{case.id}: a search runs a few cells, and the case compares with the majority of all: name one, such as "
            "expect.compare.reference: {cell: {numpy: 1.26.4}}"
        )


@dataclass
class Comparisons:
    """Holds cells back until what they are compared with is decided. Safe to share between threads.

    ``folder``: the store's; ``records``: the cells of the run that are decided.
    """

    folder: Path
    records: Callable[[], Sequence[CellRecord]]
    _tasks: dict[int, Task] = field(default_factory=dict)
    _held: dict[int, CellRecord] = field(default_factory=dict)
    _decided: dict[int, CellRecord] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, tasks: Iterable[Task]) -> None:
        """Take on the tasks that are to be decided now."""
        self._tasks = {task.number: task for task in tasks if task.case.expect.compare is not None}
        self._held, self._decided = {}, {}

    def settle(self, record: CellRecord) -> list[CellRecord]:
        """What is decided once the trials of a cell are run, or it will have none: that cell, if its reference is, and
        those that waited for it.
        """
        if record.number not in self._tasks:
            return [record]
        with self._lock:
            self._held[record.number] = record
            found: list[CellRecord] = []
            settled = partial(self._settled, majorities={})
            while done := [one for one in map(settled, list(self._held.values())) if one is not None]:
                for one in done:
                    del self._held[one.number]
                    self._decided[one.number] = one
                found += done
            return found

    def again(self, task: Task, record: CellRecord) -> CellRecord:
        """A decided cell with a trial more, compared as before."""
        return record if task.case.expect.compare is None else self._compared(task, record, self._known(task))

    def _settled(self, record: CellRecord, majorities: dict[tuple[str, str], Reference | None]) -> CellRecord | None:
        """A cell that was held back, judged; None while it has to wait. ``majorities``: those found for others."""
        if record.verdict is not Verdict.NOT_REPRODUCED or not is_comparable(record):
            return record
        task = self._tasks[record.number]
        compare = task.case.expect.compare
        if compare is not None and compare.reference == "majority":
            if self._running(task):
                return None
            group = (task.file.digest, task.variant)
            if group not in majorities:
                majorities[group] = self._known(task)
            return self._compared(task, record, majorities[group])
        other = reference_cell(task.case, task.cell)
        if other is not None and other != dict(task.cell) and self._awaited(task, other):
            return None
        return self._compared(task, record, self._known(task))

    def _compared(self, task: Task, record: CellRecord, reference: Reference | None) -> CellRecord:
        assert task.case.expect.compare is not None
        return compare(record, task.case.expect.compare, task.trials, partial(outputs_of, self.folder), reference)

    def _known(self, task: Task) -> Reference | None:
        """What a task is compared with, as far as it is known; None where that is itself."""
        compare = task.case.expect.compare
        assert compare is not None
        if not isinstance(compare.reference, str) and compare.reference.file is not None:
            name, [output] = compare.reference.file, compare.outputs
            return Reference(words=name, outputs={output: task.spec.files[name].text.encode()})
        if compare.reference == "majority":
            group = [one for one in self._seen() if _alike(one, task) and is_comparable(one)]
            written = [(one, partial(outputs_of, self.folder, one.trials[0])) for one in group]
            return majority(written, compare, lambda one: label(one.cell))
        other = reference_cell(task.case, task.cell)
        if other is None or other == dict(task.cell):
            return None
        return self._of_cell(other, self._reference(task, other))

    def _of_cell(self, other: Cell, record: CellRecord | None) -> Reference:
        words = label(other)
        if record is None:
            return Reference(words=words, cell=other, why=f"the reference {words} was not run")
        if record.verdict is not Verdict.NOT_REPRODUCED:
            verdict = record.verdict if record.verdict in UNDECIDED and record.verdict else Verdict.INCONCLUSIVE
            why = f"the reference {words} is {record.verdict}: {record.reason}"
            return Reference(words=words, cell=other, why=why, verdict=verdict)
        try:
            return Reference(words=words, cell=other, outputs=outputs_of(self.folder, record.trials[0]))
        except NotKept as error:
            return Reference(words=words, cell=other, why=f"the reference {words}: {error}")

    def _reference(self, task: Task, other: Cell) -> CellRecord | None:
        """The decided cell that a task is compared with; with its own fix and case text where there is such a one."""
        key = cell_key(other)
        found = [one for one in self._finished() if one.case_id == task.case.id and cell_key(one.cell) == key]
        rank = {(task.file.digest, "case"): 1} | {(task.file.digest, task.variant): 0}
        if any(self._is_reference(one, task, other) for one in self._tasks.values()):
            found = [one for one in found if rank.get((one.case_digest, one.variant)) == 0]
        return min(found, key=lambda one: rank.get((one.case_digest, one.variant), 2), default=None)

    def _awaited(self, task: Task, other: Cell) -> bool:
        """Whether what a task is compared with is still to be decided in this run."""
        planned = any(self._is_reference(one, task, other) for one in self._tasks.values())
        return planned and self._reference(task, other) is None

    @staticmethod
    def _is_reference(one: Task, task: Task, other: Cell) -> bool:
        """Whether a task of this run is what another is compared with."""
        return (one.file.digest, one.variant, dict(one.cell)) == (task.file.digest, task.variant, dict(other))

    def _running(self, task: Task) -> bool:
        """Whether cells that the majority is taken of are not through with their trials."""
        seen = {one.number for one in self._seen()}
        return any(_same(one, task) and one.number not in seen for one in self._tasks.values())

    def _finished(self) -> Iterator[CellRecord]:
        yield from self._decided.values()
        yield from (one for one in self.records() if one.number not in self._decided)

    def _seen(self) -> Iterator[CellRecord]:
        """The cells whose trials are run, judged or not, in the order of their numbers."""
        every = {one.number: one for one in (*self._finished(), *self._held.values())}
        return (every[number] for number in sorted(every))


def _same(one: Task, other: Task) -> bool:
    return (one.file.digest, one.variant) == (other.file.digest, other.variant)


def _alike(record: CellRecord, task: Task) -> bool:
    return (record.case_digest, record.variant) == (task.file.digest, task.variant)

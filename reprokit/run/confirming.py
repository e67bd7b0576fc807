"""Repeats cells whose trials do not yet carry what they say together. Which cells those are, a planner says."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from typing import Protocol

from reprokit.core.errors import Cancelled
from reprokit.engine.protocol import ImageInfo
from reprokit.evidence.judging import conclude
from reprokit.evidence.records import CellRecord, TrialRecord
from reprokit.evidence.sequential import figures
from reprokit.run.cell_records import CellFacts, decided_record
from reprokit.run.gpus import GpuAllocation
from reprokit.run.services import Services
from reprokit.run.task import Task
from reprokit.run.trials import TrialHooks, run_trial

MOST_AHEAD = 200
"""Trials of a case that are planned at once."""


class Planner(Protocol):
    """Says which cell of a case a trial more would help most."""

    def __call__(self, records: Sequence[CellRecord], running: Collection[int]) -> int | None:
        """The number of the cell to repeat; None for none, or where the trials that are ``running`` may decide it."""


Cases = Mapping[str, Mapping[int, Task]]
"""Tasks that may be repeated, by the digest of their case and by number."""


def repeatable(tasks: Sequence[Task], planner: Planner | None, records: Sequence[CellRecord]) -> Cases:
    """The decided tasks of cases that have something to confirm. Variants with a fix are not repeated for it,
    nor cells that are measured against another: their trials decide together.
    """
    cases: dict[str, dict[int, Task]] = {}
    for task in tasks:
        if task.variant == "case" and task.reference is None:
            cases.setdefault(task.file.digest, {})[task.number] = task
    return {case: some for case, some in cases.items() if planner and planner(of_case(records, case), ()) is not None}


def repeats_ahead(planner: Planner, records: Sequence[CellRecord], tasks: Mapping[int, Task]) -> Counter[int]:
    """How many more trials the planner would ask for, of each of these tasks, if every one ended as its cell's last."""
    found, known = Counter[int](), list(records)
    while sum(found.values()) < MOST_AHEAD:
        number = planner(known, ())
        at = next((at for at, record in enumerate(known) if record.number == number), 0)
        if number is None or number not in tasks or not known[at].trials:
            break
        each = (known[at].seconds or 0.0) / len(known[at].trials)
        known[at] = with_trial(tasks[number], known[at], known[at].trials[-1], each, "")
        found[number] += 1
    return found


def of_case(records: Sequence[CellRecord], digest: str) -> list[CellRecord]:
    """The cells of a case without its fix."""
    return [record for record in records if record.case_digest == digest and record.variant == "case"]


def repeat_cells(
    planner: Planner,
    records: Callable[[], Sequence[CellRecord]],
    cases: Cases,
    stopped: Collection[str],
    start: Callable[[Task], Future[None]],
    jobs: int,
) -> None:
    """Repeat cells, ``jobs`` at a time, until the planner asks for none, or only for those of ``stopped`` cases.

    A cell runs one trial at a time, so that its trials have the order of their numbers.
    """
    running: dict[Future[None], tuple[str, int]] = {}
    while True:
        for case, tasks in cases.items():
            while case not in stopped and len(running) < jobs:
                busy = {number for of, number in running.values() if of == case}
                number = planner(of_case(records(), case), busy)
                if number is None or number not in tasks:
                    break
                running[start(tasks[number])] = case, number
        if not running:
            return
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            del running[done]


@dataclass(kw_only=True)
class Repeater:
    """Runs more trials of decided cells. What stops one leaves its cell as it was, and ends those of its case.

    ``records``: the cells as they are by now; ``image``: the image of a task's first trials; ``keep`` takes
    a record with one more trial; ``compare``: judges it by its outputs, where those decide; ``explain_error``: an error
    in words.
    """

    planner: Planner
    services: Services
    records: Callable[[], Sequence[CellRecord]]
    image: Callable[[Task, CellRecord], ImageInfo]
    keep: Callable[[CellRecord], None]
    compare: Callable[[Task, CellRecord], CellRecord]
    explain_error: Callable[[Exception], str]
    _stopped: set[str] = field(default_factory=set)

    def run(self, cases: Cases, start: Callable[[Task], Future[None]], jobs: int) -> None:
        """As :func:`repeat_cells`. ``start`` leads to :meth:`repeat`."""
        repeat_cells(self.planner, self.records, cases, self._stopped, start, jobs)

    def repeat(self, task: Task, allocation: GpuAllocation | None = None) -> None:
        """One more trial of a decided cell."""
        record = next(one for one in self.records() if one.number == task.number)
        started = time.monotonic()

        def on_start(number: int) -> None:
            nonlocal started
            started = time.monotonic()
            self.services.listener.state([task.number], "confirming", f"trial {number}")

        def echo(data: bytes) -> None:
            self.services.listener.output(task.number, data)

        number, hooks = len(record.trials) + 1, TrialHooks(on_start=on_start, echo=echo)
        try:
            image = self.image(task, record)
            trial, line = run_trial(self.services, task, image, allocation, number, hooks)
        except Exception as error:
            self.refuse(task, error)
            return
        self.keep(self.compare(task, with_trial(task, record, trial, time.monotonic() - started, line)))

    def refuse(self, task: Task, error: Exception) -> None:
        """No further trials of the cells of this case."""
        self._stopped.add(task.file.digest)
        if not isinstance(error, Cancelled):
            why = self.explain_error(error)
            self.services.listener.note(
                f"{task.case.id}: its cells are not repeated any more to confirm what they say: {why}"
            )


def with_trial(task: Task, record: CellRecord, trial: TrialRecord, seconds: float, repeat: str) -> CellRecord:
    """The record of a decided task after one more trial of some ``seconds``; ``repeat``: what repeats it by hand."""
    trials = (*record.trials, trial)
    verdict, reason = conclude(trials, task.trials, task.case.expect)
    shown = figures([one.outcome for one in trials], task.trials)
    facts = CellFacts(
        seconds=round((record.seconds or 0.0) + seconds, 3),
        image=record.image,
        environment=record.environment,
        dockerfile=record.dockerfile,
        repeat=repeat,
        details=replace(record.details, trials=shown, repeats=record.details.repeats + 1),
        trials=trials,
    )
    return decided_record(task, verdict, reason, facts)

"""Trials of a cell and of its reference in turns, for a case that is about how much slower or bigger it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace

from reprokit.case.matrix import label
from reprokit.core.errors import BuildFailed, Unsupported
from reprokit.engine.protocol import ImageInfo
from reprokit.evidence.judging import conclude
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.ratio import NEEDS, PRINTED, RatioRecord, estimate, is_decided, measure, quantity_of, weigh
from reprokit.evidence.records import TrialRecord
from reprokit.run.cell_records import explain_build
from reprokit.run.gpus import GpuAllocation
from reprokit.run.services import Services
from reprokit.run.sources import SourceError
from reprokit.run.task import Task
from reprokit.run.trials import TrialHooks, run_trial

Pair = tuple[float, float]


MOST_UNSEEN = 3
"""Pairs of trials that are run once more, since one of the two was over before it was looked at."""


class NotMeasured(Exception):
    """Why a cell cannot be measured against its reference, in words."""


class _Unseen(NotMeasured):
    """A trial was over before it was looked at, as happens to short ones on a busy host."""


def is_reference(task: Task) -> bool:
    """Whether a task is what it would be measured against."""
    other = task.reference
    return other is not None and (other.variant, dict(other.cell)) == (task.variant, dict(task.cell))


@dataclass(kw_only=True)
class Pairs:
    """The trials of a task that has a reference. Nothing else of this run may run beside them.

    ``reference``: the reference as this host serves it, and its image; raises Unsupported, BuildFailed or
    SourceError. ``note`` gets what was measured.
    """

    services: Services
    task: Task
    image: ImageInfo
    allocation: GpuAllocation | None
    reference: Callable[[], AbstractContextManager[tuple[Task, ImageInfo]]]
    hooks: TrialHooks
    note: Callable[[RatioRecord], None]
    _own: list[TrialRecord] = field(default_factory=list)
    _repeat: str = ""
    _quantity: str = ""

    def run(self) -> tuple[Verdict, str]:
        """The verdict and its reason. A trial of the cell that fails ends it, as a failure of its own."""
        assert self.task.reference is not None
        other = self.task.reference.cell
        words = label(other) + (" without the fix" if self.task.variant == "fix" else "")
        found = RatioRecord() if is_reference(self.task) else RatioRecord(reference=words, cell=other)
        try:
            warm_up = self._trial()
            if found.reference:
                slower = self.task.case.expect.slower_than is not None
                self._quantity = quantity_of(slower, self._log(warm_up))
                with suppress(_Unseen):
                    self._number(warm_up, "trial 1")
                found = replace(found, quantity=self._quantity, pairs=self._measured(words))
        except NotMeasured as error:
            found = replace(found, why=str(error))
        return self._concluded(found)

    @property
    def _passes(self) -> bool:
        return self._own[-1].outcome is Outcome.PASSED

    @property
    def _limit(self) -> float:
        rule = self.task.case.expect.ratio
        assert rule is not None
        return rule.ratio

    def _concluded(self, found: RatioRecord) -> tuple[Verdict, str]:
        if self._passes:
            seen = estimate(found.pairs, self._limit)
            self.note(replace(found, times=seen and seen[0]))
            self._own = [*weighed_trials(self._own, found, self._limit)]
            self.hooks.keep(tuple(self._own), self._repeat)
        return conclude(self._own, self.task.trials, self.task.case.expect)

    def _measured(self, words: str) -> tuple[Pair, ...]:
        """Pairs until they decide. The reference's image is in use until then."""
        try:
            with self.reference() as (reference, image):
                return self._pairs(words, reference, image)
        except (Unsupported, BuildFailed, SourceError) as error:
            why = explain_build(error)[0] if isinstance(error, BuildFailed) else str(error)
            raise NotMeasured(f"the reference {words} is not available: {why}") from None

    def _pairs(self, words: str, reference: Task, image: ImageInfo) -> tuple[Pair, ...]:
        """After a trial of each to warm up, each leads in turn: A B B A."""
        # Its logs lie beside those of the cell.
        reference = replace(reference, number=self.task.number, variant=f"{self.task.variant}-reference")
        count = 0

        def other() -> float:
            nonlocal count
            count += 1
            hooks = TrialHooks(on_start=lambda _: self.hooks.on_start(len(self._own)))
            record, _ = run_trial(self.services, reference, image, self.allocation, count, hooks)
            if record.outcome is not Outcome.PASSED:
                raise NotMeasured(f"the reference {words} is {record.outcome}: {record.reason}")
            return self._number(record, f"trial {count} of the reference {words}")

        def own() -> float:
            record = self._trial()
            return self._number(record, f"trial {record.number}")

        with suppress(_Unseen):
            other()
        pairs: list[Pair] = []
        unseen = 0
        while not is_decided(pairs, self._limit):
            try:
                if len(pairs) % 4 in (0, 3):
                    pairs.append((own(), other()))
                else:
                    theirs = other()
                    pairs.append((own(), theirs))
            except _Unseen:
                unseen += 1
                if unseen > MOST_UNSEEN:
                    raise
        return tuple(pairs)

    def _trial(self) -> TrialRecord:
        """One trial of the cell. Raises NotMeasured where it does not pass."""
        number = len(self._own) + 1
        record, self._repeat = run_trial(self.services, self.task, self.image, self.allocation, number, self.hooks)
        self._own.append(record)
        self.hooks.keep(tuple(self._own), self._repeat)
        if not self._passes:
            raise NotMeasured(f"trial {number} is {record.outcome}")
        return record

    def _number(self, record: TrialRecord, which: str) -> float:
        number = measure(self._quantity, record.usage, self._log(record))
        if number is None:
            used = record.usage and (record.usage.cpu_seconds, record.usage.peak_memory)
            is_unseen = used in (None, (None, None)) and self._quantity != PRINTED  # its GPUs are known all the same
            why = f"{which}: no {self._quantity} was measured: {NEEDS[self._quantity]}"
            raise _Unseen(why) if is_unseen else NotMeasured(why)
        return number

    def _log(self, record: TrialRecord) -> str:
        return (self.services.folder / record.log).read_text("utf-8", "replace")


def weighed_trials(trials: Sequence[TrialRecord], found: RatioRecord, limit: float) -> tuple[TrialRecord, ...]:
    """The trials of a cell, which passed, with what they were measured to be: they decide together."""
    seen = weigh(found, limit)
    return tuple(replace(one, outcome=seen.outcome, reason=seen.reason) for one in trials)

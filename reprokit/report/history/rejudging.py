"""Recorded cells judged again: by today's rules, or by an edited signature; and what that came to, in words."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from reprokit.case.matrix import cell_key
from reprokit.core.json_record import JsonDocument, JsonRecord
from reprokit.core.terminal import style
from reprokit.core.text import pluralize
from reprokit.evidence.comparing import Outputs, Reference, compare
from reprokit.evidence.details import FormerJudgement, FormerTrial, RejudgementRecord
from reprokit.evidence.judging import add_failures, conclude, judge_trial
from reprokit.evidence.model import RULES_VERSION, Outcome, Verdict
from reprokit.evidence.ratio import MEMORY, RatioRecord
from reprokit.evidence.records import CellRecord, RunRecord, TrialRecord
from reprokit.evidence.sequential import Trials, figures
from reprokit.evidence.text import CUT_MARK
from reprokit.report.labels import cell_name, verdict_words
from reprokit.run.comparing import Gone, outputs_of
from reprokit.run.ratios import weighed_trials
from reprokit.run.task import spec_of
from reprokit.store.errors import StoreError
from reprokit.store.places import read_log

if TYPE_CHECKING:
    from reprokit.case.cellspec import CellSpec
    from reprokit.case.files import CaseFile
    from reprokit.case.model import Expect


BY_TRIALS = (
    Verdict.REPRODUCED,
    Verdict.FLAKY,
    Verdict.NOT_REPRODUCED,
    Verdict.DIFFERENT_FAILURE,
    Verdict.TIMED_OUT,
    Verdict.OUT_OF_MEMORY,
    Verdict.INCONCLUSIVE,
)
"""The verdicts that trials come to. The others are about builds, hosts and engines: no log is behind them."""


class CannotJudge(Exception):
    """What a cell was judged from is not there any more: ``why`` in words, ``where`` as a path or a digest."""

    def __init__(self, why: str, where: str) -> None:
        super().__init__(f"{why}: {where}")
        self.why = why
        self.where = where


@dataclass(frozen=True, kw_only=True)
class Again:
    """A cell that was judged again: as recorded, and as it would be recorded now."""

    run: RunRecord
    before: CellRecord
    after: CellRecord

    @property
    def trials(self) -> tuple[tuple[TrialRecord, TrialRecord], ...]:
        """The trials whose outcome differs, before and after."""
        pairs = zip(self.before.trials, self.after.trials, strict=True)
        return tuple((old, new) for old, new in pairs if old.outcome is not new.outcome)

    @property
    def differs(self) -> bool:
        """Whether the verdict, or the outcome of a trial, is another."""
        return self.before.verdict is not self.after.verdict or bool(self.trials)

    @property
    def stale(self) -> bool:
        """Whether the record is not what it would be now, though its words may be the same."""
        return self.differs or self.before.rules != self.after.rules


def rejudge(
    run: RunRecord,
    cell: CellRecord,
    read: Callable[[str], CaseFile | None],
    folder: Path,
    now: str,
    edited: CaseFile | None = None,
) -> Again | None:
    """Judge a cell again; None where no trial decided it. Raises CannotJudge.

    ``read``: a case by its digest, None where it is not available. ``folder``: the store's. ``edited``: a case whose
    signature is asked instead of the recorded one. ``now``: the time, RFC 3339.
    """
    if cell.verdict not in BY_TRIALS or not cell.trials:
        return None
    digest = judged_by(cell)
    file = edited or read(digest)
    if file is None:
        raise CannotJudge("its case is not kept: name one with --case", digest)
    case = file.fixed if cell.variant == "fix" and file.fixed else file.case
    another = file.digest != digest
    trials = tuple(_trial(case.expect, one, folder, another) for one in cell.trials)
    if case.expect.ratio is not None and all(one.outcome is Outcome.PASSED for one in trials):
        trials = weighed_trials(trials, _measured(cell, case.expect), case.expect.ratio.ratio)
    policy = _policy(cell)
    verdict, reason = conclude(trials, policy, case.expect)
    details = dataclasses.replace(
        add_failures(cell.details, verdict, trials),
        trials=figures([one.outcome for one in trials], policy),
        rejudged=(*cell.details.rejudged, _judgement(cell, digest, file.digest, now)),
        comparison=None,
    )
    after = dataclasses.replace(
        cell, verdict=verdict, reason=reason, rules=RULES_VERSION, trials=trials, details=details
    )
    if case.expect.compare is not None and verdict is Verdict.NOT_REPRODUCED:
        reference = _reference(run, cell, spec_of(file, case, cell.variant, dict(cell.cell)), folder)
        after = compare(after, case.expect.compare, policy, partial(_outputs, folder), reference)
    return Again(run=run, before=cell, after=after)


def _measured(cell: CellRecord, expect: Expect) -> RatioRecord:
    """What the cell was measured against, and how. Raises CannotJudge where that is not what is asked."""
    was, rule = cell.details.ratio, expect.ratio
    assert rule is not None
    if (
        was is None
        or dict(was.cell or cell.cell) != {**cell.cell, **rule.of}
        or (was.quantity and (was.quantity == MEMORY) != (expect.more_memory_than is not None))
    ):
        raise CannotJudge("its trials were not run to be measured so: run it again", cell.case_id)
    return was


def _reference(run: RunRecord, cell: CellRecord, spec: CellSpec, folder: Path) -> Reference | None:
    """What the cell was compared with when it ran; None where it is its own reference. Raises CannotJudge."""
    was = cell.details.comparison
    if was is None:
        raise CannotJudge("its trials were not run to be compared: run it again", cell.case_id)
    if not was.reference:
        return None
    if was.cell is None:
        text = next((file.text for name, file in spec.files.items() if name == was.reference), None)
        [trial] = cell.trials[:1]
        outputs = _outputs(folder, trial)
        if text is None or len(outputs) != 1:
            raise CannotJudge("the file that it was compared with is not in the case", was.reference)
        return Reference(words=was.reference, outputs=dict.fromkeys(outputs, text.encode()))
    key = cell_key(was.cell)
    found = [one for one in run.cells if (one.case_key, cell_key(one.cell)) == (cell.case_key, key) and one.trials]
    other = min(found, key=lambda one: one.variant != cell.variant, default=None)
    if other is None:
        raise CannotJudge("the cell that it was compared with is not recorded", was.reference)
    return Reference(words=was.reference, cell=was.cell, outputs=_outputs(folder, other.trials[0]))


def _outputs(folder: Path, trial: TrialRecord) -> Outputs:
    try:
        return outputs_of(folder, trial)
    except Gone as error:
        raise CannotJudge("its outputs are gone", str(error)) from None


def judged_by(cell: CellRecord) -> str:
    """The digest of the case whose signature a cell was judged by: its own, unless it was judged again by another."""
    return cell.details.rejudged[-1].by if cell.details.rejudged else cell.case_digest


def _policy(cell: CellRecord) -> Trials:
    return Trials.of(cell.details.trials.policy.to_json() if cell.details.trials else len(cell.trials))


def _trial(expect: Expect, trial: TrialRecord, folder: Path, another: bool) -> TrialRecord:
    """A trial judged again; ``another``: by a signature that its log was not kept for."""
    try:
        text = read_log(folder, trial.log).decode("utf-8", "replace")
    except (OSError, StoreError):
        raise CannotJudge("its log is gone", trial.log) from None
    found = judge_trial(expect, trial.number, trial.ending, text, trial.log)
    if another and found.outcome is not Outcome.REPRODUCED and CUT_MARK.search(text):
        raise CannotJudge("its log was cut to its ends and what the signature of then asked for", trial.log)
    return found


def _judgement(cell: CellRecord, digest: str, by: str, now: str) -> RejudgementRecord:
    """What the record said so far, by the signature of the case ``digest``, and who judges it again ``now``."""
    was = FormerJudgement(
        verdict=cell.verdict,
        reason=cell.reason,
        rules=cell.rules,
        by=digest,
        trials=tuple(FormerTrial(number=one.number, outcome=one.outcome, reason=one.reason) for one in cell.trials),
    )
    return RejudgementRecord(at=now, by=by, before=was)


Skipped = tuple[RunRecord, CellRecord, CannotJudge]
"""A cell that could not be judged again, and why."""


def list_rejudged(found: Sequence[Again], skipped: Sequence[Skipped], *, written: bool) -> Iterator[str]:
    """What changed, or would, run by run, then what could not be judged, then how many of how many."""
    changed = [one for one in found if one.differs]
    for run, group in groupby(changed, lambda one: one.run):
        yield style(f"run {run.id}, {run.started_at}", bold=True)
        for one in group:
            cell, after = one.before, one.after
            name = f"{cell.number} {cell.case_id}: {cell_name(cell)}"
            yield f"  {name}: {cell.verdict} -> {verdict_words(after)}"
            said: dict[str, list[str]] = {}
            for old, new in one.trials:
                said.setdefault(f"{old.outcome} -> {new.outcome}: {new.reason}", []).append(str(new.number))
            for words, numbers in said.items():
                yield f"      {'trial' if len(numbers) == 1 else 'trials'} {', '.join(numbers)}: {words}"
    reasons: dict[tuple[str, str], list[str]] = {}
    for run, _, error in skipped:
        reasons.setdefault((run.id, error.why), []).append(error.where)
    for (run_id, why), places in reasons.items():
        yield f"not judged, {pluralize(len(places), 'cell')} of run {run_id}: {why} ({places[0]})"
    runs = len({one.run.id for one in found})
    how = "changed" if written else "would change"
    hint = "; --write records it, and keeps what was there" if changed and not written else ""
    cells = pluralize(len(found), "cell")
    yield f"{cells} of {pluralize(runs, 'run')} judged again: {len(changed) or 'none'} {how}{hint}"


@dataclass(frozen=True, kw_only=True)
class Judged(JsonRecord):
    """What a record says."""

    verdict: Verdict | None
    reason: str
    rules: str
    as_expected: bool | None


@dataclass(frozen=True, kw_only=True)
class JudgedTrial(JsonRecord):
    """What a trial was judged to be."""

    outcome: Outcome
    reason: str


@dataclass(frozen=True, kw_only=True)
class RejudgedTrial(JsonRecord):
    """A trial that is judged otherwise now."""

    number: int
    before: JudgedTrial
    after: JudgedTrial


@dataclass(frozen=True, kw_only=True)
class RecordedCell(JsonRecord):
    """A cell of a run."""

    run: str
    number: int
    case: str
    cell: Mapping[str, str]
    variant: Literal["case", "fix"]


@dataclass(frozen=True, kw_only=True)
class RejudgedCell(RecordedCell):
    """A cell that is judged otherwise now."""

    before: Judged
    after: Judged
    trials: tuple[RejudgedTrial, ...]


@dataclass(frozen=True, kw_only=True)
class NotJudgedCell(RecordedCell):
    """A cell that cannot be judged again."""

    why: str


@dataclass(frozen=True, kw_only=True)
class Rejudgement(JsonDocument):
    """What judging recorded cells again came to."""

    FORMAT = "reprokit-rejudge/v1"

    written: bool
    judged: int
    changed: tuple[RejudgedCell, ...]
    not_judged: tuple[NotJudgedCell, ...]


def describe_rejudged(found: Sequence[Again], skipped: Sequence[Skipped], *, written: bool) -> Rejudgement:
    """The same for programs, with both records of each cell that changed."""
    return Rejudgement(
        written=written,
        judged=len(found),
        changed=tuple(
            RejudgedCell.pick(
                one.before,
                run=one.run.id,
                case=one.before.case_id,
                before=Judged.pick(one.before),
                after=Judged.pick(one.after),
                trials=tuple(
                    RejudgedTrial(number=new.number, before=JudgedTrial.pick(old), after=JudgedTrial.pick(new))
                    for old, new in one.trials
                ),
            )
            for one in found
            if one.differs
        ),
        not_judged=tuple(
            NotJudgedCell.pick(cell, run=run.id, case=cell.case_id, why=str(error)) for run, cell, error in skipped
        ),
    )

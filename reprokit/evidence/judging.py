"""From a trial's ending and log to its record, and from a cell's trials to its verdict. Pure: it can be done again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reprokit.case import units
from reprokit.case.measures import Leaks
from reprokit.case.model import Failure
from reprokit.core.text import pluralize, size
from reprokit.evidence.details import CellDetails, FailureRecord
from reprokit.evidence.judgement import describe_exit, judge
from reprokit.evidence.measuring import ABOVE, BELOW, ERROR, FEWEST, growth
from reprokit.evidence.model import Ending, ExceptionSeen, Judgement, Outcome, Verdict
from reprokit.evidence.records import ExceptionRecord, TrialRecord
from reprokit.evidence.usage import MARK, Usage
from reprokit.evidence.verdict import decide

if TYPE_CHECKING:
    from reprokit.case.model import Expect
    from reprokit.evidence.sequential import Trials


PASSES = Failure(exit_code=0)
"""What a trial never matches that does not pass: so that no failure is taken for a measured number."""


def judge_trial(expect: Expect, number: int, ending: Ending, text: str, log: str) -> TrialRecord:
    """The record of a trial that ended so, from the ``text`` of its log file, which is ``log`` below the store.

    Where its outputs or what it used are compared, it passes so far if its program does: see :mod:`.comparing` and
    :mod:`.ratio`.
    """
    judgement = _judgement(expect, ending, text)
    return TrialRecord.pick(
        ending,
        number=number,
        outcome=judgement.outcome,
        seconds=round(ending.seconds, 3),
        reason=judgement.reason,
        log=log,
        # What a program logged is not a failure if the program passed.
        exception=None if judgement.outcome is Outcome.PASSED else _exception_record(judgement.exception),
        lines=_relevant_lines(judgement),
        failure=_failure_record(judgement),
    )


def _judgement(expect: Expect, ending: Ending, text: str) -> Judgement:
    if expect.compare is None and expect.leaks is None and expect.ratio is None:
        return judge(expect.failure, ending, text, expect.known)
    if expect.leaks is not None and ending.exit_code == 0 and not ending.timed_out:
        return leaked(expect.leaks, ending.usage)
    if ending.exit_code == 0 and not ending.timed_out and not ending.oom:
        return Judgement(outcome=Outcome.PASSED, reason=describe_exit(0))
    return judge(PASSES, ending, text, expect.known)


def conclude(records: Sequence[TrialRecord], trials: Trials, expect: Expect) -> tuple[Verdict, str]:
    """The verdict that trials come to, which were run by the policy ``trials``, and the reason in words."""
    shown = "leaked" if expect.leaks is not None else "failed with the signature"
    verdict, reason = decide([record.outcome for record in records], trials, shown)
    relevant = next((r for r in records if r.outcome.value == verdict.value), None)
    if expect.ratio is not None and len({record.reason for record in records}) == 1:
        return verdict, records[0].reason  # they decide together: no number of them says more than the ratio
    if relevant is not None and relevant.outcome is not Outcome.PASSED:
        reason = f"{reason}: {relevant.reason}" if len(records) > 1 else relevant.reason
    elif verdict is Verdict.NOT_REPRODUCED:
        why = next((record.reason for record in records if record.reason != describe_exit(0)), "")
        reason = f"{reason}; {why}" if why else reason  # a traceback was seen, and is not the failure
    return verdict, reason


def _failure_record(judgement: Judgement) -> FailureRecord | None:
    if judgement.fingerprint is None:
        return None
    return FailureRecord(**vars(judgement.fingerprint), known=judgement.known, stack=judgement.stack)


def _relevant_lines(judgement: Judgement) -> tuple[int, ...]:
    """The log lines that the signature matched, counted from 1: of a matched exception, its whole traceback."""
    lines = {line for check in judgement.checks for line in check.lines}
    seen = judgement.exception
    if seen is not None and judgement.outcome is Outcome.REPRODUCED and seen.line in lines:
        lines |= set(range(seen.line, seen.end_line + 1))
    return tuple(sorted(lines))


def _exception_record(seen: ExceptionSeen | None) -> ExceptionRecord | None:
    if seen is None:
        return None
    return ExceptionRecord(
        type=seen.type, message=seen.message, frames=seen.frames, line=seen.line, end_line=seen.end_line
    )


_OUTCOMES = {ABOVE: Outcome.REPRODUCED, BELOW: Outcome.PASSED, None: Outcome.INCONCLUSIVE}


def leaked(leaks: Leaks, usage: Usage | None) -> Judgement:
    """What a trial shows that ended with 0, and whose ``usage`` is known."""
    if usage is None or not usage.iterations:
        why = f"no iteration was measured: the command prints '{MARK} N' at the end of each, and flushes its output"
        return Judgement(outcome=Outcome.INCONCLUSIVE, reason=f"{why}; the engine has to be on this host")
    limit, grows = units.size(leaks.per_iteration), growth(usage.iterations)
    count = pluralize(len(usage.iterations), "measured iteration")
    if grows is None:
        return Judgement(outcome=Outcome.INCONCLUSIVE, reason=f"{count}, and at least {FEWEST} are needed")
    side = grows.side(limit)
    relation = {ABOVE: "more than", BELOW: "not more than", None: "which leaves open whether it is more than"}[side]
    interval = f"{100 - 200 * ERROR:g} % interval {_bytes(grows.low)} to {_bytes(grows.high)}"
    seen = f"the memory grows by {_bytes(grows.value)} per iteration ({interval}, {count})"
    return Judgement(outcome=_OUTCOMES[side], reason=f"{seen}, {relation} {_bytes(limit)}")


def _bytes(count: float) -> str:
    return f"-{size(-count)}" if count < 0 else size(count)


_OUTCOME = {
    Verdict.REPRODUCED: Outcome.REPRODUCED,
    Verdict.FLAKY: Outcome.REPRODUCED,
    Verdict.DIFFERENT_FAILURE: Outcome.DIFFERENT_FAILURE,
}
"""The verdicts that rest on a failure, and which trials showed it."""


def add_failures(details: CellDetails, verdict: Verdict, trials: Sequence[TrialRecord]) -> CellDetails:
    """``details`` that say how the trials of a cell failed: nothing where the verdict rests on no failure.

    ``failure`` is the fingerprint of the first trial that the verdict rests on; ``failures``, only where trials failed
    in several ways, has each once with the numbers of its ``trials``; ``known`` is the id of the case's known failure
    that all trials with another failure showed.
    """
    failures = [trial.failure for trial in trials if trial.outcome is _OUTCOME.get(verdict) and trial.failure]
    if not failures:
        return replace(details, failure=None, failures=(), known="")
    each: dict[str, FailureRecord] = {}
    for trial in trials:
        if trial.failure:
            way = each.get(trial.failure.id, trial.failure)
            each[trial.failure.id] = replace(way, trials=(*way.trials, trial.number))
    known = {failure.known for failure in failures}
    return replace(
        details,
        failure=failures[0],
        failures=tuple(each.values()) if len(each) > 1 else (),
        known=failures[0].known if verdict is Verdict.DIFFERENT_FAILURE and len(known) == 1 else "",
    )

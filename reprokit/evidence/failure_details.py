"""How a cell's trials failed, as its record keeps it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from reprokit.evidence.details import CellDetails, FailureRecord
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import TrialRecord

_OUTCOME = {
    Verdict.REPRODUCED: Outcome.REPRODUCED,
    Verdict.FLAKY: Outcome.REPRODUCED,
    Verdict.DIFFERENT_FAILURE: Outcome.DIFFERENT_FAILURE,
}
"""The verdicts that rest on a failure, and which trials showed it."""


def with_failures(details: CellDetails, verdict: Verdict, trials: Sequence[TrialRecord]) -> CellDetails:
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

"""How a cell's trials failed, as its record keeps it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import TrialRecord

_TELLING = {
    Verdict.REPRODUCED: Outcome.REPRODUCED,
    Verdict.FLAKY: Outcome.REPRODUCED,
    Verdict.DIFFERENT_FAILURE: Outcome.DIFFERENT_FAILURE,
}
"""The verdicts that rest on a failure, and which trials showed it."""


def failure_details(verdict: Verdict, trials: Sequence[TrialRecord]) -> dict[str, Any]:
    """What a cell's details say of how it failed: nothing where the verdict rests on no failure.

    ``failure`` is the fingerprint of the first trial that the verdict rests on; ``failures``, only where trials failed
    in several ways, has each once with the numbers of its ``trials``; ``known`` is the id of the case's known failure
    that all trials with another failure showed.
    """
    telling = [trial.failure for trial in trials if trial.outcome is _TELLING.get(verdict) and trial.failure]
    if not telling:
        return {}
    details: dict[str, Any] = {"failure": dict(telling[0])}
    each: dict[str, dict[str, Any]] = {}
    for trial in trials:
        if trial.failure:
            each.setdefault(trial.failure["id"], {**trial.failure, "trials": []})["trials"].append(trial.number)
    if len(each) > 1:
        details["failures"] = list(each.values())
    known = {failure.get("known") for failure in telling}
    if verdict is Verdict.DIFFERENT_FAILURE and len(known) == 1 and None not in known:
        details["known"] = telling[0]["known"]
    return details

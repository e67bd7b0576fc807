"""All trials of a cell together: one verdict with its reason, and what the case expects of the cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from reprokit.case.matrix import Partial, matches
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.sequential import AT_LEAST, BELOW, TrialFigures, Trials, failure_rate_bound, interval, lower_rate


def decide(
    outcomes: Sequence[Outcome], trials: Trials | None = None, shown: str = "failed with the signature"
) -> tuple[Verdict, str]:
    """Return the cell's verdict and the reason in words. Without any trial the verdict is ``cancelled``.

    ``trials``: the policy that they were run by; None: as many as there are were asked for. ``shown``: what a trial
    did that reproduced.
    """
    counts = Counter(outcomes)
    total = len(outcomes)
    if not total:
        return Verdict.CANCELLED, "no trial was finished"
    trials = trials or Trials.of(total)
    failed = counts[Outcome.REPRODUCED]
    if failed == total:
        ends = f" ({_interval(failed, total, trials)})" if total > 1 else ""  # of one trial it says next to nothing
        return Verdict.REPRODUCED, f"{_of(total, total)} {shown}{ends}"
    if failed:
        others = "; ".join(f"{count} {outcome}" for outcome, count in counts.items() if outcome != Outcome.REPRODUCED)
        rate = f"a rate of {_percent(failed / total)} % ({_interval(failed, total, trials)})"
        seen = f"{_of(failed, total)} {shown}, the others: {others}"
        return Verdict.FLAKY, f"{seen}; {rate}{_decision(failed, total, trials)}"
    for outcome, verdict, words in (
        (Outcome.DIFFERENT_FAILURE, Verdict.DIFFERENT_FAILURE, "failed otherwise"),
        (Outcome.TIMED_OUT, Verdict.TIMED_OUT, "reached the time limit"),
        (Outcome.OUT_OF_MEMORY, Verdict.OUT_OF_MEMORY, "ran out of memory"),
        (Outcome.INCONCLUSIVE, Verdict.INCONCLUSIVE, "decided nothing"),
    ):
        if counts[outcome]:
            return verdict, f"{_of(counts[outcome], total)} {words}"
    bound = failure_rate_bound(total, trials.confidence)
    still = f"a failure rate of up to {100 * bound:.1f} % is still possible ({100 * trials.confidence:g} % upper bound)"
    return Verdict.NOT_REPRODUCED, f"{_of(total, total)} passed; {still}{_exclusion(total, trials)}"


def _interval(failed: int, total: int, trials: Trials) -> str:
    low, high = interval(failed, total, trials.confidence)
    return f"{100 * trials.confidence:g} % interval {_percent(low)} to {_percent(high)} %"


def _decision(failed: int, total: int, trials: Trials) -> str:
    if trials.rate is None:
        return ""
    asked, low = f"at least {100 * trials.rate:g} %", f"{_percent(lower_rate(trials.rate))} %"
    words = {AT_LEAST: f"decided to be {asked}, not {low}", BELOW: f"decided not to be {asked}, but {low} or so"}
    decided = trials.decide(total, failed)
    return f", {words[decided]}" if decided else f"; whether it is {asked} is open after {total} trials"


def _exclusion(total: int, trials: Trials) -> str:
    if trials.rate is None:
        return ""
    rate = f"{100 * trials.rate:g} %"
    if trials.decide(total, 0) == BELOW:
        return f", so at least {rate} is excluded"
    return f", so at least {rate} is not excluded: that takes {trials.needed()} trials"


def _percent(share: float) -> str:
    """``59``, ``4.6``, ``0.25``: two digits that count."""
    return f"{100 * share:.0f}" if share >= 0.0995 else f"{100 * share:.2g}"


def _of(count: int, total: int) -> str:
    return "the only trial" if total == 1 else f"{count} of {total} trials"


def expect_verdict(reproduces: str | Sequence[Partial], cell: Partial, known: bool) -> Verdict | None:
    """Return the verdict that a case's ``expect.reproduces`` promises for ``cell``, or None where it promises none.

    A list names the cells that reproduce, by partial cells, and says of all others of the case's own matrix that they
    do not; a cell outside of that matrix (``known`` false) is left open.
    """
    if isinstance(reproduces, str):
        return {"all": Verdict.REPRODUCED, "none": Verdict.NOT_REPRODUCED}.get(reproduces)
    if not known:
        return None
    fits = any(matches(cell, partial) for partial in reproduces)
    return Verdict.REPRODUCED if fits else Verdict.NOT_REPRODUCED


def fits(verdict: Verdict, promised: Verdict, figures: TrialFigures | None) -> bool:
    """Whether a conclusive verdict is what the case expects; ``figures``: those of the cell's trials, as recorded.

    A flaky cell is not what ``reproduced`` promises, unless a ``rate`` was asked for, by the case or for the run: then
    failures that do not always show are what is looked for, and only a cell whose rate is decided to be lower departs.
    """
    if verdict is Verdict.FLAKY and promised is Verdict.REPRODUCED and figures is not None:
        return figures.policy.rate is not None and figures.decided != BELOW
    return verdict is promised

"""All trials of a cell together: one verdict with its reason, and what the case expects of the cell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from reprokit.evidence.model import Outcome, Verdict
from reprokit.matrix import matches

CONFIDENCE = 0.95


def failure_rate_bound(trials: int, confidence: float = CONFIDENCE) -> float:
    """Upper bound of the failure rate after ``trials`` that all ended well (exact binomial, one-sided).

    A rate p leaves ``trials`` clean runs with probability (1 - p) ** trials; the bound is where that is 1 - confidence.
    """
    if trials < 1:
        return 1.0
    return float(1.0 - (1.0 - confidence) ** (1.0 / trials))


def decide(outcomes: Sequence[Outcome]) -> tuple[Verdict, str]:
    """Return the cell's verdict and the reason in words. Without any trial the verdict is ``cancelled``."""
    counts = Counter(outcomes)
    total = len(outcomes)
    if not total:
        return Verdict.CANCELLED, "no trial was finished"
    failed = counts[Outcome.REPRODUCED]
    if failed == total:
        return Verdict.REPRODUCED, f"{_of(total, total)} failed with the signature"
    if failed:
        others = "; ".join(f"{count} {outcome}" for outcome, count in counts.items() if outcome != Outcome.REPRODUCED)
        return Verdict.FLAKY, f"{_of(failed, total)} failed with the signature, the others: {others}"
    for outcome, verdict, words in (
        (Outcome.DIFFERENT_FAILURE, Verdict.DIFFERENT_FAILURE, "failed otherwise"),
        (Outcome.TIMED_OUT, Verdict.TIMED_OUT, "reached the time limit"),
        (Outcome.OUT_OF_MEMORY, Verdict.OUT_OF_MEMORY, "ran out of memory"),
    ):
        if counts[outcome]:
            return verdict, f"{_of(counts[outcome], total)} {words}"
    bound = failure_rate_bound(total)
    still = f"a failure rate of up to {100 * bound:.1f} % is still possible ({100 * CONFIDENCE:.0f} % upper bound)"
    return Verdict.NOT_REPRODUCED, f"{_of(total, total)} ended well; {still}"


def _of(count: int, total: int) -> str:
    return "the only trial" if total == 1 else f"{count} of {total} trials"


def expected(reproduces: str | Sequence[Mapping[str, str]], cell: Mapping[str, str], known: bool) -> Verdict | None:
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

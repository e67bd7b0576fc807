"""Whether a trial leaks, by its memory at the iterations that it marked. Pure."""

from __future__ import annotations

from reprokit.case import units
from reprokit.case.measures import Leaks
from reprokit.core.text import pluralize, size
from reprokit.evidence.measuring import ABOVE, BELOW, ERROR, FEWEST, growth
from reprokit.evidence.model import Judgement, Outcome
from reprokit.evidence.usage import MARK, Usage

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

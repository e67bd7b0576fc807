"""How often trials decide wrongly, and how many they take: ours, a fixed number, and ClusterFuzz's 5 of 10. Pure."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from reprokit.evidence.sequential import AT_LEAST, BELOW, Trials, interval

Rule = Callable[[int, int], str | None]
RATES = (0.0, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
SEED = 5


def clusterfuzz(count: int, matched: int) -> str | None:
    """``test_reproduce_reliability`` of src/clusterfuzz/_internal/bot/testcase_manager.py with 10 retries."""
    if matched >= 5:
        return "yes"
    return "no" if 10 - count + matched < 5 else None


def ours(trials: Trials) -> Rule:
    """The rule of a policy, for programs that pass or fail with the signature."""

    def rule(count: int, matched: int) -> str | None:
        if not trials.enough(count, matched):
            return None
        decided = trials.decide(count, matched)
        return {AT_LEAST: "yes", BELOW: "no"}.get(decided or "", "open")

    return rule


def fixed(number: int) -> Rule:
    """A fixed number of trials, of which one that matches says yes."""
    return lambda count, matched: None if count < number else "yes" if matched else "no"


@dataclass(frozen=True, kw_only=True)
class Figures:
    """What a rule does at one true rate, as shares of cells; ``mean``: trials of a cell.

    ``yes``: with what is open decided as ClusterFuzz does, by whether half of the trials matched.
    """

    at_least: float
    below: float
    open: float
    yes: float
    reproduced: float
    flaky: float
    clean: float
    mean: float

    @property
    def verdicts(self) -> tuple[float, float, float]:
        """Shares of ``reproduced``, ``flaky`` and ``not-reproduced``."""
        return self.reproduced, self.flaky, self.clean


CLUSTERFUZZ: Rule = clusterfuzz
LIKE_CLUSTERFUZZ = Trials(max=10, confidence=0.95, rate=0.7)


def simulated(rule: Rule | Trials, rate: float, *, rounds: int) -> Figures:
    """The figures of ``rounds`` cells whose trials match with ``rate``; 0 rounds: the exact ones."""
    policy = ours(rule) if isinstance(rule, Trials) else rule
    ends = _seen(policy, rate, rounds) if rounds else _chances(policy, rate)

    def share(fits: Callable[[int, int, str], bool]) -> float:
        return sum(chance for (count, matched, says), chance in ends.items() if fits(count, matched, says))

    return Figures(
        at_least=share(lambda n, x, says: says == "yes"),
        below=share(lambda n, x, says: says == "no"),
        open=share(lambda n, x, says: says == "open"),
        yes=share(lambda n, x, says: says == "yes" or (says == "open" and 2 * x >= n)),
        reproduced=share(lambda n, x, says: x == n),
        flaky=share(lambda n, x, says: 0 < x < n),
        clean=share(lambda n, x, says: x == 0),
        mean=sum(chance * count for (count, _, _), chance in ends.items()),
    )


def covered(trials: Trials, rate: float) -> float:
    """How often the interval holds the true rate, exactly."""
    ends = _chances(ours(trials), rate)
    return sum(chance for (count, matched, _), chance in ends.items() if _holds(rate, matched, count, trials))


def _holds(rate: float, matched: int, count: int, trials: Trials) -> bool:
    low, high = interval(matched, count, trials.confidence)
    return low <= rate <= high


def yes_of(rule: Rule, rate: float) -> float:
    """How often a rule says yes at a true rate, exactly."""
    return simulated(rule, rate, rounds=0).yes


Ends = dict[tuple[int, int, str], float]


def _chances(rule: Rule, rate: float) -> Ends:
    """Where cells end, with the chance of each."""
    ends: Ends = {}
    states, count = {0: 1.0}, 0
    while states:
        following: dict[int, float] = {}
        for matched, chance in states.items():
            says = rule(count, matched)
            if says:
                ends[count, matched, says] = chance
            elif chance > 1e-12:
                following[matched + 1] = following.get(matched + 1, 0.0) + chance * rate
                following[matched] = following.get(matched, 0.0) + chance * (1 - rate)
        states, count = following, count + 1
    return ends


def _seen(rule: Rule, rate: float, rounds: int) -> Ends:
    luck = random.Random(f"{SEED} {rate}")
    ends: Ends = {}
    for _ in range(rounds):
        count = matched = 0
        while not (says := rule(count, matched)):
            count, matched = count + 1, matched + (luck.random() < rate)
        ends[count, matched, says] = ends.get((count, matched, says), 0.0) + 1 / rounds
    return ends


def agreement(rate: float, rounds: int) -> float:
    """The share of simulated cells in which ours, on ClusterFuzz's terms, decides as its 5 of 10 on the same trials."""
    luck, alike = random.Random(f"{SEED} {rate}"), 0
    for _ in range(rounds):
        shows = [luck.random() < rate for _ in range(10)]
        alike += _said(CLUSTERFUZZ, shows) == _said(ours(LIKE_CLUSTERFUZZ), shows)
    return alike / rounds


def _said(rule: Rule, shows: list[bool]) -> bool:
    """Whether a rule says yes of these trials; where it leaves that open, whether half of them matched."""
    count, says = next((n, says) for n in range(len(shows) + 1) if (says := rule(n, sum(shows[:n]))))
    return says == "yes" or (says == "open" and 2 * sum(shows[:count]) >= count)


def table(rounds: int = 2000) -> str:
    """The figures of all rules at all rates."""
    asked, patient = Trials(), Trials(max=100)
    lines = ["Verdicts and trials of {max: 20, confidence: 0.95, rate: 0.1}; with max: 100 behind the bar"]
    heads = ("reproduced", "flaky", "not-repr.", ">=rate", "<rate", "open", "trials", "covered")
    lines.append("  rate " + " ".join(f"{head:>10}" for head in heads) + "  |    >=rate      <rate     trials")
    for rate in RATES:
        a, b = simulated(asked, rate, rounds=0), simulated(patient, rate, rounds=0)
        row = (a.reproduced, a.flaky, a.clean, a.at_least, a.below, a.open, a.mean, covered(asked, rate))
        more = (b.at_least, b.below, b.mean)
        lines.append(
            f"{rate:6.2f} " + " ".join(f"{v:10.3f}" for v in row) + "  |" + " ".join(f"{v:10.3f}" for v in more)
        )
    lines += ["", "Share of cells in which the failure shows at least once, and trials: fixed numbers and ours"]
    lines.append("  rate " + " ".join(f"{head:>16}" for head in ("1", "3", "10", "ours, max 20")))
    for rate in RATES:
        cells = [simulated(rule, rate, rounds=0) for rule in (fixed(1), fixed(3), fixed(10), asked)]
        lines.append(f"{rate:6.2f} " + " ".join(f"{1 - c.clean:8.3f} {c.mean:7.2f}" for c in cells))
    lines += ["", "ClusterFuzz's terms, half of 10: share of yes, and trials, exact and of simulated cells"]
    lines.append(
        f"  rate {'5 of 10':>16} {'ours, rate 0.7':>16} {'simulated':>16} {'trials saved':>13} {'decide alike':>13}"
    )
    for rate in RATES:
        theirs, like = simulated(CLUSTERFUZZ, rate, rounds=0), simulated(LIKE_CLUSTERFUZZ, rate, rounds=0)
        seen = simulated(LIKE_CLUSTERFUZZ, rate, rounds=rounds)
        shown = " ".join(f"{c.yes:8.3f} {c.mean:7.2f}" for c in (theirs, like, seen))
        lines.append(
            f"{rate:6.2f} {shown} {100 * (1 - like.mean / theirs.mean):11.0f} % {agreement(rate, rounds):13.3f}"
        )
    worst = {
        name: min(covered(trials, k / 200) for k in range(201)) for name, trials in (("20", asked), ("100", patient))
    }
    lines += [
        "",
        *(f"95 % intervals, max {name}: hold the rate in {100 * low:.1f} % at least" for name, low in worst.items()),
    ]
    return "\n".join(lines)

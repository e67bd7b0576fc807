"""How often a change is reported where nothing changed, and how soon a real one is: simulated nights of three trials.

Beside what counts here: two consecutive results alone, whatever the failure's rate.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from reprokit.report.history.transitions import State, transitions

RATES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
NIGHTS, TRIALS, CELLS = 100, 3, 400


def nights(chance: random.Random, rate: float, count: int) -> list[tuple[int, int]]:
    """Matched and all trials of each night."""
    return [(sum(chance.random() < rate for _ in range(TRIALS)), TRIALS) for _ in range(count)]


def reported_changes(seen: Sequence[tuple[int, int]]) -> list[int]:
    """The nights in which a transition came to count."""
    found = transitions(_states(seen), tally=lambda at: seen[at])
    return [one.settled for one in found if one.old is not None and one.settled is not None]


def two_in_a_row(seen: Sequence[tuple[int, int]]) -> list[int]:
    """The nights in which a transition would count if two consecutive results were always enough."""
    states, standing, found = _states(seen), None, []
    for at, (before, now) in enumerate(pairwise(states), 1):
        standing = standing or before
        if now is before and now is not standing:
            found.append(at)
            standing = now
    return found


def _states(seen: Sequence[tuple[int, int]]) -> list[State]:
    return [State.REPRODUCING if matched else State.NOT_REPRODUCING for matched, _ in seen]


def table(cells: int = CELLS) -> str:
    """For each rate of the failure: changes reported per 100 nights in which nothing changed, by either rule.

    Then, of a failure that is fixed after 30 nights, the median number of nights until that is reported, and the share
    never reported in the 100 nights after.
    """
    chance = random.Random(11)
    lines = [f"{'rate':>5}  {'reported, though nothing changed':>32}  {'fixed: nights until reported':>28}  never"]
    lines.append(f"{'':>5}  {'two in a row':>14} {'here':>14}  {'median':>26}")
    for rate in RATES:
        still = [nights(chance, rate, NIGHTS) for _ in range(cells)]
        plain, here = (sum(len(rule(one)) for one in still) / cells for rule in (two_in_a_row, reported_changes))
        fixed = [nights(chance, rate, 30) + nights(chance, 0, NIGHTS) for _ in range(cells)]
        delays = sorted(min((at - 29 for at in reported_changes(one) if at >= 30), default=NIGHTS + 1) for one in fixed)
        never = sum(delay > NIGHTS for delay in delays) / cells
        lines.append(f"{rate:>5}  {plain:>14.2f} {here:>14.2f}  {delays[cells // 2]:>26}  {100 * never:.0f} %")
    return "\n".join(lines)

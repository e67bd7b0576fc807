"""Simulated reductions: planted needs, parts that need others, failures that do not always show; seeds are fixed."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reprokit.evidence.reading import Reading
from reprokit.search.queries import Candidate, Query, drive
from reprokit.search.reduce_parts import PartGroup
from reprokit.search.reduction import Trying, smallest

Answer = Callable[[frozenset[int]], Reading]
"""What a case with these parts shows."""


def shrink(parts: int, answer: Answer, *, pairs: bool = False, cells: int = 10**9) -> tuple[frozenset[int], int]:
    """What is left of ``parts``, which together are known to fail, and how many cells that took, ``cells`` at most."""
    asked = 0

    def tell(ask: Query) -> tuple[Reading, ...]:
        nonlocal asked
        asked += len(ask.candidates)
        return tuple(answer(frozenset(map(int, one.cell))) for one in ask.candidates)

    def without(gone: frozenset[int]) -> dict[str, Any]:
        return {str(part): "" for part in range(parts) if part not in gone}

    trying = Trying(
        write=lambda data, name: Candidate(cell=dict.fromkeys(data, ""), name=name),
        same=lambda one: frozenset(one.cell),
        spent=lambda: asked >= cells,
    )
    trying.knows(Candidate(cell=without(frozenset())), fails=True)
    names = tuple(map(str, range(parts)))
    gone = drive(smallest(PartGroup(kind="env", names=names, without=without, pairs=pairs), trying), tell)
    return frozenset(range(parts)) - gone, asked


@dataclass(frozen=True, kw_only=True)
class Figures:
    """Of ``runs`` reductions, how many left ``exact``ly what is needed; ``fails``: and how many what still fails.

    ``cells``: the mean of what was run.
    """

    runs: int
    exact: int
    fails: int
    cells: float


def simulate(*, parts: int, needed: int, tied: int, flaky: float, trials: int, runs: int, seed: int) -> Figures:
    """Reduce cases of so many ``parts`` of which so many are ``needed``, anywhere.

    ``tied``: parts that cannot be judged without another, as what no longer installs. ``flaky``: how often the failure
    does not show in one of its ``trials``.
    """
    chance = random.Random(seed)
    exact = fails = cells = 0
    for _ in range(runs):
        wanted = set(chance.sample(range(parts), needed))
        ties = [tuple(chance.sample(range(parts), 2)) for _ in range(tied)]

        def broken(rest: frozenset[int], ties: list[tuple[int, ...]] = ties) -> bool:
            return any(part in rest and other not in rest for part, other in ties)

        def answer(rest: frozenset[int], wanted: set[int] = wanted, broken: Any = broken) -> Reading:
            if broken(rest):
                return Reading.UNRESOLVED
            shows = wanted <= rest and any(chance.random() >= flaky for _ in range(trials))
            return Reading.FAIL if shows else Reading.PASS

        left, asked = shrink(parts, answer)
        closed = set(wanted)
        while more := {other for part, other in ties if part in closed} - closed:
            closed |= more
        exact += left == closed
        fails += wanted <= left and not broken(left)
        cells += asked
    return Figures(runs=runs, exact=exact, fails=fails, cells=cells / runs)

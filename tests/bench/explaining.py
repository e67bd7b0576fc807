"""How often planted causes are found from some of the cells of a grid, and what is said where they are not. Pure."""

from __future__ import annotations

import itertools
import random
import statistics
import time
from collections import Counter
from collections.abc import Iterator

from reprokit.case.matrix import Cell
from reprokit.evidence.reading import Reading
from reprokit.search.explain.conditions import Conditions, holds, of_axis
from reprokit.search.explain.explain import explain

SEED = 5
GRIDS = 1000


def planted(chance: random.Random) -> tuple[list[Cell], Conditions]:
    """A grid of two to five axes of as many values, and one to three conjunctions that some of its cells fulfil."""
    axes = {f"axis{at}": [str(value) for value in range(chance.randint(2, 5))] for at in range(chance.randint(2, 5))}
    singles = [one for axis, values in axes.items() for one in of_axis(axis, values)[0] if one.size == 1]
    conjunctions = []
    for _ in range(chance.randint(1, 3)):
        by_axis = {one.axis: one for one in chance.sample(singles, chance.randint(1, 3))}
        conjunctions.append(tuple(by_axis.values()))
    cells = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    cause = tuple(conjunctions)
    return (cells, cause) if len({holds(cause, cell) for cell in cells}) == 2 else planted(chance)


def report(grids: int = GRIDS) -> Iterator[str]:
    """A line per share of the cells that are decided."""
    for share in (1.0, 0.5, 0.25, 0.1):
        chance = random.Random(SEED)
        counts: Counter[str] = Counter()
        seconds = []
        for _ in range(grids):
            cells, cause = planted(chance)
            truth = [holds(cause, cell) for cell in cells]
            known = set(chance.sample(range(len(cells)), max(2, int(share * len(cells)))))
            readings = [
                Reading.UNRESOLVED if at not in known else Reading.FAIL if fails else Reading.PASS
                for at, fails in enumerate(truth)
            ]
            started = time.process_time()
            found = explain(cells, readings)
            seconds.append(time.process_time() - started)
            answers = [[holds(one, cell) for cell in cells] == truth for one in (found.found, *found.rivals)]
            counts.update([found.claim.value, *["cause"] * answers[0], *["or rival"] * any(answers)])
        yield (
            f"{share:4.0%} decided: one explanation {counts['exact']}, several {counts['one-of']}, no claim "
            f"{counts['none']}; the first is the cause, over the whole grid, in {counts['cause']}, it or a rival in "
            f"{counts['or rival']}; median {statistics.median(seconds):.4f} s, most {max(seconds):.2f} s"
        )

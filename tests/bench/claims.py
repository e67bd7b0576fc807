"""``python -m tests.bench claims``: how often "reproduces exactly when" is said, falsely and truly, and its cost."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache

from reprokit.case.matrix import Cell
from reprokit.core.text import pluralize
from reprokit.evidence.reading import Reading
from reprokit.evidence.strength import Tally
from reprokit.search.conditions import holds
from reprokit.search.explain import Explanation, explain
from reprokit.search.repeating import Support, budget, next_repeat

SEED = 5
SECONDS = 0.5
"""How long a trial takes: a short program in a container."""
RATES = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
GRIDS = ((2,), (4,), (2, 2), (2, 3), (8,), (2, 2, 2), (4, 4), (16,), (2, 2, 2, 2), (4, 8), (64,), (4, 4, 4), (2,) * 6)
"""How many values each axis has."""
CAUSES = ("none", "one value", "two values", "two terms")
"""In which cells the failure has its rate: in all, or in those that fulfil a condition."""

Shape = tuple[int, ...]


@cache
def grid(shape: Shape) -> tuple[Cell, ...]:
    """The cells of a grid; values have no order, so that sets of them are conditions."""
    axes = [[f"{'klmnop'[at]}{value}" for value in range(size)] for at, size in enumerate(shape)]
    return tuple(dict(zip("klmnop", values, strict=False)) for values in itertools.product(*axes))


def fails(cause: str) -> Callable[[Cell], bool]:
    """Which cells a cause makes fail."""
    return {
        "none": lambda cell: True,
        "one value": lambda cell: cell["k"] == "k1",
        "two values": lambda cell: cell["k"] in ("k0", "k1"),
        "two terms": lambda cell: cell["k"] == "k1" and cell["l"] == "l1",
    }[cause]


def fits(cause: str, shape: Shape) -> bool:
    """Whether a grid has the values of a cause, and others."""
    return {"two values": shape[0] > 2, "two terms": len(shape) > 1}.get(cause, True)


@dataclass(frozen=True, kw_only=True)
class World:
    """What is simulated. ``elsewhere``: the rate in the other cells, of which the rule promises only where it is 0."""

    shape: Shape
    cause: str
    rate: float
    trials: int = 1
    elsewhere: float = 0.0


@dataclass(frozen=True, kw_only=True)
class End:
    """``said``: "exactly when"; ``true``: of the cells that can fail and no others; ``extra``: trials repeated."""

    said: bool
    true: bool
    extra: int


def simulated(world: World, luck: random.Random, *, limit: float | None = None) -> End:
    """One run. ``limit``: the most trials that are repeated; None: as the budget of ``--confirm auto`` has it."""
    cells = grid(world.shape)
    rates = [world.rate if fails(world.cause)(cell) else world.elsewhere for cell in cells]
    tallies = [_tried(Tally(), rate, luck, world.trials) for rate in rates]
    seconds = [1.0] * len(cells)
    left = budget(world.trials * len(cells) * SECONDS) / SECONDS if limit is None else limit
    extra = 0
    while True:
        found, support = _explained(world.shape, tuple(tally.failed > 0 for tally in tallies))
        plan = support.missing(tallies, seconds)
        ended = True
        while (at := next_repeat(plan, tallies, seconds, left - extra)) is not None:
            was, tallies[at] = tallies[at], _tried(tallies[at], rates[at], luck, 1)
            extra += 1
            plan = replace(plan, cells=plan.cells[1:], seconds=plan.seconds - 1)
            if was.failed * was.passed or tallies[at].failed * tallies[at].passed:
                ended = False  # not as before: plan again
                break
        if ended:
            break
    said = support.given(tallies)
    truth = [rate > 0 for rate in rates]
    return End(said=said, true=said and [bool(holds(found.found, cell)) for cell in cells] == truth, extra=extra)


def _tried(tally: Tally, rate: float, luck: random.Random, number: int) -> Tally:
    failed = sum(luck.random() < rate for _ in range(number))
    return tally + Tally(failed=failed, passed=number - failed)


@cache
def _explained(shape: Shape, failing: tuple[bool, ...]) -> tuple[Explanation, Support]:
    found = explain(grid(shape), [Reading.FAIL if each else Reading.PASS for each in failing])
    return found, Support(found, grid(shape))


@dataclass(frozen=True, kw_only=True)
class Shares:
    """Of the runs of a world: in percent, false and true statements; mean and 90th percentile of repeated trials."""

    world: World
    false: float
    true: float
    mean: float
    most: int


def shares(world: World, runs: int) -> Shares:
    """What ``runs`` seeded runs of a world say."""
    luck = random.Random(f"{SEED} {world}")
    ends = [simulated(world, luck) for _ in range(runs)]
    extra = sorted(end.extra for end in ends)
    return Shares(
        world=world,
        false=100 * sum(end.said and not end.true for end in ends) / runs,
        true=100 * sum(end.true for end in ends) / runs,
        mean=statistics.mean(extra),
        most=extra[9 * runs // 10],
    )


def worlds(trials: int) -> Iterator[World]:
    """Those that the promise is about: each grid, cause and rate."""
    for shape, cause in itertools.product(GRIDS, CAUSES):
        if fits(cause, shape):
            for rate in RATES:
                yield World(shape=shape, cause=cause, rate=rate, trials=trials)


def report(runs: int = 1000) -> Iterator[str]:
    """A table of each grid and cause, and below it what the rule does not promise."""
    with ProcessPoolExecutor() as pool:
        for trials in (1, 3):
            yield f"{pluralize(trials, 'trial')} of each cell, {runs} runs of each grid, cause and rate"
            yield f"{'grid':>14} {'cause':>10} {'false %':>8} {'at rate':>8} {'true %':>7} {'mean':>6} {'p90':>4}"
            found = pool.map(shares, worlds(trials), itertools.repeat(runs), chunksize=1)
            for (shape, cause), some in itertools.groupby(found, lambda one: (one.world.shape, one.world.cause)):
                rates = list(some)
                worst, certain = max(rates, key=lambda one: one.false), rates[-1]
                true = f"{certain.true:7.1f} {certain.mean:6.1f} {certain.most:4d}" if cause != "none" else ""
                yield f"{_name(shape):>14} {cause:>10} {worst.false:8.2f} {worst.world.rate:8g} {true}"
        yield "not promised: certain in the cells of the cause, and seldom in the others"
        for shape, elsewhere in itertools.product(((2,), (2, 2), (4, 4)), (0.05, 0.1)):
            one = shares(World(shape=shape, cause="one value", rate=1.0, elsewhere=elsewhere), runs)
            yield f"{_name(shape):>14} {elsewhere:g} elsewhere: said falsely in {one.false:.1f} %"


def _name(shape: Shape) -> str:
    return "x".join(map(str, shape))

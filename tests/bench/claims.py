"""``python -m tests.bench claims``: what runs say of cells that fail at planted rates, falsely and truly, and its cost.

A statement is false if a value that it names does not fail more often than one that it leaves out, or if a cell that
passed fails more often than it says is not excluded; "exactly" also if one of these cells can fail at all.
What was seen without a claim has that bound as well.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from statistics import mean

from reprokit.case.matrix import Cell
from reprokit.evidence.reading import Reading
from reprokit.evidence.strength import Tally, bound
from reprokit.search.conditions import holds
from reprokit.search.explain import Explanation, Statement, difference, explain
from reprokit.search.repeating import Support, budget, next_repeat

SEED = 5
SECONDS = 0.5
"""How long a trial takes: a short program in a container."""
TRIALS = (1, 3, 5, 12, 20)
GRADED = (0.01, 0.05, 0.3, 0.7, 0.99)

Shape = tuple[int, ...]


@cache
def grid(shape: Shape, *, ordered: bool = False) -> tuple[Cell, ...]:
    """The cells of a grid; values have no order, so that sets of them are conditions, unless they are ``ordered``."""
    axes = [[f"{'' if ordered else 'klmnop'[at]}{value}" for value in range(size)] for at, size in enumerate(shape)]
    return tuple(dict(zip("klmnop", values, strict=False)) for values in itertools.product(*axes))


@dataclass(frozen=True, kw_only=True)
class World:
    """What is simulated. ``cause``: in which cells the failure has its ``rate``; ``elsewhere``: the rate in others."""

    shape: Shape
    cause: str
    rate: float = 1.0
    trials: int = 1
    elsewhere: float = 0.0
    exact: bool = False  # --confirm exact

    @property
    def cells(self) -> tuple[Cell, ...]:
        """Its cells."""
        return grid(self.shape, ordered=self.cause == "graded")

    @property
    def family(self) -> str:
        """The row of the table that it is in."""
        if self.cause in ("one value", "two terms") and self.rate == 1:
            return f"{100 * self.elsewhere:g} % elsewhere{', exact' * self.exact}"
        return {"graded": "graded", "own": "each its own", "or": "two causes"}.get(self.cause, f"flaky, {self.rate:g}")

    def rates(self, luck: random.Random) -> list[float]:
        """The rate of each cell; those of the cause ``own`` are drawn."""
        if self.cause == "graded":
            return [GRADED[int(cell["k"])] for cell in self.cells]
        if self.cause == "own":
            return [luck.random() for _ in self.cells]
        return [self._rate(cell) for cell in self.cells]

    def _rate(self, cell: Cell) -> float:
        if self.cause == "or":
            return max(self.rate * (cell["k"] == "k1"), 0.3 * (cell["l"] == "l1"))
        fails = {
            "all": True,
            "one value": cell["k"] == "k1",
            "two values": cell["k"] in ("k0", "k1"),
            "two terms": cell["k"] == "k1" and cell.get("l") == "l1",
        }
        return self.rate if fails[self.cause] else self.elsewhere


@dataclass(frozen=True, kw_only=True)
class End:
    """What a run came to. ``said``: "reproduces when"; ``differs``: "more often when"; ``extra``: trials repeated."""

    said: bool
    differs: bool
    exactly: bool
    false: bool
    extra: int


def simulated(world: World, luck: random.Random, *, limit: float | None = None) -> End:
    """One run. ``limit``: the most trials that are repeated; None: as the budget of ``--confirm auto`` has it."""
    cells, rates = world.cells, world.rates(luck)
    tallies = [_tried(Tally(), rate, luck, world.trials) for rate in rates]
    seconds = [1.0] * len(cells)
    left = budget(world.trials * len(cells) * SECONDS) / SECONDS if limit is None else limit
    left = 1e9 if world.exact else left
    extra, before = 0, -1
    while extra > before:
        before = extra
        failing = tuple(tally.failed > 0 for tally in tallies)
        found, support = _explained(world.shape, failing, world.cause == "graded", world.exact)
        plan = support.missing(tallies, seconds)
        while (at := next_repeat(plan, tallies, seconds, left - extra)) is not None:
            was, tallies[at] = tallies[at], _tried(tallies[at], rates[at], luck, 1)
            extra += 1
            plan = replace(plan, cells=plan.cells[1:], seconds=plan.seconds - 1)
            if was.failed * was.passed or tallies[at].failed * tallies[at].passed:
                break  # not as before: plan again
    said = support.given(tallies)
    exactly = said and support.exact(tallies)
    between = None if said else difference(cells, tallies)
    false = is_false(found, support, cells, tallies, rates)
    return End(said=said, differs=between is not None, exactly=exactly, false=false, extra=extra)


def is_false(
    found: Explanation, support: Support, cells: Sequence[Cell], tallies: Sequence[Tally], rates: Sequence[float]
) -> bool:
    """Whether what is stated of cells that fail at these ``rates`` is false, or its bound is."""
    said, exactly = support.given(tallies), support.given(tallies) and support.exact(tallies)
    between = None if said else difference(cells, tallies)
    if said or (found.claim is Statement.EXACT and between is None):
        most = bound((tallies[at].passed for at in found.good), found.decided)
        false = max(rates[at] for at in found.good) > most
        false |= said and not _is_true(found, cells, rates)
        return false or (exactly and any(rates[at] for at in found.good))
    return between is not None and not _is_more(between.condition.accepted, between.condition.axis, cells, rates)


def _is_true(found: Explanation, cells: Sequence[Cell], rates: Sequence[float]) -> bool:
    """Whether each value that a condition names fails more often than each that it does not."""
    for conjunction in found.found:
        for term in conjunction:
            others = tuple(one for one in conjunction if one is not term)
            inside: dict[object, list[float]] = {}
            outside: dict[object, list[float]] = {}
            for cell, rate in zip(cells, rates, strict=True):
                value = cell.get(term.axis)
                if all(one.holds(cell.get(one.axis)) for one in others):
                    if term.holds(value):
                        inside.setdefault(value, []).append(rate)
                    elif not holds(found.found, cell):
                        outside.setdefault(value, []).append(rate)
            if outside and min(map(mean, inside.values())) <= max(map(mean, outside.values())):
                return False
    return True


def _is_more(accepted: frozenset[str | None], axis: str, cells: Sequence[Cell], rates: Sequence[float]) -> bool:
    sides: dict[bool, list[float]] = {True: [], False: []}
    for cell, rate in zip(cells, rates, strict=True):
        sides[cell.get(axis) in accepted].append(rate)
    return mean(sides[True]) > mean(sides[False])


def _tried(tally: Tally, rate: float, luck: random.Random, number: int) -> Tally:
    failed = sum(luck.random() < rate for _ in range(number))
    return tally + Tally(failed=failed, passed=number - failed)


@lru_cache(10_000)
def _explained(shape: Shape, failing: tuple[bool, ...], ordered: bool, exact: bool) -> tuple[Explanation, Support]:
    cells = grid(shape, ordered=ordered)
    found = explain(cells, [Reading.FAIL if each else Reading.PASS for each in failing])
    return found, Support(found, cells, exact=exact)


def worlds() -> Iterator[World]:
    """Each family: seldom elsewhere, graded, each cell its own rate, two causes; and what is to be claimed."""
    for elsewhere, shape in itertools.product((0.0, 0.05, 0.1, 0.2, 0.3), ((2,), (4,), (2, 2), (2, 4))):
        yield World(shape=shape, cause="one value", elsewhere=elsewhere)
    yield from (World(shape=shape, cause="one value", elsewhere=0.05, exact=True) for shape in ((2,), (4,), (2, 2)))
    yield World(shape=(5,), cause="graded")
    yield from (World(shape=shape, cause="own") for shape in ((4,), (2, 3)))
    yield from (World(shape=shape, cause="or", rate=rate) for shape in ((2, 2), (2, 2, 2)) for rate in (0.5, 1.0))
    for rate in (0.3, 0.7):
        yield World(shape=(4,), cause="all", rate=rate)
        yield from (World(shape=shape, cause="one value", rate=rate) for shape in ((4,), (2, 2)))
        yield World(shape=(4,), cause="two values", rate=rate)


def shares(world: World, runs: int) -> tuple[float, ...]:
    """Of seeded runs, in percent: false statements, true claims, true differences of rates; and the mean of repeats."""
    luck = random.Random(f"{SEED} {world}")
    ends = [simulated(world, luck) for _ in range(runs)]
    return (
        100 * mean(end.false for end in ends),
        100 * mean(end.said and not end.false for end in ends),
        100 * mean(end.differs and not end.false for end in ends),
        mean(end.extra for end in ends),
    )


def report(runs: int = 1000) -> Iterator[str]:
    """A table: a row for each family, a column for each number of trials. The worlds of a family share its runs."""
    yield f"false %/claims %/more often %/repeats by trials of each cell {TRIALS}, {runs} runs of each"
    with ProcessPoolExecutor() as pool:
        for family, some in itertools.groupby(worlds(), key=lambda world: world.family):
            alike = list(some)
            chosen = [replace(world, trials=trials) for trials in TRIALS for world in alike]
            found = pool.map(shares, chosen, itertools.repeat(math.ceil(runs / len(alike))), chunksize=1)
            columns = zip(*[iter(found)] * len(alike), strict=True)
            rows = ([mean(column) for column in zip(*each, strict=True)] for each in columns)
            yield f"{family:24}" + "  ".join("{:4.1f}/{:3.0f}/{:3.0f}/{:3.0f}".format(*row) for row in rows)

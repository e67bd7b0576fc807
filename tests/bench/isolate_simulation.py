"""``python -m tests.bench.isolate_simulation [GRIDS]``: the isolation of causes that were planted in seeded grids.

And what it says of random functions whose failure does not always show.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import re
import statistics
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

from reprokit.case.matrix import Cell, cell_key
from reprokit.evidence.details import CellDetails
from reprokit.evidence.model import Outcome as Ending
from reprokit.evidence.reading import Reading
from reprokit.evidence.records import CellRecord
from reprokit.evidence.sequential import Trials, figures
from reprokit.evidence.verdict import decide
from reprokit.search.isolate_summary import IsolationText
from reprokit.search.isolation import Boundary, Isolation, certificate, isolate
from reprokit.search.queries import Query, drive
from reprokit.search.repeating import KnownTrials, budget, tally_of

TRIALS = 10
"""Trials of a cell whose failure is flaky: one that fails at a rate of 0.5 is missed once in a thousand."""

Cause = tuple[dict[str, int], ...]
"""Any of these is enough; each is axis -> the least value (by its place) that takes part."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A matrix with a planted cause."""

    kind: str
    axes: dict[str, tuple[str, ...]]
    cause: Cause
    odd: frozenset[tuple[tuple[str, str], ...]]
    clash: tuple[tuple[str, str], ...]
    rate: float

    @property
    def size(self) -> int:
        """Cells in all."""
        return math.prod(map(len, self.axes.values()))

    def fails(self, cell: Cell) -> bool:
        """Whether the failure can show there."""
        return any(all(self.axes[a].index(cell[a]) >= least for a, least in one.items()) for one in self.cause)

    def inconclusive(self, cell: Cell) -> bool:
        """Whether the cell cannot be judged."""
        return tuple(cell.items()) in self.odd or (
            bool(self.clash) and all(pair in cell.items() for pair in self.clash)
        )


def planted(seed: int) -> tuple[Grid, Cell, Cell]:
    """A grid, with a cell that passes and one that fails."""
    rng = random.Random(seed)
    names = rng.sample("pqrstuvw", rng.randint(4, 7))
    axes = {name: tuple(f"{n}.0" for n in range(1, rng.randint(2, 4) + 1)) for name in names}
    kind = rng.choices(("one axis", "two together", "either of two"), (5, 4, 2))[0]
    chosen = rng.sample(names, 1 if kind == "one axis" else 2)
    least = {name: rng.randint(1, len(axes[name]) - 1) for name in chosen}
    cause: Cause = tuple({name: value} for name, value in least.items()) if kind == "either of two" else (least,)
    share = rng.choice((0.0, 0.05, 0.1, 0.2))
    cells = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    structured = share > 0 and rng.random() < 0.5
    odd = frozenset() if structured else frozenset(tuple(c.items()) for c in cells if rng.random() < share)
    clash = tuple((name, rng.choice(axes[name])) for name in rng.sample(names, 2)) if structured else ()
    rate = 1.0 if rng.random() < 0.5 else rng.uniform(0.5, 1.0)
    grid = Grid(kind=kind, axes=axes, cause=cause, odd=odd, clash=clash, rate=rate)
    judged = [cell for cell in cells if not grid.inconclusive(cell)]
    bad = [cell for cell in judged if grid.fails(cell)]
    good = [cell for cell in judged if not grid.fails(cell)]
    if not bad or not good:
        return planted(seed + 1_000_003)
    far = rng.choice(bad)
    # Reports differ in nearly everything: the good end is one of the most different.
    apart = [sum(far[name] != cell[name] for name in axes) for cell in good]
    return grid, rng.choice([cell for cell, count in zip(good, apart, strict=True) if count == max(apart)]), far


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How it ended: ``found``, ``wrong``, ``not decided`` (the truth is among what is left) or ``no explanation``."""

    kind: str
    word: str
    cells: int
    size: int
    boundary: str = ""
    simplest: bool = False


def outcome(seed: int) -> Outcome:
    """Plant, isolate, compare."""
    grid, good, bad = planted(seed)
    rng = random.Random(seed + 1)
    asked: dict[tuple[tuple[str, str], ...], Reading] = {}

    def shown(cell: Cell) -> Reading:
        if grid.inconclusive(cell):
            return Reading.UNRESOLVED
        trials = 1 if grid.rate == 1.0 else TRIALS
        failed = grid.fails(cell) and any(rng.random() < grid.rate for _ in range(trials))
        return Reading.FAIL if failed else Reading.PASS

    def answer(ask: Query) -> tuple[Reading, ...]:
        for one in ask.candidates:
            key = tuple(sorted(one.cell.items()))
            if key not in asked:
                asked[key] = shown(one.cell)
        return tuple(asked[tuple(sorted(one.cell.items()))] for one in ask.candidates)

    def between(axis: str, cell: Cell) -> list[str]:
        values = grid.axes[axis]
        low, high = values.index(good[axis]), values.index(bad[axis])
        return list(values[low + 1 : high]) if low < high else list(reversed(values[high + 1 : low]))

    found = drive(isolate(good, bad, between=between, ahead=False), answer)
    return Outcome(
        kind=grid.kind,
        word=_word(grid, found),
        cells=len(asked),
        size=grid.size,
        boundary=_boundaries(grid, found.boundaries),
        simplest=_word(grid, dataclasses.replace(found, explanations=found.explanations[:1])) == "found",
    )


def _word(grid: Grid, found: Isolation) -> str:
    failing = [mix for mix in range(1 << len(found.changes)) if grid.fails(found.cell(mix))]
    truth = tuple(sorted(one for one in failing if not any(other != one and other & one == other for other in failing)))
    left = [tuple(sorted(one)) for one in found.explanations]
    if left == [truth]:
        return "found"
    if not left:
        return "no explanation"
    return "not decided" if truth in left and len(left) > 1 else "wrong"


def _boundaries(grid: Grid, boundaries: tuple[Boundary, ...]) -> str:
    words = set()
    for one in boundaries:
        if not one.found.found:
            words.add("not found")
            continue
        last, first = one.line[one.found.last], one.line[one.found.next]
        true = not grid.fails(last) and grid.fails(first)
        inside = one.line[one.found.last + 1 : one.found.next]
        words.add("right" if true and all(grid.inconclusive(cell) for cell in inside) else "wrong")
    return next((word for word in ("wrong", "not found", "right") if word in words), "")


STATED = re.compile(
    r"(?:in .* each: )?(?:the difference that|each of|all of these|no effect|closest|not proven|not decided)"
)
AXES = "abcd"


def wrong_words(seed: int, rate: float, trials: int = 1) -> list[str]:
    """What is false, or unbounded although cells passed, of the words on a random function with interactions.

    Where it is true, a cell fails at the ``rate``; elsewhere it never does. Cells get so many ``trials``, and repeats
    as ``--confirm auto`` has it.
    """
    luck = random.Random(seed)
    table = {mix: luck.random() < 0.5 for mix in range(16)} | {0: False, 15: True}
    records: dict[str, CellRecord] = {}
    again = 0

    def mix_of(cell: Cell) -> int:
        return sum(1 << bit for bit, name in enumerate(AXES) if cell[name] == "2")

    def run(cell: Cell, ends: tuple[Ending, ...]) -> None:
        ends += (Ending.REPRODUCED if table[mix_of(cell)] and luck.random() < rate else Ending.PASSED,)
        details = CellDetails(trials=figures(ends, Trials(max=1)))
        of_case: dict[str, Any] = {"case_id": "x", "case_path": "x", "case_digest": "x", "cell": cell}
        verdict = decide(ends)[0]
        records[cell_key(cell)] = CellRecord(number=mix_of(cell), details=details, verdict=verdict, **of_case)

    def ends_of(cell: Cell) -> tuple[Ending, ...]:
        tally = tally_of(records[cell_key(cell)])
        return (Ending.REPRODUCED,) * tally.failed + (Ending.PASSED,) * tally.passed

    def answer(ask: Query) -> tuple[Reading, ...]:
        nonlocal again
        for one in ask.candidates:
            if ask.again or cell_key(one.cell) not in records:
                for _ in range(1 if ask.again else trials):
                    run(one.cell, ends_of(one.cell) if cell_key(one.cell) in records else ())
                again += ask.again
        return tuple(Reading.FAIL if Ending.REPRODUCED in ends_of(one.cell) else Reading.PASS for one in ask.candidates)

    known = KnownTrials(
        tally=lambda one: tally_of(records[cell_key(one.cell)]),
        seconds=lambda one: 1.0,
        left=lambda: budget(sum(tally_of(one).of for one in records.values()) - again) - again,
    )
    found = drive(isolate(dict.fromkeys(AXES, "1"), dict.fromkeys(AXES, "2"), trials=known, ahead=False), answer)
    if not found.ends_hold:
        return []
    passing = [mix for mix, seen in found.readings.items() if seen is Reading.PASS]
    words = IsolationText(found=found, record=lambda cell: records.get(cell_key(cell)), matrix=16).words()
    text = "\n".join(words)
    wrong = [
        f"{words[0]}: nothing bounds it" for line in words[:1] if STATED.match(line) and "not excluded" not in text
    ]
    wrong += [line for line in words if line.strip().startswith("no effect") and "not excluded" not in line]
    for line in words:
        named = set(map(int, re.findall(r"#([0-9]+)", line))) if "reverting" in line else {*passing}
        if found_axes := re.match(r" *no effect[a-z ]*: ([a-d, ]+) \(", line):
            rest = sum(1 << AXES.index(name) for name in found_axes[1].split(", "))
            named = {mix for mix in passing if mix & rest == rest} or named
        most = max((rate * table[mix] for mix in named), default=0.0)
        wrong += [line for bound in re.findall(r"up to ([0-9]+) %", line) if most > int(bound) / 100]
    if found.confirmed and any(table[mix] for mix in certificate(found.explanations[0], 4)[1] if mix in passing):
        wrong.append(f"{words[0]}: a cell that passed fails as often")
    return wrong


def main(grids: int = 1000) -> None:
    """Print the shares and the cells used."""
    outcomes = [outcome(seed) for seed in range(grids)]
    print(f"{grids} grids of 4 to 7 axes, {statistics.median(one.size for one in outcomes):.0f} cells in the median")
    for kind in ("one axis", "two together", "either of two", ""):
        some = [one for one in outcomes if kind in ("", one.kind)]
        words = Counter(one.word for one in some)
        cells = sorted(one.cells for one in some)
        shares = ", ".join(
            f"{100 * words[w] / len(some):.1f} % {w}" for w in ("found", "not decided", "no explanation", "wrong")
        )
        print(
            f"{kind or 'all'} ({len(some)}): {shares}; cells used: median {statistics.median(cells):.0f}, "
            f"p90 {cells[int(0.9 * len(cells))]}, most {cells[-1]}, "
            f"of the grid {100 * statistics.median(one.cells / one.size for one in some):.1f} % in the median"
        )
    undecided = [one for one in outcomes if one.word == "not decided"]
    true = sum(one.simplest for one in undecided)
    print(f"where it is not decided, the likeliest is true in {true} of {len(undecided)}")
    lines = Counter(one.boundary for one in outcomes if one.boundary)
    print(f"boundaries along axes with values between: {dict(lines)}")
    for rate in (0.2, 0.5, 0.8, 1.0):
        wrong = sum(bool(wrong_words(seed, rate, trials)) for seed in range(grids // 3) for trials in (1, 3, 10))
        print(f"words on random functions that fail at {rate:4.0%}: {wrong} of {grids // 3 * 3} false or unbounded")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

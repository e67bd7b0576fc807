"""What measured numbers decide: against all ways the noise can fall, and in simulated comparisons. No clock is read."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest

from reprokit.case.measures import Leaks
from reprokit.case.model import Expect
from reprokit.evidence.judging import conclude, judge_trial, leaked
from reprokit.evidence.measuring import ABOVE, BELOW, ERROR, FEWEST, LOOKS, estimate, growth, ratio
from reprokit.evidence.model import Ending, Outcome, Verdict
from reprokit.evidence.sequential import Trials
from reprokit.evidence.usage import Usage

MIB = 2**20


@pytest.mark.parametrize("count", [5, 8, 10])
@pytest.mark.parametrize("error", [0.004, 0.01, 0.05])
def test_an_interval_misses_the_true_value_as_often_as_it_says_at_most(count: int, error: float) -> None:
    sizes = [1.0, 2.5, 3.1, 4.7, 5.9, 7.3, 8.2, 9.9, 11.4, 13.8][:count]
    # The true value is 0: each number is above or below it with equal chance. Every way in which they can fall:
    missed = 0
    for signs in itertools.product((1, -1), repeat=count):
        found = estimate([sign * one for sign, one in zip(signs, sizes, strict=True)], error)
        assert found.low <= found.value <= found.high
        missed += found.low > 0
    assert missed <= error * 2**count


def test_the_shares_of_the_looks_are_the_error() -> None:
    assert sum(LOOKS.values()) == pytest.approx(ERROR)
    assert list(LOOKS) == sorted(LOOKS)


def compared(chance: random.Random, true: float, noise: float, limit: float) -> str | None:
    """What trials in pairs decide whose logarithms scatter by ``noise``, on a host whose speed drifts."""
    own: list[float] = []
    other: list[float] = []
    side = None
    for pairs, error in LOOKS.items():
        while len(own) < pairs:
            drift = chance.gauss(0, 0.3)
            own.append(true * math.exp(drift + chance.gauss(0, noise)))
            other.append(math.exp(drift + chance.gauss(0, noise)))
        if side := ratio(own, other, error).side(limit):
            break
    return side


@pytest.mark.parametrize(
    ("true", "noise", "expected"), [(1.0, 0.05, BELOW), (1.0, 0.5, None), (1.3, 0.2, None), (1.7, 0.05, ABOVE)]
)
def test_the_same_cell_is_not_slower_than_itself(true: float, noise: float, expected: str | None) -> None:
    chance = random.Random(7)
    seen = Counter(compared(chance, true, noise, 1.3) for _ in range(200))
    assert seen.most_common(1)[0][0] == expected
    if true <= 1.3:
        assert seen[ABOVE] <= 4  # 200 times 1 %: more than 4 has a chance of 5 %, and the numbers are always these


def test_a_program_that_does_not_leak_is_not_a_finding() -> None:
    chance = random.Random(7)
    seen: Counter[str | None] = Counter()
    for _ in range(200):
        walk = itertools.accumulate(chance.gauss(0, 3e5) for _ in range(100))
        found = growth([(at, int(5e7 + memory + chance.gauss(0, 1e6))) for at, memory in enumerate(walk)])
        seen[found.side(MIB) if found else None] += 1
    assert seen[ABOVE] <= 2


def iterations(grow: float, noise: float = 2e5, count: int = 100, cache: float = 0.0) -> tuple[tuple[int, int], ...]:
    chance = random.Random(3)
    memory = lambda at: 5e7 + grow * at + cache * min(at, count / 2) + chance.gauss(0, noise)  # noqa: E731
    return tuple((at, int(memory(at))) for at in range(count))


@pytest.mark.parametrize(
    ("samples", "outcome", "words"),
    [
        (iterations(2 * MIB), Outcome.REPRODUCED, "grows by 2.1 MB per iteration"),
        (iterations(0), Outcome.PASSED, "not more than 1.0 MB"),
        (iterations(0.5 * MIB), Outcome.PASSED, "not more than 1.0 MB"),
        (iterations(0, cache=2e6), Outcome.INCONCLUSIVE, "leaves open whether it is more than 1.0 MB"),
        (iterations(MIB, noise=3e6), Outcome.INCONCLUSIVE, "leaves open"),
        (iterations(2 * MIB, count=FEWEST - 1), Outcome.INCONCLUSIVE, f"at least {FEWEST} are needed"),
        ((), Outcome.INCONCLUSIVE, "the command prints 'reprokit: iteration N'"),
    ],
)
def test_leaks(samples: tuple[tuple[int, int], ...], outcome: Outcome, words: str) -> None:
    found = leaked(Leaks(per_iteration="1MiB"), Usage(iterations=samples))
    assert found.outcome is outcome
    assert words in found.reason


def test_a_leak_without_a_measurement_is_not_a_finding() -> None:
    assert leaked(Leaks(per_iteration="1MiB"), None).outcome is Outcome.INCONCLUSIVE


def test_marks_that_stand_still_or_jump_say_nothing() -> None:
    assert growth(tuple((1, 5) for _ in range(50))) is None
    few = growth((*((at, 7) for at in range(20)), (10**8, 7)))
    assert few is None or few.side(1.0) is not ABOVE


def test_a_trial_of_a_leak() -> None:
    expect = Expect(leaks=Leaks(per_iteration="1MiB"))
    grown = Usage(iterations=iterations(2 * MIB))
    for ending, outcome in (
        (Ending(exit_code=0, usage=grown), Outcome.REPRODUCED),
        (Ending(exit_code=1, usage=grown), Outcome.DIFFERENT_FAILURE),
        (Ending(exit_code=137, oom=True, usage=grown), Outcome.OUT_OF_MEMORY),
        (Ending(exit_code=137, timed_out=True, usage=grown), Outcome.TIMED_OUT),
        (Ending(exit_code=0), Outcome.INCONCLUSIVE),
    ):
        record = judge_trial(expect, 1, ending, "", "log")
        assert record.outcome is outcome
        assert judge_trial(expect, 1, record.ending, "", "log") == record  # judged again from what is kept of it
    grew = judge_trial(expect, 1, Ending(exit_code=0, usage=grown), "", "log")
    assert conclude([grew] * 2, Trials.of(2), expect)[1].startswith("2 of 2 trials leaked (95 % interval ")
    verdict, reason = conclude([judge_trial(expect, 1, Ending(exit_code=0), "", "log")], Trials.of(1), expect)
    assert verdict is Verdict.INCONCLUSIVE
    assert "no iteration was measured" in reason

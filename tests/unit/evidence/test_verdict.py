"""Outcomes to verdicts, exactly as the contract's table says, and what a case expects of a cell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.verdict import decide, expect_verdict, failure_rate_bound

R, P, D, T, M = (
    Outcome.REPRODUCED,
    Outcome.PASSED,
    Outcome.DIFFERENT_FAILURE,
    Outcome.TIMED_OUT,
    Outcome.OUT_OF_MEMORY,
)


@pytest.mark.parametrize(
    ("outcomes", "verdict", "words"),
    [
        ([R, R, R], Verdict.REPRODUCED, "3 of 3 trials failed with the signature"),
        ([R], Verdict.REPRODUCED, "the only trial failed with the signature"),
        ([R, P, R, P, R], Verdict.FLAKY, "3 of 5 trials failed with the signature, the others: 2 passed"),
        ([R, T, D], Verdict.FLAKY, "1 of 3 trials"),
        ([P, D, T, M], Verdict.DIFFERENT_FAILURE, "1 of 4 trials failed otherwise"),
        ([P, T, M], Verdict.TIMED_OUT, "1 of 3 trials reached the time limit"),
        ([P, M], Verdict.OUT_OF_MEMORY, "1 of 2 trials ran out of memory"),
        ([P, P, P], Verdict.NOT_REPRODUCED, "up to 63.2 % is still possible (95 % upper bound)"),
        ([P], Verdict.NOT_REPRODUCED, "up to 95.0 %"),
        ([P] * 59, Verdict.NOT_REPRODUCED, "up to 5.0 %"),
        ([], Verdict.CANCELLED, "no trial was finished"),
        ([Outcome.PASSED, Outcome.INCONCLUSIVE], Verdict.INCONCLUSIVE, "1 of 2 trials decided nothing"),
    ],
)
def test_decide(outcomes: list[Outcome], verdict: Verdict, words: str) -> None:
    decided, reason = decide(outcomes)
    assert decided is verdict
    assert words in reason


@given(st.lists(st.sampled_from(list(Outcome)), min_size=1, max_size=30))
def test_order_makes_no_difference_and_a_single_match_never_gets_lost(outcomes: list[Outcome]) -> None:
    verdict, reason = decide(outcomes)
    assert decide(sorted(outcomes))[0] is verdict
    assert (verdict in (Verdict.REPRODUCED, Verdict.FLAKY)) == (R in outcomes)
    assert (verdict is Verdict.NOT_REPRODUCED) == (set(outcomes) == {P})
    assert reason


@given(st.integers(1, 10_000))
def test_the_bound_is_where_five_percent_of_luck_is_left(trials: int) -> None:
    assert (1 - failure_rate_bound(trials)) ** trials == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("reproduces", "cell", "known", "verdict"),
    [
        ("all", {"cuda": "12.0"}, True, Verdict.REPRODUCED),
        ("all", {"cuda": "12.0"}, False, Verdict.REPRODUCED),
        ("none", {}, True, Verdict.NOT_REPRODUCED),
        ("unknown", {}, True, None),
        (({"cuda": "12.0"},), {"cuda": "12.0", "gcc": "12"}, True, Verdict.REPRODUCED),
        (({"cuda": "12.0"},), {"cuda": "11.8", "gcc": "12"}, True, Verdict.NOT_REPRODUCED),
        (({"cuda": "12.0"},), {"gcc": "12"}, True, Verdict.NOT_REPRODUCED),
        (({"cuda": "12.0", "gcc": "11"}, {"gcc": "13"}), {"cuda": "11.8", "gcc": "13"}, True, Verdict.REPRODUCED),
        (({"cuda": "12.0"},), {"cuda": "12.0"}, False, None),
        ((), {"cuda": "12.0"}, True, Verdict.NOT_REPRODUCED),
    ],
)
def test_expected(
    reproduces: str | tuple[dict[str, str], ...], cell: dict[str, str], known: bool, verdict: Verdict | None
) -> None:
    assert expect_verdict(reproduces, cell, known) is verdict

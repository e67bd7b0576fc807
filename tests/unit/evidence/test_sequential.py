"""When trials stop, what that decides, and the figures: against brute force, and as error rates of whole policies."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.sequential import (
    AT_LEAST,
    BELOW,
    TrialFigures,
    TrialPolicy,
    Trials,
    figures,
    interval,
    lower_rate,
)
from reprokit.evidence.verdict import decide, fits
from tests.bench.trials import CLUSTERFUZZ, LIKE_CLUSTERFUZZ, clusterfuzz, covered, simulated, yes_of

R, P, D, T = Outcome.REPRODUCED, Outcome.PASSED, Outcome.DIFFERENT_FAILURE, Outcome.TIMED_OUT
ASKED = Trials()
POLICIES = st.builds(
    Trials,
    max=st.integers(1, 60),
    confidence=st.sampled_from([0.5, 0.8, 0.9, 0.95, 0.99]),
    rate=st.one_of(st.none(), st.floats(0.01, 0.99)),
)


def stopped(stream: list[Outcome], trials: Trials) -> list[Outcome]:
    """The part of a stream of outcomes that a cell's trials take."""
    taken: list[Outcome] = []
    while not trials.finished(taken):
        taken.append(stream[len(taken)])
    return taken


@pytest.mark.parametrize(
    ("stream", "trials", "count"),
    [
        ([R] * 20, ASKED, 4),
        ([R] * 20, Trials(confidence=0.99), 6),
        ([R] * 20, Trials(rate=0.9), 6),
        ([R] * 20, Trials(max=3), 3),
        ([D] * 20, ASKED, 4),
        ([P] * 60, ASKED, 20),
        ([P] * 60, Trials(max=60), 29),
        ([P] * 60, Trials(max=60, rate=0.5), 5),
        ([P, D] * 30, Trials(max=60), 29),
        ([R, P, R, P], ASKED, 3),
        ([P, T, R], ASKED, 2),
        ([R, R, R, P, P], Trials.of(5), 5),
        ([R, T, R], Trials.of(3), 2),
        ([R, *[P] * 99], Trials(max=100), 55),
    ],
)
def test_trials_stop_when_they_have_shown_enough(stream: list[Outcome], trials: Trials, count: int) -> None:
    assert len(stopped(stream, trials)) == count


@given(st.lists(st.sampled_from([R, P, D]), min_size=60, max_size=60), POLICIES)
def test_a_policy_never_takes_more_than_its_most_nor_stops_undecided(stream: list[Outcome], trials: Trials) -> None:
    taken = stopped(stream, trials)
    assert 1 <= len(taken) <= trials.max
    if trials.rate is None:
        assert len(taken) == trials.max
    elif len(taken) < trials.max and set(taken) != {D}:
        assert trials.decide(len(taken), taken.count(R)) is not None


@given(st.integers(0, 40), st.integers(0, 40), POLICIES)
def test_a_further_match_never_speaks_against_the_rate(matched: int, others: int, trials: Trials) -> None:
    order = {BELOW: 0, None: 1, AT_LEAST: 2}
    count = matched + others
    assert order[trials.decide(count + 1, matched + 1)] >= order[trials.decide(count + 1, matched)]


@given(st.floats(0.001, 0.999))
def test_what_a_rate_is_distinguished_from_is_lower(rate: float) -> None:
    assert 0 < lower_rate(rate) < rate


def test_the_zone_left_open_is_as_wide_as_that_of_clusterfuzz() -> None:
    assert lower_rate(0.7) == pytest.approx(0.226, abs=0.001)
    assert yes_of(clusterfuzz, 0.7) == pytest.approx(0.95, abs=0.01)
    assert yes_of(clusterfuzz, lower_rate(0.7)) == pytest.approx(0.05, abs=0.01)
    assert yes_of(clusterfuzz, 0.45) == pytest.approx(0.5, abs=0.01)


@given(st.integers(1, 14), st.data(), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_interval_is_that_of_the_binomial_by_brute_force(
    count: int, data: st.DataObject, confidence: float
) -> None:
    matched = data.draw(st.integers(0, count))
    low, high = interval(matched, count, confidence)
    assert 0 <= low <= matched / count <= high <= 1
    sums = [sum(bits) for bits in product((0, 1), repeat=count)]

    def chance(rate: float, wanted: range) -> float:
        return sum(rate**k * (1 - rate) ** (count - k) for k in sums if k in wanted)

    tail = (1 - confidence) / 2
    assert matched == 0 or chance(low, range(matched, count + 1)) == pytest.approx(tail, rel=1e-6)
    assert matched == count or chance(high, range(matched + 1)) == pytest.approx(tail, rel=1e-6)
    assert (low == pytest.approx(0, abs=1e-12)) == (matched == 0)
    assert (high == 1) == (matched == count)


@pytest.mark.parametrize(
    ("matched", "count", "low", "high"),
    [  # R: binom.test(7, 20), binom.test(0, 3), binom.test(500, 1000)
        (7, 20, 0.1539092, 0.5921885),
        (0, 3, 0.0, 0.7075982),
        (500, 1000, 0.4685492, 0.5314508),
    ],
)
def test_the_interval_is_that_of_other_programs(matched: int, count: int, low: float, high: float) -> None:
    assert interval(matched, count) == (pytest.approx(low, abs=1e-6), pytest.approx(high, abs=1e-6))


def test_the_errors_are_those_that_the_confidence_allows() -> None:
    for confidence, rate in product((0.9, 0.95), (0.1, 0.3, 0.7)):
        trials = Trials(max=300, confidence=confidence, rate=rate)
        at_rate, at_lower_rate = (simulated(trials, p, rounds=0) for p in (rate, lower_rate(rate)))
        assert at_rate.clean <= 1 - confidence
        assert at_rate.below - at_rate.clean <= 1 - confidence
        assert at_rate.below <= 1.5 * (1 - confidence)
        assert at_lower_rate.at_least <= 1 - confidence
        assert simulated(trials, 0.0, rounds=0).below == pytest.approx(1)
    assert simulated(ASKED, 0.45, rounds=0).reproduced <= 0.05


def test_the_same_decisions_as_clusterfuzz_on_its_terms_with_fewer_trials() -> None:
    for rate in (0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0):
        ours, theirs = simulated(LIKE_CLUSTERFUZZ, rate, rounds=0), simulated(CLUSTERFUZZ, rate, rounds=0)
        assert ours.yes == pytest.approx(theirs.yes, abs=0.03)
        assert ours.mean <= theirs.mean - 0.6


@pytest.mark.parametrize("rate", [0.01, 0.1, 0.35, 0.7, 1.0])
def test_the_exact_figures_are_those_of_a_simulation(rate: float) -> None:
    exact, seen = simulated(ASKED, rate, rounds=0), simulated(ASKED, rate, rounds=1000)
    assert seen.mean == pytest.approx(exact.mean, abs=0.5)
    assert seen.flaky == pytest.approx(exact.flaky, abs=0.05)


def test_the_intervals_hold_the_rate_although_the_trials_stop_early() -> None:
    assert min(covered(ASKED, k / 50) for k in range(51)) >= 0.95


def test_a_policy_is_read_as_it_was_written() -> None:
    assert Trials.of(5) == Trials(max=5, rate=None)
    assert Trials.of(5).to_json() == 5
    assert Trials.of({"max": 9}) == Trials(max=9, confidence=0.95, rate=0.1)
    assert Trials.of(ASKED.to_json()) == ASKED


def test_a_plain_number_is_run_to_its_end_and_judged_by_the_rate_of_the_case() -> None:
    assert Trials.of(5).over(Trials.of(3)) == Trials.of(5)
    assert Trials(max=9, rate=0.3).over(ASKED) == Trials(max=9, rate=0.3)
    both = Trials.of(50).over(ASKED)
    assert len(stopped([R] * 60, both)) == 50
    assert both.decide(50, 25) == AT_LEAST


def test_the_figures_of_a_record() -> None:
    shown = figures([R] * 7 + [P] * 13, ASKED)
    assert (shown.reproduced, shown.of, shown.rate, shown.decided) == (7, 20, 0.35, AT_LEAST)
    assert shown.interval == (0.153909, 0.592189)
    assert shown.policy == TrialPolicy(max=20, confidence=0.95, rate=0.1)
    assert "possible" not in shown.to_json()
    clean = figures([P] * 3, Trials.of(3))
    assert (clean.possible, clean.decided, clean.policy.rate) == (0.631597, None, None)


@pytest.mark.parametrize("outcomes", [[P, T], [P, Outcome.OUT_OF_MEMORY], [D] * 4, [P] * 30 + [D]])
def test_what_did_not_end_well_excludes_no_rate(outcomes: list[Outcome]) -> None:
    shown = figures(outcomes, Trials(rate=0.9))
    assert shown.decided is None
    assert "possible" not in shown.to_json()


@pytest.mark.parametrize(
    ("outcomes", "trials", "words"),
    [
        ([R] * 4, ASKED, "4 of 4 trials failed with the signature (95 % interval 40 to 100 %)"),
        ([R], ASKED, "the only trial failed with the signature"),
        (
            [R] * 7 + [P] * 13,
            ASKED,
            "the others: 13 passed; a rate of 35 % (95 % interval 15 to 59 %), decided to be at least 10 %, not 1.4 %",
        ),
        ([R, P], Trials.of(2), "the others: 1 passed; a rate of 50 % (95 % interval 1.3 to 99 %)"),
        (
            [R] + [P] * 19,
            ASKED,
            "5 % (95 % interval 0.13 to 25 %); whether it is at least 10 % is open after 20 trials",
        ),
        ([R] + [P] * 55, Trials(max=99), "1.8 % (95 % interval 0.045 to 9.6 %), decided not to be at least 10 %"),
        (
            [P] * 29,
            Trials(max=40),
            "a failure rate of up to 9.8 % is still possible (95 % upper bound), so at least 10 %",
        ),
        ([P] * 29, Trials(max=40), "so at least 10 % is excluded"),
        ([P] * 20, ASKED, "up to 13.9 %"),
        ([P] * 20, ASKED, "so at least 10 % is not excluded: that takes 29 trials"),
        ([P] * 3, Trials(max=3, confidence=0.9, rate=0.5), "up to 53.6 % is still possible (90 % upper bound)"),
    ],
)
def test_the_reason_says_the_rate_and_what_is_decided(outcomes: list[Outcome], trials: Trials, words: str) -> None:
    assert words in decide(outcomes, trials)[1]


@pytest.mark.parametrize(
    ("verdict", "promised", "shown", "fitting"),
    [
        (Verdict.REPRODUCED, Verdict.REPRODUCED, None, True),
        (Verdict.FLAKY, Verdict.REPRODUCED, None, False),
        (Verdict.FLAKY, Verdict.REPRODUCED, figures([R, P], Trials.of(2)), False),
        (Verdict.FLAKY, Verdict.REPRODUCED, figures([R, P, R], ASKED), True),
        (Verdict.FLAKY, Verdict.REPRODUCED, figures([R] + [P] * 19, ASKED), True),
        (Verdict.FLAKY, Verdict.REPRODUCED, figures([R] + [P] * 55, Trials(max=99)), False),
        (Verdict.FLAKY, Verdict.NOT_REPRODUCED, figures([R] + [P] * 55, Trials(max=99)), False),
        (Verdict.DIFFERENT_FAILURE, Verdict.REPRODUCED, figures([D] * 4, ASKED), False),
    ],
)
def test_flaky_is_what_is_expected_where_the_case_asks_for_a_rate(
    verdict: Verdict, promised: Verdict, shown: TrialFigures | None, fitting: bool
) -> None:
    assert fits(verdict, promised, shown) is fitting


def test_the_simulation_has_its_own_luck_and_keeps_it() -> None:
    state = random.getstate()
    assert simulated(ASKED, 0.3, rounds=50) == simulated(ASKED, 0.3, rounds=50)
    assert random.getstate() == state
    assert math.isclose(sum(simulated(ASKED, 0.3, rounds=50).verdicts), 1)

"""A statement about cells is as strong as its trials."""

from __future__ import annotations

import math

import pytest

from reprokit.evidence.model import Outcome
from reprokit.evidence.strength import Tally, excludes, log_ratio, total, trials_each


@pytest.mark.parametrize(("failed", "passed"), [(1, 1), (3, 4), (4, 4), (10, 2)])
def test_the_ratio_of_certain_failures_and_passes(failed: int, passed: int) -> None:
    expected = failed**failed * passed**passed / (failed + passed) ** (failed + passed)
    assert math.exp(log_ratio(Tally(failed=failed), Tally(passed=passed))) == pytest.approx(expected)


def test_one_trial_each_excludes_nothing_and_five_each_do() -> None:
    assert not excludes(Tally(failed=1), Tally(passed=1))
    assert excludes(Tally(failed=5), Tally(passed=5))


def test_a_flaky_cell_needs_more_passes_than_a_certain_one() -> None:
    assert not excludes(Tally(failed=4, passed=8), Tally(passed=4))
    assert excludes(Tally(failed=20, passed=40), Tally(passed=60))


def test_what_was_not_tried_or_failed_excludes_nothing() -> None:
    assert log_ratio(Tally(failed=9), Tally()) == 0
    assert log_ratio(Tally(passed=9), Tally(passed=9)) == 0
    assert log_ratio(Tally(failed=99), Tally(failed=1, passed=99)) == 0


def test_trials_that_failed_otherwise_count_for_neither() -> None:
    tally = Tally.count([Outcome.REPRODUCED, Outcome.PASSED, Outcome.DIFFERENT_FAILURE, Outcome.REPRODUCED])
    assert (tally.failed, tally.of) == (2, 3)
    assert total([tally, Tally(passed=2)]) == Tally(failed=2, passed=3)


def test_trials_in_words() -> None:
    assert trials_each([1, 1]) == "in one trial each"
    assert trials_each([3, 3]) == "in 3 trials each"
    assert trials_each([3, 1, 2]) == "in 1 to 3 trials each"

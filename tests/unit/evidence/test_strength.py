"""A statement about cells is as strong as its trials."""

from __future__ import annotations

import pytest

from reprokit.evidence.model import Outcome
from reprokit.evidence.strength import (
    LUCK,
    MANY,
    Tally,
    bound,
    excludes,
    not_excluded,
    passes_needed,
    total,
    trials_each,
)


@pytest.mark.parametrize(("failed", "passed"), [(1, 1), (3, 4), (4, 4), (10, 2)])
def test_the_ratio_of_certain_failures_and_passes(failed: int, passed: int) -> None:
    ratio = failed**failed * passed**passed / (failed + passed) ** (failed + passed)
    chances = LUCK / ratio
    assert (
        passes_needed(Tally(failed=failed), chances * 0.999)
        <= passed
        < passes_needed(Tally(failed=failed), chances * 1.001)
    )


def test_one_trial_each_excludes_nothing_and_five_each_do() -> None:
    assert not excludes(Tally(failed=1), Tally(passed=1))
    assert excludes(Tally(failed=5), Tally(passed=5))


def test_a_flaky_cell_needs_more_passes_than_a_certain_one() -> None:
    assert not excludes(Tally(failed=4, passed=8), Tally(passed=4))
    assert excludes(Tally(failed=20, passed=40), Tally(passed=60))


def test_what_was_not_tried_or_failed_excludes_nothing() -> None:
    assert not excludes(Tally(failed=9), Tally())
    assert passes_needed(Tally(passed=9)) == MANY
    assert not excludes(Tally(failed=99), Tally(failed=1, passed=99))


@pytest.mark.parametrize(
    ("counts", "cells", "said"),
    [
        ([1, 9], 4, "nearly every run"),
        ([3], 2, "up to 83 %"),
        ([5, 6], 2, "up to 66 %"),
        ([5], 16, "up to 78 %"),
    ],
)
def test_what_passing_cells_leave_open_holds_for_all_decided_cells_in_99_of_100_runs(
    counts: list[int], cells: int, said: str
) -> None:
    """With a rate above the bound in each of the cells, one of them passes in one run of a hundred."""
    assert said in not_excluded(counts, cells)
    luck = (1 - bound(counts, cells)) ** min(counts)  # that one of them passes all the same
    assert 1 - (1 - luck) ** cells <= 0.01


def test_trials_that_failed_otherwise_count_for_neither() -> None:
    tally = Tally.count([Outcome.REPRODUCED, Outcome.PASSED, Outcome.DIFFERENT_FAILURE, Outcome.REPRODUCED])
    assert (tally.failed, tally.of) == (2, 3)
    assert total([tally, Tally(passed=2)]) == Tally(failed=2, passed=3)


def test_trials_in_words() -> None:
    assert trials_each([1, 1]) == "in one trial each"
    assert trials_each([3, 3]) == "in 3 trials each"
    assert trials_each([3, 1, 2]) == "in 1 to 3 trials each"

"""Transitions: what counts as a change of a cell, and what it is called."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.evidence.model import Verdict
from reprokit.report.history.series import _transitions
from reprokit.report.history.transitions import Counts, State, Transition, state_of, transitions
from tests.bench.changes import followed

R, N, O = State.REPRODUCING, State.NOT_REPRODUCING, State.OTHER_FAILURE  # noqa: E741
LETTERS = {"R": R, "N": N, "O": O, "?": None}


ALL = {R: Counts(10, 0, 10), N: Counts(0, 0, 10), O: Counts(0, 10, 10), None: None}


def of(strip: str, decided: str = "") -> list[Transition]:
    """Transitions of a strip of states of ten alike trials each; ``decided``: ``!`` where a sequential test decided."""
    states = [LETTERS[letter] for letter in strip]
    return transitions(states, lambda at: decided[at : at + 1] == "!", lambda at: ALL[states[at]])


def reported(strip: str, decided: str = "") -> list[str]:
    return [f"{one.words}{'' if one.confirmed else '?'} @{one.after}" for one in of(strip, decided)]


@pytest.mark.parametrize(
    ("strip", "expected"),
    [
        ("", []),
        ("???", []),
        ("R", ["new -> reproducing? @0"]),
        ("RR", ["new -> reproducing @0"]),
        ("N?N", ["new -> not reproducing @0"]),
        ("RRNN", ["new -> reproducing @0", "reproducing -> gone @2"]),
        ("RRN", ["new -> reproducing @0", "reproducing -> gone? @2"]),
        ("RRNR", ["new -> reproducing @0"]),
        ("RNN", ["new -> reproducing? @0", "reproducing -> gone @1"]),
        ("RR?N??N", ["new -> reproducing @0", "reproducing -> gone @3"]),
        ("RRNNRR", ["new -> reproducing @0", "reproducing -> gone @2", "gone -> back @4"]),
        ("NNRR", ["new -> not reproducing @0", "not reproducing -> reproducing @2"]),
        ("RRNONN", ["new -> reproducing @0", "reproducing -> gone @2"]),
        ("RROONN", ["new -> reproducing @0", "reproducing -> other failure @2", "other failure -> gone @4"]),
        ("RROORR", ["new -> reproducing @0", "reproducing -> other failure @2", "other failure -> back @4"]),
        (
            "NNOONN",
            ["new -> not reproducing @0", "not reproducing -> other failure @2", "other failure -> not reproducing @4"],
        ),
        ("RRNNOO", ["new -> reproducing @0", "reproducing -> gone @2", "gone -> other failure @4"]),
    ],
)
def test_two_consecutive_results_make_a_transition(strip: str, expected: list[str]) -> None:
    assert reported(strip) == expected


def test_one_decided_result_is_enough() -> None:
    assert reported("RRN", "  !") == ["new -> reproducing @0", "reproducing -> gone @2"]
    assert reported("R", "!") == ["new -> reproducing @0"]
    assert reported("RRNR", "  !!") == ["new -> reproducing @0", "reproducing -> gone @2", "gone -> back @3"]


def test_a_transition_names_the_results_around_it() -> None:
    [_, gone] = of("RR?RN?N")
    assert (gone.old, gone.before, gone.after, gone.settled, gone.seen) == (R, 3, 4, 6, 2)
    [_, _, once] = of("RRNN?R")
    assert (once.old, once.before, once.after, once.settled, once.seen) == (N, 3, 5, None, 1)


def tallied(*nights: tuple[int, int], decided: bool = False) -> list[Transition]:
    """Transitions of nights of which each had so many matches among so many trials."""
    return transitions(
        [R if matched else N for matched, _ in nights],
        lambda _: decided,
        lambda at: Counts(nights[at][0], 0, nights[at][1]),
    )


def nights_until(before: Sequence[tuple[int, int]], after: tuple[int, int]) -> tuple[str, int]:
    """After how many alike nights a change counts, and which."""
    for count in range(1, 200):
        if (found := tallied(*before, *[after] * count)[-1]).old and found.confirmed:
            return found.words, count
    raise AssertionError("no change in 200 nights")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([(0, 1)] * 30, (1, 1), ("not reproducing -> reproducing", 3)),
        ([(0, 1)] * 10, (1, 1), ("not reproducing -> reproducing", 6)),
        ([(1, 1)] * 30, (0, 1), ("reproducing -> gone", 3)),
        ([(0, 3)] * 30, (3, 3), ("not reproducing -> reproducing", 2)),
        ([(10, 10)], (0, 10), ("reproducing -> gone", 2)),
        ([(1, 1), (0, 1)] * 15, (0, 1), ("reproducing -> gone", 25)),
        ([(1, 5)] * 6, (5, 5), ("reproducing -> more often", 3)),
        ([(5, 5)] * 6, (1, 5), ("reproducing -> less often", 2)),
        ([(10, 10), (0, 10)] * 15, (0, 10), ("reproducing -> gone", 17)),
        ([(0, 10)] * 9 + [(10, 10)] * 9 + [(0, 10)] * 9, (10, 10), ("gone -> back", 4)),
    ],
)
def test_a_change_counts_once_a_constant_rate_is_excluded(
    before: Sequence[tuple[int, int]], after: tuple[int, int], expected: tuple[str, int]
) -> None:
    assert nights_until(before, after) == expected


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99])
@pytest.mark.parametrize("trials", [1, 3, 10])
def test_of_unchanged_months_at_most_one_in_a_hundred_has_a_change(rate: float, trials: int) -> None:
    luck = random.Random(f"{rate} {trials}")
    months = [[(sum(luck.random() < rate for _ in range(trials)), trials) for _ in range(30)] for _ in range(60)]
    false = [month for month in months if any(one.confirmed for one in tallied(*month)[1:])]
    assert len(false) <= 1


@pytest.mark.parametrize("alike", [0.1, 0.3, 1.0])
def test_nights_at_other_rates_make_no_change_once_the_cell_has_gone_back_and_forth(alike: float) -> None:
    luck = random.Random(7)
    cells = [followed([0.5] * 90, 10, luck, alike) for _ in range(40)]
    assert max(map(len, cells)) <= 3
    assert sum(any(one.latest >= 30 for one in each) for each in cells) <= 1


def test_what_appears_after_passes_is_tested_as_what_is_gone() -> None:
    """The same trials the other way round."""
    for trials in ([(0, 1)] * 9 + [(1, 1)] * 4, [(0, 3)] * 6 + [(3, 3)] * 2):
        mirrored = [(of_all - failed, of_all) for failed, of_all in trials]
        one, other = tallied(*trials), tallied(*mirrored)
        assert [each.chance for each in one[1:]] == [each.chance for each in other[1:]]


def test_a_result_that_a_sequential_test_decided_counts_at_once_where_a_constant_rate_is_excluded() -> None:
    assert tallied((4, 4), (0, 30), decided=True)[-1].settled == 1
    assert tallied((1, 5), (0, 3), (2, 7), (0, 30), decided=True)[-1].old is None  # 3 of 15: it is flaky


def test_a_transition_has_the_trials_before_and_since_and_how_likely_they_are() -> None:
    [_, back] = tallied(*[(0, 3)] * 9, (2, 3), (3, 3))
    assert (back.earlier, back.since, back.confirmed) == ((0, 27), (5, 6), True)
    assert back.chance is not None
    assert 0 < back.chance < 1 / 3000
    [_, once] = tallied(*[(0, 3)] * 7, (1, 3))
    assert (once.confirmed, once.seen, once.now) == (False, 1, "reproducing")
    assert once.chance is not None
    assert 0.01 < once.chance <= 1


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(4, 4)), min_size=2, max_size=12))
def test_a_chance_is_one_and_a_change_that_counts_is_rare(nights: list[tuple[int, int]]) -> None:
    for one in tallied(*nights)[1:]:
        assert one.chance is not None
        assert 0 < one.chance <= 1
        assert one.confirmed == (one.chance <= 1 / 3000 and one.seen > 1)


def test_a_failure_that_comes_and_goes_is_not_a_transition_however_often_it_stays_away_twice() -> None:
    flake = [(1, 1), (0, 1)] * 3
    assert [one.words for one in tallied(*flake, (0, 1), (0, 1), (1, 1), (1, 1))] == ["new -> reproducing"]
    assert len(tallied(*flake, *[(0, 1)] * 9)) == 1
    assert tallied(*flake, *[(0, 1)] * 30)[-1].words == "reproducing -> gone"


def test_other_failures_that_come_and_go_are_not_a_transition() -> None:
    def nights(*others: int) -> list[str]:
        states = [O if each else N for each in others]
        found = transitions(states, counts=lambda at: Counts(0, others[at], 3))
        return [one.words for one in found if one.old and one.confirmed]

    assert nights(1, 0, 1, 1, 0, 0, 1, 0, 2, 1, 0, 0, 1, 1, 1) == []
    assert nights(0, 0, 0, 0, 0, 3, 3) == ["not reproducing -> other failure"]


def test_what_another_failure_hid_is_not_counted_as_clean() -> None:
    assert reported("RORNN")[1:] == ["reproducing -> gone @3"]
    [*_, gone] = of("RRNONON")
    assert (gone.earlier, gone.since) == ((20, 20), (0, 20))


def test_of_results_that_are_alike_the_decided_one_is_named_where_inconclusive_ones_came_before_it() -> None:
    course: Any = SimpleNamespace(states="--N-", tested=lambda at: at == 2)
    [first] = _transitions(course)
    assert (first.after, first.latest, first.settled) == (2, 2, 2)


def test_a_flaky_cell_reproduces_and_an_inconclusive_one_says_nothing() -> None:
    said = {verdict: state_of(verdict) for verdict in Verdict}
    assert {verdict for verdict, state in said.items() if state is R} == {Verdict.REPRODUCED, Verdict.FLAKY}
    assert {verdict for verdict, state in said.items() if state is not None} == {
        verdict for verdict in Verdict if verdict.conclusive
    }


strips = st.text(alphabet="RNO?", max_size=25)


@given(strips, st.data())
def test_inconclusive_results_change_nothing(strip: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(strip)))

    def words(text: str) -> list[tuple[str, bool]]:
        return [(one.words, one.confirmed) for one in of(text)]

    assert words(strip) == words(strip[:at] + "?" + strip[at:])


@given(strips)
def test_a_transition_needs_two_results(strip: str) -> None:
    conclusive = [at for at, letter in enumerate(strip) if letter != "?"]
    for one in of(strip):
        if one.old and one.settled is not None:
            assert conclusive.index(one.settled) > conclusive.index(one.after)
            assert one.before == conclusive[conclusive.index(one.after) - 1]


@given(strips)
def test_transitions_follow_each_other(strip: str) -> None:
    found = of(strip)
    assert [one.old is None for one in found] == [True, *[False] * (len(found) - 1)][: len(found)]
    assert all(one.confirmed for one in found[1:-1])
    assert [one.after for one in found] == sorted({one.after for one in found})


@given(st.lists(st.sampled_from("RNO"), max_size=25).map(lambda found: "".join(a * 2 for a in found)))
def test_every_two_alike_results_count_where_their_trials_are_enough(strip: str) -> None:
    """Of two nights of ten trials, a change there and one back; equal neighbours are one state."""
    changes = [at for at in range(1, len(strip)) if strip[at] != strip[at - 1]][:2]
    assert [one.after for one in of(strip)[1:3]] == changes
    assert [one.settled for one in of(strip, "!" * len(strip))][:3] == [0, *changes][: len(strip)]

"""Transitions: what counts as a change of a cell, and what it is called."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.evidence.model import Verdict
from reprokit.report.history.transitions import State, Transition, state_of, transitions

R, N, O = State.REPRODUCING, State.NOT_REPRODUCING, State.OTHER_FAILURE  # noqa: E741
LETTERS = {"R": R, "N": N, "O": O, "?": None}


def of(strip: str, decided: str = "") -> list[Transition]:
    """Transitions of a strip of states; ``decided``: ``!`` where a sequential test decided."""
    return transitions([LETTERS[letter] for letter in strip], lambda at: decided[at : at + 1] == "!")


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
        ("RNRR", ["new -> reproducing @0"]),
        ("RNN", ["new -> reproducing? @0", "reproducing -> gone @1"]),
        ("RR?N??N", ["new -> reproducing @0", "reproducing -> gone @3"]),
        ("RRNNRR", ["new -> reproducing @0", "reproducing -> gone @2", "gone -> back @4"]),
        ("NNRR", ["new -> not reproducing @0", "not reproducing -> reproducing @2"]),
        ("RRNONN", ["new -> reproducing @0", "reproducing -> gone @4"]),
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


def tallied(*nights: tuple[int, int]) -> list[Transition]:
    """Transitions of nights of which each had so many matches among so many trials."""
    return transitions([R if matched else N for matched, _ in nights], tally=lambda at: nights[at])


def test_what_did_not_always_show_is_gone_when_so_many_clean_trials_are_rare() -> None:
    flaky, clean = (1, 3), (0, 3)
    [_, gone] = tallied(flaky, flaky, clean, clean)
    assert (gone.words, gone.confirmed, gone.rate, gone.clean) == ("reproducing -> gone", False, (2, 6), 6)
    assert gone.chance == pytest.approx(5 / 8 * 6 / 9 * 7 / 10 * 8 / 11 * 9 / 12 * 10 / 13)
    counted = [tallied(flaky, flaky, *[clean] * nights)[-1].confirmed for nights in range(1, 10)]
    assert counted == [False] * 7 + [True] * 2
    [_, gone] = tallied(flaky, flaky, *[clean] * 9)
    assert (gone.after, gone.settled, gone.seen, gone.clean) == (2, 9, 8, 24)
    [_, gone] = tallied((3, 3), (3, 3), clean, clean)
    assert (gone.settled, gone.rate, gone.chance) == (3, None, None)


def test_a_decided_result_is_not_enough_where_the_failure_showed_too_seldom_for_its_test() -> None:
    def counted(clean: int) -> bool:
        nights = [(1, 5), (0, 3), (2, 7), (0, clean)]
        found = transitions([R if matched else N for matched, _ in nights], lambda _: True, nights.__getitem__)
        return found[-1].confirmed

    assert [counted(clean) for clean in (3, 30, 60)] == [False, False, True]


def test_a_failure_that_comes_and_goes_is_not_a_transition_however_often_it_stays_away_twice() -> None:
    assert reported("RNRNNRNNRNR") == ["new -> reproducing? @0"]
    assert reported("RNRNNR" + "N" * 9)[1:] == ["reproducing -> gone? @6"]
    assert reported("RNRNNR" + "N" * 60)[1:] == ["reproducing -> gone @6"]


@given(st.integers(1, 30), st.integers(1, 30), st.integers(0, 60))
def test_the_more_clean_trials_the_less_they_are_chance(matched: int, missed: int, clean: int) -> None:
    def chance(nights: int) -> float:
        found = tallied((matched, matched + missed), *[(0, 1)] * nights)[1:]
        return found[0].chance or 0.0 if found else 1.0

    assert 0 <= chance(clean + 1) <= chance(clean) <= 1


def test_what_another_failure_hid_is_not_counted_as_clean() -> None:
    assert reported("RORNN")[1:] == ["reproducing -> gone @3"]
    [*_, gone] = of("RNRONON")
    assert (gone.rate, gone.clean, gone.seen) == ((2, 3), 2, 1)


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
def test_a_transition_needs_two_alike_in_a_row(strip: str) -> None:
    conclusive = strip.replace("?", "")
    pairs = sum(a == b for a, b in pairwise(conclusive))
    counted = [one for one in of(strip) if one.confirmed]
    assert len(counted) <= pairs
    for one in counted:
        assert one.settled is not None
        between = [LETTERS[letter] for letter in strip[one.after : one.settled + 1] if letter != "?"]
        assert len(between) >= 2
        assert set(between if one.old else between[-2:]) == {one.new}


@given(strips)
def test_states_follow_each_other(strip: str) -> None:
    found = of(strip)
    assert [one.old for one in found] == [None, *(one.new for one in found)][: len(found)]
    assert all(one.old is not one.new for one in found)
    assert all(one.confirmed for one in found[1:-1])
    conclusive = [LETTERS[letter] for letter in strip if letter != "?"]
    # What stands at the end is the last pair's state, or a last result's that is marked as seen once.
    if conclusive:
        assert found[-1].new is conclusive[-1]
    for one in found[1:]:
        assert one.before is not None
        assert LETTERS[strip[one.before]] is one.old
        assert LETTERS[strip[one.after]] is one.new


@given(strips)
def test_every_single_result_counts_where_each_is_decided(strip: str) -> None:
    conclusive = strip.replace("?", "")
    changes = sum(a != b for a, b in pairwise(conclusive))
    found = of(strip, "!" * len(strip))
    assert len(found) == changes + bool(conclusive)
    assert all(one.confirmed for one in found)

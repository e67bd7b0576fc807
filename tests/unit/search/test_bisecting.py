"""The bisection itself, driven by a function: always right where there is one boundary, with few asks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.evidence.reading import Reading
from reprokit.search.bisection import Bisection, bisect
from reprokit.search.queries import Candidate, Query, drive
from tests.bench import bisecting

PASS, FAIL, UNRESOLVED = Reading.PASS, Reading.FAIL, Reading.UNRESOLVED


class World:
    """Answers from a list of readings, and remembers what was asked."""

    def __init__(self, readings: list[Reading]) -> None:
        self.readings = readings
        self.asked: list[int] = []
        self.unforeseen = 0
        self._soon: tuple[Candidate, ...] | None = None

    def answer(self, ask: Query) -> tuple[Reading, ...]:
        places = [int(one.cell["at"]) for one in ask.candidates]
        if self._soon is not None:
            self.unforeseen += sum(one not in self._soon for one in ask.candidates)
        self._soon = ask.soon
        assert all(one not in ask.candidates for one in ask.soon)
        self.asked += places
        return tuple(self.readings[place] for place in places)

    def bisect(self, **options: bool) -> Bisection:
        line = [Candidate(cell={"at": str(place)}) for place in range(len(self.readings))]
        return drive(bisect(line, **options), self.answer)


@st.composite
def lines(draw: st.DrawFn) -> tuple[list[Reading], int]:
    """Readings with one boundary, and the first place behind it; what cannot be judged is anywhere but at the ends."""
    size = draw(st.integers(2, 120))
    boundary = draw(st.integers(1, size - 1))
    first, then = draw(st.sampled_from([(PASS, FAIL), (FAIL, PASS)]))
    readings = [first if place < boundary else then for place in range(size)]
    for place in draw(st.sets(st.integers(1, size - 1))):
        if place < size - 1:
            readings[place] = UNRESOLVED
    return readings, boundary


@given(lines())
def test_the_boundary_is_found_or_lies_among_unresolved_places(line: tuple[list[Reading], int]) -> None:
    readings, boundary = line
    world = World(readings)
    found = world.bisect()
    assert found.found
    assert found.broken_since is (readings[-1] is FAIL)
    assert found.last < boundary <= found.next
    assert sorted(found.unclear + found.not_run) == list(range(found.last + 1, found.next))
    assert len(world.asked) == len(set(world.asked))
    assert len(world.asked) <= math.ceil(math.log2(len(readings))) + 3 + 2 * len(found.skipped)
    assert world.unforeseen <= 2 * len(found.skipped)  # what is asked next was named before, whatever the answer
    all_run = World(readings).bisect(every=True)
    assert all_run.unclear == tuple(range(all_run.last + 1, all_run.next))
    assert all_run.next - all_run.last <= found.next - found.last or found.unclear


@given(st.integers(2, 2000), st.data())
def test_without_skips_it_takes_a_logarithmic_number_of_runs(size: int, data: st.DataObject) -> None:
    boundary = data.draw(st.integers(1, size - 1))
    world = World([PASS if place < boundary else FAIL for place in range(size)])
    found = world.bisect()
    assert (found.last, found.next) == (boundary - 1, boundary)
    assert len(world.asked) <= math.ceil(math.log2(size - 1)) + 2
    assert world.unforeseen == 0


def test_ends_that_do_not_differ_or_are_unresolved_end_the_search() -> None:
    for ends, broken in (((FAIL, FAIL), True), ((PASS, PASS), False)):
        world = World([ends[0], PASS, FAIL, ends[1]])
        found = world.bisect()
        assert not found.found
        assert found.broken_since is broken
        assert sorted(world.asked) == [0, 3]
    found = World([UNRESOLVED] * 4).bisect()
    assert not found.found
    assert found.skipped


@pytest.mark.parametrize(("left", "right"), [(1, 0), (0, 1), (5, 0), (0, 7), (6, 6)])
def test_from_an_unresolved_end_it_walks_in(left: int, right: int) -> None:
    world = World([UNRESOLVED] * left + [PASS] * 50 + [FAIL] * 50 + [UNRESOLVED] * right)
    found = world.bisect()
    assert (found.last, found.next) == (left + 49, left + 50)
    assert len(world.asked) < 20


def test_of_a_stretch_at_the_boundary_the_edges_are_searched_and_the_range_is_named() -> None:
    world = World([PASS] * 300 + [UNRESOLVED] * 200 + [FAIL] * 268)
    found = world.bisect()
    assert (found.last, found.next) == (299, 500)
    assert len(world.asked) < 45
    assert len(found.not_run) > 150
    assert world.bisect(every=True).not_run == ()


def test_another_change_that_lasts_an_eighth_of_the_line_is_found_and_the_last_is_named() -> None:
    for size in (9, 50, 256):
        found = bisecting.bisect_changes(changes=3, size=size, runs=150, seed=4)
        assert found.last_or_more >= 0.75
        assert found.missed_wider == 0
        assert found.confirmed_wrong == 0
    assert bisecting.bisect_changes(changes=1, size=256, runs=50, seed=4).last_or_more == 1


@pytest.mark.parametrize(("rates", "most"), [((0.0, 0.5), 80), ((0.05, 1.0), 60), ((0.0, 0.8), 80)])
def test_a_flake_is_bisected_by_the_trials_that_tell_most(rates: tuple[float, float], most: int) -> None:
    right, _, wrong, *_ = bisecting.bisect_flakes(rates=rates, most=most, runs=12, seed=3)
    assert right >= 11 / 12
    assert not wrong


def test_a_flake_of_one_rate_everywhere_has_no_confirmed_boundary() -> None:
    assert bisecting.bisect_flakes(rates=(0.3, 0.3), most=60, runs=8, seed=3)[1:3] == (0, 0)


def test_two_neighbours_need_only_their_own_verdicts() -> None:
    world = World([FAIL, PASS])
    found = world.bisect()
    assert (found.last, found.next, found.broken_since, world.asked) == (0, 1, False, [0, 1])


def test_a_range_of_unresolved_places_is_left_quickly() -> None:
    readings = [PASS] * 300 + [UNRESOLVED] * 400 + [PASS] * 200 + [FAIL] * 100
    world = World(readings)
    assert world.bisect().next == 900
    assert len(world.asked) < 30  # one by one from the middle it would take two hundred


def test_nothing_is_built_ahead_when_that_is_off() -> None:
    world = World([PASS] * 5 + [FAIL] * 5)
    world.bisect(ahead=False)
    assert world.unforeseen == len(world.asked) - 2


def test_the_simulation_finds_every_planted_boundary() -> None:
    sure = bisecting.simulate(size=60, clusters=2, flaky=0.0, trials=1, runs=200, seed=1)
    assert sure.right == sure.runs
    assert sure.within >= 0.97 * sure.runs  # the edges of a stretch take more
    shaky = bisecting.simulate(size=60, clusters=0, flaky=0.5, trials=1, runs=200, seed=2)
    assert shaky.right < shaky.runs  # a failure that shows half the time is missed by single trials ...
    steady = bisecting.simulate(size=60, clusters=0, flaky=0.5, trials=8, runs=200, seed=2)
    assert steady.right > 0.95 * steady.runs  # ... and found with more of them


@pytest.mark.nightly
def test_a_flake_of_any_rate_is_seldom_called_a_boundary_and_a_certain_failure_always() -> None:
    for size in (2, 8, 64):
        for rate in (0.1, 0.3, 0.5):
            for planted in (False, True):
                found = bisecting.confirmed(size=size, rate=rate, planted=planted, runs=50, seed=1)
                assert found.falsely <= 0.02
        certain = bisecting.confirmed(size=size, rate=1.0, planted=True, runs=100, seed=1)
        assert certain.rightly == 1.0
        assert certain.extra < 12

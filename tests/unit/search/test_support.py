"""Whether trials carry an explanation, which cells are repeated for it, and what simulation says of both."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from reprokit.case.matrix import Cell
from reprokit.evidence.reading import Reading
from reprokit.evidence.strength import Tally
from reprokit.search.explain import Explanation, difference, explain
from reprokit.search.repeating import MOST_TRIALS, Support, budget, next_repeat
from tests.bench.claims import World, simulated

F, P = Tally(failed=1), Tally(passed=1)


def explained(*fails: bool, cells: list[Cell] | None = None) -> tuple[Explanation, list[Cell]]:
    cells = cells or [{"k": "abcdefgh"[at]} for at in range(len(fails))]
    return explain(cells, [Reading.FAIL if each else Reading.PASS for each in fails]), cells


def test_one_trial_each_of_two_cells_carries_nothing_and_five_do() -> None:
    support = Support(*explained(True, False))
    assert not support.given([F, P])
    assert support.given([Tally(failed=5), Tally(passed=5)])
    assert not support.given([Tally(failed=4), Tally(failed=1, passed=5)]), "a failure refutes it"


def test_the_repeats_are_the_fewest_that_carry_it_and_spread_over_the_cells() -> None:
    support = Support(*explained(True, False, False, False))
    plan = support.missing([F, P, P, P], [1.0] * 4)
    assert plan.reaches
    assert plan.cells[:4] == (0, 1, 2, 3)
    after = [F, P, P, P]
    for at in plan.cells:
        assert not support.given(after)
        after[at] += F if at == 0 else P
    assert support.given(after)
    assert support.missing(after, [1.0] * 4).cells == ()


def test_cheap_cells_are_repeated_rather_than_dear_ones() -> None:
    support = Support(*explained(True, False))
    dear = support.missing([F, P], [1.0, 100.0])
    assert dear.cells.count(0) > 10 * dear.cells.count(1) > 0


def test_in_a_grid_whose_cells_fail_by_halves_nothing_need_be_repeated() -> None:
    cells = [{"k": k, "i": i, "m": m} for k in "ab" for i in "cdef" for m in "ghij"]
    found, _ = explained(*(cell["k"] == "a" for cell in cells), cells=cells)
    support = Support(found, cells)
    tallies = [F if cell["k"] == "a" else P for cell in cells]
    assert support.given(tallies)


def test_the_nearest_that_pass_are_repeated_and_others_are_not() -> None:
    cells = [{"k": k, "i": i} for k in "abcd" for i in "efgh"]
    found, _ = explained(*(cell == {"k": "a", "i": "e"} for cell in cells), cells=cells)
    plan = Support(found, cells).missing([F, *[P] * 15], [1.0] * 16)
    assert {at for at in plan.cells if cells[at]["k"] != "a" and cells[at]["i"] != "e"} == set()
    assert {at for at in plan.cells if at} == {1, 2, 3, 4, 8, 12}


def test_where_a_neighbour_is_not_decided_the_next_one_has_to_pass() -> None:
    cells = [{"k": k, "i": i} for k in "abc" for i in "de"]
    readings = [Reading.FAIL, Reading.PASS, Reading.UNRESOLVED, Reading.UNRESOLVED, Reading.PASS, Reading.PASS]
    support = Support(explain(cells, readings), cells)
    none = Tally()
    assert not support.given([Tally(failed=9), Tally(passed=9), none, none, P, P])
    assert support.given([Tally(failed=9), Tally(passed=9), none, none, Tally(passed=9), Tally(passed=9)])


def test_few_passes_among_flaky_cells_are_not_a_cause_for_being_easily_described() -> None:
    """Two of 16 cells pass three trials, as one run in sixty has it at a rate of 0.8; in six axes they have a name."""
    cells = [dict(zip("klmnop", values, strict=True)) for values in itertools.product("01", repeat=6)]
    shows = [cell["k"] == cell["l"] == "1" and (cell["m"], cell["o"], cell["p"]) != ("0", "1", "0") for cell in cells]
    found, _ = explained(*shows, cells=cells)
    assert len(found.conditions) == 3
    tallies = [F if show else P for show in shows]
    support = Support(found, cells)
    twice = next(at for at, cell in enumerate(cells) if [*cell.values()] == [*"110010"])
    tallies[twice] += P
    assert not support.given(tallies)
    for at in support.missing(tallies, [1.0] * len(cells)).cells:
        tallies[at] += F if shows[at] else P
    assert support.given(tallies)


def test_a_flake_is_repeated_only_if_the_budget_may_decide_it() -> None:
    support = Support(*explained(True, False))
    flaky, seconds = [Tally(failed=1, passed=1), Tally(passed=2)], [1.0, 1.0]
    plan = support.missing(flaky, seconds)
    assert plan.reaches
    assert next_repeat(plan, flaky, seconds, plan.seconds - 0.5) is None
    assert next_repeat(plan, flaky, seconds, plan.seconds) is not None
    certain = support.missing([F, P], seconds)
    assert next_repeat(certain, [F, P], seconds, 1.0) is not None, "one trial more may show that it is not"
    assert next_repeat(certain, [F, P], seconds, 0.5) is None


def test_no_cell_is_repeated_for_ever() -> None:
    support = Support(*explained(True, False))
    rare = [Tally(failed=1, passed=MOST_TRIALS - 1), Tally(passed=MOST_TRIALS)]
    plan = support.missing(rare, [1.0, 1.0])
    assert (plan.cells, plan.reaches) == ((), False)
    assert next_repeat(plan, rare, [1.0, 1.0], 1e9) is None


def test_without_an_exact_statement_nothing_is_repeated() -> None:
    cells = [{"k": "a", "i": "c"}, {"k": "b", "i": "d"}]  # k or l
    several = explain(cells, [Reading.FAIL, Reading.PASS])
    assert Support(several, cells).missing([F, P], [1.0, 1.0]).cells == ()
    assert not Support(several, cells).given([Tally(failed=99), Tally(passed=99)])
    assert Support(*explained(True, True)).missing([F, F], [1.0, 1.0]).cells == ()


def test_the_budget_is_what_the_trials_took_or_a_minute() -> None:
    assert (budget(4.0), budget(100.0)) == (60.0, 100.0)


WORLDS = {
    "no cause": World(shape=(4,), cause="all", rate=0.5),
    "seldom elsewhere": World(shape=(4,), cause="one value", elsewhere=0.1),
    "often elsewhere": World(shape=(2,), cause="one value", elsewhere=0.3),
    "graded": World(shape=(5,), cause="graded"),
    "each its own": World(shape=(4,), cause="own"),
    "two causes": World(shape=(2, 2), cause="or", rate=1.0),
}


@pytest.mark.system
@pytest.mark.parametrize("name", WORLDS)
def test_what_is_said_of_cells_that_fail_at_different_rates_is_seldom_false(name: str) -> None:
    """A slice of ``python -m tests.bench claims``, of seeded runs: 1 % of 150 are 2, and 5 befall 1 in 100 slices."""
    luck = random.Random(name)
    ends = [simulated(replace(WORLDS[name], trials=luck.choice((1, 3, 12))), luck) for _ in range(150)]
    assert sum(end.false for end in ends) <= 5


def test_a_failing_cell_that_fails_seldom_is_what_a_passing_one_is_held_against() -> None:
    """Rates of 1, 5, 30, 70 and 99 %: 0 of 21 beside 1 of 20 makes no boundary, whatever the others show."""
    counts = ((0, 21), (1, 19), (6, 14), (14, 6), (20, 0))
    tallies = [Tally(failed=failed, passed=passed) for failed, passed in counts]
    found, cells = explained(False, True, True, True, True, cells=[{"k": str(at)} for at in range(5)])
    assert not Support(found, cells).given(tallies)
    between = difference(cells, tallies)
    assert between is not None
    assert (str(between.condition), between.more.failed, between.less.failed) == ("k >= 3", 34, 7)


def test_a_failure_or_two_of_one_cell_make_it_no_cause() -> None:
    cells = [{"k": k, "i": i} for k in "abcd" for i in "efgh"]
    shows = [cell["k"] == "a" or cell == {"k": "b", "i": "e"} for cell in cells]
    support = Support(*explained(*shows, cells=cells))
    tallies = [F if show else P for show in shows]
    assert not support.given(tallies)
    assert support.missing(tallies, [1.0] * 16).cells.count(4) >= 1, "it is what gets more trials"


def test_the_word_exactly_takes_ninety_trials_of_each_passing_cell() -> None:
    found, cells = explained(True, False)
    support = Support(found, cells, exact=True)
    tallies = [Tally(failed=5), Tally(passed=5)]
    assert support.given(tallies)
    assert support.missing(tallies, [1.0] * 2).cells == (1,) * 85
    assert [support.exact([Tally(failed=5), Tally(passed=passed)]) for passed in (89, 90)] == [False, True]

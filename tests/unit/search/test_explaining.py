"""Which difference matters: the smallest conditions over axes, true of every decided cell, and their rivals."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from reprokit.case.matrix import Cell
from reprokit.evidence.reading import Reading
from reprokit.search.conditions import Conditions, holds, of_axis, sort_values, words
from reprokit.search.covering import separate, size_of
from reprokit.search.explain import Explanation, Statement, explain

FAIL, PASS, UNRESOLVED = Reading.FAIL, Reading.PASS, Reading.UNRESOLVED


def grid(**axes: str) -> list[Cell]:
    """Every combination of values that are written with spaces between them."""
    return [
        dict(zip(axes, values, strict=True)) for values in itertools.product(*(some.split() for some in axes.values()))
    ]


def explained(
    cells: list[Cell], fails: Callable[[Cell], bool], skip: Callable[[Cell], bool] = lambda _: False
) -> Explanation:
    return explain(cells, [UNRESOLVED if skip(cell) else FAIL if fails(cell) else PASS for cell in cells])


PTXAS = grid(os="debian-12", cuda="11.7 11.8 12.0", arch="sm_35 sm_90")
VERSIONS = grid(cuda="none 11.8 12.0", gcc="9 10 11 12", python="3.9 3.10 3.11")


@pytest.mark.parametrize(
    ("cells", "fails", "expected"),
    [
        (PTXAS, lambda c: c["cuda"] == "12.0", "cuda = 12.0"),
        (
            PTXAS,
            lambda c: (c["cuda"], c["arch"]) in {("11.7", "sm_90"), ("12.0", "sm_35")},
            "cuda = 11.7 and arch = sm_90, or cuda = 12.0 and arch = sm_35",
        ),
        (VERSIONS, lambda c: c["gcc"] in ("10", "11", "12"), "gcc >= 10"),
        (VERSIONS, lambda c: c["cuda"] == "11.8" and c["gcc"] in ("11", "12"), "cuda = 11.8 and gcc >= 11"),
        (VERSIONS, lambda c: c["gcc"] in ("9", "10"), "gcc < 11"),
        (VERSIONS, lambda c: c["python"] in ("3.10", "3.11"), "python >= 3.10"),
        (VERSIONS, lambda c: c["cuda"] == "none", "cuda = none"),
        (VERSIONS, lambda c: c["cuda"] != "11.8", "cuda != 11.8"),
        (
            grid(torch="1.4.0 1.5.1 1.6.0 1.7.1 2.0"),
            lambda c: c["torch"] in ("1.5.1", "1.6.0"),
            "torch in {1.5.1, 1.6.0}",
        ),
        (
            grid(torch="1.4.0 1.5.1 1.6.0 1.10.0 2.0"),
            lambda c: c["torch"] not in ("1.4.0", "2.0"),
            "1.5.1 <= torch <= 1.10.0",
        ),
        (grid(lr="0.01 1e38 1 10"), lambda c: float(c["lr"]) >= 10, "lr >= 10"),
        (grid(shm="64m 1g 2g"), lambda c: c["shm"] != "64m", "shm >= 1g"),
        (
            grid(load="strict update lenient x y", n="1 2"),
            lambda c: c["load"] in ("strict", "update"),
            "load in {strict, update}",
        ),
        ([{"a": "1"}, {"a": "1", "b": "x"}, {"a": "2"}], lambda c: "b" in c, "b = x"),
        ([{"a": "1"}, {"a": "1", "b": "x"}, {"a": "2", "b": "y"}], lambda c: "b" not in c, "b absent"),
        ([{"a": "1"}, {"a": "1", "b": "x"}, {"a": "2", "b": "y"}], lambda c: "b" in c, "b present"),
        (
            [{"cuda": "11.8", "gcc": "11"}, {"cuda": "11.8", "gcc": "12"}, {"cuda": "12.0", "gcc": "12"}],
            lambda c: c == {"cuda": "11.8", "gcc": "12"},
            "cuda = 11.8 and gcc = 12",
        ),
    ],
)
def test_the_smallest_conditions_are_found_in_their_simplest_form(
    cells: list[Cell], fails: Callable[[Cell], bool], expected: str
) -> None:
    found = explained(cells, fails)
    assert (words(found.found), found.claim, found.minimal) == (expected, Statement.EXACT, True)


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (("3.9", "3.10"), []),  # as numbers the other way round
        (("1.9.0", "1.10.0"), ["1.9.0", "1.10.0"]),
        (("2.13.0+cpu", "1.4.0"), ["1.4.0", "2.13.0+cpu"]),
        (("1e38", "0.01", "-1"), ["-1", "0.01", "1e38"]),
        (("0.1", "0.01"), ["0.01", "0.1"]),  # the same release, as versions are compared
        (("1", "1.0"), []),
        (("nan", "inf", "1"), []),
        (("64m", "1g"), ["64m", "1g"]),
        (("1m30s", "10s"), ["10s", "1m30s"]),
        (("3", "3x1x1"), []),
        (("none", "2", "10", None), ["2", "10"]),
    ],
)
def test_values_are_ordered_only_where_the_order_is_certain(values: tuple[str | None, ...], order: list[str]) -> None:
    assert sort_values("free", values) == order
    assert sort_values("os", values) == []


def test_values_that_could_be_read_as_several_words_are_quoted() -> None:
    found = explained([{"a": "x, or b = 3"}, {"a": ""}, {"a": "y\x1b[2J\nz"}], lambda cell: "\n" not in cell["a"])
    assert words(found.found) == r'a != "y\u001b[2J\nz"'
    found = explained([{"a": "x, or b = 3"}, {"a": "ü"}, {"a": ""}, {"a": "d"}], lambda cell: len(cell["a"]) > 1)
    assert words(found.found) == 'a = "x, or b = 3"'


def test_values_of_known_axes_are_ordered_as_versions() -> None:
    assert sort_values("python", ("3.10", "3.9", "none")) == ["3.9", "3.10"]


def test_each_condition_names_the_cells_behind_it() -> None:
    found = explained(PTXAS, lambda c: (c["cuda"], c["arch"]) in {("11.7", "sm_90"), ("12.0", "sm_35")})
    one, other = found.conditions
    assert [PTXAS[at] for at in one.reproducing] == grid(os="debian-12", cuda="11.7", arch="sm_90")
    assert [(PTXAS[at]["cuda"], PTXAS[at]["arch"]) for at in one.near] == [
        ("11.7", "sm_35"),
        ("11.8", "sm_90"),
        ("12.0", "sm_90"),
    ]
    assert [PTXAS[at] for at in other.reproducing] == grid(os="debian-12", cuda="12.0", arch="sm_35")


@pytest.mark.parametrize(
    ("readings", "why"),
    [
        ([], "no cell is decided"),
        ([UNRESOLVED, UNRESOLVED], "no cell is decided"),
        ([FAIL, UNRESOLVED], "only one cell is decided: there is no other to compare it with"),
        ([FAIL, FAIL, UNRESOLVED], "both cells decided reproduce"),
        ([PASS, UNRESOLVED, PASS], "none of the 2 cells decided reproduces"),
    ],
)
def test_no_claim_is_made_where_there_is_no_difference(readings: list[Reading], why: str) -> None:
    found = explain([{"a": str(number)} for number in range(len(readings))], readings)
    assert (found.claim, found.why, found.conditions, found.rivals) == (Statement.NONE, why, (), ())


def test_no_claim_is_made_where_it_would_only_list_the_cells() -> None:
    parity = explained(grid(a="1 2", b="1 2", c="1 2"), lambda c: list(c.values()).count("1") % 2 == 0)
    assert (parity.claim, parity.why) == (
        Statement.NONE,
        "no condition is shorter than a list of the 4 cells that reproduce",
    )
    some = explained(grid(seed="a b c d e f g h"), lambda c: c["seed"] in "bdg")
    assert some.claim is Statement.NONE
    chance = random.Random(0)
    random_looking = explained(grid(a="1 2 3 4 5", b="1 2 3 4 5", c="1 2 3 4 5"), lambda _: chance.random() < 0.4)
    assert random_looking.claim is Statement.NONE


def test_undecided_cells_count_for_neither_side_and_are_predicted() -> None:
    cells = grid(cuda="11.8 12.0", gcc="11 12")
    found = explain(cells, [PASS, UNRESOLVED, FAIL, FAIL])
    assert words(found.found) == "cuda = 12.0"
    assert (found.undecided, found.predicted, found.decided) == ((1,), {1: False}, 3)
    new = explain([*cells, {"cuda": "13.0", "gcc": "11"}], [PASS, PASS, FAIL, FAIL, UNRESOLVED])
    assert new.predicted == {}, "nothing is known of a value that was never decided"


def test_deleting_cells_makes_rivals_appear_that_the_deleted_cells_distinguish() -> None:
    cells = grid(cuda="11.8 12.0", cudnn="8.6 8.9", gcc="11 12")

    def fails(cell: Cell) -> bool:
        return cell["cuda"] == "12.0"

    whole = explained(cells, fails)
    assert (whole.claim, whole.rivals, whole.tell_apart) == (Statement.EXACT, (), ())
    together = explained(cells, fails, skip=lambda cell: (cell["cuda"] == "12.0") != (cell["cudnn"] == "8.9"))
    assert (together.claim, words(together.found)) == (Statement.ONE_OF, "cuda = 12.0")
    assert [words(rival) for rival in together.rivals] == ["cudnn = 8.9"]
    [proposed] = together.tell_apart
    assert proposed.at is not None
    assert (cells[proposed.at]["cuda"] == "12.0") != (cells[proposed.at]["cudnn"] == "8.9")
    assert proposed.kept == (0,) if proposed.cell["cuda"] == "12.0" else (1,)


def test_a_cell_outside_the_matrix_is_proposed_to_distinguish_rivals() -> None:
    cells = [{"os": "debian-11", "torch": "1.4"}, {"os": "debian-12", "torch": "2.0"}]
    found = explain(cells, [PASS, FAIL])
    assert [words(found.found), *map(words, found.rivals)] == ["torch = 2.0", "os = debian-12"]
    [proposed] = found.tell_apart
    assert (proposed.at, sorted(proposed.cell.items())) in [
        (None, [("os", "debian-11"), ("torch", "2.0")]),
        (None, [("os", "debian-12"), ("torch", "1.4")]),
    ]
    assert explain(cells, [PASS, FAIL], askable=lambda cell: False).tell_apart == ()


def test_a_proposed_cell_combines_values_that_were_seen_together() -> None:
    cells = [
        {"os": "debian-12", "cuda": "11.8", "gcc": "12"},
        {"os": "debian-13", "cuda": "11.8", "gcc": "14"},
        {"os": "debian-12", "cuda": "11.8", "gcc": "11"},
        {"os": "debian-13", "cuda": "12.4", "gcc": "13"},
    ]
    found = explain(cells, [FAIL, FAIL, PASS, PASS])
    assert "cuda = 11.8 and gcc >= 12" in [words(each) for each in (found.found, *found.rivals)]
    assert next(proposed.cell for proposed in found.tell_apart) == {"os": "debian-13", "cuda": "11.8", "gcc": "13"}


def test_preferred_axes_come_first_among_equal_explanations() -> None:
    cells = [{"a": "1", "b": "x"}, {"a": "2", "b": "y"}]
    assert words(explain(cells, [PASS, FAIL], first=["b"]).found) == "b = y"
    assert words(explain(cells, [PASS, FAIL]).found) == "a = 2"


# Planted causes

SIZES = st.lists(st.integers(min_value=2, max_value=4), min_size=2, max_size=4)


@st.composite
def planted(draw: st.DrawFn) -> tuple[list[Cell], Conditions]:
    """Some cells of a random grid and conditions over it."""
    sizes = draw(SIZES)
    axes = {f"axis{at}": [str(value) for value in range(size)] for at, size in enumerate(sizes)}
    singles = [one for axis, values in axes.items() for one in of_axis(axis, values)[0]]
    conjunctions = []
    for _ in range(draw(st.integers(min_value=1, max_value=3))):
        some = draw(st.lists(st.sampled_from(singles), min_size=1, max_size=3, unique_by=lambda one: one.axis))
        conjunctions.append(tuple(some))
    cells = [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]
    return draw(st.lists(st.sampled_from(cells), min_size=2, unique_by=lambda cell: str(cell))), tuple(conjunctions)


def split(cells: list[Cell], conditions: Conditions) -> tuple[list[Cell], list[Cell]]:
    bad = [cell for cell in cells if holds(conditions, cell)]
    return bad, [cell for cell in cells if cell not in bad]


@given(planted())
def test_an_explanation_fits_every_decided_cell_and_is_never_longer_than_the_cause(
    case: tuple[list[Cell], Conditions],
) -> None:
    cells, cause = case
    bad, good = split(cells, cause)
    assume(bad and good)
    found = separate(bad, good)
    assert found.answers
    for answer in found.answers:
        assert all(holds(answer, cell) is True for cell in bad)
        assert all(holds(answer, cell) is False for cell in good)
        assert size_of(answer) == size_of(found.answers[0])
    if found.minimal:
        assert size_of(found.answers[0]) <= size_of(cause)


@given(planted(), st.randoms(use_true_random=False))
def test_the_order_of_the_cells_does_not_matter(case: tuple[list[Cell], Conditions], chance: random.Random) -> None:
    cells, cause = case
    bad, good = split(cells, cause)
    once = separate(bad, good)
    chance.shuffle(bad)
    chance.shuffle(good)
    assert separate(bad, good) == once


@given(planted(), st.data())
def test_running_the_proposed_cells_leads_to_one_explanation(
    case: tuple[list[Cell], Conditions], data: st.DataObject
) -> None:
    cells, cause = case
    known = data.draw(st.sets(st.sampled_from(range(len(cells))), min_size=2))
    for _ in range(len(cells)):
        readings = [
            UNRESOLVED if at not in known else FAIL if holds(cause, cell) else PASS for at, cell in enumerate(cells)
        ]
        found = explain(cells, readings)
        asked = {proposed.at for proposed in found.tell_apart} - {None}
        if found.claim is not Statement.ONE_OF or not asked:
            break
        assert not asked & known, "a decided cell distinguishes nothing"
        known |= {at for at in asked if at is not None}
    else:
        pytest.fail("it never ends")


@pytest.mark.system
def test_many_cells_are_explained_within_the_budget_too() -> None:
    chance = random.Random(1)
    cells = [{f"axis{at}": str(chance.randrange(5)) for at in range(10)} for _ in range(10_000)]
    unique = list({str(cell): cell for cell in cells}.values())

    def fails(cell: Cell) -> bool:
        return (cell["axis1"] == "1" and cell["axis2"] >= "3") or (cell["axis3"] == "4" and cell["axis4"] == "2")

    found = explained(unique, fails)
    assert words(found.found) == "axis1 = 1 and axis2 >= 3, or axis3 = 4 and axis4 = 2"
    noise = explained(unique, lambda _: chance.random() < 0.3)
    assert (noise.claim, noise.minimal) == (Statement.NONE, False)


@given(st.sets(st.sampled_from(["none", "9", "10", "11.2", "12", "a", None]), min_size=1), st.data())
def test_conditions_that_accept_no_value_of_some_are_those_of_all_that_do_not(
    values: set[str | None], data: st.DataObject
) -> None:
    without = data.draw(st.sets(st.sampled_from(sorted(values, key=str))))
    every, missing = of_axis("cuda", sorted(values, key=str))
    assert len({one.accepted for one in every}) == len(every)
    for one in every:
        if one.op in ("=", "in", "!=", "not in"):
            assert one.accepted == (set(one.named) if one.op in ("=", "in") else values - set(one.named))
        else:
            line = sort_values("cuda", values)
            ends = [line.index(str(each)) for each in one.named]
            first, last = {">=": (ends[0], len(line)), "<": (0, ends[0] - 1)}.get(one.op, (ends[0], ends[-1]))
            assert one.accepted == set(line[first : last + 1])
    assert of_axis("cuda", sorted(values, key=str), without) == (
        [one for one in every if one.accepted.isdisjoint(without)],
        missing,
    )

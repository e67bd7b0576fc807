"""Expansion and selection of cells."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case.matrix import Selection, count, expand, is_own, matches, parse_group, parse_values
from reprokit.core.errors import UsageError
from reprokit.environment.cases import select

AXES = {"cuda": ("11.8", "12.0"), "gcc": ("11", "12")}


@pytest.mark.parametrize("axes", [{}, AXES])
@pytest.mark.parametrize("exclude", [(), ({"cuda": "12.0", "gcc": "11"},)])
@pytest.mark.parametrize("include", [(), ({"cuda": "12.0", "gcc": "13"},)])
def test_cells_are_counted_as_they_are_made(axes: Any, exclude: Any, include: Any) -> None:
    assert count(axes, exclude, include) == len(expand(axes, exclude, include))


def test_a_product_is_counted_without_being_made() -> None:
    assert count({f"a{number}": tuple("0123456789") for number in range(30)}) == 10**30


def test_the_last_axis_varies_fastest() -> None:
    assert expand(AXES) == [
        {"cuda": "11.8", "gcc": "11"},
        {"cuda": "11.8", "gcc": "12"},
        {"cuda": "12.0", "gcc": "11"},
        {"cuda": "12.0", "gcc": "12"},
    ]


def test_exclude_drops_what_matches_and_include_adds_whole_cells_once() -> None:
    cells = expand(
        AXES, [{"cuda": "12.0", "gcc": "11"}], [{"cuda": "11.8", "paddle": "2.5.2"}, {"gcc": "11", "cuda": "11.8"}]
    )
    assert cells == [
        {"cuda": "11.8", "gcc": "11"},
        {"cuda": "11.8", "gcc": "12"},
        {"cuda": "12.0", "gcc": "12"},
        {"cuda": "11.8", "paddle": "2.5.2"},
    ]


def test_no_axes_is_one_cell_and_only_includes_are_just_those() -> None:
    assert expand({}) == [{}]
    assert expand({}, (), [{"x": "1"}]) == [{"x": "1"}]


names = st.sampled_from(["os", "cuda", "gcc", "x"])
values = st.sampled_from(["1", "2", "3"])


@given(
    st.dictionaries(names, st.lists(values, min_size=1, max_size=3, unique=True), max_size=4),
    st.lists(st.dictionaries(names, values, min_size=1, max_size=3), max_size=4),
)
def test_expansion_equals_the_filtered_product(axes: dict[str, list[str]], exclude: list[dict[str, str]]) -> None:
    product = [dict(zip(axes, combination, strict=True)) for combination in itertools.product(*axes.values())]
    assert expand(axes, exclude) == [c for c in product if not any(matches(c, e) for e in exclude)]


def test_an_option_replaces_its_axis_and_drops_the_includes_beside_it() -> None:
    include = [{"cuda": "11.7", "gcc": "11"}, {"gcc": "10"}]
    chosen = select(AXES, [], include, Selection(axes={"cuda": ("12.4",)}))
    assert chosen == [
        {"cuda": "12.4", "gcc": "11"},
        {"cuda": "12.4", "gcc": "12"},
        {"cuda": "12.4", "gcc": "10"},
    ]


def test_a_known_axis_may_be_added_but_a_free_one_must_exist() -> None:
    assert select(AXES, [], [], Selection(axes={"os": ("debian-13",)}))[0]["os"] == "debian-13"
    with pytest.raises(UsageError, match="did you mean 'gcc'"):
        select(AXES, [], [], Selection(axes={"gc": ("1",)}))


def test_a_matrix_of_include_alone_takes_options_too() -> None:
    include = [{"cuda": "11.8", "paddle": "2.5"}, {"cuda": "12.0", "gcc": "11"}]
    chosen = select({}, [], include, Selection(axes={"gcc": ("12", "13")}))
    assert chosen == [{"cuda": "11.8", "paddle": "2.5", "gcc": "12"}, {"cuda": "11.8", "paddle": "2.5", "gcc": "13"}]
    assert select({}, [], include, Selection(axes={"cuda": ("9",)})) == []
    assert select({}, [], [], Selection(axes={"gcc": ("12",)})) == [{"gcc": "12"}]


def test_only_and_skip() -> None:
    only = Selection(only=(parse_group("cuda=11.8"),), skip=(parse_group("gcc=11"),))
    assert select(AXES, [], [], only) == [{"cuda": "11.8", "gcc": "12"}]
    both = Selection(only=(parse_group("cuda=11.8,cuda=12.0,gcc=12"),))
    assert len(select(AXES, [], [], both)) == 2


@pytest.mark.parametrize(
    ("selection", "text"),
    [
        (Selection(only=({"cdua": ("11.8",)},)), "did you mean 'cuda'"),
        (Selection(skip=({"cuda": ("11.9",)},)), "no such value; did you mean '11.8'"),
    ],
)
def test_a_wrong_name_or_value_is_said_with_a_near_match(selection: Selection, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        select(AXES, [], [], selection)


def test_own_cells_are_those_of_the_case() -> None:
    assert is_own({"cuda": "11.8", "gcc": "11"}, AXES, [])
    assert not is_own({"cuda": "12.4", "gcc": "11"}, AXES, [])
    assert is_own({"cuda": "12.4"}, AXES, [{"cuda": "12.4"}])


def test_option_values_are_parsed_or_refused() -> None:
    assert parse_values("11.8, 12.0,11.8") == ("11.8", "12.0")
    assert parse_values("(1,), (2,3),[]") == ("(1,)", "(2,3)", "[]")
    assert parse_group("shape=(1,), n =3") == {"shape": ("(1,)",), "n": ("3",)}
    for parse, text in ((parse_values, " , "), (parse_group, "cuda"), (parse_group, "=1")):
        with pytest.raises(UsageError):
            parse(text)

"""Values of axes that no release has: refused as far as the data can tell, and no further."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from reprokit.environment.axes import AXES, AXIS_NAMES
from reprokit.environment.axis import Axis, every
from reprokit.environment.catalog import OURS, Catalog
from reprokit.environment.existing import nonexistent


@pytest.mark.parametrize(
    ("axis", "value", "said"),
    [
        ("os", "debian-99", "there is no OS debian-99; did you mean 'debian-13'?; reprokit knows debian-10, debian-11"),
        ("os", "debain-12", "did you mean 'debian-12'?"),
        ("python", "3.99", "there is no Python 3.99; did you mean '3.9'?; reprokit knows 2.7, 3.5, 3.6, 3.7"),
        ("gcc", "99", "there is no GCC 99; reprokit knows 4, 5"),
        ("cuda", "99.9", "there is no CUDA 99.9; reprokit knows 7.5, 9.1"),
        ("cuda", "11.9", "there is no CUDA 11.9;"),
        ("cuda", "12.7", "there is no CUDA 12.7;"),
        ("cudnn", "99", "there is no cuDNN 99;"),
        ("cmake", "99", "there is no CMake 99;"),
        ("cmake", "3.99", "there is no CMake 3.99;"),
        ("clang", "99", "there is no Clang 99;"),
        ("nccl", "2.99", "there is no NCCL 2.99;"),
    ],
)
def test_what_no_release_has_is_refused_with_those_that_are_known(axis: str, value: str, said: str) -> None:
    for newer in (False, True):
        assert said in nonexistent(axis, value, OURS, newer=newer)


def test_the_releases_for_a_cell_are_listed_once_for_all_values() -> None:
    asked: list[tuple[str, ...]] = []

    def releases(cell: Mapping[str, str], catalog: Catalog) -> tuple[str, ...]:
        asked.append(tuple(cell.values()))
        return ("1.2.3", "1.10.0")

    assert every(releases, OURS, 1) == ("1",)
    assert every(releases, OURS, 2) == ("1.2", "1.10")
    assert len(asked) == len(set(asked)) > 10


@pytest.mark.parametrize(("axis", "value"), [("cuda", "14.0"), ("python", "3.16"), ("gcc", "17"), ("os", "debian-14")])
def test_what_may_have_come_since_is_newer_than_is_known(axis: str, value: str) -> None:
    assert f"{value} is newer than this reprokit knows; reprokit knows " in nonexistent(axis, value, OURS)
    assert nonexistent(axis, value, OURS, newer=True) == ""


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        ("os", ["debian-10", "ubuntu-24.10", "fedora-40", "debian-12"]),
        ("python", ["2.7", "3", "3.11.99", "none"]),
        ("gcc", ["4.7", "12.9", "none"]),
        ("cuda", ["7.0", "8.0", "10.2", "11", "11.8.99"]),
        ("cudnn", ["7.6", "8"]),
        ("torch", ["99"]),
    ],
)
def test_what_the_data_cannot_exclude_is_not_refused(axis: str, values: list[str]) -> None:
    assert [value for value in values if nonexistent(axis, value, OURS)] == []


@pytest.mark.parametrize("axis", AXES, ids=AXIS_NAMES)
def test_no_value_that_is_available_is_refused(axis: Axis) -> None:
    cells = [{"os": os, "cuda": cuda} for os in OURS.known_os() for cuda in ("11.8", "12.0", "13.0")]
    for value in {value for cell in cells for value in axis.releases(cell, OURS)}:
        assert nonexistent(axis.name, value, OURS) == ""

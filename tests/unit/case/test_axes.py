"""Free axes that resemble known ones, or whose name becomes known: a hint, never an error."""

from __future__ import annotations

import pytest

from reprokit.case import files
from reprokit.case.axes import FIRST_RELEASE, KnownAxes, version_syntax
from reprokit.case.check_matrix import axis_hints
from reprokit.case.files import CaseFile
from reprokit.case.schema import json_schema
from reprokit.environment.axes import AXES, KNOWN
from tests.unit.case.test_cases_folder import loaded

YOUNGER = KnownAxes((*KNOWN, version_syntax("node", since="0.2.0", help="Node.js versions.")))


def case(matrix: str, command: str = "true", known: KnownAxes = KNOWN) -> CaseFile:
    text = f"schema: reprokit/v1\nid: x\ntitle: x\nmatrix: {matrix}\ncommand: '{command}'\n"
    return files.load_text("x.yaml", text, known)


def hints(file: CaseFile, known: KnownAxes = KNOWN) -> list[tuple[tuple[str | int, ...], str]]:
    return [(one.loc, f"{one.message} ({one.hint})") for one in axis_hints(file.case, file.names, known)]


@pytest.mark.parametrize(
    ("matrix", "loc", "meant"),
    [
        ("{pyhton: ['3.11']}", ("matrix", "pyhton"), "python"),
        ("{Python: ['3.11']}", ("matrix", "Python"), "python"),
        ("{cuda: ['11.8'], include: [{cdua: '12.0'}]}", ("matrix", "include", 0, "cdua"), "cuda"),
        ("{sample: [a], include: [{sampel: b}]}", ("matrix", "include", 0, "sampel"), "sample"),
    ],
)
def test_an_axis_that_no_template_uses_and_that_resembles_another_is_a_hint(
    matrix: str, loc: tuple[str | int, ...], meant: str
) -> None:
    [(where, words)] = hints(case(matrix))
    assert where == loc
    assert f"did you mean '{meant}'?" in words


@pytest.mark.parametrize(
    ("matrix", "command"),
    [
        ("{python: ['3.11'], include: [{python: '3.9', python2: '2.7'}]}", "run {{ python2 | default(1) }}"),
        ("{pyhton: ['3.11']}", "run {{ pyhton }}"),
        ("{sample: [a, b]}", "true"),
    ],
)
def test_an_axis_that_a_template_uses_or_that_resembles_nothing_is_meant_as_it_is(matrix: str, command: str) -> None:
    assert hints(case(matrix, command)) == []


@pytest.mark.parametrize("values", ["['18', lts]", "[system]"])
def test_a_case_stays_valid_when_the_name_of_its_free_axis_becomes_known(values: str) -> None:
    file = case(f"{{node: {values}, mode: [a]}}", "run {{ node }} {{ mode }}", YOUNGER)
    assert file.case.matrix.axes["mode"] == ("a",)
    [(loc, words)] = hints(file, YOUNGER)
    assert loc == ("matrix", "node")
    assert "since 0.2.0" in words
    assert "'18'" not in words
    assert hints(case("{node: ['18', '20']}", "run", YOUNGER), YOUNGER) == []


def test_editors_accept_what_a_younger_axis_does_not_take() -> None:
    axes = json_schema(YOUNGER)["$defs"]["Matrix"]["properties"]
    assert "pattern" not in axes["node"]["items"]
    assert "pattern" in axes["python"]["items"]


def test_a_cell_asks_for_a_younger_axis_only_by_a_value_that_the_axis_takes() -> None:
    import dataclasses

    axis = dataclasses.replace(AXES[-1], syntax=YOUNGER[-1])
    assert axis.asked({"node": "18"}) == "18"
    assert axis.asked({"node": "none"}) == "none"
    assert axis.asked({"node": "lts"}) is None
    assert axis.asked({}) is None


def test_the_axes_of_the_first_release_are_those_of_the_format() -> None:
    """Whoever adds an axis writes the release that will have it: a value of these alone may be an error."""
    first = [axis.name for axis in AXES if axis.syntax.since == FIRST_RELEASE]
    assert sorted(first) == ["clang", "cmake", "cuda", "cudnn", "gcc", "nccl", "os", "python"]


def test_the_library_stays_valid_when_any_of_its_free_axes_becomes_known() -> None:
    valid = loaded()[0]
    free = {name for file in valid.values() for name in file.case.matrix.columns() if name not in KNOWN.names}
    assert len(free) > 20
    younger = KnownAxes((*KNOWN, *(version_syntax(name, since="0.2.0", help=name) for name in sorted(free))))
    assert all(files.load_text(name, file.text, younger) for name, file in valid.items())

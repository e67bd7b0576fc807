"""What a command wrote in several cells, as a table of what differs."""

from __future__ import annotations

from reprokit.report.outputs import Written, table


def written(text: str, exit_code: int | None = 0, case: str = "toy", /, **cell: str) -> Written:
    return Written(case=case, cell=cell, exit_code=exit_code, timed_out=False, output=text)


LISTS = [
    written("Package Version\n------- -------\nnumpy 1.26.4\npip 25.0\n", python="3.11", numpy="1"),
    written("Package Version\n------- -------\nnumpy   2.0\npip 25.0\nsix 1.17\n", python="3.11", numpy="2"),
]


def test_lines_with_a_name_are_compared_by_it() -> None:
    assert table(LISTS, 80).splitlines() == [
        "numpy=1: exit status 0",
        "numpy=2: exit status 0",
        "",
        "Lines that differ: 2; the same in all cells: 3.",
        "       numpy=1  numpy=2",
        "numpy  1.26.4   2.0",
        "six    -        1.17",
    ]


def test_more_cells_than_the_width_holds_stand_below_one_another() -> None:
    assert table(LISTS, 20).splitlines()[3:] == [
        "Lines that differ: 2; the same in all cells: 3.",
        "numpy",
        "  numpy=1  1.26.4",
        "  numpy=2  2.0",
        "six",
        "  numpy=1  -",
        "  numpy=2  1.17",
    ]


def test_what_all_wrote_is_shown_once() -> None:
    same = [written("glibc 2.36\n", os="debian-12", a=each) for each in "12"]
    assert table(same, 80).splitlines()[3:] == ["All wrote the same:", "glibc 2.36"]
    assert table(same[:1], 80).splitlines() == ["os=debian-12 a=1: exit status 0", "", "Output:", "glibc 2.36"]


def test_texts_without_names_are_shown_once_with_the_cells_that_wrote_them() -> None:
    found = [written("x 1\nx 2\n", a="1"), written("x 3\nx 4\n", a="2"), written("x 1\nx 2\n", a="3")]
    assert table(found, 80).splitlines()[3:] == ["", "--- a=1, a=3", "x 1", "x 2", "", "--- a=2", "x 3", "x 4"]


def test_a_cell_in_which_it_did_not_run_and_cases_are_named() -> None:
    found = [written("x\n", a="1"), written("", None, "other", a="1")]
    assert table(found, 80).splitlines() == ["toy: exit status 0", "other: did not run", "", "Output:", "x"]
    assert table([written("", None, a="1")], 80) == "a=1: did not run\n"

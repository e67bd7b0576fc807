"""The pieces of a report, and the cells that its environments become."""

from __future__ import annotations

import pytest

from reprokit.intake import pieces
from reprokit.intake.environment_model import EnvironmentBlock, Rank, ReportedValue
from reprokit.intake.matrix import build_matrix


def kinds(text: str) -> list[tuple[str, int]]:
    return [(piece.kind, piece.line) for piece in pieces.cut_report(text).pieces]


def test_pieces_know_their_lines_and_headings() -> None:
    text = "# Title\n\nIt fails:\n\n```sh\n$ make\n```\n\n**Error**\n<!-- a\ncomment -->\n\n    KeyError: 1\n"
    report = pieces.cut_report(text)
    assert report.title == "Title"
    assert kinds(text) == [("heading", 1), ("prose", 3), ("fenced", 6), ("heading", 9), ("indented", 13)]
    fenced, indented = report.pieces[2], report.pieces[4]
    assert (fenced.info, fenced.lead) == ("sh", "It fails")
    assert (indented.heading, indented.text) == ("Error", "KeyError: 1")


def test_a_traceback_in_prose_ends_with_its_exception() -> None:
    text = 'See:\nTraceback (most recent call last):\n  File "a.py", line 1, in f\n    x()\n\nKeyError: 3\n\nThanks!\n'
    assert kinds(text) == [("prose", 1), ("traceback", 2), ("prose", 8)]


@pytest.mark.parametrize("text", ["### Describe the bug\n\nx\n", "Hello\n\n# It dies\n", "## It dies\n"])
def test_only_the_heading_at_the_top_is_the_title(text: str) -> None:
    assert pieces.cut_report(text).title == ""


def environment(first: int, **versions: str) -> EnvironmentBlock:
    claims = tuple(
        ReportedValue(axis=axis, version=text, rank=Rank.MEASURED, quote=text) for axis, text in versions.items()
    )
    return EnvironmentBlock(kind="x", first=first, last=first, claims=claims)


def test_environments_become_the_cells_that_were_reported() -> None:
    machines = [
        environment(1, os="Ubuntu 20.04.6 LTS", python="3.8.10", gcc="9.4.0"),
        environment(2, os="Ubuntu 22.04", python="3.10.4", gcc="11.4.0"),
        environment(3, os="Ubuntu 18.04", python="3.6.9", gcc="7.5.0"),
    ]
    found = build_matrix(machines, [{"wob": "1"}, {"wob": "1"}, {"wob": "1"}])
    assert found.data == {
        "include": [
            {"os": "ubuntu-20.04", "python": "3.8", "gcc": "9.4", "wob": "1"},
            {"os": "ubuntu-22.04", "python": "3.10", "gcc": "11.4", "wob": "1"},
            {"os": "ubuntu-18.04", "python": "3.6", "gcc": "7.5", "wob": "1"},
        ]
    }
    assert build_matrix(machines[:1], [{}]).data == {"os": ["ubuntu-20.04"], "python": ["3.8"], "gcc": ["9.4"]}


def test_what_no_image_has_is_left_out_and_never_replaced() -> None:
    found = build_matrix([environment(4, os="Plan 9", python="1.5", cuda="6.5", cudnn="4")], [{}])
    assert set(found.data) == {"os"}
    assert "Plan 9 was reported, which is not available" in found.notes[("matrix", "os")][0]
    for axis in ("os Plan 9", "python 1.5", "cuda 6.5", "cudnn 4"):
        assert any(text.startswith(f"{axis} was reported and is") for text in found.missing)


def test_where_no_system_is_named_one_that_has_the_rest_is_taken() -> None:
    found = build_matrix([environment(4, python="2.7", gcc="4.8.5")], [{}])
    assert (found.data["python"], found.data["gcc"], found.missing) == (["2.7"], ["4.8"], [])
    assert "a release whose own Python is 2.7: the report names no distribution" in found.notes[("matrix", "os")][0]

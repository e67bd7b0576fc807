"""Annotations: on the line of the case that did not come true, escaped, and no more than GitHub shows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.environment import cases
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.report.formats.gha import MOST, gha
from tests.unit.github.steps import obeyed

TEXT = """\
schema: reprokit/v1
id: annotated
title: t
matrix:
  os: [debian-12]
  how: [a, b, c]
  include:
    - {os: debian-12, how: d}
command: python go.py
expect:
  failure: {exception: ValueError}
  reproduces:
    - {how: a}
    - {how: b}
fix: {env: {A: "1"}}
"""


def record(path: Path, *cells: CellRecord) -> RunRecord:
    return RunRecord(id="r", started_at="x", version="1", cells=cells)


def cell(path: Path, how: str, verdict: Verdict | None, expected: Verdict | None, **more: object) -> CellRecord:
    known = CellRecord(
        number=1,
        case_id="annotated",
        case_path=str(path),
        case_digest=cases.load(str(path))[0].digest,
        cell={"os": "debian-12", "how": how},
        verdict=verdict,
        expected=expected,
        reason="line 1\nline 2",
    )
    return replace(known, **more)  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "sub" / "case.yaml"
    file.parent.mkdir()
    file.write_text(TEXT)
    return file


R, N, O, B = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.DIFFERENT_FAILURE, Verdict.BUILD_FAILED  # noqa: E741


@pytest.mark.parametrize(
    ("how", "verdict", "expected", "variant", "wanted"),
    [
        ("b", N, R, "case", "error file=sub/case.yaml,line=14,col=7,"),
        ("c", R, N, "case", "error file=sub/case.yaml,line=12,col=3,"),
        ("a", O, R, "case", "error file=sub/case.yaml,line=11,col=3,"),
        ("a", R, N, "fix", "error file=sub/case.yaml,line=15,col=1,"),
        ("d", B, R, "case", "warning file=sub/case.yaml,line=8,col=7,"),
        ("a", None, R, "case", "warning file=sub/case.yaml,line=4,col=1,"),
    ],
)
def test_the_line_is_that_of_the_wrong_expectation(
    path: Path, how: str, verdict: Verdict | None, expected: Verdict, variant: str, wanted: str
) -> None:
    run = record(path, cell(path, how, verdict, expected, variant=variant))
    (line,) = gha(run, root=path.parents[1])
    assert line.startswith(f"::{wanted}")
    shown = verdict.value if verdict else "cancelled"
    shown += f", expected {expected.value}" if verdict in (R, N, O) else ""
    assert line.endswith(f"title=annotated%3A os=debian-12 how={how}{' [fix]' * (variant == 'fix')}::{shown}: line 1")


def test_in_markdown_the_line_is_that_of_the_file(path: Path) -> None:
    markdown = path.with_suffix(".md")
    markdown.write_text("# Bug\n\n```yaml\n" + TEXT + "```\n")
    (line,) = gha(record(markdown, cell(markdown, "b", N, R)), root=path.parents[1])
    assert ",line=17,col=7," in line


def test_a_file_that_changed_since_has_no_line_and_one_from_elsewhere_no_name(path: Path, tmp_path: Path) -> None:
    run = record(path, cell(path, "b", N, R))
    path.write_text(TEXT + "# more\n")
    from reprokit.report.formats.gha import _files

    _files.cache_clear()
    (line,) = gha(run, root=tmp_path)
    assert line.startswith("::error file=sub/case.yaml,title=annotated")
    (line,) = gha(run, root=tmp_path / "other")
    assert line.startswith("::error title=annotated")


def test_only_departures_are_annotated_and_at_most_as_many_as_are_shown(path: Path) -> None:
    good = cell(path, "a", R, R)
    run = record(path, good, *[cell(path, "a", N, R)] * 25, *[cell(path, "a", B, R)] * 10)
    lines = gha(run, root=path.parents[1])
    assert [name for name, _, _ in obeyed("\n".join(lines))] == ["error"] * MOST + ["warning"]  # of one failed build
    assert "how=a and 9 more::build-failed" in lines[-1]
    assert lines[MOST - 1] == "::error::16 more cells depart; the result file has all"


def test_no_text_of_a_log_or_a_case_becomes_another_command(path: Path) -> None:
    bad = cell(path, "x\n::add-mask::y", N, R, reason="a %0A\r\n::error::b")
    (line,) = gha(record(path, bad), root=path.parents[1])
    assert "\n" not in line
    assert [name for name, _, _ in obeyed(line)] == ["error"]

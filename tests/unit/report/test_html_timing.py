"""The timeline of a run: as small for ten thousand cells as for one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from reprokit.cli import invoke
from reprokit.evidence.spans import Span, Timings, of_findings
from reprokit.report.html.building import BINS, ROWS, timing_data
from tests.unit.evidence.test_spans import SPANS, timings
from tests.unit.fakes import FakeEngine
from tests.unit.report.test_html import data
from tests.unit.run.test_runner import CASE, toy


@given(SPANS)
def test_parts_of_a_row_follow_one_another_within_the_run(spans: list[Span]) -> None:
    found = timing_data("r", timings(*spans))
    for _, parts in found["rows"]:
        ends = [0, *(start + count for start, count, _ in parts)]
        assert all(end <= start for end, (start, _, _) in zip(ends, parts, strict=False))
        assert ends[-1] <= BINS


def test_ten_thousand_cells_are_as_small_as_ten() -> None:
    spans = [
        Span(kind, number + part / 4, 0.25, cell=number, worker=f"trial_{number % 100}")
        for number in range(1, 10_001)
        for part, kind in enumerate(("start", "program", "removal", "judging"))
    ]
    whole = Timings(began="2026-01-01T00:00:00.000Z", seconds=10_001.0, spans=tuple(spans))
    found = timing_data("r", whole)
    assert (len(found["rows"]), found["more"]) == (ROWS, 100 - ROWS)
    assert len(json.dumps(found)) < 300_000


def test_the_page_of_a_case_has_the_timeline_of_its_last_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_BASE_IMAGES", "registry")
    Path("toy.yaml").write_text(CASE)
    engine = FakeEngine(toy)
    monkeypatch.setattr("reprokit.run.invocation._engine", lambda name: engine)
    assert invoke(["run", "toy.yaml", "--store", "store"]) == 0
    assert invoke(["report", "-o", "site", "--store", "store"]) == 0
    timing = data(Path("site"), "case/toy")["timing"]
    assert {"build", "program", "judging"} <= set(timing["sum"])
    assert timing["run"] == data(Path("site"), "overview")["cases"][0]["last"]["run"]


def test_the_times_of_a_run_are_read_once_for_all_its_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_BASE_IMAGES", "registry")
    for name in ("toy", "other"):
        Path(f"{name}.yaml").write_text(CASE.replace("id: toy", f"id: {name}"))
    engine = FakeEngine(toy)
    monkeypatch.setattr("reprokit.run.invocation._engine", lambda name: engine)
    invoke(["run", "toy.yaml", "other.yaml", "--store", "store"])
    read: list[object] = []

    def counted(findings: Mapping[str, Any]) -> tuple[Timings, ...]:
        read.append(findings)
        return of_findings(findings)

    monkeypatch.setattr("reprokit.report.html.building.of_findings", counted)
    assert invoke(["report", "-o", "site", "--store", "store"]) == 0
    assert data(Path("site"), "case/toy")["timing"] == data(Path("site"), "case/other")["timing"]
    assert len(read) == 1

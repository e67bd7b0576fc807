"""``reprokit history --since``: what has changed since when, over all cases."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.report.history.changes import moment
from tests.documents import as_published
from tests.stored import finish
from tests.unit.nights import CASE, Nights

NOW = datetime(2026, 1, 10, 12, 30, tzinfo=timezone.utc)
ALL = ("--since", "2026-01-01")
Said = Callable[..., str]


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    return Nights(tmp_path / "store")


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def said(*words: str, status: int = 0) -> str:
        assert invoke(["history", *(() if "--since" in words else ("--since", "7d")), *words]) == status
        seen = capsys.readouterr()
        return seen.out + seen.err

    return said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7d", "2026-01-03T12:30:00.000Z"),
        ("12h", "2026-01-10T00:30:00.000Z"),
        ("1w", "2026-01-03T12:30:00.000Z"),
        ("2026-01-03", "2026-01-03T00:00:00.000Z"),
        ("2026-01-03T02:00Z", "2026-01-03T02:00:00.000Z"),
        ("2026-01-03 02:00:00.500+02:00", "2026-01-03T00:00:00.500Z"),
        ("2 weeks ago", "2025-12-27T12:30:00.000Z"),
        ("today", "2026-01-10T00:00:00.000Z"),
        ("Yesterday", "2026-01-09T00:00:00.000Z"),
        ("saturday", "2026-01-10T00:00:00.000Z"),
        ("sun", "2026-01-04T00:00:00.000Z"),
        ("20260103-020000", None),
        ("last", None),
    ],
)
def test_a_moment_is_a_span_a_date_or_neither(text: str, expected: str | None) -> None:
    assert moment(text, NOW) == expected


def test_what_is_not_a_date_is_refused(nights: Nights, said: Said) -> None:
    nights.run({"2": "R"})
    for text, word in (
        ("2026-02-30", "day"),
        ("2026-01-01T99", "--since 2026-01-01T99"),
        ("soon", "neither a span (7d, 12h), a date (2026-01-31), a day (today, yesterday, monday) nor a run"),
    ):
        assert word in said("--since", text, status=2)


def test_a_change_is_reported_once_it_counts_and_before_that_as_seen_once(nights: Nights, said: Said) -> None:
    runs = [nights.run({"1": "N", "2": state}) for state in "RRN"]
    assert "nothing has changed, 1 not counted yet" in said("--since", runs[1].id)
    assert said("--since", runs[1].id, "--exit-code") == said("--since", runs[1].id)
    runs.append(nights.run({"1": "N", "2": "N"}))
    for since in (runs[1].id, runs[2].id, "2026-01-04"):
        shown = said("--since", since, "--exit-code", status=1)
        assert ": 1 change\n" in shown
        assert "  2026-01-03  reproducing -> gone: numpy=2\n" in shown
    assert "0 runs: nothing has changed\n" in said("--since", "last")
    assert "4 runs: 1 change, 2 new cells\n" in said(*ALL)


def test_new_cells_are_not_a_change(nights: Nights, said: Said) -> None:
    nights.run({"1": "N", "2": "R"})
    assert "1 run: nothing has changed, 2 new cells" in said(*ALL, "--exit-code")
    assert "new: 2 cells, 1 not reproducing, 1 reproducing" in said(*ALL)
    nights.run({"1": "N", "2": "R"})
    assert "1 run: nothing has changed\n" in said("--since", "2026-01-02")
    assert "2 runs: nothing has changed, 2 new cells" in said(*ALL)


def test_a_run_that_was_resumed_later_counts_from_its_end(nights: Nights, said: Said) -> None:
    runs = [nights.run({"2": state}) for state in "RRNN"]
    finish(nights.store, runs[3].id, finished_at="2026-01-09T02:00:00.000Z", exit_status=0, host=runs[3].host)
    assert "1 run: 1 change" in said("--since", "2026-01-08")
    assert "0 runs: nothing has changed" in said("--since", "2026-01-10")


def test_json_is_enough_to_open_an_issue_from(nights: Nights, said: Said) -> None:
    for state in "RRN?N?":
        nights.run({"2": state}, kernel="6.1" if state == "R" else "6.2")
    data = as_published("changes", json.loads(said(*ALL, "--json")))
    new, gone = data["changes"]
    assert (new["from"], new["to"], new["before"], new["changed"]) == (None, "reproducing", None, [])
    assert (gone["case"], gone["cell"]["numpy"]) == ("nightly", "2")
    assert (gone["from"], gone["to"]) == ("reproducing", "not-reproducing")
    runs = [gone[side]["run"] for side in ("before", "after", "confirmed_by")]
    assert runs == [data["runs"][at] for at in (1, 2, 4)]
    assert (gone["confirmed"], gone["words"], gone["seen"]) == (True, "reproducing -> gone", 2)
    assert [one["name"] for one in gone["changed"]] == ["release"]
    [blind] = data["inconclusive"]
    assert (blind["verdict"], blind["since"]["at"]) == ("build-failed", "2026-01-06T02:00:00.000Z")


def test_cells_without_a_verdict_are_kept_apart_from_changes(nights: Nights, said: Said) -> None:
    for state in "NN??":
        nights.run({"1": state, "2": state})
    shown = said(*ALL, "--exit-code")
    assert "2 without a verdict now" in shown
    assert "2026-01-03  since then no verdict, build-failed: 2 cells" in shown


def test_all_cases_are_looked_at_or_those_that_are_named(nights: Nights, said: Said, tmp_path: Path) -> None:
    other = CASE.replace("nightly", "other")
    for state in "RRNN":
        nights.run({"2": state})
        nights.run({"2": state}, case=other, case_id="other")
    assert said(*ALL).count("reproducing -> gone") == 2
    (tmp_path / "other.yaml").write_text(other)
    for named in ("other", str(tmp_path / "other.yaml")):
        assert said(*ALL, named).count("reproducing -> gone") == 1
    assert "did you mean 'nightly'" in said("nightli", status=2)


def test_cells_that_changed_alike_are_reported_together(nights: Nights, said: Said) -> None:
    for state in "RRNN":
        nights.run({str(number): state for number in range(20)}, kernel="6.1" if state == "R" else "6.2")
    shown = said(*ALL)
    assert "reproducing -> gone, 20 cells\n" in shown
    assert "    ... 8 more cells\n" in shown
    assert shown.count("release  - 6.1  + 6.2") == 1
    assert "more cells" not in said(*ALL, "-v")

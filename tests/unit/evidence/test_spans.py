"""Where the time of a run went: what is kept of it, and what its end waited for."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.evidence.spans import KINDS, NEAR, PARTS, Span, Timings, critical_path, read_timings, sum_by_cell, sums
from reprokit.report.timings import lines, write_trace
from tests.unit.limits import within

MILLISECONDS = st.integers(0, 20_000).map(lambda number: number / 1000)
SPANS = st.lists(
    st.builds(
        Span,
        kind=st.sampled_from(sorted(KINDS)),
        start=MILLISECONDS,
        seconds=MILLISECONDS,
        cell=st.integers(0, 4),
        trial=st.integers(0, 2),
        image=st.integers(-1, 1),
        name=st.sampled_from(["", "1/2 pip install", "数据"]),
        worker=st.sampled_from(["build_0", "trial_1"]),
    ),
    max_size=30,
)
RUN = RunRecord(
    id="r",
    started_at="2026-01-01T00:00:00Z",
    version="1",
    cells=tuple(
        CellRecord(number=number, case_id="c", case_path="c.yaml", case_digest="d", cell={"n": str(number)})
        for number in range(1, 5)
    ),
)


def timings(*spans: Span) -> Timings:
    return Timings(began="2026-01-01T00:00:00.000Z", seconds=100.0, images=((1, 2), (3, 4)), spans=spans)


@given(SPANS)
def test_what_is_kept_comes_back(spans: list[Span]) -> None:
    whole = timings(*spans)
    assert Timings.from_json(json.loads(json.dumps(whole.to_json()))) == whole


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        {"began": "", "seconds": 1, "names": [], "images": [], "spans": [[0, 0, 0, 0, 0, -1, 0, 0]]},
        "x",
        *(
            {"began": "", "seconds": 1, "names": ["build"], "images": [], "spans": [[0, start, took, 0, 0, -1, 0, 0]]}
            for start, took in ((-1e18, 1), (0, float("nan")), (float("inf"), 1), (10**400, 1))
        ),
        {"began": "", "seconds": float("nan"), "names": [], "images": [], "spans": []},
    ],
)
def test_what_another_program_kept_is_left_out(data: Any) -> None:
    assert read_timings({"timings 1": data, "answer": 1}) == ()


def test_the_parts_of_a_resumed_run_come_in_order() -> None:
    first, second = timings(), Timings(began="2026-01-02T00:00:00.000Z", seconds=1.0)
    kept = {f"timings {one.began}": one.to_json() for one in (second, first)}
    assert read_timings(kept) == (first, second)


@given(SPANS)
def test_a_critical_path_goes_forward_and_ends_with_the_run(spans: list[Span]) -> None:
    path = critical_path(timings(*spans))
    work = [one for one in spans if one.kind != "waiting" and one.kind not in PARTS]
    assert bool(path) is bool(work)
    assert all(before.end <= after.start + NEAR for before, after in itertools.pairwise(path))
    if work:
        assert path[-1].end == max(one.end for one in work)


def test_a_critical_path_follows_the_cell_and_then_whose_place_it_took() -> None:
    build = Span("build", 0.0, 10.0, image=0)
    other = Span("program", 0.0, 30.0, cell=3)
    first = Span("program", 10.0, 19.0, cell=1)
    waiting = Span("waiting", 10.0, 20.0, cell=2)
    second = Span("program", 30.0, 5.0, cell=2)
    judging = Span("judging", 35.0, 1.0, cell=2)
    # What ended at the same time and is of another cell waits for nothing of this one.
    beside = Span("removal", 34.0, 1.0, cell=1)
    whole = timings(build, other, first, waiting, second, beside, judging)
    assert critical_path(whole) == (other, second, judging)
    assert critical_path(timings(build, first)) == (build, first)


def test_a_cell_counts_with_the_image_that_it_shares() -> None:
    whole = timings(
        Span("build", 0.0, 4.0, image=0), Span("step", 0.0, 3.0, image=0), Span("program", 4.0, 2.0, cell=1)
    )
    assert sum_by_cell(whole) == {
        1: {"build": 4.0, "step": 3.0, "program": 2.0},
        2: {"build": 4.0, "step": 3.0},
        3: {},
        4: {},
    }
    assert sums(whole.spans) == {"build": 4.0, "step": 3.0, "program": 2.0}


def test_thousands_of_images_are_summed_in_one_pass() -> None:
    images = 20_000
    spans = tuple(Span("build", float(at), 1.0, image=at) for at in range(images))
    whole = Timings(
        began="2026-01-01T00:00:00.000Z", seconds=1.0, images=tuple((at + 1,) for at in range(images)), spans=spans
    )
    with within(seconds=15):
        assert sum_by_cell(whole) == {at + 1: {"build": 1.0} for at in range(images)}


@given(SPANS)
def test_a_trace_has_no_two_events_of_a_track_that_overlap_in_part(spans: list[Span]) -> None:
    whole = timings(*sorted(spans, key=lambda one: one.start))
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in json.loads(write_trace(RUN, [whole, whole]))["traceEvents"]:
        if event["ph"] == "X":
            tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["ts"] + event["dur"]))
    for events in tracks.values():
        for (start, end), (other, other_end) in itertools.combinations(events, 2):
            assert other >= end or start >= other_end or (start <= other and other_end <= end)


@given(SPANS)
def test_the_table_has_a_line_for_each_kind(spans: list[Span]) -> None:
    text = "\n".join(lines(RUN, [timings(*spans)]))
    assert all(f" {kind} " in text for kind in sums(spans))


def test_the_table_says_that_it_lacks_what_was_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = timings(*(Span("program", 0.0, 1.0, cell=1) for _ in range(3)))
    words = "only the first 3 times of it are kept: sums and critical path lack what came later"
    monkeypatch.setattr("reprokit.report.timings.MOST", 4)
    assert words not in [*lines(RUN, [whole])]
    monkeypatch.setattr("reprokit.report.timings.MOST", 3)
    assert words in [*lines(RUN, [whole])]

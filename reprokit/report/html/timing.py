"""The timeline of a run on the page of its case: what each worker did when, however many cells there were. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from reprokit.evidence.spans import PARTS, Span, Timings, critical_path, sums

BINS = 300
"""Parts that the time of a run is cut into: what took less shows where it took most of one."""
ROWS = 40
"""Workers that are shown at most, those that did most."""
PATH = 15
"""Spans of the critical path that are listed, the longest."""


def timing_data(run_id: str, timings: Timings) -> dict[str, Any]:
    """``timing`` of a case: ``{run, began, seconds, bins, rows, more, sum, path}``.

    ``rows``: ``[worker, [[from, count, kind], ...]]`` in ``bins``; ``more``: how many workers more there were; ``sum``:
    seconds by kind; ``path``: ``[kind, name, start, seconds, cell]`` of the critical path, its longest.
    """
    workers: dict[str, list[Span]] = {}
    for one in timings.spans:
        if one.kind not in PARTS and one.kind != "waiting":
            workers.setdefault(one.worker, []).append(one)
    busiest = sorted(workers, key=lambda name: -sum(one.seconds for one in workers[name]))[:ROWS]
    size = max(timings.seconds, max((one.end for one in timings.spans), default=0.0), 0.001) / BINS
    path = sorted(critical_path(timings), key=lambda one: -one.seconds)[:PATH]
    return {
        "run": run_id,
        "began": timings.began,
        "seconds": round(timings.seconds, 3),
        "bins": BINS,
        "rows": [[name, _row(workers[name], size)] for name in sorted(busiest)],
        "more": len(workers) - len(busiest),
        "sum": {kind: round(seconds, 1) for kind, seconds in sums(timings.spans).items()},
        "path": [
            [one.kind, one.name, round(one.start, 1), round(one.seconds, 1), one.cell]
            for one in sorted(path, key=lambda one: one.start)
        ],
    }


def _row(spans: Sequence[Span], size: float) -> list[list[Any]]:
    """What took most of each bin, equal ones that follow each other as one, without bins in which nothing was done."""
    filled: list[dict[str, float]] = [{} for _ in range(BINS)]
    for one in spans:
        first, last = int(one.start / size), min(int(one.end / size), BINS - 1)
        for at in range(min(first, BINS - 1), last + 1):
            took = min(one.end, (at + 1) * size) - max(one.start, at * size)
            filled[at][one.kind] = filled[at].get(one.kind, 0.0) + took
    kinds = [max(bin_, key=lambda kind: bin_[kind]) if bin_ else "" for bin_ in filled]
    return [
        [start, len(some), kind]
        for kind, group in groupby(range(BINS), key=lambda at: kinds[at])
        if kind
        for some in [list(group)]
        for start in some[:1]
    ]

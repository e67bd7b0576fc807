"""Where the time of a run went, as a table, as JSON, and as a trace for Perfetto. Pure."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from reprokit.core.json_record import JsonDocument, JsonRecord
from reprokit.core.text import pluralize
from reprokit.evidence.records import RunRecord
from reprokit.evidence.spans import KINDS, MOST, PARTS, Span, Timings, critical_path, group_by_image, sum_by_cell, sums
from reprokit.report.labels import cell_name

NONE = "no times are recorded of run {}: it was merged, or was killed before its end"
STEPS, CELLS, PATH = 10, 20, 15
"""Lines that the table has of each at most: those that took longest."""
COLUMNS = ("waiting", "base", "build", "measuring", "start", "program", "judging", "recording")
"""Kinds that the table has a column for."""


@dataclass(frozen=True, kw_only=True)
class TimedPart(JsonRecord):
    """A step of a build, or a file that it fetched."""

    name: str
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TimedImage(JsonRecord):
    """An image, its cells by their numbers, and the seconds of each kind that it took."""

    cells: tuple[int, ...]
    seconds: Mapping[str, float]
    steps: tuple[TimedPart, ...]
    downloads: tuple[TimedPart, ...]
    """files that this host did not have"""


@dataclass(frozen=True, kw_only=True)
class TimedCell(JsonRecord):
    """A cell, and the seconds of each kind that it took, with all of the image that it shares."""

    number: int
    case: str
    cell: Mapping[str, str]
    variant: Literal["case", "fix"]
    seconds: Mapping[str, float]


@dataclass(frozen=True, kw_only=True)
class CriticalSpan(JsonRecord):
    """What the next of the critical path waited for. `cells` is empty where it was about the whole run."""

    kind: str
    name: str
    cells: tuple[int, ...]
    trial: int | None
    start: float
    seconds: float


@dataclass(frozen=True, kw_only=True)
class TimedRun(JsonRecord):
    """A run from when it was begun or resumed."""

    began: str
    seconds: float
    sum: Mapping[str, float]
    """seconds of each kind, over all that ran side by side"""
    images: tuple[TimedImage, ...]
    cells: tuple[TimedCell, ...]
    critical_path: tuple[CriticalSpan, ...]


@dataclass(frozen=True, kw_only=True)
class RunTimings(JsonDocument):
    """Where the time of a run went: a part for each time that it was begun or resumed."""

    FORMAT = "reprokit-timings/v1"

    run_id: str
    parts: tuple[TimedRun, ...]


def describe_times(run: RunRecord, parts: Sequence[Timings]) -> RunTimings:
    """Seconds by kind, in all, of each image and cell, and what the run's end waited for."""
    return RunTimings(run_id=run.id, parts=tuple(_timed_run(run, timings) for timings in parts))


def _timed_run(run: RunRecord, timings: Timings) -> TimedRun:
    cells = {cell.number: cell for cell in run.cells}
    known = [(cells[number], seconds) for number, seconds in sum_by_cell(timings).items() if number in cells]
    return TimedRun(
        began=timings.began,
        seconds=round(timings.seconds, 3),
        sum=_rounded(sums(timings.spans)),
        images=tuple(
            TimedImage(
                cells=numbers,
                seconds=_rounded(sums(spans)),
                steps=_timed_parts(spans, "step"),
                downloads=_timed_parts(spans, "download"),
            )
            for numbers, spans in zip(timings.images, group_by_image(timings), strict=True)
        ),
        cells=tuple(TimedCell.pick(one, case=one.case_id, seconds=_rounded(seconds)) for one, seconds in known),
        critical_path=tuple(
            CriticalSpan.pick(
                one,
                cells=_cells_of(timings, one),
                trial=one.trial or None,
                start=round(one.start, 3),
                seconds=round(one.seconds, 3),
            )
            for one in critical_path(timings)
        ),
    )


def _timed_parts(spans: Sequence[Span], kind: str) -> tuple[TimedPart, ...]:
    return tuple(TimedPart(name=one.name, seconds=round(one.seconds, 3)) for one in spans if one.kind == kind)


def _rounded(seconds: Mapping[str, float]) -> dict[str, float]:
    return {kind: round(value, 3) for kind, value in seconds.items()}


def _cells_of(timings: Timings, span: Span) -> tuple[int, ...]:
    return (span.cell,) if span.cell else timings.images[span.image] if span.image >= 0 else ()


def lines(run: RunRecord, parts: Sequence[Timings]) -> Iterator[str]:
    """The table, for people."""
    for timings in parts:
        if len(parts) > 1:
            yield f"begun or resumed {timings.began}"
        yield from _lines_of_part(run, timings)


def _lines_of_part(run: RunRecord, timings: Timings) -> Iterator[str]:
    built = pluralize(len(timings.images), "image")
    yield f"where the time went: {timings.seconds:.1f} s in all, {pluralize(len(run.cells), 'cell')}, {built}"
    if len(timings.spans) >= MOST:
        yield f"only the first {MOST:,} times of it are kept: sums and critical path lack what came later"
    yield "in sum over all that ran side by side:"
    for kind, seconds in sums(timings.spans).items():
        indent = "    " if kind in PARTS else "  "
        yield f"{indent}{kind:<{14 - len(indent)}} {seconds:>9.1f} s  {KINDS[kind]}"
    parts = [one for one in timings.spans if one.kind in PARTS]
    longest = heapq.nlargest(STEPS, parts, key=lambda one: one.seconds)
    if parts:
        yield f"steps and downloads of builds{_of(longest, parts)}:"
    yield from (_row(timings, one) for one in longest)
    names = {cell.number: f"{cell.case_id}: {cell_name(cell)}" for cell in run.cells}
    of_cells = sum_by_cell(timings)
    most = heapq.nlargest(CELLS, of_cells, key=lambda number: sum(of_cells[number].get(kind, 0) for kind in COLUMNS))
    yield f"by cell, with all of the image that it shares{_of(most, of_cells)}:"
    yield "  " + " ".join(f"{kind:>9}" for kind in COLUMNS)
    for number in most:
        row = (of_cells[number].get(kind) for kind in COLUMNS)
        numbers = " ".join(f"{'' if seconds is None else f'{seconds:.1f}':>9}" for seconds in row)
        yield f"  {numbers}  {number}  {names.get(number, '')}".rstrip()
    path = critical_path(timings)
    took = sum(one.seconds for one in path)
    yield f"critical path, {took:.1f} s: for the run to end earlier, one of these has to get faster"
    longest = heapq.nlargest(PATH, path, key=lambda one: one.seconds)
    yield from (_row(timings, one) for one in sorted(longest, key=lambda one: one.start))
    if len(path) > PATH:
        yield f"  and {len(path) - PATH} shorter ones"


def _of(some: Sequence[Any], of: Sequence[Any] | Mapping[int, Any]) -> str:
    return f", the longest {len(some)} of {len(of)}" if len(some) < len(of) else ""


def _row(timings: Timings, span: Span) -> str:
    cells = _cells_of(timings, span)
    of = f"cell{'s' * (len(cells) > 1)} {', '.join(map(str, cells[:5]))}{' ...' * (len(cells) > 5)}" if cells else "run"
    trial = f", trial {span.trial}" if span.trial else ""
    return f"  {span.seconds:>9.1f} s  {span.kind:<9}  {span.name + ', ' if span.name else ''}{of}{trial}"


def write_trace(run: RunRecord, parts: Sequence[Timings]) -> str:
    """The run as JSON in the Trace Event Format (times in microseconds): a track for each worker, image and cell."""
    names = {cell.number: f"cell {cell.number} {cell.case_id}: {cell_name(cell)}" for cell in run.cells}
    events: list[dict[str, Any]] = []
    offset = 0.0
    tracks = _Tracks(events)
    for timings in parts:
        for one in timings.spans:
            about = {"cells": list(_cells_of(timings, one))[:100]} | ({"trial": one.trial} if one.trial else {})
            event = {
                "name": one.name or one.kind,
                "cat": one.kind,
                "ph": "X",
                "ts": round(1e6 * (offset + one.start)),
                "dur": round(1e6 * one.seconds),
                "args": about,
            }
            if one.cell:
                events.append(event | tracks.of("cells", names.get(one.cell, f"cell {one.cell}"), one, offset))
            elif one.image >= 0:
                events.append(event | tracks.of("images", f"image {one.image + 1}", one, offset))
            if one.kind not in PARTS and one.kind != "waiting":
                events.append(event | tracks.of("workers", one.worker, one, offset))
        offset += timings.seconds
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"run": run.id}}) + "\n"


class _Tracks:
    """Numbers tracks by group and name. Spans that overlap without one lying in the other get lanes of their own."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        self._events = events
        self._groups: dict[str, int] = {}
        self._lanes: dict[tuple[str, str], list[tuple[int, list[float]]]] = {}
        self._count = 0

    def of(self, group: str, name: str, span: Span, offset: float) -> dict[str, int]:
        """The track of a span as the keys ``pid`` and ``tid``. Spans come in the order of their starts."""
        if group not in self._groups:
            self._groups[group] = len(self._groups) + 1
            self._name("process_name", self._groups[group], 0, group)
        start, end = round(1e6 * (offset + span.start)), round(1e6 * (offset + span.end))
        lanes = self._lanes.setdefault((group, name), [])
        for tid, open_ends in lanes:
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            if not open_ends or end <= open_ends[-1]:
                open_ends.append(end)
                return {"pid": self._groups[group], "tid": tid}
        self._count += 1
        lanes.append((self._count, [end]))
        self._name("thread_name", self._groups[group], self._count, name)
        return {"pid": self._groups[group], "tid": self._count}

    def _name(self, kind: str, pid: int, tid: int, name: str) -> None:
        self._events.append({"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}})

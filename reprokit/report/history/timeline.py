"""Verdicts over time, for people: a strip per cell, and its transitions with what changed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby

from reprokit.case.matrix import label
from reprokit.core.terminal import style
from reprokit.core.text import pluralize
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import Result, RunRecord
from reprokit.report.differences import table
from reprokit.report.history.changes import CellChange
from reprokit.report.history.series import CaseHistory, Series
from reprokit.report.history.transitions import State, describe_trials
from reprokit.report.labels import served_by

LETTERS = {
    Verdict.REPRODUCED: "R",
    Verdict.FLAKY: "F",
    Verdict.NOT_REPRODUCED: ".",
    Verdict.DIFFERENT_FAILURE: "x",
}
INCONCLUSIVE = "?"
LEGEND = "R reproduced, F flaky, . not reproduced, x other failure, ? inconclusive, blank: not run"
FEW = 12
"""Cells, and lines of what changed, that are shown of a transition unless all are asked for."""

Names = Callable[[Series], str]


def stamps(runs: Iterable[RunRecord]) -> Callable[[str], str]:
    """How times are written: as days where no two runs are of the same one, else to the minute."""
    days = [run.started_at[:10] for run in runs]
    length = 10 if len(set(days)) == len(days) else 16
    return lambda at: at[:length].replace("T", " ")


def names(series: Sequence[Series]) -> tuple[str, Names]:
    """What all cells have in common (``os=debian-12``, or ''), and a name for each by the rest."""
    cells = [set(one.cell.items()) for one in series]
    common = set.intersection(*cells) if any(cell != cells[0] for cell in cells) else set()

    def name(one: Series) -> str:
        cell = {axis: value for axis, value in one.cell.items() if (axis, value) not in common}
        return label(cell) + (" [fix]" if one.variant == "fix" else "") + served_by(one.engine)

    first = series[0].cell.items() if series else ()
    return label(dict(pair for pair in first if pair in common)) if common else "", name


def grid(history: CaseHistory, series: Sequence[Series], shown: Sequence[str], width: int) -> Iterable[str]:
    """A line per cell, or two where that is wider than ``width``: when the failure was first and last seen, its
    verdicts in the runs ``shown``, the current state.
    """
    stamp = stamps(history.runs.values())
    common, name = names(series)
    head = ("cell", "first seen", "last seen", pluralize(len(shown), "run"), "now")
    rows = []
    for one in series:
        times = [stamp(history.runs[seen.run_id].started_at) for seen in one.failing or ()] or ["never", ""]
        rows.append((name(one), times[0], times[-1], " " * len(shown), describe_state(history, one, stamp)))
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    narrow = sum(widths) + 2 * (len(widths) - 1) > width
    if common:
        yield f"in all: {common}"
    first = "  " + _line(head, widths)[widths[0] + 2 :] if narrow else _line(head, widths)
    yield style(first.rstrip(), bold=True)
    for row, one in zip(rows, series, strict=True):
        found = {result.run_id: result for result in one.results.select(shown)}
        strip = "".join(_letter(found.get(run)) for run in shown) + " " * (widths[3] - len(shown))
        before = _line(row[:3], widths)
        if narrow:
            yield row[0]
            before = "  " + before[widths[0] + 2 :]
        yield f"{before}  {strip}  {row[4]}".rstrip()
    yield style(LEGEND, dim=True)


def _line(values: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(value.ljust(width) for value, width in zip(values, widths, strict=False))


def _letter(result: Result | None) -> str:
    """A verdict as one letter; what matters is whether it is as expected, not whether the bug shows."""
    if result is None or result.verdict is None:
        return " "
    if not result.verdict.conclusive:
        return style(INCONCLUSIVE, fg="yellow")
    colour = {True: "green", False: "red", None: "cyan"}[result.as_expected]
    return style(LETTERS[result.verdict], fg=colour, bold=result.as_expected is False)


def describe_state(history: CaseHistory, one: Series, stamp: Callable[[str], str]) -> str:
    """The state of a cell in words: ``gone since 2026-11-11``, and what its newest results say beside it."""

    def at(position: int) -> str:
        return stamp(history.runs[one.results[position].run_id].started_at)

    standing = one.standing
    if standing is None:
        verdict = one.results[-1].verdict
        return f"inconclusive: {verdict}" if verdict else "not decided yet"
    words = f"{standing.now} since {at(standing.after)}"
    if standing.new is State.NOT_REPRODUCING and 0 < standing.earlier[0] < standing.earlier[1]:
        words += " at the earliest"  # a flaky failure may have stayed away by chance before it was gone
    if one.rate is not None:
        if standing.old is not standing.new:
            failing = re.compile("[RF]").search(one.results.states, standing.after)
            words = f"flaky since at least {at(failing.start() if failing else standing.after)}"
        words += f", in {one.rate[0]} of {one.rate[1]} trials"
    elif one.failing is None and standing.new is State.NOT_REPRODUCING:
        words = "never reproduced"
    if one.candidate is not None:
        words += f"; perhaps {one.candidate.now} since {at(one.candidate.after)} ({times(one.candidate.seen)})"
    if one.blind is not None:
        words += f"; {one.results[-1].verdict} since {at(one.blind)}"
    last = one.newest(conclusive=True)
    return words + ("; not as expected" if last is not None and last.as_expected is False else "")


def blocks(
    changes: Sequence[CellChange], name: Names, stamp: Callable[[str], str], *, whole: bool = False
) -> list[str]:
    """Transitions, the newest first; those of several cells that are alike, with the same changes around them, once.

    ``name``: how a cell is called. ``whole``: every cell and every change, rather than the first few.
    """
    lines: list[str] = []
    for some in group_alike(changes):
        lines += _new(some, stamp) if some[0].before is None else _block(some, name, stamp, whole)
    return lines


def group_alike(changes: Sequence[CellChange]) -> list[list[CellChange]]:
    """Changes, the newest first, those of several cells together that are alike, with the same differences around."""
    grouped: dict[object, list[CellChange]] = {}
    for change in sorted(changes, key=lambda one: one.after[0].started_at, reverse=True):
        one = change.transition
        key: tuple[object, ...] = "new", change.after[0].id
        if change.before is not None:
            runs = change.before[0].id, change.after[0].id, change.settled and change.settled.id
            key = one.words, *runs, one.seen, one.earlier, one.since, change.differences
        grouped.setdefault(key, []).append(change)
    return list(grouped.values())


def _new(alike: Sequence[CellChange], stamp: Callable[[str], str]) -> Iterable[str]:
    """The cells that were run for the first time, counted."""
    run, _ = alike[0].after
    states = sorted(change.transition.new.value.replace("-", " ") for change in alike)
    counts = ", ".join(f"{len(list(same))} {state}" for state, same in groupby(states))
    yield f"{stamp(run.started_at)}  new: {pluralize(len(alike), 'cell')}, {counts} (run {run.id})"


def _block(alike: Sequence[CellChange], name: Names, stamp: Callable[[str], str], whole: bool) -> Iterable[str]:
    change = alike[0]
    assert change.before is not None
    after, before = change.after[0], change.before[0]
    cells = [name(one.series) for one in alike]
    which = f": {cells[0]}" if len(cells) == 1 else f", {len(cells)} cells"
    yield style(f"{stamp(after.started_at)}  {change.transition.words}{which}", bold=True)
    if len(cells) > 1:
        yield from _first([f"  {cell}" for cell in cells], whole, "  ", "cells")
    if not change.transition.confirmed:
        yield f"  seen {times(change.transition.seen)}: does not count yet"
    one = change.transition
    yield f"  {describe_trials(one.earlier, one.since, one.chance)}"
    then = f", then {change.settled.id}" if change.settled is not None and change.settled.id != after.id else ""
    yield f"  run {before.id} -> {after.id}{then}"
    if change.transition.new is State.OTHER_FAILURE:
        yield f"  it fails with: {change.after[1].reason}"
    record = change.after[1]
    only = [f"--only={','.join(f'{axis}={value}' for axis, value in record.cell.items())}"] if record.cell else []
    for fact in change.differences if record.variant == "case" else ():
        if fact.concern == "sources" and re.fullmatch("[0-9a-f]{40} [0-9a-f]{40}", f"{fact.before} {fact.after}"):
            words = [record.case_id, f"--source={fact.name}={fact.before}..{fact.after}", *only]
            yield f"  since which commit: reprokit bisect {shlex.join(words)}"
    found = list(table(change.differences, "    "))
    more = f": reprokit diff {before.id}:{change.before[1].number} {after.id}:{change.after[1].number}"
    yield from _first(found, whole, "    ", "lines", more) if found else ("    nothing that is recorded changed",)


def times(count: int) -> str:
    """``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def _first(lines: Sequence[str], whole: bool, indent: str, what: str, more: str = "") -> Iterable[str]:
    yield from lines if whole else lines[:FEW]
    if len(lines) > FEW and not whole:
        yield f"{indent}... {len(lines) - FEW} more {what}{more}"


def list_unjudged(
    history: CaseHistory, series: Sequence[Series], name: Names, stamp: Callable[[str], str]
) -> Iterable[str]:
    """The cells whose newest results are inconclusive, which is not a change of the bug: since when, and as what."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for one in series:
        if one.blind is not None:
            since = history.runs[one.results[one.blind].run_id].started_at
            grouped.setdefault((since, str(one.results[-1].verdict)), []).append(name(one))
    for (since, verdict), cells in sorted(grouped.items(), reverse=True):
        which = cells[0] if len(cells) == 1 else pluralize(len(cells), "cell")
        yield f"{stamp(since)}  since then no verdict, {verdict}: {which}"


def every_verdict(history: CaseHistory, series: Sequence[Series], shown: Sequence[str]) -> Iterable[str]:
    """Each verdict of each cell with its run, the newest first."""
    _, name = names(series)
    for one in series:
        yield style(name(one), bold=True)
        for result in reversed(list(one.results.select(shown))):
            run = history.runs[result.run_id]
            said = {True: "as expected", False: "not as expected", None: "-"}[result.as_expected]
            yield f"  {run.started_at}  {result.verdict or 'undecided'} ({said})  {run.id}:{result.number}"

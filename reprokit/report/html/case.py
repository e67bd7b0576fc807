"""A case's page: its matrix as columns, what it explains, its history. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from reprokit.case.emit import inline
from reprokit.case.matrix import cell_key, label
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.evidence.spans import PARTS, Timings, critical_path, sums
from reprokit.report import differences, explanation
from reprokit.report.history import timeline
from reprokit.report.history.changes import CellChange, describe_change
from reprokit.report.history.series import Series
from reprokit.report.history.transitions import describe_trials
from reprokit.report.html import writing
from reprokit.report.html.gathering import RecordedCase
from reprokit.report.html.overview import VERDICTS, letter, list_run, name_verdict
from reprokit.report.html.writing import Folder
from reprokit.search.conditions import values_in_order

if TYPE_CHECKING:
    from reprokit.case.model import Case

HasPage = Callable[[str, int], bool]  # whether the cell of that number of that run has a page of its own in this report
NIGHTS = 60  # runs of which every verdict is shown
RUNS = 200  # runs that are listed
NAMED = 4  # partial cells that are named of those in which a failure is expected
FEW = 20  # cells that are named of a change that many share


def write_case(
    folder: Folder, known: RecordedCase, has_page: HasPage, whole: Sequence[str], timings: Timings | None
) -> None:
    """Write ``data/case/NAME.js``; ``whole``: runs with all pages; ``timings``: of the last run.

    Cells come as columns with an entry for each, so that ten thousand are small. Words that repeat (reasons, states)
    are listed once, and cells name their position. Of the columns ``at`` has positions in the axis' values (-1: without
    it), ``verdict`` and ``expected`` in the overview's verdicts, ``fits`` is 1 as expected, 0 departs or -1, ``number``
    -1 in the matrix but not run as the case is now, and ``strip`` has a letter of :data:`.overview.LETTERS` for each of
    the ``nights``, ids of runs. ``former``: how many cells more were run when the case was another. ``changes``:
    as ``history`` has them with --since and --json, those that are alike as one.
    """
    case, last = known.file.case if known.file else None, known.last
    data = {
        "id": known.id,
        "name": writing.name(known.id),
        "title": known.title,
        "description": case.description if case else "",
        "report": case.report.url if case and case.report else "",
        "tags": list(case.tags) if case else [],
        "path": known.path,
        "digest": known.digest,
        "text": known.file.text if known.file else "",
        "fix": str(case.fix.get("summary") or "") if case and case.fix is not None else None,
        "expected": _expected(case) if case else "",
        "signature": _signature(case) if case else [],
        "engine": known.engine,
        "blind": known.blind,
        **_matrix(known, has_page),
        "explanation": _explanation(known),
        "changes": [_change_data(alike, known) for alike in timeline.group_alike(known.changes)],
        "concerns": list(differences.ORDER),
        "unmeasured": list(differences.ASKED),
        "whole": whole,
        "timing": timings and _time_cells(last.id, timings, {one.number for one in known.results(last.id)}),
    }
    folder.data(f"case/{writing.name(known.id)}", data)


def _expected(case: Case) -> str:
    """In which cells the case says that its failure shows: all, none, unknown, or the first of them."""
    found = case.expect.reproduces
    if isinstance(found, str):
        return found
    more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return "; ".join(map(label, found[:NAMED])) + more


def _signature(case: Case) -> list[list[str]]:
    """How the failure looks, by the keys of the case."""
    asked = case.expect.model_dump(exclude_unset=True, exclude={"reproduces", "known"})
    keys = {**asked.pop("failure", {}), **asked} or {"exit_code": "nonzero"}
    return [[key, value if isinstance(value, str) else inline(value)] for key, value in keys.items()]


def _matrix(known: RecordedCase, has_page: HasPage) -> dict[str, Any]:
    """Axes, cells as columns, and the lists that they name."""
    unrun = explanation.find_not_run(known.file, known.explained.records) if known.file else []
    axes = _axes(known, [*(record.cell for _, record in known.current), *unrun])
    places = {name: {value: at for at, value in enumerate(values)} for name, values in axes.items()}
    chosen = dict.fromkeys([*(run.id for run in known.runs[-RUNS:]), *(run.id for run, _ in known.current)])
    runs = {run_id: at for at, run_id in enumerate(chosen)}
    nights = [run.id for run in known.plain_runs[-NIGHTS:]]
    reasons: dict[str, int] = {}
    states: dict[str, int] = {}
    failures: dict[tuple[str, bool], tuple[int, dict[str, Any]]] = {}
    stamp = timeline.stamps(known.runs)
    rows: list[dict[str, Any]] = []
    for run, record in known.current:
        series = known.courses.get((cell_key(record.cell), record.variant))
        rows.append(
            {
                "axes": record.cell,
                "variant": int(record.variant == "fix"),
                "verdict": VERDICTS.index(name_verdict(record.verdict)),
                "expected": VERDICTS.index(name_verdict(record.expected)) if record.expected else -1,
                "fits": {True: 1, False: 0, None: -1}[record.as_expected],
                "reason": _place(reasons, record.marked_reason),
                "state": _place(states, timeline.describe_state(known.history, series, stamp)) if series else -1,
                "failure": _failure(failures, record),
                "run": runs[run.id],
                "number": record.number,
                "page": int(has_page(run.id, record.number)),
                "strip": _strip(series, nights),
            }
        )
    for cell in unrun:
        series = known.courses.get((cell_key(cell), "case"))
        state = (
            f"{timeline.describe_state(known.history, series, stamp)}; not run since the case was edited"
            if series
            else ""
        )
        rows.append(
            {
                **dict.fromkeys(("verdict", "expected", "fits", "reason", "failure", "run", "number"), -1),
                "axes": cell,
                "variant": 0,
                "state": _place(states, state) if state else -1,
                "page": 0,
                "strip": _strip(series, nights),
            }
        )
    here = {(cell_key(row["axes"]), row["variant"]) for row in rows}
    former = sum((cell, int(variant == "fix")) not in here for cell, variant in known.courses)
    return {
        "axes": [{"name": name, "values": values} for name, values in axes.items()],
        "cells": {
            "at": {name: [places[name].get(row["axes"].get(name), -1) for row in rows] for name in axes},
            **{name: [row[name] for row in rows] for name in rows[0] if name != "axes"},
        },
        "former": former,
        "reasons": list(reasons),
        "states": list(states),
        "failures": [data for _, data in failures.values()],
        "runs": [{**list_run(known.history.runs[run]).to_json(), "found": _count(known, run)} for run in runs],
        "nights": nights,
    }


def _strip(series: Series | None, nights: Sequence[str]) -> str:
    """What a cell came to in each of the nights."""
    found = {one.run_id: one for one in series.results.select(nights) if one.verdict} if series else {}
    letters = [letter(found[night].verdict, found[night].as_expected) if night in found else " " for night in nights]
    return "".join(letters).rstrip()


def _axes(known: RecordedCase, cells: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """The axes in the order of the case, their values in their own order where they have one, else as they came."""
    seen: dict[str, dict[str, None]] = {name: {} for name in (known.file.case.matrix.axes if known.file else ())}
    for cell in cells:
        for name, value in cell.items():
            seen.setdefault(name, {})[value] = None
    used = {name: list(values) for name, values in seen.items() if values}
    return {name: (values_in_order(name, values) if name != "os" else []) or values for name, values in used.items()}


def _place(known: dict[str, int], text: str) -> int:
    """The position of a text among those that are listed once."""
    return known.setdefault(text, len(known))


def _failure(failures: dict[tuple[str, bool], tuple[int, dict[str, Any]]], record: CellRecord) -> int:
    """The position of the way in which a cell failed; -1 where it did not."""
    one = record.details.failure
    if not one:
        return -1
    other = record.verdict is Verdict.DIFFERENT_FAILURE
    data = {"id": one.id, "title": one.title, "known": one.known or None, "other": other}
    return failures.setdefault((one.id, other), (len(failures), data))[0]


def _count(known: RecordedCase, run_id: str) -> dict[str, int]:
    """How many cells of the case came to which verdict in a run."""
    return Counter(one.verdict.value if one.verdict else "undecided" for one in known.results(run_id))


def _explanation(known: RecordedCase) -> dict[str, Any]:
    """What ``reprokit show --why`` says of the case, with the lines to type for cells that would decide it."""
    shown, fix = explanation.explain_case(known.explained).to_json(), explanation.judge_fix(known.explained)
    more = shown["more_often"]
    return {
        "claim": shown["claim"],
        "lead": explanation.lead(known.explained) if shown["claim"] != "none" or more else "no explanation:",
        "words": more["words"] if more else shown["words"],
        "lines": list(explanation.full(known.explained))[1:],
        "decided": shown["decided"],
        "open": list(explanation.left_open(known.explained)),
        "fix": fix and fix.to_json(),
        "axes": list(dict.fromkeys(each["axis"] for one in shown["conditions"] for each in one["axes"])),
        "commands": [
            {"cell": label(each["cell"]), "line": each["command"]} for each in shown["tell_apart"] if each["command"]
        ],
    }


def _change_data(alike: Sequence[CellChange], known: RecordedCase) -> dict[str, Any]:
    """Changes that are alike, as one."""
    _, name = timeline.names(known.history.series)
    described = describe_change(alike[0])
    change = described.to_json()
    kept = ("words", "confirmed", "seen", "before", "after", "changed")
    cells = [name(one.series) for one in sorted(alike, key=lambda one: one.after[1].number)[:FEW]]
    trials = describe_trials(described.earlier, described.since, described.chance)
    return {**{key: change[key] for key in kept}, "trials": trials, "count": len(alike), "cells": cells}


PATH = 15  # spans of the critical path that are listed, the longest


def _time_cells(run_id: str, timings: Timings, numbers: Set[int]) -> dict[str, Any]:
    """``timing`` of a case: what its own cells took, by their ``numbers``, and the images that these were built for."""
    images = {at for at, cells in enumerate(timings.images) if numbers & {*cells}}
    own = [one for one in timings.spans if one.cell in numbers or (one.image in images and not one.cell)]
    start = min((one.start for one in own), default=0.0)
    path = sorted(critical_path(replace(timings, spans=tuple(own))), key=lambda one: -one.seconds)[:PATH]
    return {
        "run": run_id,
        "began": timings.began,
        "seconds": round(max((one.end for one in own), default=start) - start, 3),
        "sum": {kind: round(seconds, 1) for kind, seconds in sums(own).items() if kind not in PARTS},
        "path": [
            [one.kind, one.name, round(one.start - start, 1), round(one.seconds, 1), one.cell]
            for one in sorted(path, key=lambda one: one.start)
        ],
    }

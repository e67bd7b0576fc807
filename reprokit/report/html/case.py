"""A case's page: its matrix as columns, what it explains, its history. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from reprokit.case.matrix import cell_key, label
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord, Result, RunRecord
from reprokit.report import differences, explanation
from reprokit.report.history import timeline
from reprokit.report.history.changes import CellChange, describe_change
from reprokit.report.history.series import Series
from reprokit.report.html import writing
from reprokit.report.html.gathering import RecordedCase
from reprokit.report.html.overview import VERDICTS, fix, shown
from reprokit.search.conditions import values_in_order

HasPage = Callable[[str, int], bool]
"""Whether the cell of that number of that run has a page of its own in this report."""
NIGHTS = 60
"""Runs of which every verdict is shown."""
RUNS = 200
"""Runs that are listed."""
FEW = 20
"""Cells that are named of a change that many share."""
LETTERS = dict(zip(VERDICTS, "RFNXTMIBEU!C?", strict=True))
"""A verdict in a strip of nights, in lower case where it is not as expected; a blank: not run."""

T = TypeVar("T", bound=Hashable)


class Once(Generic[T]):
    """Values that are listed once and named by their position."""

    def __init__(self, values: Iterable[T] = ()) -> None:
        self._at = {value: at for at, value in enumerate(values)}

    def at(self, value: T) -> int:
        """The position of a value, which is added where it is new."""
        return self._at.setdefault(value, len(self._at))

    @property
    def values(self) -> list[T]:
        """All of them, in the order of their positions."""
        return list(self._at)


def case_data(known: RecordedCase, has_page: HasPage) -> dict[str, Any]:
    """``data/case/NAME.js``, but for ``timing``: see :func:`.building.timing_data`.

    Cells come as columns with an entry for each: ten thousand cells stay small, and are read at once. Words that repeat
    (reasons, states) are listed once, and cells name their position. Of the columns ``at`` has positions in the axis'
    values (-1: without it), ``verdict`` and ``expected`` in the overview's verdicts, ``fits`` is 1 as expected, 0
    departs or -1, ``number`` -1 in the matrix but not run as the case is now, and ``strip`` has a letter of
    :data:`LETTERS` for each of the ``nights``, ids of runs. ``former``: how many cells more were run when the case was
    another. ``pages``: night -> the number of each cell, 0 without a page. ``changes``: as ``history`` has them
    with --since and --json, those that are alike as one.
    """
    case = known.file.case if known.file else None
    return {
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
        "engine": known.engine,
        "blind": known.blind,
        **_matrix(known, has_page),
        "explanation": _explanation(known),
        "changes": [_change_data(alike, known) for alike in timeline.alike(known.changes)],
        "concerns": list(differences.ORDER),
        "unmeasured": list(differences.ASKED),
    }


def _matrix(known: RecordedCase, has_page: HasPage) -> dict[str, Any]:
    """Axes, cells as columns, and the lists that they name."""
    unrun = explanation.not_run(known.file, known.explained.records) if known.file else []
    axes = _axes(known, [*(record.cell for _, record in known.current), *unrun])
    places = {name: {value: at for at, value in enumerate(values)} for name, values in axes.items()}
    runs = Once(dict.fromkeys([*(run.id for run in known.runs[-RUNS:]), *(run.id for run, _ in known.current)]))
    nights = [run.id for run in known.plain_runs[-NIGHTS:]]
    reasons, states, failures = Once[str](), Once[str](), Once[tuple[str, bool]]()
    titles: dict[tuple[str, bool], Mapping[str, Any]] = {}
    stamp = timeline.stamps(known.runs)
    rows: list[dict[str, Any]] = []
    numbers: list[list[int]] = []
    for run, record in known.current:
        series = known.courses.get((cell_key(record.cell), record.variant))
        found = _by_night(series, nights)
        numbers.append([result.number if result and has_page(result.run_id, result.number) else 0 for result in found])
        rows.append(
            {
                "axes": record.cell,
                "variant": int(record.variant == "fix"),
                "verdict": VERDICTS.index(shown(record.verdict)),
                "expected": VERDICTS.index(shown(record.expected)) if record.expected else -1,
                "fits": {True: 1, False: 0, None: -1}[record.as_expected],
                "reason": reasons.at(record.marked_reason),
                "state": states.at(timeline.now(known.history, series, stamp)) if series else -1,
                "failure": _failure(failures, titles, record),
                "run": runs.at(run.id),
                "number": record.number,
                "page": int(has_page(run.id, record.number)),
                "strip": "".join(map(_letter, found)).rstrip(),
            }
        )
    for cell in unrun:
        series = known.courses.get((cell_key(cell), "case"))
        state = f"{timeline.now(known.history, series, stamp)}; not run since the case was edited" if series else ""
        rows.append(
            {
                **dict.fromkeys(("verdict", "expected", "fits", "reason", "failure", "run", "number"), -1),
                "axes": cell,
                "variant": 0,
                "state": states.at(state) if state else -1,
                "page": 0,
                "strip": "".join(map(_letter, _by_night(series, nights))).rstrip(),
            }
        )
    here = {(cell_key(row["axes"]), row["variant"]) for row in rows}
    former = sum((cell, int(variant == "fix")) not in here for cell, variant in known.courses)
    paged = {night: column for night, column in enumerate(zip(*numbers, strict=True)) if any(column)}
    return {
        "axes": [{"name": name, "values": values} for name, values in axes.items()],
        "cells": {
            "at": {name: [places[name].get(row["axes"].get(name), -1) for row in rows] for name in axes},
            **{name: [row[name] for row in rows] for name in rows[0] if name != "axes"},
        },
        "former": former,
        "reasons": reasons.values,
        "states": states.values,
        "failures": [{**titles[one], "other": one[1]} for one in failures.values],
        "runs": [_run(known, run) for run in runs.values],
        "nights": nights,
        "pages": paged,
    }


def _by_night(series: Series | None, nights: Sequence[str]) -> list[Result | None]:
    """What a cell came to in each of the nights."""
    found = {result.run_id: result for result in series.results.of(nights)} if series else {}
    return [found.get(night) for night in nights]


def _axes(known: RecordedCase, cells: Sequence[Mapping[str, str]]) -> dict[str, list[str]]:
    """The axes in the order of the case, their values in their own order where they have one, else as they came."""
    seen: dict[str, dict[str, None]] = {name: {} for name in (known.file.case.matrix.axes if known.file else ())}
    for cell in cells:
        for name, value in cell.items():
            seen.setdefault(name, {})[value] = None
    used = {name: list(values) for name, values in seen.items() if values}
    return {name: (values_in_order(name, values) if name != "os" else []) or values for name, values in used.items()}


def _failure(
    failures: Once[tuple[str, bool]], titles: dict[tuple[str, bool], Mapping[str, Any]], record: CellRecord
) -> int:
    """The position of the way in which a cell failed, whose words ``titles`` keeps; -1 where it did not."""
    one = record.details.failure
    if not one:
        return -1
    key = one.id, record.verdict is Verdict.DIFFERENT_FAILURE
    titles.setdefault(key, {"id": one.id, "title": one.title, "known": one.known or None})
    return failures.at(key)


def _letter(result: Result | None) -> str:
    if result is None or result.verdict is None:
        return " "
    letter = LETTERS[shown(result.verdict)]
    return letter.lower() if result.as_expected is False else letter


def _run(known: RecordedCase, run_id: str) -> dict[str, Any]:
    """A run, with how many cells of the case came to which verdict."""
    run: RunRecord = known.history.runs[run_id]
    found = Counter(one.verdict.value if one.verdict else "undecided" for one in known.results.get(run_id, ()))
    return {
        "id": run.id,
        "at": run.started_at,
        "engine": run.host.engine or "",
        "version": run.version,
        "search": run.request.search.kind if run.request.search else "",
        "found": dict(found),
    }


def _explanation(known: RecordedCase) -> dict[str, Any]:
    """What ``reprokit show --why`` says of the case, with the lines to type for cells that would decide it."""
    shown = explanation.explain_case(known.explained).to_json()
    return {
        "claim": shown["claim"],
        "lead": "no claim:" if shown["claim"] == "none" else explanation.lead(known.explained),
        "words": shown["words"],
        "lines": list(explanation.full(known.explained))[1:],
        "decided": shown["decided"],
        "open": list(explanation.left_open(known.explained)),
        "fix": fix(known),
        "axes": list(dict.fromkeys(each["axis"] for one in shown["conditions"] for each in one["axes"])),
        "commands": [
            {"cell": label(each["cell"]), "line": each["command"]} for each in shown["tell_apart"] if each["command"]
        ],
    }


def _change_data(alike: Sequence[CellChange], known: RecordedCase) -> dict[str, Any]:
    """Changes that are alike, as one."""
    _, name = timeline.names(known.history.series)
    change = describe_change(alike[0]).to_json()
    kept = ("words", "confirmed", "seen", "chance", "before", "after", "changed")
    cells = [name(one.series) for one in sorted(alike, key=lambda one: one.after[1].number)[:FEW]]
    return {**{key: change[key] for key in kept}, "count": len(alike), "cells": cells}

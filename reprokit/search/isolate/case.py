"""``reprokit isolate``: chooses the two cells of an isolation, runs it over the case's cells, and gives its answer."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reprokit.case import matrix
from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell, label
from reprokit.core.errors import UsageError
from reprokit.environment.axes import KNOWN
from reprokit.evidence.model import Verdict
from reprokit.evidence.reading import Reading, reading
from reprokit.evidence.verdict import expected
from reprokit.run.admitting import site_catalog
from reprokit.run.plan import check_values
from reprokit.search import releases
from reprokit.search.explain.ordering import inside
from reprokit.search.isolate import ends, reported
from reprokit.search.isolate.algorithm import Isolation, changes_between, isolate
from reprokit.search.isolate.summary import IsolationText
from reprokit.search.queries import Candidate, Query, Search
from reprokit.search.releases import Releases
from reprokit.search.search_session import SearchAnswer, SearchSession


def make(session: SearchSession) -> Search[SearchAnswer]:
    """The search that ``session.arguments`` ask for. Raises UsageError where a cell is missing or not possible."""
    given = session.arguments
    found: dict[str, Any] = session.recall("ends", lambda: _ends(session))
    known = dict.fromkeys(name for cell in found["cells"] for name in cell)
    for axis in given["axes"]:
        if axis not in (*known, *session.file.names):
            raise UsageError(f"--axis {axis}=...: {matrix.no_axis(axis, known, KNOWN)}")
        if axis not in known or len({cell.get(axis) for cell in found["cells"]}) == 1:
            raise UsageError(
                f"--axis {axis}=...: the two cells do not differ in it; name its values in --bad and --good"
            )
        check_values(session.file, {axis: given["axes"][axis].get("values", ())}, session.request, "--axis")
    return _search(session, found)


def _search(session: SearchSession, found: Mapping[str, Any]) -> Search[SearchAnswer]:
    cells: list[Cell] = found["cells"]
    session.label_axes = tuple(
        dict.fromkeys(change.axis for cell in cells for change in changes_between(cells[0], cell))
    )
    for note in found["notes"]:
        session.note(note)
    if found["reported"]:
        pair = yield from _roles(session, cells)
    else:
        pair = (cells[0], cells[1])
    bad, good = pair
    file = session.file

    asked: dict[str, Releases] = {}

    def between(axis: str, base: Cell) -> Sequence[str]:
        found = session.recall(f"line {axis}", lambda: _between(session, axis, base, good, bad))
        if found["asked"]:
            asked[axis] = Releases(**found["asked"])
        values: list[str] = found["values"]
        return values

    result = yield from isolate(
        good,
        bad,
        possible=lambda cell: ends.possible(file, cell),
        cost=session.cost,
        between=between,
        limit=session.arguments["max_cells"] or 1000,
        # With one job at a time, nothing is built while a cell runs.
        ahead=session.request.jobs > 1,
        trials=session.trials,
    )
    size = matrix.count(file.case.matrix.axes, file.case.matrix.exclude, file.case.matrix.include)
    report = IsolationText(
        found=result, record=lambda cell: session.record_of(Candidate(cell=cell)), matrix=size, asked=asked
    )
    words = [*report.words(), *_closer(session, result)]
    return SearchAnswer(words=tuple(words), data=report.json(), exit_status=report.exit_status)


def _closer(session: SearchSession, found: Isolation) -> Iterator[str]:
    """How to search the releases between two values that were found next to each other, in words."""
    if len(found.explanations) != 1:
        return
    known = {one.axis: one for one in found.boundaries}
    for change in found.named(functools.reduce(operator.or_, found.explanations[0])):
        good, bad, axis = change.good, change.bad, change.axis
        if axis in known and known[axis].found.found:
            good, bad = (known[axis].values[place] for place in (known[axis].found.last, known[axis].found.next))
        if axis in session.arguments["axes"] or good is None or bad is None:
            continue
        if releases.pinned(session.file, found.bad, axis, bad):
            yield f"to search the releases between {axis} {good} and {bad}, add --axis {axis}={good}..{bad}"


def _roles(session: SearchSession, cells: Sequence[Cell]) -> Search[tuple[Cell, Cell]]:
    """Run all environments of a report to find a failing and a passing one: the report does not say which is which.

    Returns the closest such pair, or the first two where there is none; the answer then says so.
    """
    readings = yield Query(candidates=tuple(Candidate(cell=cell) for cell in cells))
    bad = [cell for cell, seen in zip(cells, readings, strict=True) if seen is Reading.FAIL]
    good = [cell for cell, seen in zip(cells, readings, strict=True) if seen is Reading.PASS]
    return ends.from_cells(bad, good, {"--bad": {}, "--good": {}}) or (cells[0], cells[1])


def _ends(session: SearchSession) -> dict[str, Any]:
    """The two cells, the bad one first, and notes on how they were chosen, as JSON."""
    arguments, file = session.arguments, session.file
    if arguments["reported"]:
        return _reported(file)
    options = {"--bad": arguments["bad"], "--good": arguments["good"]}
    given = {name: ends.parse(name, text) for name, text in options.items() if text}
    for name, asked in given.items():
        check_values(file, {axis: (value,) for axis, value in asked.items()}, session.request, name)
    if len(given) == 2:
        chosen = ends.choose(file, given["--bad"], given["--good"])
        return {"cells": [chosen.bad, chosen.good], "notes": list(chosen.notes), "reported": False}
    partial = {"--bad": given.get("--bad", {}), "--good": given.get("--good", {})}
    for where, bad, good in (_last_run(session), _promised(file)):
        if pair := ends.from_cells(bad, good, partial):
            notes = [f"{name} cell, {where}: {label(cell)}" for name, cell in zip(("bad", "good"), pair, strict=True)]
            return {"cells": list(pair), "notes": notes, "reported": False}
    raise ends.both_missing(file, given)


def _last_run(session: SearchSession) -> tuple[str, list[Cell], list[Cell]]:
    seen = [(dict(cell.cell), reading(cell.verdict)) for cell in session.decided_before()]
    bad, good = ([cell for cell, one in seen if one is wanted] for wanted in (Reading.FAIL, Reading.PASS))
    return "from the last run", bad, good


def _promised(file: CaseFile) -> tuple[str, list[Cell], list[Cell]]:
    own = matrix.expand(file.case.matrix.axes, file.case.matrix.exclude, file.case.matrix.include)
    wanted = [(cell, expected(file.case.expect.reproduces, cell, True)) for cell in own]
    bad = [cell for cell, verdict in wanted if verdict is Verdict.REPRODUCED]
    return "as the case expects", bad, [cell for cell, verdict in wanted if verdict is Verdict.NOT_REPRODUCED]


def _reported(file: CaseFile) -> dict[str, Any]:
    environments = file.case.report.environments if file.case.report else ()
    if len(environments) < 2:
        raise UsageError(
            f"--reported needs at least two report.environments, and {file.case.id} has {len(environments)}; "
            "name the cells with --bad and --good"
        )
    own = file.case.matrix.columns()
    found = [reported.read(environment, own, file.names) for environment in environments]
    base = next(iter(matrix.expand(file.case.matrix.axes, file.case.matrix.exclude, file.case.matrix.include)), {})
    cells = [{**base, **one.cell} for one in found]
    notes = []
    for number, (one, cell) in enumerate(zip(found, cells, strict=True), 1):
        used = ", ".join(f"{key}: {axis}" for key, axis in one.used.items())
        notes.append(f"environment {number} of the report: {used or 'none of its keys is an axis'}")
        if one.unused:
            notes.append(f"  ignored keys: {', '.join(one.unused)}")
        if left := {name: value for name, value in cell.items() if name not in one.cell}:
            notes.append(f"  not in the report, taken from the case: {label(left)}")
    notes += reported.hidden(environments, found)
    if len({tuple(sorted(cell.items())) for cell in cells}) < 2:
        raise UsageError("\n  ".join(["--reported: all environments of the report give the same cell", *notes]))
    return {"cells": cells, "notes": notes, "reported": True}


def _between(session: SearchSession, axis: str, base: Cell, good: Cell, bad: Cell) -> dict[str, Any]:
    """The values of an axis between those of the two cells, and the releases that ``--axis`` asks for, as JSON.

    ``values``: the case's own, and those that ``--axis`` names or finds. ``asked``: None where it names no range.
    """
    arguments, file = session.arguments, session.file
    values = list(file.case.matrix.columns().get(axis, ()))
    given = arguments["axes"].get(axis, {})
    found = None
    if "ends" in given:
        low, high = given["ends"]
        found = releases.between(file, base, axis, low, high, releases.Policy(**arguments["policy"]), site_catalog())
        for note in (*found.notes, *found.unknown):
            session.note(note)
        values += found.values
    values += given.get("values", ())
    versions = bool((found and found.packages) or releases.pinned(file, base, axis, bad[axis]))
    line = inside(axis, values, good[axis], bad[axis], versions=versions)
    return {"values": line, "asked": found and dataclasses.asdict(found)}

"""A case's page: its matrix as columns, what it explains, its history. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reprokit.report import explanation
from reprokit.report.html.gathering import Known
from reprokit.report.html.overview import VERDICTS
from reprokit.store.records import CellRecord

HasPage = Callable[[str, int], bool]
"""Whether the cell of that number of that run has a page of its own in this report."""


def case_data(known: Known, has_page: HasPage) -> dict[str, Any]:
    """``data/case/NAME.js``: ``{id, title, path, digest, engine, axes, values, cells, explanation}``.

    ``axes``: names, in the case's order; ``values``: of each axis, null where a cell is without it. ``cells``: columns,
    each as long as there are cells: ``at`` (one list per axis of positions in its values), ``variant`` (0 the case, 1
    the fix), ``verdict`` and ``expected`` (positions in the overview's verdicts; expected may be null), ``asExpected``,
    ``run`` (positions in ``runs``), ``number``, ``page`` (whether ``data/cell/RUN/NUMBER.js`` exists).
    ``runs``: ``{id, at, engine}``. ``explanation``: lines, as ``reprokit explain`` prints them.
    """
    records = [record for _, record in known.current]
    axes = list(dict.fromkeys(axis for record in records for axis in record.cell))
    values = {axis: list(dict.fromkeys(record.cell.get(axis) for record in records)) for axis in axes}
    where = {axis: {value: at for at, value in enumerate(values[axis])} for axis in axes}
    runs = list(dict.fromkeys(run.id for run, _ in known.current))
    started = {run.id: run for run, _ in known.current}
    return {
        "id": known.id,
        "title": known.title,
        "path": known.path,
        "digest": known.digest,
        "engine": known.engine,
        "axes": axes,
        "values": [values[axis] for axis in axes],
        "runs": [{"id": run, "at": started[run].started_at, "engine": started[run].engine} for run in runs],
        "cells": {
            "at": [[where[axis][record.cell.get(axis)] for record in records] for axis in axes],
            "variant": [int(record.variant == "fix") for record in records],
            "verdict": [_code(record) for record in records],
            "expected": [record.expected and VERDICTS.index(record.expected.value) for record in records],
            "asExpected": [record.as_expected for record in records],
            "run": [runs.index(run.id) for run, _ in known.current],
            "number": [record.number for record in records],
            "page": [has_page(run.id, record.number) for run, record in known.current],
        },
        "explanation": list(explanation.full(known.explained)),
    }


def _code(record: CellRecord) -> int:
    return VERDICTS.index(record.verdict.value if record.verdict else "undecided")

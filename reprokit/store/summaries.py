"""What all cells of a run came to, in a few rows: the history of years is read from these, and not from the cells.

Of a run and a case: its layout (which cells; shared by all runs that had the same ones), one letter for each of them,
and a palette, which says what the letters mean. They are made when a run has ended, and removed in the same transaction
by whatever writes its cells later. A run that has none is read from its cells, which gives the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Text, cast, delete, insert, or_, select

from reprokit.case.matrix import Cell
from reprokit.core import json_text
from reprokit.evidence.model import Outcome
from reprokit.evidence.records import RequestRecord, SearchRecord
from reprokit.store import dialects, tables

cells, runs = tables.cells.c, tables.runs.c
layouts, summaries, summarised = tables.layouts.c, tables.summaries.c, tables.summarised.c
PORTION = 2000  # cells of one layout: a case with more of them has several
_FIRST = ord("0")
"""The first letter. Letters stay below the code points that no encoding has."""


class Mark(NamedTuple):
    """What a cell came to. ``tested``: by a sequential test. ``matched``, ``others``: its trials, by their failure."""

    verdict: str | None
    as_expected: bool | None
    tested: bool
    matched: int
    others: int
    trials: int


class Layout(NamedTuple):
    """Cells of a case in a run, by their numbers: ``(number, variant, cell)``."""

    case_key: str
    cells: tuple[tuple[int, str, Cell], ...]


class Summary(NamedTuple):
    """What the cells of a layout came to in a run: a letter for each, whose meaning ``palette`` has."""

    run_id: str
    layout: str
    letters: str
    palette: str


@lru_cache(maxsize=4096)
def palette(text: str) -> dict[str, Mark | None]:
    """What the letters mean. None: no result, since it was taken over, or is of a case that a search rewrote."""
    marks: list[list[Any] | None] = json_text.loads(text)
    return {chr(_FIRST + at): Mark(*mark) if mark else None for at, mark in enumerate(marks)}


def of_run(connection: Connection, run_id: str) -> Iterator[tuple[Summary, str, str]]:
    """The summaries of a run from its cells, each with the key of the case and its layout as JSON."""
    request = connection.scalar(select(runs.request).where(runs.id == run_id))
    search = RequestRecord.from_json(request).search if request else None
    names = cells.id, cells.number, cells.case_key, cells.case_digest, cells.variant, cells.verdict, cells.as_expected
    # As texts: most of them need not be parsed.
    texts = (cast(cells[name], Text).label(name) for name in ("cell", "details"))
    wanted = select(*names, cells.reused_from, cells.trials, *texts)
    rows = connection.execute(wanted.where(cells.run_id == run_id).order_by(cells.case_key, cells.number)).all()
    for case_key, of_case in groupby(rows, lambda one: one.case_key):
        yield from _of_case(run_id, case_key, list(of_case), search)


def _of_case(
    run_id: str, case_key: str, rows: Sequence[Row[Any]], search: SearchRecord | None
) -> Iterator[tuple[Summary, str, str]]:
    for at in range(0, len(rows), PORTION):
        marks: dict[Mark | None, str] = {}
        letters, layout = [], []
        for row in rows[at : at + PORTION]:
            layout.append(f"[{row.number},{json.dumps(row.variant)},{row.cell}]")
            mark = None
            if row.reused_from is None and (search is None or row.case_digest == search.digest):
                outcomes = [trial.get("outcome") for trial in row.trials]
                matched, others = (outcomes.count(one.value) for one in (Outcome.REPRODUCED, Outcome.DIFFERENT_FAILURE))
                mark = Mark(row.verdict, row.as_expected, _tested(row.details), matched, others, len(outcomes))
            letters.append(marks.setdefault(mark, chr(_FIRST + len(marks))))
        text = f"[{','.join(layout)}]"
        digest = hashlib.sha256(f"{case_key}\n{text}".encode("utf-8", "replace")).hexdigest()
        yield Summary(run_id, digest, "".join(letters), json.dumps(list(marks))), case_key, text


def _tested(details: str | None) -> bool:
    if not details or '"decided"' not in details:
        return False
    found = json_text.loads(details).get("trials")
    return isinstance(found, dict) and found.get("decided") is not None


def keep(connection: Connection, run_id: str) -> None:
    """Make the summaries of a run that has none; the caller's transaction is the only one to write the run."""
    if connection.scalar(select(summarised.run_id).where(summarised.run_id == run_id)) is not None:
        return
    if connection.scalar(select(runs.id).where(runs.id == run_id)) is None:
        return
    made = list(of_run(connection, run_id))
    texts = {summary.layout: (case_key, text) for summary, case_key, text in made}
    if _unknown(connection, texts):
        # One host after the other, as for the texts of cases: two may have the same layout at the same time.
        dialects.of(connection.dialect.name).writing(connection, "layouts")
        new = _unknown(connection, texts)
        rows = [
            {"digest": one, "case_key": texts[one][0], "cells": json_text.loads(texts[one][1])} for one in sorted(new)
        ]
        if rows:
            connection.execute(insert(tables.layouts), rows)
    if made:
        connection.execute(insert(tables.summaries), [summary._asdict() for summary, _, _ in made])
    connection.execute(insert(tables.summarised).values(run_id=run_id))


def _unknown(connection: Connection, digests: Collection[str]) -> set[str]:
    found = set(digests)
    for at in range(0, len(digests), 500):
        some = sorted(digests)[at : at + 500]
        found -= set(connection.scalars(select(layouts.digest).where(layouts.digest.in_(some))))
    return found


def drop(connection: Connection, run_id: str) -> None:
    """Remove the summaries of a run whose cells are about to change."""
    connection.execute(delete(tables.summaries).where(summaries.run_id == run_id))
    connection.execute(delete(tables.summarised).where(summarised.run_id == run_id))


def lacking(connection: Connection, since: str = "") -> list[str]:
    """The runs without summaries, the newest first. ``since``: only those that ended, or began before that time."""
    query = select(runs.id).outerjoin(tables.summarised).where(summarised.run_id.is_(None))
    if since:
        query = query.where(or_(runs.finished_at.is_not(None), runs.started_at < since))
    return list(connection.scalars(query.order_by(runs.started_at.desc())))


def read(connection: Connection, cases: Collection[str] = ()) -> tuple[dict[str, Layout], list[Summary]]:
    """The layouts of all cases or of these, by digest, and what the cells came to in all runs, in no order."""
    wanted = tables.layouts.select()
    found = select(summaries.run_id, summaries.layout, summaries.letters, summaries.palette)
    if cases:
        wanted = wanted.where(layouts.case_key.in_(cases))
        found = found.where(summaries.layout.in_(select(layouts.digest).where(layouts.case_key.in_(cases))))
    known = {row.digest: _layout(row.case_key, row.cells) for row in connection.execute(wanted)}
    kept = [Summary(*row) for row in connection.execute(found)]
    for run_id in lacking(connection):
        for summary, case_key, text in of_run(connection, run_id):
            if not cases or case_key in cases:
                if summary.layout not in known:
                    known[summary.layout] = _layout(case_key, json_text.loads(text))
                kept.append(summary)
    return known, kept


def _layout(case_key: str, found: list[list[Any]]) -> Layout:
    return Layout(case_key, tuple((number, variant, cell) for number, variant, cell in found))

"""Journals into the database: what it lacks of them, each line once, whoever was killed when."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.store import summaries, tables, writing
from reprokit.store.journal import PENDING, entries, path_of
from reprokit.store.places import below
from reprokit.store.remote import journal_name


def lacks(connection: Connection, folder: Path, run_id: str) -> bool:
    """Whether the database does not have the whole journal of a run of the store in ``folder``."""
    try:
        return path_of(folder, run_id).stat().st_size > writing.replayed(connection, journal_name(folder, run_id))
    except FileNotFoundError:
        return False


def replay(connection: Connection, folder: Path, run_id: str) -> bool:
    """Write what the database lacks of a run's journal; whether the run has ended, or its folder was removed by hand.

    Content that no reprokit writes is skipped, as damaged lines are: ``reprokit store check`` lists both.
    """
    end = writing.replayed(connection, journal_name(folder, run_id))
    summaries.drop(connection, run_id)
    ended = False
    try:
        for entry in entries(path_of(folder, run_id), end):
            end = entry.end
            ended = ended or entry.kind == "finish"
            with suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):
                apply(connection, run_id, entry.kind, entry.data)
    except FileNotFoundError:
        return True
    writing.set_replayed(connection, journal_name(folder, run_id), end)
    if connection.scalar(select(tables.runs.c.finished_at).where(tables.runs.c.id == run_id)) is None:
        return False
    if ended:  # what is judged again comes cell by cell: its summaries are made when the store is next opened
        summaries.keep(connection, run_id)
    return True


def settle(folder: Path, run_id: str) -> None:
    """Remember that the database has a run's journal whole. The caller holds the store's lock."""
    below(folder, PENDING, run_id).unlink(missing_ok=True)


def apply(connection: Connection, run_id: str, kind: str, data: Mapping[str, Any]) -> None:
    """Write one line. Raises KeyError, TypeError, ValueError or AttributeError where it is not one of ours."""
    if kind == "begin":
        run = RunRecord.from_json(data["run"])
        if run.id != run_id:
            raise ValueError(f"the journal is of run {run.id}")
        writing.begin(connection, run)
    elif kind == "resume":
        writing.resume(connection, run_id, data["owner"])
    elif kind == "case":
        writing.know(connection, data["digest"], data["id"], data["title"], data["text"])
    elif kind == "decide":
        writing.decide(connection, run_id, CellRecord.from_json(data["cell"]))
    elif kind == "find":
        writing.find(connection, run_id, data["key"], data["value"])
    elif kind == "finish":
        writing.finish(connection, run_id, **data)
    else:
        raise ValueError(f"a line of the kind {kind!r}")

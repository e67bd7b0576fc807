"""A store that reprokit 0.1 wrote is brought up to date in place: whole or not at all, and nothing in it changes.

``data/version1.sql`` is the dump of such a store: runs with every verdict, a search that was judged again, a run that
was merged from jobs, and one that was killed. Paths, host and process in it are made up.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import Connection

from reprokit.core.errors import UsageError
from reprokit.evidence.model import Verdict
from reprokit.store import migrations
from reprokit.store.database import Store

DUMP = Path(__file__).parent / "data" / "version1.sql"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store of version 1."""
    connection = sqlite3.connect(tmp_path / "reprokit.db")
    connection.executescript(DUMP.read_text(encoding="utf-8"))
    connection.close()
    return tmp_path


def dumped(folder: Path) -> list[str]:
    connection = sqlite3.connect(folder / "reprokit.db")
    try:
        return list(connection.iterdump())
    finally:
        connection.close()


def rows(folder: Path, query: str) -> list[sqlite3.Row]:
    connection = sqlite3.connect(folder / "reprokit.db")
    connection.row_factory = sqlite3.Row
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_a_store_of_version_1_keeps_every_row_and_gets_what_it_lacks(folder: Path) -> None:
    before = dumped(folder)
    store = Store(folder)
    assert [len(store.run(one.id).cells) for one in store.runs()] == [3, 4, 14, 2]
    store.close()
    after = dumped(folder)
    kept = [line for line in before if line.startswith("INSERT") and '"trials"' not in line]
    assert set(kept) <= set(after)
    assert f'INSERT INTO "version" VALUES({migrations.CURRENT});' in after
    [trials] = {tuple(row.keys()) for row in rows(folder, "SELECT * FROM trials")}
    assert trials[-1] == "failure"
    Store(folder).close()
    assert dumped(folder) == after


def test_what_version_1_wrote_is_written_again_byte_for_byte(folder: Path) -> None:
    store = Store(folder)
    written = {row["id"]: row for row in rows(folder, "SELECT * FROM runs")}
    for bare in store.runs():
        run = store.run(bare.id)
        assert json.dumps(run.host.to_json()) == written[run.id]["host"]
        assert run.owner.to_json() == json.loads(written[run.id]["owner"])
        assert run.request.to_json() == json.loads(written[run.id]["request"])
        cells = rows(folder, f"SELECT * FROM cells WHERE run_id = '{run.id}' ORDER BY number")
        for cell, row in zip(run.cells, cells, strict=True):
            assert json.dumps(cell.details.to_json()) == row["details"]
            assert json.dumps(cell.image and cell.image.to_json()) == row["image"]
            assert json.dumps(cell.environment and cell.environment.to_json()) == row["environment"]
            found = rows(folder, f"SELECT * FROM trials WHERE cell_id = {row['id']} ORDER BY number")
            for trial, said in zip(cell.trials, found, strict=True):
                assert json.dumps(trial.exception and trial.exception.to_json()) == said["exception"]
                assert trial.failure is None  # version 1 did not keep it


def test_the_dump_has_what_it_is_there_for(folder: Path) -> None:
    store = Store(folder)
    runs = [store.run(one.id) for one in store.runs()]
    cells = [cell for run in runs for cell in run.cells]
    assert {cell.verdict for cell in cells} == {None, *Verdict}
    assert [run.searches for run in runs] == [False, True, False, False]
    assert [len(run.request.merged or ()) for run in runs] == [2, 0, 0, 0]
    assert any(cell.details.failures for cell in cells)
    assert any(cell.details.known for cell in cells)
    assert any(cell.details.rejudged for cell in cells)
    assert any(cell.details.build for cell in cells)


def test_a_migration_that_is_interrupted_leaves_the_store_as_it_was(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dumped(folder)

    def stop(connection: Connection) -> None:
        assert "failure" in connection.exec_driver_sql("SELECT * FROM trials").keys()  # noqa: SIM118
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "STEPS", (*migrations.STEPS, stop))
        with pytest.raises(KeyboardInterrupt):
            Store(folder)
    assert dumped(folder) == before
    assert len(Store(folder).runs()) == 4


def test_a_store_of_version_1_that_may_only_be_read_is_read_and_stays(folder: Path) -> None:
    before = dumped(folder)
    store = Store(folder, f"sqlite:///file:{folder}/reprokit.db?mode=ro&uri=true")
    assert len(store.run("last").cells) == 3
    store.close()
    assert dumped(folder) == before


def test_a_store_of_a_newer_version_is_refused(folder: Path) -> None:
    Store(folder).close()
    connection = sqlite3.connect(folder / "reprokit.db")
    with connection:
        connection.execute("UPDATE version SET number = 9")
    connection.close()
    before = dumped(folder)
    with pytest.raises(UsageError, match=r"was written by a newer reprokit \(version 9 .*upgrade reprokit"):
        Store(folder)
    assert dumped(folder) == before

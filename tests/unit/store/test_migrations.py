"""A store that reprokit 0.1 wrote is brought up to date in place: whole or not at all, and nothing in it changes.

``data/version1.sql`` is the dump of such a store: runs with every verdict, a search that was judged again, a run that
was merged from jobs, and one that was killed. Paths, host and process in it are made up.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from reprokit.core.errors import UsageError
from reprokit.evidence.model import Verdict
from reprokit.store import migrations, sqlite_file, tables
from reprokit.store.database import Store
from reprokit.store.sqlite_file import APPLICATION_ID, CURRENT

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
    cells = 'INSERT INTO "cells"'  # they have one column more, and none was taken over
    ran = [line.removesuffix(");") + ",NULL);" if line.startswith(cells) else line for line in kept]
    assert set(ran) <= set(after)
    assert f'INSERT INTO "version" VALUES({CURRENT});' in after
    assert [rows(folder, f"PRAGMA {name}")[0][0] for name in ("user_version", "application_id")] == [
        CURRENT,
        APPLICATION_ID,
    ]
    [trials] = {tuple(row.keys()) for row in rows(folder, "SELECT * FROM trials")}
    assert trials[-2:] == ("failure", "usage")
    Store(folder).close()
    assert dumped(folder) == after


def is_of_sqlite(found: object, name: str | None, kind: str, *_: object) -> bool:
    return not (kind == "index" and name in ("cells_in_time_short", "cells_in_time_long"))


def test_the_steps_lead_to_the_tables_of_a_new_store(folder: Path) -> None:
    store = Store(folder)
    with store.engine.connect() as connection:
        # An index that PostgreSQL alone has is not expected here; Alembic does not look at `ddl_if`.
        opts = {"compare_type": True, "include_object": is_of_sqlite}
        context = MigrationContext.configure(connection, opts=opts)
        assert compare_metadata(context, tables.metadata) == []


def test_a_store_of_version_2_is_brought_up_to_date(folder: Path) -> None:
    with sqlite3.connect(folder / "reprokit.db") as connection:
        connection.executescript(
            "ALTER TABLE trials ADD COLUMN failure JSON; CREATE TABLE version (number INTEGER NOT NULL);"
            "INSERT INTO version VALUES (2);"
        )
    connection.close()
    assert sqlite_file.version(folder / "reprokit.db") == 2
    store = Store(folder)
    assert [len(store.run(one.id).cells) for one in store.runs()] == [3, 4, 14, 2]
    store.close()
    assert sqlite_file.version(folder / "reprokit.db") == CURRENT


@pytest.mark.system
def test_alembic_is_imported_only_where_a_store_has_to_be_changed(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from reprokit.store.database import Store;"
        "Store(Path(sys.argv[1])).close(); Store(Path(sys.argv[1])).close(); print('alembic' in sys.modules)"
    )
    words = [sys.executable, "-c", program, str(tmp_path / "new")]
    assert subprocess.run(words, check=True, capture_output=True, text=True).stdout == "False\n"


def again(now: Any, then: Any) -> Any:
    """What is written now, without the keys that version 1 did not know."""
    if isinstance(now, dict) and isinstance(then, dict):
        return {key: again(value, then[key]) for key, value in now.items() if key in then}
    if isinstance(now, list) and isinstance(then, list):
        return [again(*pair) for pair in zip(now, then, strict=True)]
    return now


def same(now: Any, then: str) -> bool:
    return json.dumps(again(now, json.loads(then))) == then


def test_what_version_1_wrote_is_written_again_byte_for_byte(folder: Path) -> None:
    store = Store(folder)
    written = {row["id"]: row for row in rows(folder, "SELECT * FROM runs")}
    for bare in store.runs():
        run = store.run(bare.id)
        assert same(run.host.to_json(), written[run.id]["host"])
        assert run.owner.to_json() == json.loads(written[run.id]["owner"])
        assert again(run.request.to_json(), json.loads(written[run.id]["request"])) == json.loads(
            written[run.id]["request"]
        )
        cells = rows(folder, f"SELECT * FROM cells WHERE run_id = '{run.id}' ORDER BY number")
        for cell, row in zip(run.cells, cells, strict=True):
            assert same(cell.details.to_json(), row["details"])
            assert same(cell.image and cell.image.to_json(), row["image"])
            assert same(cell.environment and cell.environment.to_json(), row["environment"])
            found = rows(folder, f"SELECT * FROM trials WHERE cell_id = {row['id']} ORDER BY number")
            for trial, said in zip(cell.trials, found, strict=True):
                assert same(trial.exception and trial.exception.to_json(), said["exception"])
                assert trial.failure is None  # version 1 did not keep it
                assert trial.usage is None


def test_the_dump_has_what_it_is_there_for(folder: Path) -> None:
    store = Store(folder)
    runs = [store.run(one.id) for one in store.runs()]
    cells = [cell for run in runs for cell in run.cells]
    assert {cell.verdict for cell in cells} == {None, *Verdict} - {Verdict.INCONCLUSIVE}  # version 1 did not have it
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

    upgrade = migrations._upgrade

    def stop(connection: Connection, found: int) -> None:
        upgrade(connection, found)
        assert "failure" in connection.exec_driver_sql("SELECT * FROM trials").keys()  # noqa: SIM118
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "_upgrade", stop)
        with pytest.raises(KeyboardInterrupt):
            Store(folder)
    assert dumped(folder) == before
    assert len(Store(folder).runs()) == 4


def test_a_store_of_version_1_that_may_only_be_read_is_read_and_stays(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = dumped(folder)
    monkeypatch.setattr(sqlite_file, "is_writable", lambda path: False)
    store = Store(folder)
    assert len(store.run("last").cells) == 3
    store.close()
    assert dumped(folder) == before


def test_a_store_of_a_newer_version_is_refused(folder: Path) -> None:
    Store(folder).close()
    connection = sqlite3.connect(folder / "reprokit.db")
    connection.execute("PRAGMA user_version = 9")
    connection.close()
    before = dumped(folder)
    with pytest.raises(UsageError, match=r"was written by a newer reprokit \(version 9 .*upgrade reprokit"):
        Store(folder)
    assert dumped(folder) == before

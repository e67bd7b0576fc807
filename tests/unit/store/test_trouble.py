"""Stores that cannot be used: each says what is wrong, where, and what to type, in every command; none is written."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.cli.doctor import store as doctor
from reprokit.evidence.model import Verdict
from reprokit.store import opening, sqlite_file
from reprokit.store.database import Store
from reprokit.store.errors import StoreError
from reprokit.store.journal import path_of
from reprokit.store.recorder import Recorder
from reprokit.store.sqlite_file import APPLICATION_ID, CURRENT
from tests.unit.doctoring import ground
from tests.unit.nights import Nights
from tests.unit.store.test_journal import DECIDED, END, begun, stop
from tests.unit.store.test_store import cell, run

COMMANDS = [
    ["history"],
    ["history", "nightly"],
    ["show"],
    ["show", "last", "1"],
    ["explain", "nightly"],
    ["changes"],
    ["rejudge"],
    ["report", "--format", "md"],
    ["diff", "last", "last"],
    ["list", "case.yaml"],
    ["store", "export", "x.tar"],
    ["store", "backup", "y.tar"],
]


def damaged(database: Path) -> None:
    """Noise in the middle pages, as a failing disk leaves it."""
    data = bytearray(database.read_bytes())
    for page in range(1, len(data) // 4096):
        data[page * 4096 : page * 4096 + 600] = b"\x99" * 600
    database.write_bytes(data)


def cut(database: Path) -> None:
    """The header alone."""
    database.write_bytes(database.read_bytes()[:4096])


def noise(database: Path) -> None:
    """No database at all."""
    database.write_bytes(bytes(range(256)) * 100)


def newer(database: Path) -> None:
    """A version that this reprokit does not know."""
    execute(database, f"PRAGMA user_version = {CURRENT + 6}")


def older(database: Path) -> None:
    """A version before the only one that this reprokit reads."""
    execute(database, f"PRAGMA user_version = {CURRENT - 1}", f"UPDATE version SET number = {CURRENT - 1}")


def foreign(database: Path) -> None:
    """The database of another program, with an application id."""
    database.unlink()
    execute(database, "CREATE TABLE moz_places (id INTEGER)", "PRAGMA application_id = 1234")


def unnamed(database: Path) -> None:
    """The database of another program, without one."""
    database.unlink()
    execute(database, "CREATE TABLE moz_places (id INTEGER)")


def execute(database: Path, *statements: str) -> None:
    connection = sqlite3.connect(database)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store with runs, in the project of the current folder."""
    monkeypatch.chdir(tmp_path)
    nights = Nights(tmp_path / ".reprokit")
    (tmp_path / ".reprokit" / "runs").mkdir(exist_ok=True)
    for log in ("l", "none"):
        (tmp_path / ".reprokit" / "runs" / f"{log}.log").write_text("boom")
    for states in ({"1": "N", "2": "R"}, {"1": "N", "2": "R"}):
        nights.run(states)
    nights.store.close()
    (tmp_path / "case.yaml").write_text(
        "schema: reprokit/v1\nid: nightly\ntitle: t\nmatrix: {numpy: ['1', '2']}\ncommand: go\n"
    )
    return tmp_path / ".reprokit"


@pytest.mark.parametrize("harm", [damaged, cut, noise, newer, older, foreign, unnamed])
def test_every_command_says_what_is_wrong_and_writes_nothing(
    harm: object, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_looked_at", set())
    harm(folder / "reprokit.db")  # type: ignore[operator]
    before = (folder / "reprokit.db").read_bytes()
    words = {
        newer: "was written by a newer reprokit",
        older: "was written by an earlier reprokit (version 5 of the tables",
        foreign: "is not a store of reprokit: the file belongs to another program",
        unnamed: "is not a store of reprokit: its tables are another program's (moz_places)",
    }.get(harm, "is damaged")  # type: ignore[call-overload]
    for command in COMMANDS:
        status = invoke(command)
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err, command
        assert status in (0, 2), command
        if status:
            assert words in printed.err, command
            assert str(folder / "reprokit.db") in printed.err
    assert invoke(["store", "check"]) == 3
    assert words.partition(":")[0] in capsys.readouterr().out
    assert (folder / "reprokit.db").read_bytes() == before


def test_opening_a_store_takes_no_lock_from_another_that_is_open(folder: Path) -> None:
    database = folder / "reprokit.db"
    # What SQLite locks as long as a connection uses the file: SHARED_FIRST and SHARED_SIZE of its os.h.
    script = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)"
    another = [sys.executable, "-c", script, str(database)]
    assert subprocess.run(another, check=False).returncode == 0
    store = Store(folder)
    with store.engine.connect() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM runs")
        Store(folder, up_to_date=True).close()
        assert "BlockingIOError" in subprocess.run(another, check=False, capture_output=True, text=True).stderr
    store.close()


@pytest.mark.parametrize("harm", [newer, older, foreign, unnamed])
def test_a_run_is_refused_before_it_begins_where_the_database_is_not_ours(harm: object, folder: Path) -> None:
    harm(folder / "reprokit.db")  # type: ignore[operator]
    with pytest.raises(StoreError):
        begun(folder, "run-1", cell(1))
    assert not path_of(folder, "run-1").exists()


def test_a_run_over_a_damaged_database_is_kept_and_a_rebuilt_one_has_all_that_is_readable(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_looked_at", set())
    damaged(folder / "reprokit.db")
    before = (folder / "reprokit.db").read_bytes()
    recorder = begun(folder, "run-1", cell(1))
    recorder.decide(DECIDED)
    recorder.finish(**END)  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"is damaged(.|\n)*this run is kept in .*run-1/journal.jsonl"):
        recorder.close()
    assert (folder / "reprokit.db").read_bytes() == before
    assert invoke(["store", "rebuild"]) == 3
    said = capsys.readouterr().out
    assert "lost: " in said
    [old] = folder.glob("reprokit.db.old-*")
    assert old.read_bytes() == before
    assert f"a new database with 1 run; the old database is {old}" in said
    assert Store(folder).run("last").cells == (DECIDED,)
    assert invoke(["store", "check"]) == 0


def test_a_rebuilt_database_has_the_runs_without_a_journal_too(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(folder)
    before = [store.run(one.id) for one in store.runs()]
    store.find(before[0].id, "answer", {"a": 1})
    texts = store.texts(["x", before[0].cells[0].case_digest])
    store.close()
    recorder = begun(folder, "run-1", cell(1))
    recorder.decide(DECIDED)
    stop(recorder)
    assert invoke(["store", "rebuild"]) == 0
    assert "a new database with 3 runs" in capsys.readouterr().out
    again = Store(folder)
    assert [again.run(one.id) for one in before] == before
    assert again.findings(before[0].id) == {"answer": {"a": 1}}
    assert again.texts(texts) == texts
    assert again.run("run-1").cells == (DECIDED,)


def test_a_cell_that_cannot_be_read_is_the_only_one_that_a_rebuilt_database_lacks(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(folder / "reprokit.db", "UPDATE cells SET details = '{' WHERE id = 1")
    assert invoke(["show", Store(folder).runs()[-1].id]) == 2
    assert "holds a record that cannot be read" in capsys.readouterr().err
    assert invoke(["store", "check"]) == 3
    capsys.readouterr()
    assert invoke(["store", "rebuild"]) == 3
    assert "one cell" in capsys.readouterr().out
    store = Store(folder)
    assert sorted(len(store.run(one.id).cells) for one in store.runs()) == [1, 2]


@pytest.mark.parametrize("harm", [newer, foreign])
def test_what_is_not_ours_is_not_rebuilt(harm: object, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harm(folder / "reprokit.db")  # type: ignore[operator]
    before = (folder / "reprokit.db").read_bytes()
    assert invoke(["store", "rebuild"]) == 2
    assert (folder / "reprokit.db").read_bytes() == before
    assert sorted(path.name for path in folder.glob("reprokit.db*")) == ["reprokit.db"]


def test_a_verdict_of_a_newer_version_is_shown_as_its_word_and_blocks_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(folder / "reprokit.db", "UPDATE cells SET verdict = 'haunted', as_expected = NULL WHERE id = 4")
    execute(folder / "reprokit.db", "UPDATE trials SET outcome = 'spooky' WHERE cell_id = 4")
    for command in COMMANDS[:10]:
        assert invoke(command) in (0, 1), command
        printed = capsys.readouterr()
        assert "Traceback" not in printed.err
        if command in (["history"], ["show"], ["show", "last", "1"]):
            assert ("haunted" in printed.out) is (command != ["show", "last", "1"]), command
    for form in ("html", "md", "junit", "csv", "gha"):
        assert invoke(["report", "--format", form, "-o", f"out-{form}"]) in (0, 1), form
        assert "Traceback" not in capsys.readouterr().err
    seen = Store(folder).run("last").cells[1].verdict
    assert (str(seen), seen in set(Verdict)) == ("haunted", False)
    assert seen is not None
    assert seen.conclusive is False
    assert invoke(["store", "check"]) == 0
    assert "verdicts that a newer reprokit knows: haunted" in capsys.readouterr().out


def test_a_copy_that_may_only_be_read_is_read_with_its_log_and_its_journals(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(folder)
    connection = store.engine.connect()  # as long as it is open, SQLite keeps the log
    store.put(run("run-8", cell(1)), {})
    recorder = begun(folder, "run-9", cell(1))
    recorder.decide(DECIDED)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    assert (copy / "reprokit.db-wal").stat().st_size
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    monkeypatch.setattr(sqlite_file, "is_writable", lambda path: False)
    read = Store(copy)
    assert read.run("run-8").cells == (cell(1),)
    assert read.run("run-9").cells == (DECIDED,)
    read.close()
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
    stop(recorder)
    connection.close()


def test_a_store_that_may_only_be_read_takes_no_run(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "is_writable", lambda path: False)
    recorder = begun(folder, "run-1", cell(1))
    assert "cannot be written (attempt to write a readonly database)" in recorder.close()


def test_a_file_says_whose_it_is(folder: Path) -> None:
    data = (folder / "reprokit.db").read_bytes()
    assert int.from_bytes(data[68:72], "big") == APPLICATION_ID
    assert int.from_bytes(data[60:64], "big") == CURRENT
    if shutil.which("file"):
        said = subprocess.run(["file", str(folder / "reprokit.db")], capture_output=True, text=True, check=True).stdout
        assert "SQLite" in said


@pytest.mark.parametrize(
    ("harm", "status"), [(None, "ok"), (damaged, "fail"), (noise, "fail"), (newer, "fail"), (older, "fail")]
)
def test_doctor_looks_at_the_store(harm: object, status: str, folder: Path) -> None:
    if harm:
        harm(folder / "reprokit.db")  # type: ignore[operator]
    [finding] = doctor.check(ground(folder.parent))
    assert finding.status.value == status
    assert bool(finding.fix) is (status == "fail")


@pytest.fixture
def lockless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No file of the test can be locked, as on a network file system without locks."""
    flock = fcntl.flock

    def refuse(file: int, operation: int) -> None:
        if Path(f"/proc/self/fd/{file}").readlink().is_relative_to(tmp_path):
            raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))
        flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", refuse)


def test_a_file_system_without_locks_takes_no_run(folder: Path, lockless: None) -> None:
    words = "the file system of the store .* has no locks \\(No locks available\\)"
    with pytest.raises(StoreError, match=words):
        Recorder(folder).begin(run("run-1"), {})
    assert not path_of(folder, "run-1").parent.exists()
    with pytest.raises(StoreError, match=words):
        Store(folder.parent / "new")
    assert not (folder.parent / "new" / "reprokit.db").exists()
    [first, _] = doctor.check(ground(folder.parent))
    assert "has no locks" in first.text


def test_what_was_recorded_can_be_read_without_locks(
    folder: Path, lockless: None, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "reprokit.lock").touch()
    before = (folder / "reprokit.db").read_bytes()
    for command in COMMANDS[:5]:
        status = invoke(command)
        assert (status, capsys.readouterr().err) == (0, ""), command
    assert invoke(["store", "check"]) == 0, capsys.readouterr().out
    assert invoke(["store", "rebuild"]) == 2
    assert "has no locks" in capsys.readouterr().err
    with pytest.raises(StoreError, match="has no locks"):
        Store(folder, up_to_date=True)
    assert (folder / "reprokit.db").read_bytes() == before

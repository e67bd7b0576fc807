"""Stores that cannot be used: each says what is wrong, where, and what to type, in every command; none is written."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.cli import invoke
from reprokit.cli.doctor import kept
from reprokit.environment.measured import Measured
from reprokit.evidence.model import Verdict
from reprokit.store import index, sqlite_file
from reprokit.store.database import Store
from reprokit.store.errors import StoreError
from reprokit.store.folder import Measurements, SeenBases, make_folder
from reprokit.store.journal import path_of
from reprokit.store.recorder import Recorder
from reprokit.store.sqlite_file import APPLICATION_ID, CURRENT, DATABASE
from reprokit.store.upkeep import check, rebuild
from tests.unit.doctoring import ground
from tests.unit.limits import examples
from tests.unit.nights import Nights
from tests.unit.store.test_journal import DECIDED, END, begun, stop
from tests.unit.store.test_store import cell, run

COMMANDS = [
    ["history"],
    ["history", "nightly"],
    ["show"],
    ["show", "last", "1"],
    ["show", "--why", "nightly"],
    ["history", "--since", "7d"],
    ["store", "rejudge"],
    ["report", "--format", "md"],
    ["diff", "last", "last"],
    ["list", "case.yaml"],
    ["store", "export", "x.tar"],
    ["store", "backup", "y.tar"],
]

READING = [
    *(["history"], ["history", "nightly"], ["history", "--since", "7d"], ["show"], ["show", "--log", "last", "1"]),
    *(["show", "--why", "nightly"], ["store", "rejudge"], ["store", "check"], ["report", "--format", "csv"]),
    *(["report", "--format", "md"], ["diff", "last", "last"], ["list", __file__], ["store", "backup", os.devnull]),
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
    monkeypatch.setattr(index, "_looked_at", set())
    harm(folder / "reprokit.db")  # type: ignore[operator]
    before = (folder / "reprokit.db").read_bytes()
    words = {
        newer: "was written by a newer reprokit",
        older: f"was written by an earlier reprokit (version {CURRENT - 1} of the tables",
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


def test_tables_that_another_run_makes_while_they_are_looked_for_are_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "reprokit.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM")  # a header, and no tables
    read = sqlite_file._numbers

    def read_and_make(path: Path) -> tuple[int, int]:
        numbers = read(path)
        monkeypatch.undo()
        Store(tmp_path).close()
        return numbers

    monkeypatch.setattr(sqlite_file, "_numbers", read_and_make)
    assert sqlite_file.version(path) == 0
    assert sqlite_file.version(path) == CURRENT


def test_a_run_over_a_damaged_database_is_kept_and_a_rebuilt_one_has_all(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "_looked_at", set())
    # SQLite writes its log into the file when the last connection ends, which is not to be when it is collected.
    with contextlib.closing(Store(folder)) as store:
        whole = [store.run(one.id) for one in store.runs()]
        texts = store.texts([whole[0].cells[0].case_digest])
        store.find(whole[0].id, "answer", {"a": 1})
    damaged(folder / "reprokit.db")
    before = (folder / "reprokit.db").read_bytes()
    recorder = begun(folder, "run-1", cell(1))
    recorder.decide(DECIDED)
    recorder.finish(**END)  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"is damaged(.|\n)*this run is kept in .*run-1/journal.jsonl"):
        recorder.close()
    assert (folder / "reprokit.db").read_bytes() == before
    assert invoke(["store", "rebuild"]) == 0
    [old] = [path for path in folder.glob("reprokit.db.old-*") if path.suffix[-1].isdigit()]
    assert old.read_bytes() == before
    assert f"a new database with 3 runs; the old database is {old}" in capsys.readouterr().out
    again = Store(folder)
    assert [again.run(one.id) for one in whole] == whole
    assert again.findings(whole[0].id) == {"answer": {"a": 1}}
    assert again.texts(texts) == texts
    assert again.run("run-1").cells == (DECIDED,)
    assert invoke(["store", "check"]) == 0


def test_a_rebuilt_database_has_what_only_the_old_one_had_and_what_it_lacks_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = [Store(folder).run(one.id) for one in Store(folder).runs()]
    shutil.rmtree(folder / "runs" / whole[0].id)
    journal = path_of(folder, whole[1].id)
    journal.write_bytes(journal.read_bytes().replace(b'"kind"', b'"kinc"'))
    assert invoke(["store", "rebuild"]) == 3  # the damaged lines stay, and are named
    assert [Store(folder).run(one.id) for one in Store(folder).runs()] == whole
    size = journal.stat().st_size
    shutil.rmtree(folder / "runs" / whole[0].id)
    execute(folder / "reprokit.db", f"UPDATE cells SET details = '{{' WHERE run_id = '{whole[0].id}'")
    assert invoke(["store", "rebuild"]) == 3
    assert f"lost: run {whole[0].id}: it has no journal" in capsys.readouterr().out
    assert [one.id for one in Store(folder).runs()] == [whole[1].id]
    assert journal.stat().st_size == size


@pytest.mark.parametrize("tail", [b"", b"\0" * 900])
def test_a_journal_that_lost_its_end_is_named_and_written_again_from_the_database(
    tail: bytes, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = begun(folder, "run-1", cell(1))
    recorder.decide(DECIDED)
    recorder.finish(**END)  # type: ignore[arg-type]
    recorder.close()
    whole = Store(folder).run("run-1")
    assert whole.cells == (DECIDED,)
    journal = path_of(folder, "run-1")
    kept = [line for line in journal.read_bytes().splitlines(keepends=True) if b'"decide"' not in line]
    journal.write_bytes(b"".join(kept[:2]) + tail)
    assert invoke(["store", "check"]) == 3
    assert "decided in the database and not in its journal" in capsys.readouterr().out
    named = 3 if tail else 0  # a damaged line stays
    assert invoke(["store", "rebuild"]) == named
    assert Store(folder).run("run-1") == whole
    assert invoke(["store", "check"]) == named
    assert "not in its journal" not in capsys.readouterr().out


def test_no_journal_is_damaged_because_another_host_goes_on_with_its_run_in_a_shared_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPROKIT_DATABASE", f"sqlite:///{tmp_path}/shared.db")
    here = tmp_path / "here"
    recorder = begun(here, "run-1", cell(1))
    recorder.decide(DECIDED)
    recorder.finish(**END)  # type: ignore[arg-type]
    recorder.close()
    journal = path_of(here, "run-1")
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(line for line in lines if b'"decide"' not in line))  # the other host decided it
    with contextlib.closing(Store(here)) as store:
        assert store.run("run-1").cells == (DECIDED,)
    assert [text for text in check(here).problems if "journal" in text] == []


def test_a_record_that_cannot_be_read_is_made_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    execute(folder / "reprokit.db", "UPDATE cells SET details = '{' WHERE id = 1")
    assert invoke(["show", Store(folder).runs()[-1].id]) == 2
    assert "holds a record that cannot be read" in capsys.readouterr().err
    assert invoke(["store", "check"]) == 3
    assert invoke(["store", "rebuild"]) == 0
    assert invoke(["store", "check"]) == 0


@pytest.mark.parametrize("harm", [newer, foreign])
def test_what_is_not_ours_is_not_rebuilt(harm: object, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    harm(folder / "reprokit.db")  # type: ignore[operator]
    before = (folder / "reprokit.db").read_bytes()
    assert invoke(["store", "rebuild"]) == 2
    assert (folder / "reprokit.db").read_bytes() == before
    assert not list(folder.glob("reprokit.db.old*"))


def test_a_verdict_of_a_newer_version_is_shown_as_its_word_and_blocks_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    execute(folder / "reprokit.db", "UPDATE cells SET verdict = 'haunted', as_expected = NULL WHERE id = 4")
    spooky = 'UPDATE cells SET trials = replace(trials, \'"outcome": "reproduced"\', \'"outcome": "spooky"\')'
    execute(folder / "reprokit.db", f"{spooky} WHERE id = 4")
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
    with pytest.raises(StoreError, match="cannot be written \\(attempt to write a readonly database\\)"):
        begun(folder, "run-1", cell(1))


def test_a_path_that_is_too_long_for_sqlite_takes_no_run_and_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = tmp_path / Path(*["d" * 100] * 6)
    with pytest.raises(StoreError, match="SQLite opens at most 504: name a store with a shorter path"):
        begun(make_folder(deep), "run-1", cell(1))
    assert not (deep / "runs" / "run-1").exists()
    assert invoke(["history", "--store", str(deep)]) == 2
    assert "SQLite opens at most 504" in capsys.readouterr().err
    room = sqlite_file.LONGEST_PATH - len(str(tmp_path.resolve())) - len(f"/{DATABASE}") - 4
    longest = tmp_path.resolve() / Path("d" * (room // 2), "d" * (room - room // 2), "e")
    stop(begun(make_folder(longest), "run-1", cell(1)))
    assert Store(longest).run("run-1").cells == (cell(1),)


@pytest.mark.parametrize(
    "command",
    [
        ["history"],
        ["show"],
        ["show", "--why", "nightly"],
        ["list", "case.yaml"],
        ["report", "--format", "md"],
        ["validate", "case.yaml"],
        ["store", "check"],
        ["store", "export", "-"],
        ["collect", "--program"],
        ["config"],
    ],
    ids=" ".join,
)
def test_an_output_that_is_full_ends_with_a_status_and_what_to_do(
    command: list[str], folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.suppress(OSError), Path("/dev/full").open("w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert invoke(command) == 3
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "No space left on device" in said


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
    [finding] = kept.check_store(ground(folder.parent))
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
    [first, _] = kept.check_store(ground(folder.parent))
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


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store whose first run is in the database, and whose second is in its journal alone."""
    folder = tmp_path_factory.mktemp("whole") / "store"
    nights = Nights(folder)
    nights.run({"1": "N", "2": "R"})
    nights.store.close()
    Measurements(folder).keep("sha256:1", "p", Measured())
    SeenBases(folder).keep("debian:12", "sha256:2")
    recorder = begun(folder, "20260301-020000-0001", cell(1), cell(2))
    recorder.decide(DECIDED)
    recorder.finish(**END)  # type: ignore[arg-type]
    stop(recorder)
    return folder


@settings(max_examples=examples(12), deadline=None)
@given(st.data())
def test_one_bad_bit_or_a_cut_in_any_file_ends_nothing_in_a_traceback(whole: Path, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "store"
        shutil.copytree(whole, store)
        files = sorted(path for path in store.rglob("*") if path.is_file() and path.stat().st_size)
        harmed = data.draw(st.sampled_from(files))
        content = bytearray(harmed.read_bytes())
        at = data.draw(st.integers(0, len(content) - 1))
        if data.draw(st.booleans()):
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        else:
            del content[at:]
        harmed.write_bytes(content)
        index._looked_at.clear()
        read_all(store)
        command = data.draw(st.sampled_from(READING))
        said = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
            status = invoke([*command, "--store", str(store)])
        assert status in (0, 1, 2, 3), command
        assert "Traceback" not in said.getvalue(), command
        found = check(store)
        with contextlib.suppress(StoreError):  # "newer", say: not ours to make again
            rebuild(store, "now")
            read_all(store)
            assert harmed.name == "journal.jsonl" or len(Store(store).runs()) == 2, found
        assert Measurements(store).get("sha256:1", "p") in (None, Measured())
        SeenBases(store).digest("debian:12")


def read_all(store: Path) -> None:
    """As commands do: what cannot be read is a StoreError that says so."""
    with contextlib.suppress(StoreError), contextlib.closing(Store(store)) as opened:
        for one in opened.runs():
            with contextlib.suppress(StoreError):
                opened.case_text(opened.run(one.id).cells[0].case_digest)


@pytest.mark.parametrize("line", [0, 1, 2])
def test_what_the_other_lines_of_a_damaged_journal_say_is_kept(
    whole: Path, line: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    shutil.copytree(whole, store)
    journal = path_of(store, "20260301-020000-0001")
    lines = journal.read_bytes().splitlines(keepends=True)
    lines[line] = lines[line].replace(b'"kind"', b'"kinc"')
    journal.write_bytes(b"".join(lines))
    run_id = journal.parent.name
    assert invoke(["show", run_id, "--store", str(store)]) in (0, 1, 3)
    printed = capsys.readouterr()
    assert f"warning: {journal}: a damaged line" in printed.err
    kept = Store(store).run(run_id)
    assert kept.started_at.startswith("2026")
    assert kept.finished_at == END["finished_at"]
    assert (DECIDED in kept.cells) is (line < 2)
    assert Store(store).run(kept.id).owner.imported is (line == 1)  # no one knows what it was asked: not resumed
    assert invoke(["store", "check", "--store", str(store)]) == 3
    assert "1 damaged line" in capsys.readouterr().out

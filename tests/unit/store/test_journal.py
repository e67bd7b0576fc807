"""The journal of a run: what was shown is on disk, whatever the disk, the database or a kill does."""

from __future__ import annotations

import dataclasses
import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.core.errors import RecordError, UsageError
from reprokit.core.ownership import PID, PID_START, ownership, started
from reprokit.evidence.model import Verdict
from reprokit.evidence.origin import HostRecord, OwnerRecord
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.store import dialects, journal
from reprokit.store.database import Store
from reprokit.store.errors import store_error
from reprokit.store.journal import Journal, entries, line_of, path_of, pending
from reprokit.store.recorder import Recorder
from tests.unit.store.test_store import TRIAL, cell, run


def begun(folder: Path, run_id: str = "run-1", *cells: CellRecord) -> Recorder:
    """A run that goes on, as its process has it."""
    recorder = Recorder(folder)
    recorder.begin(run(run_id, *cells), {"sha256:1": ("c", "t", "text")})
    return recorder


def stop(recorder: Recorder) -> None:
    """End a recorder as a kill ends it: without another write."""
    recorder._end.set()
    for thread in recorder._threads:
        thread.join()
    assert recorder._journal is not None
    os.close(recorder._journal._file)


DECIDED = cell(1, verdict=Verdict.REPRODUCED, reason="so", trials=(TRIAL,))
END = {"finished_at": "2026-01-01T00:00:09Z", "exit_status": 0, "host": HostRecord(engine="e")}


def test_what_a_run_decides_is_seen_while_it_goes_on_and_after_its_end(tmp_path: Path) -> None:
    recorder = begun(tmp_path, "run-1", cell(1), cell(2))
    recorder.decide(DECIDED)
    recorder.find("cost a", 3)
    store = Store(tmp_path)
    assert store.run("run-1").cells == (DECIDED, cell(2))
    assert store.findings("run-1") == {"cost a": 3}
    assert store.case_text("sha256:1") == "text"
    recorder.decide(cell(2, verdict=Verdict.FLAKY))
    recorder.finish(**END)  # type: ignore[arg-type]
    assert recorder.close() == ""
    found = Store(tmp_path).run("last")
    assert (found.exit_status, found.host.engine, found.cells[1].verdict) == (0, "e", Verdict.FLAKY)
    assert pending(tmp_path) == []
    assert path_of(tmp_path, "run-1").exists()


def test_a_killed_run_is_added_by_the_next_command_and_its_half_line_is_not(tmp_path: Path) -> None:
    recorder = begun(tmp_path, "run-1", cell(1), cell(2))
    recorder.decide(DECIDED)
    whole = path_of(tmp_path, "run-1").stat().st_size
    recorder.decide(cell(2, verdict=Verdict.FLAKY))
    stop(recorder)
    os.truncate(path_of(tmp_path, "run-1"), whole + 40)
    assert Store(tmp_path).run("run-1").cells == (DECIDED, cell(2))
    assert pending(tmp_path) == ["run-1"]
    resumed = Recorder(tmp_path)
    resumed.begin(Store(tmp_path).run("run-1"), {})
    resumed.decide(cell(2, verdict=Verdict.REPRODUCED))
    resumed.finish(**END)  # type: ignore[arg-type]
    resumed.close()
    assert Store(tmp_path).run("run-1").cells == (DECIDED, cell(2, verdict=Verdict.REPRODUCED))
    assert [entry.kind for entry in entries(path_of(tmp_path, "run-1"))].count("") == 1


def test_of_two_processes_that_resume_one_run_the_second_is_refused(tmp_path: Path) -> None:
    stop(begun(tmp_path, "run-1", cell(1)))
    stopped = Store(tmp_path).run("run-1")  # as both find it
    pid = os.getppid()
    other = OwnerRecord(labels={**ownership("run-1"), PID: str(pid), PID_START: started(pid) or ""})
    first, second = Recorder(tmp_path), Recorder(tmp_path)
    first.begin(dataclasses.replace(stopped, owner=other), {})
    with pytest.raises(UsageError, match=rf"run run-1 is being resumed by process {pid} on the machine .*: wait for"):
        second.begin(stopped, {})
    assert second.close() == ""
    assert Store(tmp_path).run("run-1").owner == other
    first.finish(**END)  # type: ignore[arg-type]
    first.close()
    third = Recorder(tmp_path)
    third.begin(stopped, {})
    third.close()


@given(st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_is_recognised_wherever_it_is(at: int, byte: int) -> None:
    kind = "decide"
    body = b'"kind":"decide","cell":{"reason":"' + b"x" * 300 + b'"}}'
    line = journal._head(body) + b"," + body + b"\n"
    assert journal._content(line)[0] == kind
    at %= len(line) - 1
    if line[at] != byte and byte != ord("\n"):
        assert journal._content(line[:at] + bytes([byte]) + line[at + 1 :]) == ("", {})


def full(times: int) -> Callable[[int, bytes], int]:
    """``os.write`` on a disk that is full for so many writes; the first of them has room for a part."""
    write, left = os.write, [times]

    def attempt(file: int, data: bytes) -> int:
        if left[0]:
            left[0] -= 1
            if left[0] == times - 1:
                return write(file, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    return attempt


def test_a_disk_that_is_full_for_a_while_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "WAIT_SECONDS", (0.0, 0.0))
    recorder = begun(tmp_path, "run-1", cell(1))
    with monkeypatch.context() as patch:
        patch.setattr(journal.os, "write", full(5))
        recorder.decide(DECIDED)
    recorder.finish(**END)  # type: ignore[arg-type]
    recorder.close()
    assert Store(tmp_path).run("run-1").cells == (DECIDED,)
    assert "" not in [entry.kind for entry in entries(path_of(tmp_path, "run-1"))]


def test_a_disk_that_stays_full_is_said_once_and_what_was_kept_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(journal, "WAIT_SECONDS", (0.0, 0.0))
    recorder = begun(tmp_path, "run-1", cell(1), cell(2))
    recorder.decide(DECIDED)
    with monkeypatch.context() as patch:
        patch.setattr(journal.os, "write", full(10**6))
        with pytest.raises(RecordError, match=r"journal\.jsonl: No space left on device; make room"):
            recorder.decide(cell(2, verdict=Verdict.FLAKY))
    with pytest.raises(RecordError, match="No space left"):  # at once, although there is room again
        recorder.decide(cell(2, verdict=Verdict.FLAKY))
    assert recorder.close() == ""
    assert Store(tmp_path).run("run-1").cells == (DECIDED, cell(2))


def test_a_database_without_room_fails_the_run_whose_journal_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder = begun(tmp_path, "run-1", cell(1))
    recorder.decide(DECIDED)
    full_database = store_error("reprokit.db", "database or disk is full")
    monkeypatch.setattr(recorder, "_update", lambda: full_database)
    with pytest.raises(RecordError, match=r"make room(?s:.*)this run is kept in"):
        recorder.close()


def test_a_journal_that_is_removed_stops_the_run(tmp_path: Path) -> None:
    recorder = begun(tmp_path, "run-1", cell(1))
    path_of(tmp_path, "run-1").unlink()
    with pytest.raises(RecordError, match="was removed while it was written"):
        recorder.decide(DECIDED)
    recorder.close()


def test_a_store_that_cannot_be_written_stops_a_run_before_it_begins(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    with pytest.raises(RecordError, match=r"cannot be recorded: .*Not a directory"):
        begun(tmp_path)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for a database that another process has."""
    tune = dialects._tune

    def quick(connection: sqlite3.Connection, record: object) -> None:
        tune(connection, record)
        connection.execute("PRAGMA busy_timeout=0")

    monkeypatch.setattr(dialects, "_tune", quick)


@pytest.mark.usefixtures("impatient")
def test_a_database_that_is_locked_is_read_with_what_it_lacks_and_written_later(tmp_path: Path) -> None:
    Store(tmp_path).close()
    recorder = begun(tmp_path, "run-1", cell(1))
    other = sqlite3.connect(tmp_path / "reprokit.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    recorder.decide(DECIDED)
    recorder.finish(**END)  # type: ignore[arg-type]
    said = recorder.close()
    assert "in use by another process (database is locked)" in said
    assert f"this run is kept in {path_of(tmp_path, 'run-1')}" in said
    store = Store(tmp_path)
    assert store.run("last").cells == (DECIDED,)
    assert store.file != tmp_path / "reprokit.db"
    store.close()
    other.execute("ROLLBACK")
    store = Store(tmp_path)
    assert (store.file, store.run("last").cells) == (tmp_path / "reprokit.db", (DECIDED,))
    assert pending(tmp_path) == []


def test_two_commands_that_open_a_store_at_once_add_each_line_once(tmp_path: Path) -> None:
    recorder = begun(tmp_path, "run-1", cell(1))
    recorder.decide(DECIDED)
    stores = [Store(tmp_path) for _ in range(3)]
    assert {len(store.run("run-1").cells[0].trials) for store in stores} == {1}
    stop(recorder)


def test_a_run_that_is_forgotten_does_not_come_back_from_its_journal(tmp_path: Path) -> None:
    recorder = begun(tmp_path, "run-1", cell(1))
    stop(recorder)
    Store(tmp_path).forget("run-1")
    assert Store(tmp_path).runs() == []
    assert not path_of(tmp_path, "run-1").exists()


def test_a_run_that_was_put_is_gone_on_with(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.put(run("run-1", DECIDED, cell(2)), {"sha256:1": ("c", "t", "text")})
    recorder = Recorder(tmp_path)
    recorder.begin(store.run("run-1"), store.texts(["sha256:1"]))
    recorder.decide(cell(2, verdict=Verdict.FLAKY))
    recorder.close()
    assert Store(tmp_path).run("run-1").cells == (DECIDED, cell(2, verdict=Verdict.FLAKY))


def test_a_cell_that_is_judged_again_is_in_the_journal_too(tmp_path: Path) -> None:
    recorder = begun(tmp_path, "run-1", cell(1))
    recorder.decide(DECIDED)
    recorder.close()
    Store(tmp_path).decide("run-1", dataclasses.replace(DECIDED, verdict=Verdict.FLAKY))
    decided = [entry for entry in entries(path_of(tmp_path, "run-1")) if entry.kind == "decide"]
    assert [str(entry.read("cell", CellRecord).verdict) for entry in decided] == ["reproduced", "flaky"]
    assert Store(tmp_path).run("run-1").cells[0].verdict is Verdict.FLAKY


def test_a_line_that_no_reprokit_writes_blocks_nothing(tmp_path: Path) -> None:
    recorder = begun(tmp_path, "run-1", cell(1))
    assert recorder._journal is not None
    for kind, data in [
        ("other", {}),
        ("decide", {}),
        ("begin", {"run": RunRecord(id="x", started_at="", version="").to_json()}),
    ]:
        recorder._journal.append(line_of(kind, **data))
    recorder.decide(DECIDED)
    recorder.close()
    assert [one.id for one in Store(tmp_path).runs()] == ["run-1"]
    assert Store(tmp_path).run("run-1").cells == (DECIDED,)


def test_the_journal_is_synced_at_most_where_it_grew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(journal.os, "fdatasync", synced.append)
    kept = Journal(tmp_path / "j")
    kept.append(line_of("a"))
    kept.sync()
    kept.sync()
    kept.append(line_of("a"))
    kept.close()
    assert len(synced) == 2


def test_a_thread_that_was_given_up_writes_into_no_other_file(tmp_path: Path) -> None:
    """A closed descriptor's number goes to the next file that is opened: it was the database."""
    opened = Journal(path_of(tmp_path, "run-1"))
    number = opened._file
    opened.close()
    other = os.open(tmp_path / "another", os.O_WRONLY | os.O_CREAT)
    os.dup2(other, number)
    try:
        with pytest.raises(RecordError, match="is closed: its run has ended"):
            opened.append(line_of("decide"))
        assert (tmp_path / "another").read_bytes() == b""
    finally:
        for descriptor in {other, number}:
            os.close(descriptor)

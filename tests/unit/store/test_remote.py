"""Stores on a server, as far as no server is asked: their addresses, this host's folder, and where SQL may be."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import reprokit
from reprokit.cli import invoke
from reprokit.core.errors import UsageError
from reprokit.engine import site
from reprokit.evidence.model import Verdict
from reprokit.report.html import building
from reprokit.report.html.writing import Folder
from reprokit.store import delivery, remote
from reprokit.store.database import Store
from reprokit.store.dialects import Postgres
from reprokit.store.errors import StoreError, Trouble
from reprokit.store.files import FolderFiles
from reprokit.store.journal import Journal, line_of, path_of
from reprokit.store.places import read_log
from reprokit.store.recorder import Recorder
from tests.unit.store.test_journal import END, begun, stop
from tests.unit.store.test_store import TRIAL, cell, run

ADDRESS = "postgresql://me@db.example/reprokit"


@pytest.fixture(autouse=True)
def _state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_database_has_one_folder_on_a_host_however_its_address_is_written(tmp_path: Path) -> None:
    folder = remote.folder_of(ADDRESS)
    assert folder == remote.folder_of("postgresql+psycopg://me@db.example/reprokit")
    assert folder != remote.folder_of("postgresql://me@db.example/other")
    found = remote.remote_of(folder)
    assert found is not None
    assert (found.address, found.files) == (ADDRESS, "")
    assert remote.remote_of(remote.folder_of(ADDRESS, "s3://bucket/x/")) == remote.Remote(
        address=ADDRESS, files="s3://bucket/x", spool=found.spool
    )
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_came_from_elsewhere_names_no_server(tmp_path: Path) -> None:
    (tmp_path / "downloaded").mkdir()
    description = remote.folder_of(ADDRESS) / remote.DESCRIPTION
    (tmp_path / "downloaded" / remote.DESCRIPTION).write_bytes(description.read_bytes())
    assert remote.remote_of(tmp_path / "downloaded") is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("postgresql://me:hunter2@db.example/x", "has a password in its address"),
        ("postgresql://me@db.example/x?password=hunter2", "has a password in its address"),
        ("postgresql://me@db.example/x?PassWord=hunter2", "has a password in its address"),
        ("mysql://me@db.example/x?p%61ssword=hunter2", "neither a folder nor the address of a database"),
        ("postgresql://me@db.example/x?sslmode=require&sslpassword=hunter2", "has a password in its address"),
        ("mysql://me@db.example/x", "neither a folder nor the address of a database"),
        ("postgres://me:hunter2@db.example/x", "neither a folder nor the address of a database"),
        ("postgresql:/me@db.example/x", "neither a folder nor the address of a database"),
        ("postgresql://[me@db.example/x", "is not an address"),
    ],
)
def test_an_address_that_cannot_be_a_store_is_refused(
    given: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke(["history", "--store", given]) == 2
    first = capsys.readouterr().err
    monkeypatch.setenv("REPROKIT_STORE", given)
    assert invoke(["history"]) == 2
    for text in (first, capsys.readouterr().err):
        assert said in text
        assert "hunter2" not in text


@pytest.mark.parametrize(
    "files", ["gs://b/x", "s3://", "file://host/x", "s3://key:hunter2@b/x", "/folder", "s3://b/x?versionId=1"]
)
def test_a_place_for_files_that_is_not_one_is_refused(files: str) -> None:
    with pytest.raises(UsageError, match="write file:///FOLDER or s3://BUCKET/PREFIX") as raised:
        remote.folder_of(ADDRESS, files)
    assert "hunter2" not in str(raised.value)


def test_the_configuration_names_the_database_and_the_place_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "reprokit.toml").write_text(f'store = "{ADDRESS}"\nfiles = "file:///srv/files"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_CONFIG", str(tmp_path / "reprokit.toml"))
    folder = site.settings().store_folder()
    assert folder == remote.folder_of(ADDRESS, "file:///srv/files")
    monkeypatch.setenv("REPROKIT_STORE", "relative")
    assert site.settings().store_folder() == tmp_path / "relative"


def test_what_was_not_delivered_tells_hosts_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = remote.journal_name(remote.folder_of(ADDRESS), "run-1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
    assert first.startswith("run-1@")
    assert first != remote.journal_name(remote.folder_of(ADDRESS), "run-1")
    assert remote.journal_name(tmp_path, "run-1") == "run-1"


def test_a_shared_folder_takes_files_and_gives_them_back(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    files, log = FolderFiles((tmp_path / "shared").as_uri()), "runs/run-1/c/trial-1.log"
    files.check()
    (tmp_path / "log").write_text("text")
    files.put(tmp_path / "log", log)
    files.put(tmp_path / "log", log)
    assert files.names("runs/run-1") == {log}
    folder = remote.folder_of(ADDRESS, (tmp_path / "shared").as_uri())
    assert read_log(folder, log) == b"text"
    assert (folder / log).is_file()
    files.remove("runs/run-1")
    assert files.names("runs/run-1") == set()
    with pytest.raises(FileNotFoundError):
        files.get(log, tmp_path / "target")
    with pytest.raises(StoreError, match="make it, or mount it"):
        FolderFiles((tmp_path / "absent").as_uri()).check()


class Said(Exception):
    """What psycopg raises."""

    def __init__(self, text: str, sqlstate: str | None = None) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("said", "state", "trouble"),
    [
        ("connection failed: connection to server at ... failed: Connection refused", None, Trouble.UNREACHABLE),
        ("failed to resolve host 'db.example': [Errno -2] Name or service not known", None, Trouble.UNREACHABLE),
        ("server closed the connection unexpectedly", None, Trouble.UNREACHABLE),
        ("terminating connection due to administrator command", "57P01", Trouble.UNREACHABLE),
        ('FATAL: password authentication failed for user "me"', None, Trouble.REFUSED),
        ('FATAL: database "x" does not exist', None, Trouble.REFUSED),
        ("cannot execute INSERT in a read-only transaction", "25006", Trouble.READ_ONLY),
        ("could not extend file: No space left on device", "53100", Trouble.FULL),
        ("deadlock detected", "40P01", Trouble.BUSY),
        ("value out of range", "22003", Trouble.VALUE),
    ],
)
def test_each_error_of_a_server_has_its_kind(said: str, state: str | None, trouble: Trouble) -> None:
    assert Postgres().error("postgresql://db", Said(said, state)).trouble is trouble


@pytest.mark.parametrize("resumed_first", [False, True])
def test_what_two_hosts_decided_of_a_run_is_kept_whichever_delivers_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resumed_first: bool
) -> None:
    monkeypatch.setattr(Recorder, "_check_database", lambda self: None)
    began, resumed = remote.folder_of(ADDRESS), remote.folder_of(f"{ADDRESS}2")
    first, second = begun(began, "run-1", cell(1), cell(2)), Recorder(resumed)
    first.decide(cell(1, verdict=Verdict.REPRODUCED, trials=(TRIAL,)))
    stop(first)
    second.begin(run("run-1", cell(1), cell(2)), {}, resumed=True)
    second.decide(cell(2, verdict=Verdict.FLAKY))
    second.finish(**END)  # type: ignore[arg-type]
    stop(second)
    store = Store(tmp_path / "database")
    judged = remote.folder_of(f"{ADDRESS}3")  # where it was judged again, whose journal may come first
    with contextlib.closing(Journal(path_of(judged, "run-1"))) as journal:
        journal.append(line_of("decide", cell=cell(2, verdict=Verdict.FLAKY)))
    for folder in (judged, resumed, began) if resumed_first else (judged, began, resumed):
        store.replay(folder, ["run-1"])
    found = store.run("run-1")
    assert (found.version, found.started_at) == (run("run-1").version, run("run-1").started_at)
    assert not found.owner.imported
    assert [one.verdict for one in found.cells] == [Verdict.REPRODUCED, Verdict.FLAKY]
    assert (found.exit_status, len(found.cells[0].trials)) == (0, 1)
    store.close()


def test_a_share_that_was_unmounted_takes_nothing(tmp_path: Path) -> None:
    share = tmp_path / "share"
    share.mkdir()
    files = FolderFiles(share.as_uri())
    files.check()
    share.rename(tmp_path / "unmounted")
    share.mkdir()
    (tmp_path / "log").write_text("text")
    for use in (lambda: files.put(tmp_path / "log", "runs/run-1/a.log"), lambda: files.names("runs"),
                lambda: files.remove("runs/run-1")):  # fmt: skip
        with pytest.raises(StoreError, match="which each run writes there: mount it"):
            use()
    assert not any(share.iterdir())


def test_a_run_is_forgotten_whole_or_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    folder = remote.folder_of(ADDRESS, (tmp_path / "shared").as_uri())
    store = Store(folder, f"sqlite:///{tmp_path / 'database'}")
    store.put(run("run-1", cell(1)), {})
    with pytest.raises(StoreError, match="mount it"):
        store.forget("run-1")
    assert store.run("run-1").id == "run-1"
    FolderFiles((tmp_path / "shared").as_uri()).check()
    store.forget("run-1")
    assert store.runs() == []
    store.close()


def test_a_report_waits_once_for_files_that_are_away_and_does_not_call_logs_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shared").mkdir()
    folder = remote.folder_of(ADDRESS, (tmp_path / "shared").as_uri())
    asked: list[str] = []
    get = FolderFiles.get
    monkeypatch.setattr(FolderFiles, "get", lambda *given: (asked.append(given[1]), get(*given)))
    trials = [dataclasses.replace(TRIAL, log=f"runs/run-1/c/trial-{number}.log") for number in (1, 2)]
    store = SimpleNamespace(folder=folder)
    making = building._Making(store, Folder(tmp_path, str), building.PagesRequest(), str)  # type: ignore[arg-type]
    notes = [making._log("log", trial).note for trial in trials]
    assert notes == [building.AWAY] * 2
    assert asked == [trials[0].log]


def test_a_log_of_a_cell_that_was_repeated_is_uploaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shared").mkdir()
    folder = remote.folder_of(ADDRESS, (tmp_path / "shared").as_uri())
    FolderFiles((tmp_path / "shared").as_uri()).check()
    put: list[str] = []
    monkeypatch.setattr(FolderFiles, "put", lambda self, path, name: put.append(name))
    log = "runs/run-1/c/trial-1.log"
    (folder / log).parent.mkdir(parents=True)
    (folder / log).write_text("text")
    delivery.mark_of(folder, "run-1").parent.mkdir()
    delivery.mark_of(folder, "run-1").touch()
    decided = cell(1, verdict=Verdict.REPRODUCED, trials=(dataclasses.replace(TRIAL, log=log),))
    with contextlib.closing(Journal(path_of(folder, "run-1"))) as journal:
        for _ in range(2):
            journal.append(line_of("decide", cell=decided))
        journal.append(line_of("finish"))
    delivery.deliver(folder, "run-1")
    assert put == [log]


def test_the_sql_of_one_database_is_in_its_dialect_alone() -> None:
    package = Path(reprokit.__file__).parent
    own = re.compile(
        r"exec_driver_sql|\bPRAGMA\b|INSERT OR |ON CONFLICT|pg_\w+\(|BEGIN IMMEDIATE|\bVACUUM\b|sqlite_master"
    )
    found = [
        f"{path.relative_to(package)}:{number}"
        for path in package.rglob("*.py")
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if own.search(line) and path.name not in ("dialects.py", "sqlite_file.py")
    ]
    assert found == []

"""Untrusted stores: whatever they name or link to, nothing outside is read, made or removed."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.core.errors import UsageError
from reprokit.store import places
from reprokit.store.errors import StoreError
from tests.unit.nights import Nights

SECRET = "canary-4711"
NAMES = {
    "parents": "../../x",
    "parent": "..",
    "far": "../../../../../../../../../../tmp/reprokit-pwned",
    "absolute": "/tmp/reprokit-pwned",
    "dot": ".",
    "empty": "",
    "slash": "a/b",
    "inner": "a/../../../x",
    "nul": "a\0b",
    "newline": "a\nb",
    "long": "x" * 4000,
    "wide-slash": "..\uff0fx",
    "wide-dots": "\u2025/x",
    "override": "\u202ex",
    "hidden": ".x",
    "option": "-rf",
    "home": "~",
    "shell": "$(touch pwned)",
    "escape": "\x1b[2J\x1b]0;pwned\x07",
    "backslash": "..\\..\\x",
    "half": "\udc80",
    "number": 5,
    "none": None,
    "blob": b"\xff\x00",
}
COLUMNS = {
    "run": "UPDATE runs SET id = :to WHERE id = :run; UPDATE cells SET run_id = :to WHERE run_id = :run",
    "case": "UPDATE cells SET case_id = :to",
    "variant": "UPDATE cells SET variant = :to",
    "log": "UPDATE cells SET trials = json_set(trials, '$[0].log', :to)",
}
COMMANDS = [
    ["show", "last", "1"], ["show", "last", "1", "--log"], ["store", "rejudge", "--all", "--write"], ["share", "-y"],
    ["report", "--format", "md", "-o", "out.md"], ["store", "check"], ["store", "export", "out.tar"],
    ["store", "rebuild"], ["history", "--forget", "last", "-y"],
]  # fmt: skip
"""On an untrusted store itself; another is given it to merge."""
OTHERS = [
    ["show"], ["show", "--json"], ["list"], ["history"], ["history", "nightly"], ["history", "--since", "2025-01-01"],
    ["show", "--why", "last"], ["report", "-o", "out"], ["report", "--format", "junit", "-o", "out.xml"],
    ["store", "backup", "out.tar"],
]  # fmt: skip
"""Which make no path of what a record names, and are tried with the worst name only."""


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with two runs, whose logs are there."""
    nights = Nights(tmp_path_factory.mktemp("foreign") / "store")
    for _ in range(2):
        nights.run({"1": "N", "2": "R"})
    (nights.store.folder / "runs" / "none.log").write_text("boom\n")
    nights.store.close()
    return nights.store.folder


@pytest.fixture
def place(template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, three levels below which an untrusted store lies; beside it are files of the user's."""
    work = tmp_path / "work"
    shutil.copytree(template, work / "a" / "b" / "store")
    for folder in (tmp_path, work, work / "a", work / "a" / "b"):
        (folder / "x").mkdir()
        (folder / "x" / "file").write_text(SECRET)
        (folder / "secret").write_text(SECRET)
    monkeypatch.chdir(work)
    return work


def plant(database: Path, statements: str, to: object) -> None:
    """Write by hand what no reprokit writes."""
    with closing(sqlite3.connect(database)) as connection:
        [run] = connection.execute("SELECT max(id) FROM runs").fetchone()
        connection.execute("PRAGMA foreign_keys = OFF")
        for statement in statements.split(";"):
            value = to.encode("utf-8", "surrogateescape") if isinstance(to, str) and "\udc80" in to else to
            with_text = statement.replace(":to", "CAST(:to AS TEXT)") if isinstance(value, bytes) else statement
            connection.execute(with_text, {"to": value, "run": run})
        connection.commit()


def around(place: Path, *but: str) -> dict[Path, bytes | None]:
    """Everything around the store, the files that commands were asked to write left out."""
    found = {}
    for path in place.parent.rglob("*"):
        inside = path.is_relative_to(place / "a/b/store") or path.is_relative_to(place / "own")
        if not inside and not path.name.startswith("out") and "out" not in path.relative_to(place.parent).parts:
            found[path] = path.read_bytes() if path.is_file() else None
    return found


def harmless(command: list[str], place: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a command; returns what it printed. Nothing around the store changes, and nothing of it is shown."""
    before = around(place)
    status = invoke(command)
    printed = capsys.readouterr()
    text = printed.out + printed.err
    assert status in (0, 1, 2, 3), text
    assert "a defect of reprokit" not in text, (command, text[-2000:])
    assert around(place) == before, command
    assert SECRET not in text, command
    assert "\x1b" not in text, command
    assert not Path("/tmp/reprokit-pwned").exists()
    return text


AS_TEXT = {"far", "inner", "nul", "long", "escape", "half", "number", "blob"}
"""What is tried as a variant, which names no file."""
FAST = {("log", "far"), ("log", "half"), *((column, "escape") for column in COLUMNS)}
"""What a change is tried with; each name costs a dozen commands."""


@pytest.mark.parametrize(
    ("column", "name"),
    [
        pytest.param(column, name, marks=[pytest.mark.nightly] * ((column, name) not in FAST))
        for column in COLUMNS
        for name in NAMES
        if column != "variant" or name in AS_TEXT
    ],
)
def test_what_a_foreign_database_names_stays_in_its_store(
    column: str, name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = place / "a/b/store"
    try:
        plant(store / "reprokit.db", COLUMNS[column], NAMES[name])
    except sqlite3.IntegrityError:
        pytest.skip("the tables do not take it")
    harmless(["store", "merge", str(store), "--store", "own", "--keep", "1"], place, capsys)
    for command in (*(OTHERS if name == "far" else ()), *COMMANDS):
        harmless([*command, "--store", str(store)], place, capsys)


def link_runs(store: Path) -> None:
    shutil.rmtree(store / "runs")
    (store / "runs").symlink_to(store.parent)


def link_run(store: Path) -> None:
    for run in (store / "runs").glob("*-*"):
        shutil.rmtree(run)
        run.symlink_to(store.parent / "x")


def link_log(store: Path) -> None:
    (store / "runs" / "none.log").unlink()
    (store / "runs" / "none.log").symlink_to(store.parent / "secret")


def link_pending(store: Path) -> None:
    shutil.rmtree(store / "pending")
    (store / "pending").symlink_to(store.parent)


def link_mark(store: Path) -> None:
    for run in (store / "runs").glob("*-*"):
        (store / "pending" / run.name).symlink_to(store.parent / "secret")


def link_lock(store: Path) -> None:
    (store / "reprokit.lock").unlink(missing_ok=True)
    (store / "reprokit.lock").symlink_to(store.parent / "secret")


def link_bases(store: Path) -> None:
    (store / "bases.json").symlink_to(store.parent / "secret")


def link_ignore(store: Path) -> None:
    (store / ".gitignore").unlink(missing_ok=True)
    (store / ".gitignore").symlink_to(store.parent / "pwned")


def link_journal(store: Path) -> None:
    for journal in (store / "runs").glob("*/journal.jsonl"):
        journal.unlink()
        journal.symlink_to(store.parent / "secret")


def pipe_log(store: Path) -> None:
    (store / "runs" / "none.log").unlink()
    os.mkfifo(store / "runs" / "none.log")


def pipe_journal(store: Path) -> None:
    for journal in (store / "runs").glob("*/journal.jsonl"):
        journal.unlink()
        os.mkfifo(journal)


def pipe_database(store: Path) -> None:
    (store / "reprokit.db").unlink()
    os.mkfifo(store / "reprokit.db")


def pipe_wal(store: Path) -> None:
    (store / "reprokit.db-wal").unlink(missing_ok=True)
    os.mkfifo(store / "reprokit.db-wal")


def endless_wal(store: Path) -> None:
    (store / "reprokit.db-wal").unlink(missing_ok=True)
    (store / "reprokit.db-wal").symlink_to("/dev/zero")


def folder_database(store: Path) -> None:
    (store / "reprokit.db").unlink()
    (store / "reprokit.db").mkdir()


FOLDERS: list[Callable[[Path], None]] = [
    link_runs, link_run, link_log, link_pending, link_mark, link_lock, link_bases, link_ignore, link_journal,
    pipe_log, pipe_journal, pipe_database, pipe_wal, endless_wal, folder_database,
]  # fmt: skip


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(
            one, id=one.__name__, marks=[pytest.mark.system] * (one not in (link_runs, link_log, pipe_database))
        )
        for one in FOLDERS
    ],
)
def test_links_and_pipes_of_a_foreign_store_lead_nowhere(
    spoil: Callable[[Path], None], place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = place / "a/b/store"
    spoil(store)
    harmless(["store", "merge", str(store), "--store", "own", "--keep", "1"], place, capsys)
    if spoil is not endless_wal:  # SQLite reads it as it is
        for command in (["store", "backup", "out.tar"], *COMMANDS):
            harmless([*command, "--store", str(store)], place, capsys)


@pytest.mark.parametrize("name", [name for name in NAMES.values() if isinstance(name, str)], ids=ascii)
def test_no_path_is_made_of_what_is_not_a_name(name: str, tmp_path: Path) -> None:
    for make in (places.run_folder, places.below):
        with pytest.raises(StoreError, match="is not the name of a file"):
            make(tmp_path, name)
    with pytest.raises(StoreError, match="as a log"):
        places.log_path(tmp_path, f"runs/{name}" if name != "a/b" else name)


def test_a_folder_that_becomes_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, other = tmp_path / "store", tmp_path / "other"
    (store / "runs" / "r").mkdir(parents=True)
    (other / "r").mkdir(parents=True)
    (other / "r" / "log.log").write_text(SECRET)
    checked = places.unlinked

    def swap(folder: Path, *names: str) -> Path:
        found = checked(folder, *names)
        if (store / "runs").is_dir() and not (store / "runs").is_symlink():
            shutil.rmtree(store / "runs")
            (store / "runs").symlink_to(other)
        return found

    monkeypatch.setattr(places, "unlinked", swap)
    with pytest.raises((UsageError, OSError)):
        places.read_log(store, "runs/r/log.log")
    (store / "runs").unlink()
    (store / "runs" / "r").mkdir(parents=True)
    places.remove_run(store, "r")
    assert (other / "r" / "log.log").read_text() == SECRET

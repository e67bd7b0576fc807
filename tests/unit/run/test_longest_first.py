"""Cells whose time is known from the store start the longest first; others in the order of the case."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from reprokit.cli.display.screen import Screen
from reprokit.engine.protocol import Trial
from reprokit.evidence.model import Ending
from reprokit.run import runner
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.run.task import Task
from reprokit.run.threads import PriorityWorkers
from reprokit.run.timing import KnownSeconds
from reprokit.store.database import Store
from tests.unit.fakes import FakeEngine

SECONDS = {"1": 10.0, "2": 30.0, "3": 20.0, "4": 40.0, "5": 5.0}


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread: else the next container is made while a program runs, and either may be first."""
    monkeypatch.setattr(runner, "PriorityWorkers", lambda _, name: PriorityWorkers(1, name))


def run(folder: Path, values: str = "12345", jobs: int = 1) -> tuple[Session, list[str]]:
    """Run a case with a cell for each value; returns the session and the order in which programs ran."""
    case = {
        "schema": "reprokit/v1",
        "id": "timed",
        "title": "t",
        "matrix": {"os": ["debian-12"], "n": list(values)},
        "env": {"N": "{{ n }}"},
        "command": "true",
    }
    (folder / "timed.yaml").write_text(json.dumps(case))
    order: list[str] = []

    def program(trial: Trial, sink: Any) -> Ending:
        order.append(trial.env["N"])
        return Ending(exit_code=0, seconds=1.0)

    session = Session(folder / "store", display=Screen(io.StringIO()), engine=lambda: FakeEngine(program))
    session.start(Request(cases=(str(folder / "timed.yaml"),), base_images="registry", jobs=jobs))
    with contextlib.closing(sqlite3.connect(folder / "store" / "reprokit.db")) as database:
        for value, seconds in SECONDS.items():
            key = json.dumps({"n": value, "os": "debian-12"}, separators=(",", ":"))
            database.execute("UPDATE cells SET seconds = ? WHERE cell_key = ?", (seconds, key))
        database.commit()
    return session, order


@pytest.mark.parametrize(("values", "expected"), [("12345", "42315"), ("1254", "4215"), ("54321", "42315")])
def test_a_second_run_starts_with_the_longest(tmp_path: Path, values: str, expected: str) -> None:
    _, order = run(tmp_path)
    assert "".join(order) == "12345"
    second, order = run(tmp_path, values)
    assert "".join(order) == expected
    assert second.record is not None
    assert [cell.cell["n"] for cell in second.record.cells] == list(values)  # as people see them


def test_what_did_not_run_before_may_be_the_longest(tmp_path: Path) -> None:
    run(tmp_path, "1234")
    assert "".join(run(tmp_path)[1]) == "54231"


def test_a_run_of_few_cells_does_not_look_it_up(tmp_path: Path) -> None:
    run(tmp_path)
    assert "".join(run(tmp_path, "124")[1]) == "124"


@pytest.mark.parametrize("damage", [b"", b"no database at all", b"SQLite format 3\0" + bytes(200)])
def test_a_database_that_cannot_be_read_orders_nothing(tmp_path: Path, damage: bytes) -> None:
    run(tmp_path)
    Store(tmp_path / "store").close()
    for path in (tmp_path / "store").glob("reprokit.db*"):
        path.unlink()
    (tmp_path / "store" / "reprokit.db").write_bytes(damage)
    tasks = [cast("Task", SimpleNamespace(file=SimpleNamespace(key="timed"), cell={}, variant="case"))] * 4
    assert KnownSeconds.of(tmp_path / "store", tasks)(tasks[0]) == float("inf")


def test_what_waits_is_cancelled_with_the_run() -> None:
    held, started = threading.Event(), threading.Event()
    futures: list[Future[None]] = []

    def block() -> None:
        started.set()
        held.wait(60)

    def release(_: Future[None]) -> None:
        if all(future.cancelled() for future in futures[1:]):
            held.set()

    def stop() -> None:
        with PriorityWorkers(1, "trial") as workers:
            futures.extend(workers.start(block, 0.0) for _ in range(3))
            assert started.wait(60)
            for future in futures[1:]:
                future.add_done_callback(release)
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        stop()
    assert [future.cancelled() for future in futures] == [False, True, True]


def test_an_error_is_the_future_s() -> None:
    empty: list[None] = []
    with PriorityWorkers(1, "trial") as workers:
        future = workers.start(empty.pop, 0.0)
    assert isinstance(future.exception(), IndexError)

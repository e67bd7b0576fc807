"""A store of a year: 365 nights of 500 cells, with the history and the changes that people ask of it."""

from __future__ import annotations

import contextlib
import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from reprokit.case.matrix import cell_key
from reprokit.cli.history_command import _line
from reprokit.report.history.series import gather
from reprokit.report.html.gathering import known_cases
from reprokit.report.html.overview import row
from reprokit.run.resuming import find_resumable
from reprokit.store import tables
from reprokit.store.database import Store
from reprokit.store.remote import folder_of
from tests.servers import postgres_programs, postgres_server

NIGHTS, CELLS = 365, 500
PACKAGES = 60
"""Of a measured environment: fewer than most images have, yet rows are far larger than what is asked of them."""


def queries(folder: Path, trials: int) -> Iterator[str]:
    """The medians of five, of each query on each database."""
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    nights = -(-trials // (3 * CELLS))
    with contextlib.ExitStack() as held:
        places = {"SQLite": folder / "sqlite"}
        if programs := postgres_programs():
            places["PostgreSQL"] = folder_of(held.enter_context(postgres_server(programs)).makes("bench"))
        for name, place in places.items():
            store = fill(place, nights=nights, packages=8)
            yield f"{name}: {nights} nights of {CELLS} cells, {3 * nights * CELLS} trials"
            with store.engine.begin() as connection:
                connection.exec_driver_sql("ANALYZE")  # which autovacuum would do meanwhile
            began = time.perf_counter()
            store._index.summarise(3600)
            yield f"  {'all summaries, after an upgrade':34} {time.perf_counter() - began:8.1f} s"
            asked: dict[str, Callable[[], object]] = {
                "the newest run": lambda store=store: store.run("last"),  # type: ignore[misc]
                "what was last seen of a case": lambda store=store: store.last_seen("case-1"),  # type: ignore[misc]
                "history of a case": lambda store=store: gather(store, ["case-1"]),  # type: ignore[misc]
                "changes, overview": lambda store=store: gather(store),  # type: ignore[misc]
                "list of 20 runs": lambda store=store: [_line(*one) for one in store.outlines(20)],  # type: ignore[misc]
                "rows of the overview page": lambda store=store: list(map(row, known_cases(store))),  # type: ignore[misc]
                "what can be resumed": lambda store=store: find_resumable(store, None),  # type: ignore[misc]
            }
            for what, ask in asked.items():
                ask()
                yield f"  {what:30} {statistics.median(_took(ask) for _ in range(5)) * 1000:8.0f} ms"
            store.close()


def _took(ask: Callable[[], object]) -> float:
    began = time.process_time()
    ask()
    return time.process_time() - began


def fill(folder: Path, nights: int = NIGHTS, cells: int = CELLS, packages: int = PACKAGES) -> Store:
    """A store with ten cases: one cell in twenty changes now and then, one in fifty is flaky, 1 % is inconclusive."""
    store = Store(folder)
    chance = random.Random(5)
    apt = {f"lib-{number}": "1.2.3-4" for number in range(packages)}
    environment = {"os": "debian-12", "packages": {"pip": {}, "apt": apt}}
    states = ["reproduced" if number % 3 else "not-reproduced" for number in range(cells)]
    start = datetime(2025, 1, 1, 2)
    with store.engine.begin() as connection:
        for night in range(nights):
            at = start + timedelta(days=night)
            run = f"{at:%Y%m%d-%H%M%S}-0000"
            connection.execute(
                insert(tables.runs).values(
                    id=run,
                    started_at=f"{at:%Y-%m-%dT%H:%M:%S}.000Z",
                    version="1",
                    owner={},
                    request={"cases": []},
                    host={"engine": "Docker Engine 20.10.24", "engine_kind": "docker"},
                )
            )
            rows: list[dict[str, Any]] = []
            for number in range(cells):
                if number % 20 == 0 and chance.random() < 0.02:
                    states[number] = {"reproduced": "not-reproduced"}.get(states[number], "reproduced")
                verdict = "flaky" if number % 50 == 1 and chance.random() < 0.4 else states[number]
                verdict = "build-failed" if chance.random() < 0.01 else verdict
                cell = {"os": "debian-12", "number": str(number)}
                rows.append(
                    {
                        "id": night * cells + number + 1,
                        "run_id": run,
                        "number": number + 1,
                        "case_id": f"case-{number % 10}",
                        "case_path": "case.yaml",
                        "case_digest": "sha256:" + 64 * "0",
                        "cell": cell,
                        "cell_key": cell_key(cell),
                        "variant": "case",
                        "verdict": verdict,
                        "expected": "reproduced",
                        "as_expected": verdict == "reproduced",
                        "environment": environment,
                        "dockerfile": "RUN something\n" * 30,
                        "details": {"base": {"id": "sha256:" + 64 * "1"}},
                    }
                )
                judged = {"exit_code": 1, "seconds": 0.1, "oom": False, "timed_out": False, "reason": "", "log": ""}
                shown = (1, 2, 3) if verdict == "reproduced" else (1,) if verdict == "flaky" else ()
                rows[-1]["trials"] = [
                    {"number": trial, "outcome": "reproduced" if trial in shown else "passed", **judged}
                    for trial in (1, 2, 3)
                ]
            connection.execute(insert(tables.cells), rows)
    return store

"""What is read from summaries is what the cells say, one by one: compared with the plain way on random stores."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from reprokit.case.matrix import cell_key
from reprokit.engine import registry
from reprokit.evidence.details import CellDetails
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import CellRecord, RequestRecord, RunRecord, SearchRecord
from reprokit.evidence.sequential import Trials, figures
from reprokit.report.history.series import gather
from reprokit.report.history.transitions import Counts, State, state_of, transitions
from reprokit.store import index, summaries, tables
from reprokit.store.database import Store
from tests.unit.nights import Nights


@pytest.fixture(autouse=True)
def _all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a slow machine."""
    monkeypatch.setattr(index, "SUMMARY_SECONDS", 600)


SEEDS = range(12)
ENGINES = ("Docker Engine 20.10.24", "Podman 4.3.1")


def random_store(folder: Path, seed: int) -> Store:
    """Nights with parts of the cells, engines in turn, searches, cells that were taken over, and undecided ones."""
    chance = random.Random(seed)
    nights = Nights(folder)
    names = [str(number) for number in range(chance.randint(1, 6))]
    now = {name: chance.choice("RN") for name in names}
    for _ in range(chance.randint(1, 25)):
        for name in names:
            if chance.random() < 0.15:
                now[name] = chance.choice("RRNNFO")
        chosen = names if chance.random() < 0.7 else chance.sample(names, chance.randint(1, len(names)))
        cells = {name: chance.choice("?RNF ") if chance.random() < 0.15 else now[name] for name in chosen}
        values: dict[str, Any] = {}
        if chance.random() < 0.1:
            values["reused_from"] = "run-0:1"
        search = chance.random() < 0.15
        request = RequestRecord(search=SearchRecord(kind="isolate", digest=chance.choice(["", "sha256:" + 64 * "0"])))
        run = nights.run(
            {name: state for name, state in cells.items() if state != " "} or {names[0]: "R"},
            engine=chance.choice(ENGINES) if seed % 2 else ENGINES[0],
            request=request if search else None,
            case_id=chance.choice(["nightly", "other"]),
            **values,
        )
        if chance.random() < 0.3:
            trouble(nights.store, nights.store.run(run.id), chance)
    return nights.store


def trouble(store: Store, run: RunRecord, chance: random.Random) -> None:
    """What else a store may hold: a verdict of a newer version, an undecided cell, the same cell again, the fix."""
    cell = chance.choice(run.cells)
    number = max(each.number for each in run.cells) + 1
    tested = CellDetails(trials=figures([Outcome.PASSED] * 29, Trials(max=30)))
    others = (
        replace(cell, verdict=chance.choice(list(Verdict)), trials=()),
        replace(cell, verdict=None, trials=()),
        replace(cell, number=number),
        replace(cell, number=number, variant="fix"),
        replace(cell, number=number, cell=dict(reversed(cell.cell.items()))),
        replace(cell, details=tested, verdict=chance.choice([Verdict.REPRODUCED, Verdict.NOT_REPRODUCED]), trials=()),
    )
    store.decide(run.id, chance.choice(others))


Key = tuple[str, str, str, str]


def plainly(store: Store) -> list[tuple[Any, ...]]:
    """The history out of whole records, each result compared with all before it."""
    runs = [store.run(bare.id) for bare in reversed(store.runs(limit=None))]
    grouped: dict[Key, list[tuple[RunRecord, CellRecord]]] = {}
    for run in runs:
        search = run.request.search
        for cell in sorted(run.cells, key=lambda one: one.number):
            if not cell.reused_from and (search is None or search.digest == cell.case_digest):
                key = cell.case_id, cell_key(cell.cell), cell.variant, run.engine or "docker"
                grouped.setdefault(key, []).append((run, cell))
    found = []
    for (case_id, _, variant, engine), records in sorted(grouped.items()):
        cells = [cell for _, cell in records]
        states = [state_of(cell.verdict) for cell in cells]
        tallies = [tally(cell) for cell in cells]
        moves = transitions(states, lambda at, cells=cells: decided(cells[at]), tallies.__getitem__)  # type: ignore[misc]
        standing = [one for one in moves if one.confirmed][-1:] or moves[:1]
        rate = None
        if standing:
            end = moves[-1].after if moves[-1].old and not moves[-1].confirmed else len(cells)
            some = range(standing[0].after, end)
            since = [one for at in some if states[at] and (one := tallies[at])]
            rate = sum(one.matched for one in since), sum(one.trials - one.others for one in since)
        results = [(run.id, cell.number, cell.verdict, cell.as_expected) for run, cell in records]
        rate = rate if rate and 0 < rate[0] < rate[1] else None
        order = case_id, not registry.is_reference(engine), engine, max(cell.number for cell in cells)
        found.append((order, list(cells[-1].cell.items()), variant, results, tuple(moves), rate))
    return sorted(found, key=lambda one: one[0])


def tally(cell: CellRecord) -> Counts | None:
    outcomes = [trial.outcome for trial in cell.trials]
    failed = outcomes.count(Outcome.REPRODUCED), outcomes.count(Outcome.DIFFERENT_FAILURE)
    return Counts(*failed, len(outcomes)) if outcomes else None


def decided(cell: CellRecord) -> bool:
    return cell.details.trials is not None and cell.details.trials.decided is not None


def by_summaries(store: Store) -> list[tuple[Any, ...]]:
    return [
        (
            (one.case_key, not registry.is_reference(one.engine), one.engine, one.results.last_number),
            list(one.cell.items()),
            one.variant,
            [(each.run_id, each.number, each.verdict, each.as_expected) for each in one.results],
            one.transitions,
            one.rate,
        )
        for one in gather(store).series
    ]


def count(store: Store, table: str) -> int:
    with store.engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(tables.metadata.tables[table])) or 0


@pytest.mark.parametrize("seed", [*SEEDS[:3], *(pytest.param(seed, marks=pytest.mark.system) for seed in SEEDS[3:])])
def test_the_history_is_that_of_all_records_one_by_one(tmp_path: Path, seed: int, monkeypatch: Any) -> None:
    monkeypatch.setattr(summaries, "PORTION", 2)
    store = random_store(tmp_path / "store", seed)
    expected = plainly(store)
    assert by_summaries(store) == expected
    again = Store(tmp_path / "store")
    assert count(again, "summarised") == len(again.runs(None))
    assert by_summaries(again) == expected
    for series in gather(again).series:  # what is found in the letters is what a look at each result finds
        shown = [one for one in series.results if state_of(one.verdict) is State.REPRODUCING]
        assert series.failing == ((shown[0], shown[-1]) if shown else None)
        sure = [one for one in series.results if one.verdict is not None and one.verdict.conclusive]
        assert series.newest(conclusive=True) == (sure[-1] if sure else None)
        runs = {one.run_id for one in series.results}
        assert [*series.results.select(sorted(runs))] == sorted(series.results, key=lambda one: one.run_id)


def test_what_changes_a_run_removes_its_summaries_and_the_next_command_makes_them_again(tmp_path: Path) -> None:
    nights = Nights(tmp_path / "store")
    first, second = nights.run({"1": "N", "2": "R"}), nights.run({"1": "N", "2": "R"})
    store = Store(tmp_path / "store")
    assert (count(store, "summarised"), count(store, "layouts")) == (2, 1)
    store.decide(second.id, replace(second.cells[0], verdict=Verdict.REPRODUCED))
    assert (count(store, "summarised"), count(store, "summaries")) == (1, 1)
    assert [one.results[1].verdict for one in gather(store).series] == [Verdict.REPRODUCED] * 2
    Store(tmp_path / "store").close()
    assert count(store, "summarised") == 2
    assert [one.results[1].verdict for one in gather(store).series] == [Verdict.REPRODUCED] * 2
    store.forget(first.id)
    assert (count(store, "summarised"), count(store, "summaries")) == (1, 1)


def test_summaries_are_made_in_portions_and_a_store_without_says_the_same(tmp_path: Path, monkeypatch: Any) -> None:
    nights = Nights(tmp_path / "store")
    for _ in range(3):
        run = nights.run({"1": "N", "2": "R"})
        with nights.store.engine.begin() as connection:
            summaries.drop(connection, run.id)
    monkeypatch.setattr(index, "SUMMARY_SECONDS", -1)
    for done in (1, 2, 3, 3):
        store = Store(tmp_path / "store")
        assert count(store, "summarised") == done
        assert [len(one.results) for one in gather(store).series] == [3, 3]

"""The store, on a real SQLite file."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from reprokit.core.errors import UsageError
from reprokit.environment.measured import Measured
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import (
    CellRecord,
    ImageRecord,
    RequestRecord,
    RunRecord,
    SearchRecord,
    TrialRecord,
    exit_status,
)
from reprokit.evidence.usage import Usage
from reprokit.store.database import Store
from reprokit.store.folder import Measurements, find_folder
from reprokit.store.journal import entries, path_of


def cell(number: int, **values: object) -> CellRecord:
    base = CellRecord(
        number=number, case_id="c", case_path="c.yaml", case_digest="sha256:1", cell={"cuda": str(number)}
    )
    return dataclasses.replace(base, **values)


def run(run_id: str, *cells: CellRecord) -> RunRecord:
    return RunRecord(
        id=run_id,
        started_at=f"2026-01-01T00:00:0{run_id[-1]}Z",
        version="0",
        cells=cells,
    )


TRIAL = TrialRecord(
    number=1,
    outcome=Outcome.REPRODUCED,
    exit_code=255,
    seconds=0.5,
    oom=False,
    timed_out=False,
    reason="r",
    log="runs/l.log",
    lines=(3,),
    usage=Usage(cpu_seconds=0.4, peak_memory=5, iterations=((1, 2), (3, 4))),
)


def test_what_was_decided_is_read_back_whole_and_the_rest_is_undecided(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    store.put(run("run-1", cell(1), cell(2)), {"sha256:1": ("c", "t", "text")})
    decided = cell(
        1,
        verdict=Verdict.REPRODUCED,
        expected=Verdict.REPRODUCED,
        reason="so",
        image=ImageRecord(tag="t", id="i"),
        trials=(TRIAL,),
    )
    store.decide("run-1", decided)
    store.decide("run-1", decided)  # a repeat replaces, it does not double
    lines = len(list(entries(path_of(store.folder, "run-1"))))
    store.decide("run-1", decided, cell(2), texts={"sha256:1": ("c", "t", "text")})
    assert len(list(entries(path_of(store.folder, "run-1")))) == lines + 3  # one of them the text
    again = Store(tmp_path / "s").run("last")
    assert again.cells == (decided, cell(2))
    assert store.case_text("sha256:1") == "text"
    places = [("run-1", 2), ("run-1", 1)]
    assert store.records(places) == {("run-1", 1): decided, ("run-1", 2): cell(2)}


def test_cells_are_read_without_what_is_large_and_what_they_have_in_common_once(tmp_path: Path) -> None:
    store = Store(tmp_path)
    environment = Measured(python="3.11.2", packages={"pip": {"six": "1.16.0"}, "apt": {}})
    more = {"environment": environment, "dockerfile": "FROM x", "repeat": "docker run x", "trials": (TRIAL,)}
    other = dataclasses.replace(environment, python="3.12.1")
    whole = [cell(1, **more), cell(2, **more), cell(3, **{**more, "environment": other})]
    store.put(run("run-1", *whole), {})
    places = [("run-1", number) for number in (1, 2, 3)]
    assert list(store.records(places).values()) == whole
    lean = list(store.records(places, lean=True).values())
    assert lean == [dataclasses.replace(one, dockerfile="", repeat="", trials=()) for one in whole]
    assert lean[0].environment is lean[1].environment
    assert lean[0].environment is not None


def test_what_was_last_seen_of_a_case_is_its_newest_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert store.last_seen("c") is None
    store.put(run("run-1", cell(1), cell(2)), {})
    store.put(run("run-2", cell(1), cell(2, case_id="other")), {})
    store.put(dataclasses.replace(run("run-3", cell(1)), request=RequestRecord(search=SearchRecord(kind="reduce"))), {})
    seen = store.last_seen("c")
    assert seen is not None
    assert (seen[0].id, [one.number for one in seen[1]]) == ("run-2", [1])


def test_what_the_cells_of_runs_came_to_is_read_without_the_cells(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    store.put(
        run("run-1", cell(1, verdict=Verdict.REPRODUCED, expected=Verdict.REPRODUCED), cell(2, case_digest="sha256:2")),
        {},
    )
    taken = cell(1, verdict=Verdict.FLAKY, expected=Verdict.NOT_REPRODUCED, reused_from="run-1:1")
    store.put(run("run-2", taken, cell(2, case_id="d", verdict=Verdict.BUILD_FAILED)), {})
    assert [(one.id, outline) for one, outline in store.outlines(10)] == [
        (one.id, [(c.case_id, c.verdict, c.expected, c.as_expected, c.reused_from) for c in store.run(one.id).cells])
        for one in store.runs()
    ]
    assert [one.id for one, _ in store.outlines(1)] == ["run-2"]
    both = ["run-1", "run-2", "run-3"]
    assert store.verdicts(both) == {"run-1": {Verdict.REPRODUCED, None}, "run-2": {Verdict.BUILD_FAILED}}
    assert store.verdicts(both, case_key="c") == {"run-1": {Verdict.REPRODUCED, None}}
    assert store.verdicts(both, digest="sha256:2") == {"run-1": {None}}


def test_a_run_is_found_by_a_unique_beginning(tmp_path: Path) -> None:
    store = Store(tmp_path / "s")
    for name in ("run-1", "run-2"):
        store.put(run(name), {})
    assert store.run("run-2").id == store.run("last").id == "run-2"
    with pytest.raises(UsageError, match="several"):
        store.run("run")
    with pytest.raises(UsageError, match="holds no run 'x'"):
        store.run("x")


def test_measurements_are_kept_per_image_and_probe(tmp_path: Path) -> None:
    Measurements(tmp_path).keep("sha256:a", "1", Measured(python="3.11.2"))
    assert Measurements(tmp_path).get("sha256:a", "1") == Measured(python="3.11.2")
    assert Measurements(tmp_path).get("sha256:a", "2") is None


@pytest.mark.parametrize(
    ("verdicts", "status"),
    [
        ([(Verdict.REPRODUCED, Verdict.REPRODUCED), (Verdict.NOT_REPRODUCED, None)], 0),
        ([(Verdict.REPRODUCED, Verdict.NOT_REPRODUCED), (Verdict.UNSUPPORTED, Verdict.REPRODUCED)], 1),
        ([(Verdict.FLAKY, Verdict.REPRODUCED)], 1),
        ([(Verdict.REPRODUCED, Verdict.REPRODUCED), (Verdict.BUILD_FAILED, Verdict.REPRODUCED)], 3),
        ([(None, None)], 3),
    ],
)
def test_exit_status(verdicts: list[tuple[Verdict | None, Verdict | None]], status: int) -> None:
    assert exit_status([cell(i, verdict=v, expected=e) for i, (v, e) in enumerate(verdicts)]) == status


def test_the_folder_is_found_upwards(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / ".reprokit").mkdir()
    assert find_folder(tmp_path / "a" / "b") == tmp_path / "a" / ".reprokit"

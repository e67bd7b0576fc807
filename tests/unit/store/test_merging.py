"""Stores of jobs merged into one: each cell once, nothing lost without a word, and the same when done again."""

from __future__ import annotations

import dataclasses
import json
import shutil
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.cli import invoke
from reprokit.core.ownership import HOST
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.origin import HostRecord, OwnerRecord, WorkflowRecord
from reprokit.evidence.records import CellRecord, RequestRecord, RunRecord, TrialRecord
from reprokit.report import differences
from reprokit.report.formats import Scrubber
from reprokit.run.invocation import workflow
from reprokit.store.database import Store
from reprokit.store.joining import Night, join, key_of, nights
from reprokit.store.journal import line_of
from reprokit.store.merging import MergeResult, find, merge, read
from tests.documents import as_published

NOW = "2026-01-09T00:00:00.000Z"
DIGEST = "sha256:" + 64 * "a"
TEXT = """\
schema: reprokit/v1
id: made-up
title: Four numbers
matrix: {os: [debian-12], n: ["4", "3", "2", "1"]}
command: "true"
expect: {failure: {exit_code: 1}, reproduces: [{n: "1"}]}
"""


def cell(
    number: int, n: str, verdict: Verdict | None = Verdict.NOT_REPRODUCED, run: str = "r", **values: Any
) -> CellRecord:
    trials = ()
    if verdict in (Verdict.REPRODUCED, Verdict.NOT_REPRODUCED):
        outcome = Outcome.REPRODUCED if verdict is Verdict.REPRODUCED else Outcome.PASSED
        log = f"runs/{run}/{number:03d}-made-up-case/trial-1.log"
        trials = (
            TrialRecord(
                number=1, outcome=outcome, exit_code=0, seconds=0.1, oom=False, timed_out=False, reason="so", log=log
            ),
        )
    given = {
        "expected": Verdict.REPRODUCED if n == "1" else Verdict.NOT_REPRODUCED,
        "reason": "as made up",
        "rules": "1",
    }
    return CellRecord(
        number=number,
        case_id="made-up",
        case_path="cases/made_up.yaml",
        case_digest=DIGEST,
        cell={"os": "debian-12", "n": n},
        verdict=verdict,
        trials=trials,
        **{**given, **values},
    )


def run(
    cells: Mapping[str, Verdict | None],
    *,
    run_id: str = "20260101-020000-aaaa",
    workflow: str = "77",
    attempt: str = "1",
    second: int = 0,
    engine: str | None = "Docker Engine 28.0",
    kernel: str = "6.1",
    finished: bool = True,
) -> RunRecord:
    at = f"2026-01-01T02:00:{second:02d}.000Z"
    workflow_record = WorkflowRecord(repository="o/r", run=workflow, attempt=attempt) if workflow else None
    return RunRecord(
        id=run_id,
        started_at=at,
        version="1",
        request=RequestRecord(asked={"cases": ["cases/made_up.yaml"], "engine": "auto"}, workflow=workflow_record),
        host=HostRecord(engine=engine, engine_kind=engine.split()[0].lower() if engine else None, kernel=kernel),
        owner=OwnerRecord(labels={"host": run_id, "pid": str(second)}),
        finished_at=at if finished else None,
        exit_status=0 if finished else None,
        cells=tuple(cell(number, n, verdict, run_id) for number, (n, verdict) in enumerate(cells.items(), 1)),
    )


def owned(one: RunRecord, label: str, value: str) -> RunRecord:
    """The run as another process wrote it."""
    return dataclasses.replace(one, owner=OwnerRecord(labels={label: value}))


def artifact(folder: Path, *runs: RunRecord) -> Path:
    """The store of a job as its artifact holds it, with a log for each trial."""
    store = Store(folder / ".reprokit", f"sqlite:///{_made(folder)}")
    for one in runs:
        store.put(one, {DIGEST: ("made-up", "Four numbers", TEXT)})
        for each in one.cells:
            for trial in each.trials:
                log = folder / ".reprokit" / trial.log
                log.parent.mkdir(parents=True, exist_ok=True)
                log.write_text(f"log of {one.id} {each.cell['n']}\n")
    store.close()
    return folder


def _made(folder: Path) -> Path:
    (folder / ".reprokit").mkdir(parents=True)
    return folder / ".reprokit" / "reprokit.db"


def merged(target: Path, *folders: Path) -> tuple[MergeResult, Store]:
    store = Store(target, f"sqlite:///{target / 'reprokit.db'}")
    return merge((read(*one) for one in find(folders)), store, None, NOW), store


R, N = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED


def test_jobs_of_one_workflow_run_become_one_run(tmp_path: Path) -> None:
    artifact(tmp_path / "in" / "job-b", run({"2": N, "4": N}, run_id="20260101-020005-bbbb", second=5, kernel="6.8"))
    artifact(tmp_path / "in" / "job-a", run({"1": R, "3": N}))
    done, store = merged(tmp_path / "out", tmp_path / "in")
    [night] = store.runs()
    whole = store.run("last")
    assert [one.cell["n"] for one in whole.cells] == ["4", "3", "2", "1"]  # as the matrix has them
    assert [one.number for one in whole.cells] == [1, 2, 3, 4]
    assert (whole.started_at, whole.finished_at, whole.exit_status) == (
        "2026-01-01T02:00:00.000Z",
        "2026-01-01T02:00:05.000Z",
        0,
    )
    assert whole.host == HostRecord(engine="Docker Engine 28.0", engine_kind="docker")
    assert [one.details.job and one.details.job.host.kernel for one in whole.cells] == ["6.8", "6.1", "6.8", "6.1"]
    assert all((store.folder / trial.log).is_file() for one in whole.cells for trial in one.trials)
    assert "20260101-020005-bbbb 4" in (store.folder / whole.cells[0].trials[0].log).read_text()
    assert (done.changed, done.problems, night.id) == (1, [], whole.id)
    again, store = merged(tmp_path / "out", tmp_path / "in")
    assert (again.changed, store.run("last"), len(store.runs())) == (0, whole, 1)


def test_each_cell_is_shown_with_the_host_of_its_job(tmp_path: Path) -> None:
    artifact(tmp_path / "in" / "a", run({"1": R}, kernel="6.1"))
    artifact(tmp_path / "in" / "b", run({"2": N}, run_id="20260101-020005-bbbb", second=5, kernel="6.8"))
    _, store = merged(tmp_path / "out", tmp_path / "in")
    whole = store.run("last")
    sides = [differences.read_cell("x", whole, one, {}) for one in whole.cells]
    assert [side.facts["kernel"]["release"] for side in sides] == ["6.8", "6.1"]


def test_the_names_of_the_jobs_hosts_are_known_to_who_publishes_the_night(tmp_path: Path) -> None:
    jobs = [
        dataclasses.replace(
            run({n: N}, run_id=f"20260101-02000{n}-aaaa"), owner=OwnerRecord(labels={HOST: f"gpu-box-{n}/boot/pid"})
        )
        for n in "12"
    ]
    _, store = merged(tmp_path / "out", artifact(tmp_path / "a", jobs[0]), artifact(tmp_path / "b", jobs[1]))
    _, again = merged(tmp_path / "again", tmp_path / "out")  # as the history of nights before is
    for one in (store, again):
        assert Scrubber(one.runs(limit=None))("from gpu-box-1 to gpu-box-2:8080") == "from <host> to <host>:8080"


def test_a_run_knows_which_workflow_it_is_a_job_of() -> None:
    names = {"GITHUB_ACTIONS": "true", "GITHUB_RUN_ID": "77", "GITHUB_RUN_ATTEMPT": "2", "GITHUB_REPOSITORY": "o/r"}
    assert workflow(names) == WorkflowRecord(run="77", attempt="2", repository="o/r")
    assert workflow({**names, "GITHUB_ACTIONS": ""}) is workflow({}) is None


def test_jobs_that_come_later_are_added_to_the_same_run(tmp_path: Path) -> None:
    late = artifact(tmp_path / "late", run({"2": N}, run_id="20260101-015900-bbbb", second=0))
    early = artifact(tmp_path / "early", run({"1": R}, second=9))
    _, store = merged(tmp_path / "one", early)
    first = store.run("last").id
    _, store = merged(tmp_path / "one", late)
    both = store.run("last")
    assert ([one.cell["n"] for one in both.cells], both.id, len(store.runs())) == (["2", "1"], first, 1)
    _, other = merged(tmp_path / "two", early, late)
    assert [one.verdict for one in other.run("last").cells] == [one.verdict for one in both.cells]
    assert len(both.request.merged or ()) == 2


def test_a_job_that_was_run_again_counts_as_it_was_decided_last(tmp_path: Path) -> None:
    artifact(tmp_path / "in" / "1", run({"1": R, "2": N, "3": Verdict.ENGINE_ERROR}))
    artifact(
        tmp_path / "in" / "2",
        run({"1": N, "2": None, "3": N}, run_id="20260101-020009-bbbb", attempt="2", second=9, finished=False),
    )
    _, store = merged(tmp_path / "out", tmp_path / "in")
    assert {one.cell["n"]: one.verdict for one in store.run("last").cells} == {"1": N, "2": N, "3": N}
    assert store.run("last").exit_status == 1  # n=1 was expected to reproduce


def test_a_shard_that_ran_twice_or_comes_late_changes_nothing(tmp_path: Path) -> None:
    older = artifact(tmp_path / "older", run({"1": N, "2": R}, run_id="20260101-020000-aaaa"))
    newer = artifact(
        tmp_path / "newer", run({"1": R, "2": N}, run_id="20260101-020009-bbbb", attempt="2", second=9, kernel="6.8")
    )
    rest = artifact(
        tmp_path / "rest", run({"3": N}, run_id="20260101-020001-cccc", second=1, engine="Docker Engine 27")
    )
    out = tmp_path / "out"
    merged(out, newer, rest)
    _, store = merged(out, newer)
    before = store.run("last")
    assert {one.cell["n"]: one.verdict for one in before.cells} == {"1": R, "2": N, "3": N}
    logs = {path: path.read_bytes() for path in (out / "runs").rglob("*.log")}
    for late in ((older,), (rest, older), (newer, older, newer)):
        _, store = merged(out, *late)
        whole = store.run("last")
        assert (whole.id, whole.cells, whole.exit_status) == (before.id, before.cells, before.exit_status)
        assert len(store.runs()) == 1
    assert {path: path.read_bytes() for path in (out / "runs").rglob("*.log")} == logs
    done, store = merged(out, rest)
    assert (done.changed, store.run("last").host) == (0, whole.host)  # the same artifact once more is not a second host


def test_a_repeated_shard_that_could_not_decide_a_cell_does_not_take_its_verdict_away(tmp_path: Path) -> None:
    artifact(tmp_path / "in" / "1", run({"1": R, "2": Verdict.UNSUPPORTED}))
    again = {"1": Verdict.ENGINE_ERROR, "2": Verdict.ENGINE_ERROR}
    artifact(tmp_path / "in" / "2", run(again, run_id="20260101-020009-bbbb", attempt="2", second=9))
    _, store = merged(tmp_path / "out", tmp_path / "in")
    assert {one.cell["n"]: one.verdict for one in store.run("last").cells} == {"1": R, "2": Verdict.ENGINE_ERROR}


def test_what_was_not_decided_is_cancelled_and_never_left_out(tmp_path: Path) -> None:
    artifact(tmp_path / "in" / "a", run({"1": R, "2": None}, finished=False))
    _, store = merged(tmp_path / "out", tmp_path / "in")
    whole = store.run("last")
    assert [(one.cell["n"], one.verdict) for one in whole.cells] == [("2", Verdict.CANCELLED), ("1", R)]
    assert whole.exit_status == 3
    assert whole.finished_at
    assert "stopped before it was decided" in whole.cells[0].reason


def test_jobs_that_began_in_the_same_second_with_the_same_id_are_two(tmp_path: Path) -> None:
    artifact(tmp_path / "in" / "a", run({"1": R}))
    artifact(tmp_path / "in" / "b", owned(run({"2": N}), "host", "another"))
    done, store = merged(tmp_path / "out", tmp_path / "in")
    whole = store.run("last")
    assert [one.cell["n"] for one in whole.cells] == ["2", "1"]
    assert len(whole.request.merged or ()) == 2
    assert len({trial.log for one in whole.cells for trial in one.trials}) == 2
    assert not done.problems


def test_runs_by_hand_are_taken_over_one_by_one(tmp_path: Path) -> None:
    mine = artifact(tmp_path / "mine", run({"1": R}, workflow=""))
    theirs = artifact(
        tmp_path / "theirs",
        owned(run({"1": N}, workflow=""), "host", "another"),
    )
    done, store = merged(tmp_path / "out", mine, theirs)
    assert sorted(one.id for one in store.runs()) == sorted(done.imported)
    assert "20260101-020000-aaaa" in done.imported
    assert len(done.imported) == 2
    texts = {(store.folder / store.run(one.id).cells[0].trials[0].log).is_file() for one in store.runs()}
    assert texts == {True}
    again, store = merged(tmp_path / "out", mine, theirs)
    assert (again.changed, again.imported, len(store.runs())) == (0, done.imported, 2)


def test_kinds_of_engine_are_not_mixed() -> None:
    jobs = [
        run({"1": R}, run_id="a", engine="Docker Engine 28"),
        run({"2": R}, run_id="b", engine="venv (uv)"),
        run({"3": R}, run_id="c", engine="Docker Engine 27"),
        run({"4": R}, run_id="d", engine=None),
    ]
    found, alone = nights(jobs)
    assert {night.kind: [one.id for one in night.runs] for night in found} == {"docker": ["a", "c", "d"], "venv": ["b"]}
    assert not alone


@pytest.mark.parametrize("harm", ["cut", "noise", "empty", "none", "words"])
def test_a_store_that_cannot_be_read_is_named_and_the_others_are_merged(
    harm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    artifact(tmp_path / "in" / "job-good", run({"1": R}))
    bad = artifact(tmp_path / "in" / "job-bad", run({"2": N, "3": N}, run_id="20260101-020005-bbbb")) / ".reprokit"
    [journal] = bad.glob("runs/*/journal.jsonl")
    if harm == "cut":
        journal.write_bytes(journal.read_bytes()[: journal.stat().st_size // 2])
    elif harm == "noise":
        journal.write_bytes(bytes(range(256)) * 100)
    elif harm == "empty":
        journal.write_bytes(b"")
    elif harm == "none":
        shutil.rmtree(bad)
    else:
        data = run({"2": N}, run_id=journal.parent.name).to_json()
        data["cells"][0]["details"] = 5
        journal.write_bytes(line_of("put", run=data))
    before = {path: path.read_bytes() for path in bad.rglob("*") if path.is_file()}
    places = [str(tmp_path / "in"), "--store", str(tmp_path / "out")]
    given = ["store", "merge", *places, "--json", str(tmp_path / "r.json")]
    assert invoke(given) == 3
    out = capsys.readouterr().out
    assert "skipped: job-bad " in out
    assert "reprokit-merge-" not in out
    result = as_published("result", json.loads((tmp_path / "r.json").read_text()))
    assert [one["cell"]["n"] for case in result["cases"] for one in case["cells"]] == ["1"]
    assert {path: path.read_bytes() for path in bad.rglob("*") if path.is_file()} == before


def test_the_database_of_an_artifact_is_not_read(tmp_path: Path) -> None:
    job = artifact(tmp_path / "in" / "job", run({"1": R}, attempt="\u00b2"))
    with sqlite3.connect(job / ".reprokit" / "reprokit.db") as connection:
        connection.execute("UPDATE cells SET reason = 'from the database'")
    connection.close()
    done, store = merged(tmp_path / "out", tmp_path / "in")
    assert done.problems == []
    assert store.run("last").cells[0].reason != "from the database"
    (job / ".reprokit" / "reprokit.db").rename(tmp_path / "database")  # that of a killed job may not exist
    assert merged(tmp_path / "again", tmp_path / "in")[1].run("last") == store.run("last")
    (tmp_path / "database").rename(job / ".reprokit" / "reprokit.db")
    shutil.rmtree(job / ".reprokit" / "runs")
    done, _ = merged(tmp_path / "none", tmp_path / "in")
    assert "its database is not read, and it has no journals" in done.problems[0]


def test_old_runs_are_forgotten_with_their_logs(tmp_path: Path) -> None:
    for night in range(3):
        one = run({"1": R, "2": N}, workflow=str(night), run_id=f"20260101-02000{night}-aaaa", second=night)
        artifact(tmp_path / "in" / str(night), one)
    line = ["store", "merge", str(tmp_path / "in"), "--store", str(tmp_path / "out"), "--keep", "2"]
    assert invoke(line) == 0
    assert not (tmp_path / "out" / "reprokit.db-wal").exists()  # a copy of the folder needs no more than its files
    store = Store(tmp_path / "out")
    kept = [one.id for one in store.runs()]
    assert [one[:15] for one in kept] == ["20260101-020002", "20260101-020001"]
    assert sorted(path.name for path in (tmp_path / "out" / "runs").iterdir()) == sorted(kept)
    assert sum(len(cells) for _, cells in store.outlines(None)) == 4


def test_what_is_not_a_folder_or_the_store_itself_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["store", "merge", str(tmp_path / "nowhere"), "--store", str(tmp_path / "out")]) == 2
    job = artifact(tmp_path / "job", run({"1": R}))
    assert invoke(["store", "merge", str(job), "--store", str(job / ".reprokit")]) == 2
    assert "is the store that is merged into" in capsys.readouterr().err


def test_stores_are_found_below_a_folder_of_artifacts_and_by_themselves(tmp_path: Path) -> None:
    artifact(tmp_path / "in" / "job-a", run({"1": R}))
    (tmp_path / "in" / "job-b").mkdir()
    assert [name for name, _ in find([tmp_path / "in"])] == ["job-a", "job-b"]
    assert [folder.name for _, folder in find([tmp_path / "in" / "job-a" / ".reprokit"])] == [".reprokit"]
    assert [folder.name for _, folder in find([tmp_path / "in" / "job-a"])] == [".reprokit"]


def planned_matrix(tmp_path: Path) -> Path:
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "made_up.yaml").write_text(TEXT)
    import hashlib

    digest = "sha256:" + hashlib.sha256(TEXT.encode()).hexdigest()
    table = {"path": "cases/made_up.yaml", "digest": digest, "axes": ["os", "n"]}
    include = [
        {"name": name, "runner": ["x"], "cases": [{**table, "cells": [["debian-12", n] for n in cells]}]}
        for name, cells in (("job-a", "12"), ("job-b", "34"))
    ]
    (tmp_path / "matrix.json").write_text(json.dumps({"include": include}))
    return tmp_path / "matrix.json"


def test_planned_cells_that_no_job_recorded_are_cancelled_until_one_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = planned_matrix(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, value in (("ACTIONS", "true"), ("RUN_ID", "77"), ("RUN_ATTEMPT", "1"), ("REPOSITORY", "o/r")):
        monkeypatch.setenv(f"GITHUB_{name}", value)
    (tmp_path / "none").mkdir()
    line = ["store", "merge", "--planned", str(matrix), "--store", str(tmp_path / "out")]
    assert invoke([*line, str(tmp_path / "none")]) == 3
    assert "lost: job-b: 2 cells that no job recorded" in capsys.readouterr().out
    store = Store(tmp_path / "out")
    assert [one.verdict for one in store.run("last").cells] == [Verdict.CANCELLED] * 4
    assert "the job job-b left no record" in store.run("last").cells[0].reason
    artifact(tmp_path / "in" / "job-a", run({"1": R, "2": N}))
    for _ in range(2):
        assert invoke([*line, str(tmp_path / "in")]) == 3
        assert "lost: job-b: 2 cells" in capsys.readouterr().out
        assert [one.verdict for one in store.run("last").cells] == [Verdict.CANCELLED] * 2 + [N, R]
    artifact(tmp_path / "in" / "job-b", run({"3": N, "4": N}, run_id="20260101-020005-bbbb"))
    assert invoke([*line, str(tmp_path / "in")]) == 0
    assert "lost" not in capsys.readouterr().out
    assert len(store.runs()) == 1
    assert [one.verdict for one in store.run("last").cells] == [N, N, N, R]


def test_planned_cells_of_a_case_that_was_edited_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    matrix = planned_matrix(tmp_path)
    (tmp_path / "cases" / "made_up.yaml").write_text(TEXT.replace("Four", "Five"))
    monkeypatch.chdir(tmp_path)
    artifact(tmp_path / "job", run({"1": R}))
    places = [str(tmp_path / "job"), "--store", str(tmp_path / "out")]
    assert invoke(["store", "merge", *places, "--planned", str(matrix)]) == 2
    assert "is not what the cells were chosen from" in capsys.readouterr().err


verdicts = st.sampled_from([None, R, N, Verdict.CANCELLED, Verdict.ENGINE_ERROR, Verdict.BUILD_FAILED])


@given(
    st.lists(st.tuples(st.dictionaries(st.sampled_from("1234"), verdicts), st.integers(1, 3)), min_size=1, max_size=5)
)
def test_each_cell_is_there_once_and_a_decided_one_is_not_lost(
    jobs: list[tuple[dict[str, Verdict | None], int]],
) -> None:
    runs = tuple(
        run(cells, run_id=f"r{number}", attempt=str(attempt), second=number)
        for number, (cells, attempt) in enumerate(jobs)
    )
    night = Night(workflow=WorkflowRecord(repository="o/r", run="77"), kind="docker", runs=runs)
    whole, origins = join(night, "x", text=lambda digest: TEXT)
    keys = [key_of(one) for one in whole.cells]
    assert sorted(keys) == sorted({key_of(one) for each in runs for one in each.cells})
    assert set(origins) == set(keys)
    for one in whole.cells:
        verdicts = {other.verdict for each in runs for other in each.cells if key_of(other) == key_of(one)}
        assert one.verdict is not None
        assert (one.verdict is Verdict.CANCELLED) <= (verdicts <= {None, Verdict.CANCELLED})
    again, _ = join(dataclasses.replace(night, runs=(whole, *runs)), "x", text=lambda digest: TEXT)
    assert again == whole


@given(st.permutations(range(5)), st.lists(st.dictionaries(st.sampled_from("1234"), verdicts), min_size=5, max_size=5))
def test_the_order_in_which_shards_come_decides_no_verdict(
    order: list[int], jobs: list[dict[str, Verdict | None]]
) -> None:
    runs = [
        run(cells, run_id=f"r{number}", attempt=str(1 + number % 2), second=number, engine=f"Docker {number % 2}")
        for number, cells in enumerate(jobs)
    ]
    night = Night(workflow=WorkflowRecord(repository="o/r", run="77"), kind="docker", runs=tuple(runs))
    at_once, _ = join(night, "x", text=lambda digest: TEXT)
    known: tuple[RunRecord, ...] = ()
    for number in [*order, *order[:3]]:  # three of them come twice
        whole, _ = join(dataclasses.replace(night, runs=(*known, runs[number])), "x", text=lambda digest: TEXT)
        known = (whole,)
    assert (whole.cells, whole.exit_status, whole.host) == (at_once.cells, at_once.exit_status, at_once.host)


def test_what_a_run_of_another_store_asks_for_is_not_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its text, folders and engine are its own word: no one here agreed to them."""
    record = RunRecord(
        id="run-1", started_at="2026-01-01T00:00:00Z", version="0", finished_at="2026-01-01T00:00:01Z", exit_status=130,
        request=RequestRecord(asked={"cases": ["https://evil.example/x.yaml"], "engine": "venv"}),
        owner=OwnerRecord(labels={"org.reprokit.host": "x", "org.reprokit.pid": "1"}),
    )  # fmt: skip
    theirs = Store(tmp_path / "theirs")
    theirs.put(record, {})
    theirs.close()
    for _ in range(2):  # doing it again changes nothing
        assert invoke(["store", "merge", str(tmp_path / "theirs"), "--store", str(tmp_path / "own")]) in (0, 3)
    assert [run.owner.imported for run in Store(tmp_path / "own").runs()] == [True]
    capsys.readouterr()
    assert invoke(["run", "--resume", "--store", str(tmp_path / "own")]) == 2
    assert "nothing to resume" in capsys.readouterr().err

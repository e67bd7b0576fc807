"""Cells over time, from a store: what is said of them, what changed around their transitions, and what is left out."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import event

from reprokit.cli import invoke
from reprokit.core.ownership import ownership
from reprokit.environment.measured import Measured
from reprokit.evidence.details import BaseRecord, CellDetails
from reprokit.evidence.model import Outcome
from reprokit.evidence.origin import OwnerRecord
from reprokit.evidence.records import RequestRecord, SearchRecord
from reprokit.evidence.sequential import Trials, figures
from reprokit.report.history.changes import CellChange, describe
from reprokit.report.history.series import gather
from reprokit.report.html import gathering
from reprokit.report.html.gathering import known_cases
from reprokit.report.html.overview import row
from reprokit.store import index
from reprokit.store.database import Store
from tests.documents import as_published
from tests.unit.nights import CASE, Nights

Said = Callable[..., str]


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    return Nights(tmp_path / "store")


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def said(*words: str, status: int = 0) -> str:
        assert invoke(list(words)) == status
        seen = capsys.readouterr()
        return seen.out + seen.err

    return said


def changes(nights: Nights) -> list[CellChange]:
    history = gather(nights.store)
    return describe(nights.store, history, [(one, each) for one in history.series for each in one.transitions])


def environment(**pip: str) -> Measured:
    return Measured(os="debian-12", packages={"pip": pip, "apt": {}})


def test_a_cell_is_reported_with_first_and_last_seen_a_strip_and_its_transitions(nights: Nights, said: Said) -> None:
    for state in "RR?RNN":
        nights.run({"1": "N", "2": state}, environment=environment(numpy="1.0" if state == "R" else "1.1"))
    shown = said("history", "nightly").splitlines()
    assert shown[:4] == [
        "nightly: 2 cells, 6 runs, 2026-01-01 to 2026-01-06",
        "in all: os=debian-12",
        "cell     first seen  last seen   6 runs  now",
        "numpy=1  never                   ......  never reproduced",
    ]
    assert shown[4] == "numpy=2  2026-01-01  2026-01-04  RR?R..  gone since 2026-01-05; not as expected"
    assert shown[7:] == [
        "2026-01-05  reproducing -> gone: numpy=2",
        "  30 of 30 trials failed before, 0 of 20 since: at one constant rate at most less than 0.01 % likely",
        "  run 20260104-020000-0004 -> 20260105-020000-0005, then 20260106-020000-0006",
        "    packages beneath the frameworks",
        "      numpy  - 1.0  + 1.1",
        "2026-01-01  new: 2 cells, 1 not reproducing, 1 reproducing (run 20260101-020000-0001)",
    ]


def test_only_and_limit_choose_cells_and_runs(nights: Nights, said: Said) -> None:
    for state in "RRNN":
        nights.run({"1": "N", "2": state})
    shown = said("history", "nightly", "--only", "numpy=2", "-n", "1")
    assert "nightly: 1 cell, 1 run, 2026-01-04\n" in shown
    assert "2 earlier transitions: -n 4 shows all" in shown
    assert "--only: no cell of nightly" in said("history", "nightly", "--only", "numpy=3", status=2)
    assert "did you mean 'nightly'" in said("history", "nightl", status=2)


def test_the_history_is_of_one_case(
    nights: Nights, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = CASE.replace("id: nightly", "id: other")
    nights.run({"2": "R"})
    nights.run({"2": "R"}, case=other, case_id="other")
    for name, case in (("nightly", CASE), ("other", other)):
        (tmp_path / f"{name}.yaml").write_text(case)
    assert "name one of nightly, other" in said("history", str(tmp_path), status=2)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nightly").mkdir()
    assert said("history", "nightly").startswith("nightly: 1 cell")
    assert said("history", str(tmp_path / "other.yaml")).startswith("other: 1 cell")


def test_a_run_that_began_while_the_store_is_read_is_left_out(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    nights.run({"2": "R"})
    before = nights.store.runs(None)
    nights.run({"2": "R"})
    monkeypatch.setattr(nights.store, "runs", lambda limit: before)
    [one] = gather(nights.store).series
    assert len(one.results) == 1


def test_json_has_every_result_and_what_changed(nights: Nights, said: Said) -> None:
    for state in "RRN":
        nights.run({"2": state}, kernel="6.1" if state == "R" else "6.2")
    data = as_published("history", json.loads(said("history", "nightly", "--json")))
    [cell] = data["cells"]
    assert data["format"] == "reprokit-history/v1"
    assert (cell["case"], cell["cell"], cell["engine"]) == ("nightly", {"os": "debian-12", "numpy": "2"}, "docker")
    assert cell["first_seen"]["at"] == "2026-01-01T02:00:00.000Z"
    assert cell["last_seen"]["run"] == "20260102-020000-0002"
    assert [one["verdict"] for one in cell["results"]] == ["reproduced", "reproduced", "not-reproduced"]
    once = cell["transitions"][-1]
    assert (once["from"], once["to"], once["confirmed"], once["seen"]) == ("reproducing", "not-reproducing", False, 1)
    assert (once["before"]["run"], once["after"]["number"]) == ("20260102-020000-0002", 1)
    assert once["changed"] == [{"concern": "kernel", "name": "release", "before": "6.1", "after": "6.2"}]


def test_what_changed_names_the_base_the_case_the_rules_and_the_trials(nights: Nights) -> None:
    nights.run({"2": "R"})
    edited = CASE.replace("ValueError", "KeyError").replace("go.py", "go.py --fast")
    nights.run({"2": "N"}, case=edited, details=CellDetails(base=BaseRecord(digest="sha256:" + 64 * "b")))
    [_, once] = changes(nights)
    found = {(one.concern, one.name): (one.before, one.after) for one in once.differences}
    assert found.pop(("operating system", "base image")) == ("sha256:aaaaaaaaaaaa", "sha256:bbbbbbbbbbbb")
    assert found.pop(("command", "command")) == ("python go.py", "python go.py --fast")
    assert list(found) == [("case", "text (command, expect)")]


def test_one_decided_result_counts(nights: Nights) -> None:
    nights.run({"2": "R"})
    nights.run({"2": "N"}, details=CellDetails(trials=figures([Outcome.PASSED] * 29, Trials(max=30))))
    [_, gone] = changes(nights)
    assert gone.transition.confirmed
    assert gone.settled == gone.after[0]


def test_a_flaky_cell_is_reported_with_its_rate_and_is_not_gone_while_that_may_be_chance(
    nights: Nights, said: Said
) -> None:
    for state in "FFFFFFFFN":
        nights.run({"2": state})
    assert "flaky since at least 2026-01-01, in 8 of 34 trials; not as expected" in said("history", "nightly")
    for state in "NN":
        nights.run({"2": state})
    shown = said("history", "nightly")
    assert "flaky since at least 2026-01-01, in 8 of 24 trials; perhaps gone since 2026-01-09 (3 times)" in shown
    assert "8 of 24 trials failed before, 0 of 30 since: at one constant rate at most 3.2 % likely" in shown
    for _ in range(4):
        nights.run({"2": "N"})
    assert "gone since 2026-01-09 at the earliest; not as expected" in said("history", "nightly")


def test_what_appears_in_some_trials_is_flaky_since_at_least_when_it_was_first_seen(nights: Nights, said: Said) -> None:
    for state in "NNNFNFN":
        nights.run({"2": state})
    shown = said("history", "nightly", "--since", "2026-01-01", "--exit-code")
    assert "nothing has changed, 1 new cell\n" in shown
    assert "flaky since at least 2026-01-04, in 2 of 56 trials" in said("history", "nightly")


def test_engines_are_kept_apart_and_a_run_without_any_is_the_usual_ones(nights: Nights) -> None:
    for engine, state in (("Docker Engine 1", "R"), ("venv", "N"), ("Docker Engine 1", "R"), ("venv", "N"), ("", "?")):
        nights.run({"2": state}, engine=engine)
    docker, venv = gather(nights.store).series
    assert (docker.engine, [one.verdict for one in docker.results if one.verdict][-1].value) == (
        "docker",
        "build-failed",
    )
    assert (venv.engine, len(venv.results)) == ("venv", 2)
    assert [len(one.transitions) for one in (docker, venv)] == [1, 1]


def test_a_run_without_any_engine_is_of_the_one_before_it(nights: Nights) -> None:
    for engine, state in (("podman 4.3", "R"), ("", "?"), ("venv", "N"), ("", "?")):
        nights.run({"2": state}, engine=engine)
    podman, venv = gather(nights.store).series
    assert (podman.engine, len(podman.results)) == ("podman", 3)
    assert (venv.engine, len(venv.results)) == ("venv", 1)


def test_cells_of_a_search_count_unless_it_rewrote_the_case(nights: Nights) -> None:
    first = nights.run({"2": "R"})
    own = RequestRecord(search=SearchRecord(kind="bisect", digest=first.cells[0].case_digest))
    nights.run({"2": "R"}, request=own)
    nights.run({"2": "N"}, request=own, case=CASE + "\n# other sources")
    [one] = gather(nights.store).series
    assert len(one.results) == 2


def test_history_takes_as_many_queries_for_many_nights_as_for_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "SUMMARY_SECONDS", 600)

    def queries(count: int) -> list[str]:
        nights = Nights(tmp_path / str(count))
        for night in range(count):
            nights.run({"1": "N", "2": "RRNN"[night % 4]})
        seen: list[str] = []
        store = Store(tmp_path / str(count))  # which makes the summaries
        event.listen(store.engine, "before_cursor_execute", lambda *call: seen.append(call[2]))
        gather(store, ["nightly"])
        return seen

    few, many = queries(8), queries(40)
    assert len(many) == len(few)
    assert not any("FROM cells" in one for one in many)


def test_a_run_is_forgotten_with_its_logs(nights: Nights, said: Said, tmp_path: Path) -> None:
    first, second = nights.run({"2": "R"}), nights.run({"2": "N"})
    logs = tmp_path / "store" / "runs" / second.id
    logs.mkdir(parents=True, exist_ok=True)
    assert "there is no terminal to ask at: give --yes" in said("history", "--forget", second.id, status=2)
    assert "holds no run 'nope'" in said("history", "--forget", "nope", "--yes", status=2)
    assert "leave out CASE" in said("history", "nightly", "--forget", second.id, "--yes", status=2)
    assert logs.is_dir()
    assert said("history", "--forget", second.id, "--yes") == f"run {second.id} removed\n"
    assert not logs.exists()
    assert [run.id for run in nights.store.runs()] == [first.id]
    assert "never" not in said("history", "nightly").splitlines()[3]


def test_a_run_in_progress_is_not_forgotten(nights: Nights, said: Said) -> None:
    run = nights.run({"2": "R"}, owner=OwnerRecord(labels=ownership()))
    nights.store.put(replace(nights.store.run(run.id), finished_at=None), {})
    assert f"run {run.id} is in progress" in said("history", "--forget", "last", "--yes", status=2)
    assert nights.store.run(run.id).cells


def test_the_overview_does_not_read_what_changed(nights: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    for state in "RRNN":
        nights.run({"1": "N", "2": state})
    with monkeypatch.context() as patched:
        patched.setattr(gathering, "describe", lambda *_: pytest.fail("read"))
        [known] = known_cases(nights.store)
        assert row(known).status == "departs"
    assert [one.transition.words for one in known.changes] == ["reproducing -> gone"]


def test_cells_that_the_matrix_does_not_have_count_only_where_it_has_none_of_them(nights: Nights, said: Said) -> None:
    nights.run({"1": "N", "2": "R", "9": "?"})
    known = next(known_cases(nights.store))
    assert [record.cell["numpy"] for _, record in known.current] == ["1", "2"]
    assert "predicted to reproduce" not in said("show", "--why", "nightly")
    nights.store.forget("last")
    for run in nights.store.runs():
        nights.store.forget(run.id)
    nights.run({"8": "N", "9": "R"})
    assert [record.cell["numpy"] for _, record in next(known_cases(nights.store)).current] == ["8", "9"]

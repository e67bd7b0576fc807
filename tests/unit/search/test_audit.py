"""``reprokit audit`` on a fake engine whose trials depend on what is planted: what each case is, and the sentence."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.cli import invoke
from reprokit.core.errors import BuildFailed
from reprokit.engine.protocol import Build, Trial
from reprokit.evidence.auditing import ConditionTrials, classify
from reprokit.evidence.model import Ending
from reprokit.search.audit_case import days
from tests.documents import as_published
from tests.unit.fakes import FakeEngine

CASE = """\
schema: reprokit/v1
id: planted
title: Planted
env: {FIXED: "", A: "1"}
resources: {network: bridge}
command: "true"
expect: {failure: {exit_code: 1}}
fix: {env: {FIXED: "1"}}
"""
Fails = Callable[[dict[str, Any]], bool]


class World:
    """An engine whose trials fail as ``fails`` says of what is seen in them: day, order, core, network, image."""

    def __init__(self, fails: Fails, breaks: bool = False) -> None:
        self.fails, self.breaks = fails, breaks
        self.fresh: set[str] = set()
        self.count: dict[bool, int] = {}
        self.lock = threading.Lock()
        self.engine = FakeEngine(self.run, self.make)

    def make(self, build: Build) -> None:
        if build.fresh:
            self.fresh.add(build.tag)
            if self.breaks:
                raise BuildFailed("the index has no such version", step="pip install", tail=())

    def run(self, trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        text = " ".join(trial.command)
        moment = re.search(r"FAKETIME=\$\(\((\d+)", text)
        seen = {
            "fixed": trial.env["FIXED"] == "1",
            "day": date.fromtimestamp(int(moment[1])) if moment else date.today(),
            "faked": bool(moment),
            "reversed": "perform_collect" in text,
            "one core": "taskset" in text,
            "network": trial.limits.network == "bridge",
            "fresh": trial.image.removeprefix("sha256:") in self.fresh,
        }
        with self.lock:
            number = self.count[seen["fixed"]] = self.count.get(seen["fixed"], 0) + 1
        for name in ("reversed", "one core"):
            if seen[name]:
                sink(f"reprokit audit: {name}\n".encode())
        if moment:
            sink(f"reprokit audit: {seen['day']}\n".encode())
        return Ending(exit_code=int(self.fails({**seen, "number": number})), seconds=0.1)


def audit(world: World, patch: pytest.MonkeyPatch, folder: Path, *words: str, case: str = CASE) -> dict[str, Any]:
    """The answer of one audit in that folder, in which the case was not run before."""
    patch.chdir(folder)
    patch.setenv("REPROKIT_STORE", str(folder / "store"))
    patch.setenv("REPROKIT_BASE_IMAGES", "registry")
    patch.setattr("reprokit.run.invocation._engine", lambda name: world.engine)
    (folder / "case.yaml").write_text(case)
    status = invoke(["audit", "case.yaml", "--json", "out.json", *words])
    found: dict[str, Any] = as_published("audit", json.loads((folder / "out.json").read_text()))["cases"][0]["answer"]
    assert status == {"sound": 0, "not decided": 3}.get(found["finding"], 1)
    return found


def bug(seen: dict[str, Any]) -> bool:
    return not seen["fixed"]


FAR = date(date.today().year + 1, 6, 1)
PLANTED: list[tuple[str, str, Fails]] = [
    ("sound", "another result in up to", bug),
    ("flaky test", "before the fix it fails in 10 of 14", lambda seen: bug(seen) and seen["number"] % 3 != 0),
    ("flaky test", "with the fix it passes in 7 of 14", lambda seen: bug(seen) or seen["number"] % 2 == 0),
    ("flaky test", "may be chance", lambda seen: bug(seen) or seen["number"] == 16),
    ("flaky test", "0 of 4 trials on one core", lambda seen: bug(seen) or seen["one core"]),
    ("order", "0 of 4 trials in reverse order", lambda seen: bug(seen) or seen["reversed"]),
    ("order", "before the fix it fails in 0 of 4", lambda seen: bug(seen) and not seen["reversed"]),
    ("time bomb", f"on {FAR.year}-12-31", lambda seen: bug(seen) or seen["day"] > FAR),
    ("time bomb", "with the fix it passes in 0 of 1", lambda seen: bug(seen) or seen["day"].year > FAR.year - 3),
    ("sound", "another result", lambda seen: bug(seen) or seen["faked"]),
    ("network", "without a network", lambda seen: bug(seen) or not seen["network"]),
    ("drift", "rebuilt from nothing", lambda seen: bug(seen) or seen["fresh"]),
    ("fix fails", "with the fix it passes in 0 of 14", lambda seen: True),
    ("never failed", "before the fix it fails in 0 of 14", lambda seen: False),
]


@pytest.mark.parametrize(("finding", "sentence", "fails"), PLANTED, ids=[f"{a}-{b[:20]}" for a, b, _ in PLANTED])
def test_what_is_planted_is_found_and_its_sentence_carries_its_bound(
    finding: str, sentence: str, fails: Fails, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = audit(World(fails), monkeypatch, tmp_path)
    assert found["finding"] == finding, found["words"]
    assert sentence in found["words"][0]
    assert re.search(r"\d+ % (at|of runs is not excluded at)|may be chance", found["words"][0])


def test_a_network_that_a_case_lacks_explains_that_its_fix_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = World(lambda seen: bug(seen) or not seen["network"])
    found = audit(world, monkeypatch, tmp_path, case=CASE.replace("bridge", "none"))
    assert found["finding"] == "network"
    assert "with a network" in found["words"][0]


def test_an_image_that_cannot_be_built_today_is_drift(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = audit(World(bug, breaks=True), monkeypatch, tmp_path)
    assert found["finding"] == "drift"
    assert "but rebuilt from nothing: build-failed" in found["words"][0]


def test_a_case_that_failed_in_its_last_run_and_does_not_now_has_drifted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = World(bug)
    audit(world, monkeypatch, tmp_path, "--without", "date")
    assert invoke(["run", "case.yaml", "--fix"]) == 0
    world.fails = lambda seen: False
    assert audit(world, monkeypatch, tmp_path, "--trials", "5")["finding"] == "drift"


def test_a_condition_that_does_not_hold_is_not_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(lambda seen: bug(seen) or seen["reversed"])
    world.engine.behave = lambda trial, sink: Ending(
        exit_code=int(trial.env["FIXED"] != "1" or "perform_collect" in " ".join(trial.command)), seconds=0.1
    )
    found = audit(world, monkeypatch, tmp_path)
    assert found["finding"] == "sound"
    assert "not tried in reverse order: no two tests of pytest or unittest are run" in found["words"][0]


def test_it_is_resumed_and_what_was_decided_is_not_run_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = World(bug)
    audit(world, monkeypatch, tmp_path)
    (tmp_path / "other.yaml").write_text(CASE.replace("planted", "other"))
    trials = len(world.engine.trials)
    hours = iter(range(0, 10**6, 3600))
    with monkeypatch.context() as patch:
        patch.setattr("reprokit.cli.audit_command.time", SimpleNamespace(monotonic=lambda: next(hours)))
        words = ["audit", "case.yaml", "other.yaml", "--time", "30m", "--resume", "--json", "out.json"]
        assert invoke(words) == 3
    done = as_published("audit", json.loads(Path("out.json").read_text()))
    assert list(done["left_out"]) == ["other.yaml"]
    assert [one["answer"]["finding"] for one in done["cases"]] == ["sound"]
    assert len(world.engine.trials) == trials
    raised = [KeyboardInterrupt]

    def stops(seen: dict[str, Any]) -> bool:
        if seen["reversed"] and raised:
            raise raised.pop()
        return bug(seen)

    world.fails = stops
    assert invoke(["audit", "other.yaml"]) in (130, 1, 3)
    assert invoke(["audit", "case.yaml", "other.yaml", "--resume"]) == 0
    assert len(world.engine.trials) < 2 * trials + 2
    assert "2 sound" in capsys.readouterr().out


def test_a_case_without_a_fix_a_wrong_one_and_one_that_is_compared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = audit(World(bug), monkeypatch, tmp_path, case=CASE[: CASE.index("fix:")])
    assert found["finding"] == "sound"
    assert {one["variant"] for one in found["trials"]} == {"case"}
    (tmp_path / "case.yaml").write_text(CASE + "matrix: {a: [x]}\n")
    (tmp_path / "none.yaml").write_text(
        CASE.replace("planted", "none").replace("code: 1}", "code: 1}, reproduces: none")
    )
    assert invoke(["audit", "none.yaml"]) == 2
    assert "in none of its selected cells is it expected to fail" in capsys.readouterr().err
    assert invoke(["audit", "case.yaml", "none.yaml"]) == 3
    assert "none.yaml: left out: " in capsys.readouterr().out
    assert invoke(["audit", "case.yaml", "--time", "soon"]) == 2
    assert "expected a duration" in capsys.readouterr().err


def test_nothing_is_installed_on_this_host_for_another_day(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    world = World(bug)
    found = audit(world, monkeypatch, tmp_path, "--engine", "venv", "--trials", "2")
    assert {one["kind"] for one in found["trials"]} == {"", "order", "core", "network", "rebuilt"}


def test_days_that_are_tried() -> None:
    coming, past = days(date(2026, 11, 29), "")
    assert [str(day) for day in coming] == ["2027-12-31", "2028-02-29", "2036-11-02"]
    assert [str(day) for day in past] == ["2024-11-01", "2018-11-01"]
    assert days(date(2028, 2, 29), "2019-05-04T00:00:00Z")[1] == [date(2019, 5, 4)]


def test_a_few_trials_that_depart_are_not_called_certain() -> None:
    def trials(kind: Any, kept: int, departed: int) -> ConditionTrials:
        return ConditionTrials(
            kind=kind, condition=kind, variant="case", cell=1, kept=kept, departed=departed, reason=""
        )

    assert classify([trials("", 14, 0), trials("order", 0, 2)], ())[0] == "flaky test"
    assert classify([trials("", 14, 0), trials("order", 0, 5)], ())[0] == "order"
    assert classify([trials("", 14, 0), trials("order", 3, 5)], ())[0] == "flaky test"

"""``reprokit store rejudge``: recorded cells judged again, from logs that a run has left."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reprokit.cli import invoke
from reprokit.cli.display.screen import Screen
from reprokit.engine.protocol import Trial
from reprokit.evidence import model
from reprokit.evidence.model import Ending, Outcome
from reprokit.report.history import rejudging
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.store.database import Store
from tests.documents import as_published
from tests.unit.fakes import FakeEngine

CASE = """\
schema: reprokit/v1
id: judged
title: Judged twice
matrix: {os: [debian-12], how: [value, key, fine]}
command: go {{ how }}
trials: 2
expect: {failure: {exception: ValueError}, reproduces: [{how: value}]}
"""
SAID = {"value": "ValueError: singular U", "key": "KeyError: 'x'"}
Said = Callable[..., str]


def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
    error = SAID.get(trial.command[-1].split()[-1])
    if error is None:
        return Ending(exit_code=0, seconds=0.1)
    sink(f'Traceback (most recent call last):\n  File "go.py", line 3, in f\n    g()\n{error}\n'.encode())
    return Ending(exit_code=1, seconds=0.1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    (tmp_path / "case.yaml").write_text(CASE)
    run(tmp_path)
    return tmp_path


def run(folder: Path) -> None:
    session = Session(folder / "store", display=Screen(io.StringIO()), engine=lambda: FakeEngine(behave))
    session.start(Request(cases=(str(folder / "case.yaml"),), base_images="registry"))


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def said(*words: str, status: int = 0) -> str:
        assert invoke(["store", "rejudge", *words]) == status
        seen = capsys.readouterr()
        return seen.out + seen.err

    return said


def verdicts(folder: Path) -> list[str]:
    return [str(cell.verdict) for cell in Store(folder / "store").run("last").cells]


def edited(folder: Path, before: str, after: str) -> str:
    path = folder / "edited.yaml"
    path.write_text(CASE.replace(before, after))
    return str(path)


def newer_rules(monkeypatch: pytest.MonkeyPatch, *, key_error_passes: bool = False) -> None:
    """Rules of version 9, under which a KeyError may not be a failure."""
    monkeypatch.setattr(rejudging, "RULES_VERSION", "9")
    real = rejudging.judge_trial

    def judged(expect: Any, number: int, ending: Ending, text: str, log: str) -> Any:
        if key_error_passes and "KeyError" in text:
            ending = Ending(exit_code=0)
        return real(expect, number, ending, text, log)

    monkeypatch.setattr(rejudging, "judge_trial", judged)


def test_the_same_rules_say_the_same_and_nothing_is_written(folder: Path, said: Said) -> None:
    before = Store(folder / "store").run("last")
    assert said() == "3 cells of 1 run judged again: none would change\n"
    assert said("--all", "--write") == "3 cells of 1 run judged again: none changed\n"
    assert Store(folder / "store").run("last") == before


def test_newer_rules_are_listed_first_and_recorded_when_asked_with_what_was_there(
    folder: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Store(folder / "store").run("last")
    newer_rules(monkeypatch, key_error_passes=True)
    shown = said(status=1)
    assert "  2 judged: os=debian-12 how=key: different-failure -> not-reproduced, as expected\n" in shown
    assert "trials 1, 2: different-failure -> passed: exit status 0\n" in shown
    assert "1 would change; --write records it" in shown
    assert Store(folder / "store").run("last") == old
    assert "1 changed\n" in said("--write")
    new = Store(folder / "store").run("last")
    assert verdicts(folder) == ["reproduced", "not-reproduced", "not-reproduced"]
    assert {cell.rules for cell in new.cells} == {"9"}
    [was] = new.cells[1].details.rejudged
    assert (was.before.verdict, was.before.rules) == ("different-failure", model.RULES_VERSION)
    assert [one.outcome for one in was.before.trials] == ["different-failure", "different-failure"]
    assert new.cells[1].details.trials is not None
    assert new.cells[1].details.trials.reproduced == 0
    assert new.cells[1].details.failure is None
    assert "none would change" in said()


def test_an_edited_signature_is_asked_what_it_would_have_said(folder: Path, said: Said) -> None:
    shown = said("--case", edited(folder, "exception: ValueError", "exception: KeyError"), status=1)
    assert "1 judged: os=debian-12 how=value: reproduced -> different-failure, expected reproduced\n" in shown
    assert "2 judged: os=debian-12 how=key: different-failure -> reproduced, expected not-reproduced\n" in shown
    assert "trials 1, 2: reproduced -> different-failure: exit status 1 with ValueError: singular U" in shown
    shown = said("last", "--case", str(folder / "edited.yaml"), "--json", status=1)
    data = as_published("rejudge", json.loads(shown))
    assert [one["after"]["verdict"] for one in data["changed"]] == ["different-failure", "reproduced"]
    assert (data["format"], data["judged"], data["written"]) == ("reprokit-rejudge/v1", 3, False)


def test_a_recorded_edit_stays_what_a_cell_is_judged_by(folder: Path, said: Said) -> None:
    said("--case", edited(folder, "exception: ValueError", "exception: KeyError"), "--write")
    assert verdicts(folder) == ["different-failure", "reproduced", "not-reproduced"]
    assert "none would change" in said("--all")
    said("--case", str(folder / "case.yaml"), "--write")
    assert verdicts(folder) == ["reproduced", "different-failure", "not-reproduced"]
    earlier = Store(folder / "store").run("last").cells[0].details.rejudged
    assert [one.before.verdict for one in earlier] == ["reproduced", "different-failure"]


def test_a_change_that_another_signature_made_is_reported_as_that(
    folder: Path, said: Said, capsys: pytest.CaptureFixture[str]
) -> None:
    said("--case", edited(folder, "exception: ValueError", "exception: KeyError"), "--write")
    run(folder)
    assert invoke(["history", "judged", "--only", "how=key"]) == 0
    shown = capsys.readouterr().out
    assert "reproducing -> other failure: os=debian-12 how=key" in shown
    assert "judged again by the signature of" in shown
    assert "nothing that is recorded changed" not in shown


def test_what_has_no_log_any_more_is_said_and_left_alone(folder: Path, said: Said) -> None:
    first, second, third = Store(folder / "store").run("last").cells
    (folder / "store" / first.trials[1].log).unlink()
    shown = said("--case", edited(folder, "exception: ValueError", "exception: KeyError"), "--write")
    assert (
        f"not judged, 1 cell of run {Store(folder / 'store').run('last').id}: its log is gone ({first.trials[1].log})"
        in shown
    )
    assert verdicts(folder)[0] == "reproduced"
    for cell in (second, third):
        (folder / "store" / cell.trials[0].log).unlink()
    assert "0 cells of 0 runs judged again" in said(status=3)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "its case is not kept: name one with --case (sha256:"),
        ("schema: reprokit/v0", "its case is not valid any more: "),
        (
            "schema: reprokit/v1\nid: a\ntitle: A\ncommand: a\nexpect: {failure: {output: /(?=a)b/}}\n",
            "looking ahead or behind is not available",
        ),
    ],
    ids=["lost", "old-format", "pattern-of-old-that-is-not-available"],
)
def test_a_case_that_is_no_longer_valid_is_said_and_another_may_be_named(
    folder: Path, said: Said, text: str, words: str
) -> None:
    store = Store(folder / "store")
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE cases SET text = ?", (text,))
    assert words in said(status=3)
    assert "none would change" in said("--case", str(folder / "case.yaml"))


def test_a_log_that_was_cut_for_another_signature_says_nothing_where_it_does_not_match(
    folder: Path, said: Said
) -> None:
    for cell in Store(folder / "store").run("last").cells[:2]:
        for trial in cell.trials:
            with (folder / "store" / trial.log).open("a") as log:
                log.write("[reprokit: 9999 bytes (99 lines) cut]\n")
    assert "none would change" in said()
    shown = said("--case", edited(folder, "exception: ValueError", "exception: KeyError"), status=1)
    assert "how=key: different-failure -> reproduced" in shown
    assert "was cut to its ends and what the signature of then asked for" in shown


def test_runs_and_cases_are_named_and_wrong_ones_refused(folder: Path, said: Said) -> None:
    run(folder)
    assert "3 cells of 1 run" in said("last")
    for target in ("judged", str(folder / "case.yaml")):
        assert "6 cells of 2 runs" in said(target)
    assert "give only one of them" in said("last", "--all", status=2)
    assert "holds no run 'nope'" in said("nope", status=2)
    other = edited(folder, "id: judged", "id: another")
    assert "no run of the case 'another'" in said("--case", other, status=2)


def test_cells_that_no_trial_decided_are_not_judged(folder: Path, said: Said) -> None:
    class Broken(FakeEngine):
        def run(self, trial: Trial, sink: Any, cancel: threading.Event, slot: Any = None) -> Ending:
            if "org.reprokit.probe" in trial.labels:
                return super().run(trial, sink, cancel, slot)
            raise RuntimeError("a defect")

    session = Session(folder / "store", display=Screen(io.StringIO()), engine=Broken)
    session.start(Request(cases=(str(folder / "case.yaml"),), base_images="registry"))
    assert "0 cells of 0 runs judged again" in said("last", status=3)


def test_outcomes_are_judged_from_how_each_trial_ended(folder: Path) -> None:
    assert model.RULES_VERSION  # what a record carries
    store = Store(folder / "store")
    record = store.run("last")
    timed_out = record.cells[0].trials[0]
    from dataclasses import replace

    from reprokit.environment.cases import recorded_case

    stopped = replace(record.cells[0], trials=(replace(timed_out, timed_out=True, exit_code=137, log="runs/none.log"),))
    (folder / "store" / "runs" / "none.log").write_text("")
    again = rejudging.rejudge(
        record, stopped, lambda digest: recorded_case(store.case_text(digest)), store.folder, "2026-01-01T00:00:00.000Z"
    )
    assert again is not None
    assert again.after.trials[0].outcome is Outcome.TIMED_OUT

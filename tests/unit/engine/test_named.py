"""Verdicts of different engines are distinguished wherever verdicts are shown."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from reprokit.case.facts import facts
from reprokit.cli import invoke
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import UsageError
from reprokit.engine.protocol import EngineInfo
from reprokit.evidence.model import Verdict
from reprokit.evidence.origin import HostRecord
from reprokit.report.catalogue import Verdicts, merge_verdicts
from reprokit.report.formats.json import result
from reprokit.run.loading import load_all
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.store.database import Store
from tests.stored import finish
from tests.unit.fakes import FakeEngine

CASE = """\
schema: reprokit/v1
id: two-cells
title: Two cells
matrix: {os: [debian-12], how: [a, b]}
command: run {{ how }}
expect: {failure: {exit_code: 1}, reproduces: none}
"""


class Named(FakeEngine):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def info(self) -> EngineInfo:
        return EngineInfo(kind=self.name.split()[0].lower(), name=self.name, version="1.2")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    (tmp_path / "case.yaml").write_text(CASE)
    return tmp_path


def run(folder: Path, engine: str) -> Session:
    session = Session(folder / "store", display=Screen(io.StringIO()), engine=lambda: Named(engine))
    session.start(Request(cases=(str(folder / "case.yaml"),), base_images="registry"))
    return session


Said = Callable[..., str]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def said(*words: str) -> str:
        assert invoke(list(words)) == 0
        return capsys.readouterr().out

    return said


def test_history_list_and_show_name_what_is_not_the_usual_engine(folder: Path, said: Said) -> None:
    run(folder, "Docker Engine")
    assert "[" not in said("history").replace("[fix]", "")
    assert "as expected\n" in said("list", str(folder / "case.yaml")).replace("  Two cells", "")
    run(folder, "venv")
    newest, older = said("history").splitlines()
    assert newest.endswith(" [venv]")
    assert not older.endswith("]")
    cells = [line.split() for line in said("history", "two-cells").splitlines() if line.startswith("how=")]
    assert [(words[0], "[venv]" in words, "." in words) for words in cells] == [
        ("how=a", False, True),
        ("how=b", False, True),
        ("how=a", True, True),
        ("how=b", True, True),
    ]
    assert "as expected [venv]" in said("list", str(folder / "case.yaml"))
    assert "venv 1.2" in said("show")
    assert "venv 1.2" in said("show", "last", "1")


def test_an_interrupted_run_does_not_go_on_with_another_engine(folder: Path) -> None:
    session = run(folder, "Docker Engine")
    assert session.record is not None
    assert session.record.cells[0].details.engine == "Docker Engine 1.2"
    store = Store(folder / "store")
    store.decide(session.record.id, replace(session.record.cells[1], verdict=Verdict.CANCELLED))

    def interrupted() -> None:
        finish(store, session.record.id, finished_at="2026-01-01T00:00:00Z", exit_status=130, host=HostRecord())  # type: ignore[union-attr]

    interrupted()
    other = Session(folder / "store", display=Screen(io.StringIO()), engine=lambda: Named("venv"))
    with pytest.raises(UsageError, match="begun with docker and cannot go on with venv"):
        other.resume(None)
    interrupted()  # the process that refused is this one, which lives on
    again = Session(folder / "store", display=Screen(io.StringIO()), engine=lambda: Named("Docker Engine"))
    assert again.resume(None) == 0


def test_a_containers_verdict_is_not_replaced_by_a_virtual_environments(folder: Path) -> None:
    files = load_all([str(folder / "case.yaml")])
    known = {file.case.id: facts(file.case) for file in files}
    seen = Verdicts()
    engines = []
    for engine in ("venv", "Docker Engine", "venv"):
        session = run(folder, engine)
        assert session.record is not None
        (folder / "result.json").write_text(json.dumps(result(session.record, folder / "store").to_json()))
        seen = merge_verdicts(seen, folder / "result.json", files, known).verdicts
        engines.append([one.engine for one in seen.cases["two-cells"].cells])
    assert engines == [["venv", "venv"], ["", ""], ["", ""]]

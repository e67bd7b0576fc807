"""The toy engine, added as ``docs/dev/new-engine.md`` says, serves a case as the others do."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from reprokit.cli.display.screen import Screen
from reprokit.engine import kinds, registry
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from tests.conformance import toy_engine

pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: toy-case
title: A case for the toy engine
matrix: {how: [good, bad]}
command: test {{ how }} = good
expect: {failure: {exit_code: 1}, reproduces: [{how: bad}]}
"""


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its package beside the others, and its name in the one place that names them."""
    monkeypatch.setitem(sys.modules, "reprokit.engine.toy", toy_engine)
    monkeypatch.setattr(kinds, "KINDS", (*kinds.KINDS, "toy"))
    monkeypatch.setattr(toy_engine, "TOP", tmp_path / "images")


@pytest.mark.usefixtures("added")
def test_a_name_and_an_entry_are_all_that_it_takes(tmp_path: Path) -> None:
    assert registry.make("toy").info().kind == "toy"
    (tmp_path / "case.yaml").write_text(CASE)
    session = Session(tmp_path / "store", display=Screen(io.StringIO()))
    assert session.start(Request(cases=(str(tmp_path / "case.yaml"),), engine="toy")) == 0
    assert session.record is not None
    assert (session.record.engine, session.record.host.engine) == ("toy", "Toy engine 1")
    assert [cell.verdict for cell in session.record.cells] == ["not-reproduced", "reproduced"]

"""Stores that reprokit 0.1 wrote are read as if it had recorded kinds of engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.store.database import Store
from reprokit.store.older import with_engine_kind


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({"engine": "Docker Engine 20.10.24"}, "docker"),
        ({"engine": "Podman Engine 4.3.1"}, "podman"),
        ({"engine": "venv (uv 0.9)"}, "venv"),
        ({"engine": None}, None),
        ({"engine": "A name of its own 1", "engine_kind": "toy"}, "toy"),
    ],
)
def test_the_kind_of_an_engine_that_was_recorded_by_its_name(facts: dict[str, Any], kind: str | None) -> None:
    assert with_engine_kind(facts) == {**facts, "engine_kind": kind}
    assert with_engine_kind({"notes": []}) == {"notes": []}


def test_a_store_without_kinds_is_read_as_one_that_has_them(tmp_path: Path) -> None:
    cell = CellRecord(
        number=1, case_id="a", case_path="a.yaml", case_digest="d", cell={}, details={"engine": "venv (uv 0.9)"}
    )
    old = RunRecord(
        id="r", started_at="", version="0.1", request={}, host={"engine": "venv (uv 0.9)"}, owner={}, cells=(cell,)
    )
    store = Store(tmp_path)
    store.put(old, {"d": ("a", "A", "")})
    found = store.run("r")
    assert (found.engine, found.cells[0].details["engine_kind"]) == ("venv", "venv")

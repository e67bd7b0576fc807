"""Stores that reprokit 0.1 wrote are read as if it had recorded kinds of engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.evidence.details import CellDetails
from reprokit.evidence.origin import HostRecord
from reprokit.evidence.records import CellRecord, RunRecord
from reprokit.store.database import Store


@pytest.mark.parametrize(
    ("facts", "kind"),
    [
        ({"engine": "Docker Engine 20.10.24"}, "docker"),
        ({"engine": "Podman Engine 4.3.1"}, "podman"),
        ({"engine": "venv (uv 0.9)"}, "venv"),
        ({"engine": None}, ""),
        ({"engine": "A name of its own 1", "engine_kind": "toy"}, "toy"),
    ],
)
def test_the_kind_of_an_engine_that_was_recorded_by_its_name(facts: dict[str, str | None], kind: str) -> None:
    assert HostRecord.from_json(facts).kind == kind


def test_a_store_without_kinds_is_read_as_one_that_has_them(tmp_path: Path) -> None:
    details = CellDetails(engine="venv (uv 0.9)")
    cell = CellRecord(number=1, case_id="a", case_path="a.yaml", case_digest="d", cell={}, details=details)
    old = RunRecord(id="r", started_at="", version="0.1", host=HostRecord(engine="venv (uv 0.9)"), cells=(cell,))
    store = Store(tmp_path)
    store.put(old, {"d": ("a", "A", "")})
    found = store.run("r")
    assert (found.engine, found.cells[0].details.kind) == ("venv", "venv")

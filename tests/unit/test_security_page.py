"""The threat model: each defence names the tests that hold it, and they exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "dev" / "threat-model.md"


def test_every_defence_names_tests_that_exist() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("|")][2:]
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`(tests/[\w/.]+)`", row[3])
        assert (len(row), bool(named)) == (4, True), row
        for name in named:
            assert re.search(r"^(?:async )?def test_", (ROOT / name).read_text(), re.MULTILINE), name

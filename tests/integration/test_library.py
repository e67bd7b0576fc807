"""The quick set of the library on the real engine, each case with its fix: what CI must see every time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
CASES = Path(__file__).parents[2] / "cases"


def test_the_quick_cases_fail_where_they_should_and_their_fixes_hold(tmp_path: Path) -> None:
    found = tmp_path / "quick.json"
    words = ["run", str(CASES), "--tag", "quick", "--fix", "--json", str(found)]
    environment = {**os.environ, "REPROKIT_STORE": str(tmp_path / "store")}
    done = subprocess.run(
        [sys.executable, "-m", "reprokit", *words], env=environment, capture_output=True, text=True, check=False
    )
    assert found.is_file(), done.stdout + done.stderr
    cells = [(case["id"], cell) for case in json.loads(found.read_text())["cases"] for cell in case["cells"]]
    departed = [
        f"{name} {cell['cell']} [{cell['variant']}]: {cell['verdict']}: {cell['reason']}"
        for name, cell in cells
        if not cell["as_expected"]
    ]
    assert departed == []
    assert done.returncode == 0
    seen = {
        variant: {str(cell["verdict"]) for _, cell in cells if cell["variant"] == variant}
        for variant in ("case", "fix")
    }
    assert seen == {"case": {"reproduced", "not-reproduced"}, "fix": {"not-reproduced"}}

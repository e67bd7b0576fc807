"""Runs GPU cases on ``--engine venv`` and writes a table of verdicts: ``python -m tests.gpu.cases RESULTS CASE...``."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HEAD = "| case | cell | variant | verdict | expected | seconds | on |\n|---|---|---|---|---|---|---|\n"


def run(case: Path, torch: str, trials: int, results: Path) -> list[dict[str, Any]]:
    """The cells of a case, as the result file has them; [] where nothing was run."""
    out = results / "cases.json"
    out.unlink(missing_ok=True)
    axis = ["--axis", f"torch={torch}"] if "torch:" in case.read_text() and torch else []
    command = [sys.executable, "-m", "reprokit", "run", str(case), "--engine", "venv", "--fix", "--json", str(out)]
    with (results / "cases.log").open("a") as log:
        subprocess.run([*command, *axis, "--trials", str(trials)], stdout=log, stderr=subprocess.STDOUT, check=False)
    if not out.exists():
        return []
    data = json.loads(out.read_text())
    out.unlink()
    return [cell for one in data["cases"] for cell in one["cells"]]


def main() -> int:
    """The command."""
    options = argparse.ArgumentParser()
    options.add_argument("results", type=Path)
    options.add_argument("cases", type=Path, nargs="+")
    options.add_argument("--torch", default="")
    options.add_argument("--trials", type=int, default=2)
    asked = options.parse_args()
    departs = False
    table = HEAD
    for case in asked.cases:
        cells = run(case, asked.torch, asked.trials, asked.results)
        for cell in cells:
            gpus = [gpu for trial in cell["trials"] for gpu in (trial["usage"] or {}).get("gpus", ())]
            on = f"{gpus[0]['name']}, {gpus[0].get('driver', '')}" if gpus else ""
            values = " ".join(f"{name}={value}" for name, value in cell["cell"].items())
            seconds = "" if cell["seconds"] is None else f"{cell['seconds']:.1f}"
            row = (case.stem, values, cell["variant"], cell["verdict"], cell["expected"] or "", seconds, on)
            table += f"| {' | '.join(row)} |\n"
            departs |= cell["as_expected"] is False
        if not cells:
            table += f"| {case.stem} | | | not run: see cases.log | | | |\n"
            departs = True
        (asked.results / "table.md").write_text(table)
    print(table)
    return int(departs)


if __name__ == "__main__":
    sys.exit(main())

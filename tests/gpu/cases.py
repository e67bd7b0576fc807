"""Runs GPU cases on ``--engine venv`` and writes a table of verdicts: ``python -m tests.gpu.cases RESULTS CASE...``.

Where the engine cannot make its sandbox, the programs run without it, for their logs; that is said, and no verdict.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from reprokit.api import load
from reprokit.case.files import CaseFile
from reprokit.case.matrix import expand
from reprokit.case.render import render

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


def bare(file: CaseFile, torch: str, results: Path) -> None:
    """Run the program of each cell without a sandbox, and keep what it says. Only for the project's own cases."""
    matrix = file.case.matrix
    for cell in expand(matrix.axes, matrix.exclude, matrix.include):
        spec = render(file.case, {**cell, **({"torch": torch} if "torch" in cell and torch else {})})
        with tempfile.TemporaryDirectory() as folder:
            for name, one in spec.files.items():
                Path(folder, name).write_text(one.text)
            began = time.monotonic()
            environ = {**os.environ, **spec.env}
            with (results / "bare.log").open("a") as log:
                log.write(f"=== {file.case.id} {cell}\n")
                log.flush()
                try:
                    code: int | str = subprocess.run(
                        spec.command, cwd=folder, env=environ, stdout=log, stderr=log, timeout=60, check=False
                    ).returncode
                except subprocess.TimeoutExpired:
                    code = "time limit"
                log.write(f"=== ended with {code} after {time.monotonic() - began:.1f} s\n")


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
            table += f"| {case.stem} | | | not run: see cases.log, and bare.log for its program | | | |\n"
            [file] = load(case)
            bare(file, asked.torch, asked.results)
            departs = True
        (asked.results / "table.md").write_text(table)
    print(table)
    return int(departs)


if __name__ == "__main__":
    sys.exit(main())

"""Trivial cells through three nodes of one machine, which a launcher's jobs are, against the same without one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
NODES, SECONDS, WORKERS = 3, 1.0, 6
"""Nodes, seconds that each simulated trial takes, and trials at a time on all of the machine."""


def simulate() -> None:
    """In a process of reprokit: every engine is a simulated one."""
    from reprokit.engine import registry
    from reprokit.evidence.model import Ending
    from tests.unit.fakes import FakeEngine

    def behave(trial: object, sink: object) -> Ending:
        time.sleep(SECONDS)
        return Ending(exit_code=0, seconds=SECONDS)

    registry.make = lambda name, environ=None: FakeEngine(behave)


def report(folder: Path, cells: int) -> Iterator[str]:
    """Lines of figures."""
    (folder / "code").mkdir()
    lines = (
        "import sys",
        "if {'reprokit', 'run'} <= {*sys.orig_argv}:",
        "    from tests.bench.launching import simulate",
    )
    (folder / "code" / "sitecustomize.py").write_text("\n".join((*lines, "    simulate()", "")))
    case = {
        "schema": "reprokit/v1",
        "id": "launching",
        "title": "Cells that wait",
        "matrix": {"n": [str(number) for number in range(cells)]},
        "environment": {"image": "simulated:1"},
        "env": {"N": "{{ n }}"},
        "command": "sleep 1",
        "expect": {"reproduces": "none"},
    }
    (folder / "case.yaml").write_text(json.dumps(case))
    alone = _run(folder, cells, WORKERS, [])
    yield f"{cells} cells of {SECONDS:g} s, {WORKERS} at a time, without a launcher: {alone:.1f} s"
    launched = _run(folder, cells, WORKERS // NODES, ["--on", "command:sh {job}/job.sh", "--jobs", str(NODES)])
    yield f"as jobs on {NODES} nodes of {WORKERS // NODES}: {launched:.1f} s, {alone / launched:.2f} of it"


def _run(folder: Path, cells: int, jobs: int, words: list[str]) -> float:
    store = folder / f"store-{len(words)}"
    environ = {**os.environ, "PYTHONPATH": f"{folder / 'code'}:{REPOSITORY}", "REPROKIT_JOBS": str(jobs)}
    words = [sys.executable, "-m", "reprokit", "run", "case.yaml", "--confirm", "never", *words]
    words += ["--store", str(store), "--json", "result.json"]
    began = time.monotonic()
    subprocess.run(words, cwd=folder, env=environ, check=True, capture_output=True)
    took = time.monotonic() - began
    found: list[dict[str, Any]] = json.loads((folder / "result.json").read_text())["cases"][0]["cells"]
    assert len({cell["cell"]["n"] for cell in found}) == len(found) == cells
    assert {cell["verdict"] for cell in found} == {"not-reproduced"}
    return took

"""Trivial cells through three nodes of one machine, which a launcher's jobs are, against the same without one; and how
long nodes of one place each, a GPU or what else one cell takes, are idle in runs of cells that differ.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
NODES, SECONDS, WORKERS = 3, 1.0, 6
"""Nodes, seconds that each simulated trial takes, and trials at a time on all of the machine."""
DIFFERENT, RUNS = 40, 2
"""Cells of 3 to 60 s, a twentieth of a night's, and runs of them: the first has no times of cells to cut by."""


def simulate() -> None:
    """In a process of reprokit: every engine is a simulated one."""
    from reprokit.engine import registry
    from reprokit.engine.protocol import Trial
    from reprokit.evidence.model import Ending
    from tests.unit.fakes import FakeEngine

    def behave(trial: Trial, sink: object) -> Ending:
        seconds = float(trial.env["N"].partition("-")[2])
        time.sleep(seconds)
        return Ending(exit_code=0, seconds=seconds)

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
    numbers = [f"{number}-{SECONDS:g}" for number in range(cells)]
    alone = _run(folder, numbers, WORKERS, [])
    yield f"{cells} cells of {SECONDS:g} s, {WORKERS} at a time, without a launcher: {alone:.1f} s"
    on = ["--on", "command:sh {job}/job.sh", "--jobs"]
    launched = _run(folder, numbers, WORKERS // NODES, [*on, str(NODES)])
    yield f"as jobs on {NODES} nodes of {WORKERS // NODES}: {launched:.1f} s, {alone / launched:.2f} of it"
    rng = random.Random(48)
    seconds = [round(rng.uniform(3, 60), 1) for _ in range(DIFFERENT)]
    for run in range(RUNS):
        took = _run(folder, [f"{n}-{one}" for n, one in enumerate(seconds)], 1, [*on, str(WORKERS), "--verbose"])
        idle = 1 - sum(seconds) / took / WORKERS
        yield f"run {run + 1} of {DIFFERENT} cells of 3 to 60 s on {WORKERS} nodes of 1: {took:.1f} s, {idle:.1%} idle"


def _run(folder: Path, numbers: list[str], jobs: int, words: list[str]) -> float:
    case = {
        "schema": "reprokit/v1",
        "id": "launching",
        "title": "Cells that wait",
        "matrix": {"n": numbers},
        "environment": {"image": "simulated:1"},
        "env": {"N": "{{ n }}"},
        "command": "sleep 1",
        "expect": {"reproduces": "none"},
    }
    (folder / "case.yaml").write_text(json.dumps(case))
    store = folder / f"store-{len(words)}"
    environ = {**os.environ, "PYTHONPATH": f"{folder / 'code'}:{REPOSITORY}", "REPROKIT_JOBS": str(jobs)}
    words = [sys.executable, "-m", "reprokit", "run", "case.yaml", "--confirm", "never", *words]
    words += ["--store", str(store), "--json", "result.json"]
    began = time.monotonic()
    subprocess.run(words, cwd=folder, env=environ, check=True, capture_output=True)
    took = time.monotonic() - began
    found: list[dict[str, Any]] = json.loads((folder / "result.json").read_text())["cases"][0]["cells"]
    assert len({cell["cell"]["n"] for cell in found}) == len(found) == len(numbers)
    assert {cell["verdict"] for cell in found} == {"not-reproduced"}
    return took

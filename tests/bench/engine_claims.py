"""``python -m tests.bench engine``: statements about cells with planted rates, run in containers."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprokit.case.render import render
from reprokit.environment.cases import load
from reprokit.report.explanation import Explained, explain_run, files_in, short
from reprokit.search.repeating import Support, tally_of
from reprokit.store.database import Store
from tests.bench.claims import is_false
from tests.unit.search.test_planted import PLANTED, Planted

AXES = {"k": list("abc"), "m": ["x", "y"]}


def functions() -> Mapping[str, Planted]:
    """Random functions: each cell is certain to fail, or fails at one rate elsewhere."""
    luck = random.Random(44)
    lows = (luck.choice((0, 5, 10, 20, 30)) for _ in range(40))
    rates = ({k + m: luck.choice((100, low)) for k in "abc" for m in "xy"} for low in lows)
    return {
        f"function-{number}": Planted(axes=AXES, percent="{{ " + f"{one}[k + m]" + " }}", says="", trials=3)
        for number, one in enumerate(rates)
    }


def report(folder: Path) -> Iterator[str]:
    """A row for each kind: how many sentences are right, false, or have no bound although a cell passed."""
    for kind, cases, confirm in (("planted", PLANTED, "always"), ("functions", functions(), "auto")):
        (folder / kind).mkdir()
        for name, one in cases.items():
            (folder / kind / f"{name}.yaml").write_text(json.dumps(one.case(name)))
        run = [sys.executable, "-m", "reprokit", "run", kind, "--confirm", confirm, "--store", "store", "--jobs", "2"]
        subprocess.run(run, cwd=folder, check=False, capture_output=True)
        store = Store(folder / "store")
        explained = explain_run(store.run("last"), files_in(store))
        ends = {one.id: _end(cases[one.id], one, folder / kind) for one in explained}
        trials = sum(sum(one.trials) for one in explained)
        counts = Counter(word for word, _ in ends.values())
        yield f"{kind}: {len(ends)} of {len(cases)} cases, {trials} trials: {dict(counts)}"
        yield from (f"  {name}: {word}: {line}" for name, (word, line) in ends.items() if word != "right")


def _end(planted: Planted, explained: Explained, folder: Path) -> tuple[str, str]:
    """``right``, ``false``, ``unbounded`` or ``other`` (true, but not the sentence that is planted); and the line."""
    line = next(short(explained))
    [file] = load(str(folder / f"{explained.id}.yaml"))
    rates = [float(render(file.case, cell).env["P"]) / 100 % 2 for cell in explained.cells]
    tallies = [tally_of(record) for record in explained.records]
    found = explained.explanation
    if is_false(found, Support(found, explained.cells), explained.cells, tallies, rates):
        return "false", line
    if found.bad and found.good and not re.search("not excluded|p = |no explanation|several conditions", line):
        return "unbounded", line
    return "right" if re.match(planted.says, line) else "other", line

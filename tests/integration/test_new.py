"""``reprokit new`` at a terminal, from a report to a verdict on the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.case.trust import Trust
from reprokit.evidence.model import Verdict
from reprokit.store.database import Store
from tests.terminals import ProgramUser

pytestmark = pytest.mark.integration

REPORT = """\
# Shapes of the new loader do not fit

Debian 12, Python 3.11

```
Traceback (most recent call last):
  File "fit.py", line 4, in <module>
    fit([1, 2])
  File "fit.py", line 2, in fit
    raise ValueError("bad shape of the batch")
ValueError: bad shape of the batch
```
"""
FIT = 'def fit(batch):\n    raise ValueError("bad shape of the batch")\n\nfit([1, 2])\n'


def test_a_report_becomes_a_case_that_runs_and_says_what_differs(tmp_path: Path) -> None:
    (tmp_path / "report.md").write_text(REPORT)
    environ = {"REPROKIT_STORE": str(tmp_path / "store")}
    verdicts = []
    for program in (FIT, FIT.replace("bad shape of the batch", "an empty batch")):
        (tmp_path / "fit.py").write_text(program)
        user = ProgramUser("new", "--from", "report.md", "--force", "-o", "case.yaml", folder=tmp_path, environ=environ)
        user.answers("Which command fails?", "python3 fit.py")
        user.answers("Build and run it here? [y/N]", "y")
        status, shown = user.ends()
        assert status == 0, shown
        verdicts.append(shown)
    assert "it reproduces; next: reprokit isolate case.yaml" in verdicts[0]
    told = "the report's message has 'bad shape of the batch', here it is ValueError: an empty batch"
    assert told in verdicts[1]
    assert "both traces end in fit.py:fit" in verdicts[1]
    store = Store(tmp_path / "store")
    runs = [store.run(run.id) for run in store.runs()]
    cells = [cell for run in runs for cell in run.cells]
    assert {cell.verdict for cell in cells} == {Verdict.REPRODUCED, Verdict.DIFFERENT_FAILURE}
    assert {cell.details.trust for cell in cells} == {Trust.REVIEWED}

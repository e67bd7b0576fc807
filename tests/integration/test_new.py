"""``reprokit new`` at a terminal, from a report to a verdict on the real engine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reprokit.case.trust import Trust
from reprokit.cli import invoke
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
    assert "next: reprokit isolate case.yaml" in verdicts[0]
    assert "not confirmed: no cell fails as the report shows" in verdicts[1]
    assert "an empty batch" in verdicts[1]
    store = Store(tmp_path / "store")
    runs = [store.run(run.id) for run in store.runs()]
    cells = [cell for run in runs for cell in run.cells]
    assert {cell.verdict for cell in cells} == {Verdict.REPRODUCED, Verdict.DIFFERENT_FAILURE}
    assert {cell.details.trust for cell in cells} == {Trust.REVIEWED}


TRIED = """\
# Shapes do not fit

Debian 12, Python 3.11. With MODE=fast it fails, with MODE=slow it works.

```console
$ MODE=fast python3 fit.py
Traceback (most recent call last):
  File "fit.py", line 5, in <module>
    fit()
  File "fit.py", line 3, in fit
    raise ValueError("bad shape of the batch")
ValueError: bad shape of the batch
```

fit.py:

```python
import os
def fit():
    raise ValueError("bad shape of the batch")
if os.environ["MODE"] == "fast":
    fit()
```
"""
FACTS = [
    {"fact": "version", "of": "python", "value": "3.11", "line": 3},
    {"fact": "version", "of": "os", "value": "debian-12", "line": 3},
    {"fact": "command", "line": 6, "text": "MODE=fast python3 fit.py"},
    {"fact": "script", "line": 18, "last": 22, "language": "python", "name": "fit.py"},
    {"fact": "contrast", "name": "MODE", "fails": "MODE=fast", "works": "MODE=slow", "line": 3},
    {"fact": "failure", "kind": "exception", "line": 7, "last": 12},
]


def test_a_draft_is_proven_by_running_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    (tmp_path / "reader.py").write_text(f"import json\nprint(json.dumps({{'facts': {FACTS!r}}}))\n")
    reader = f"{sys.executable} reader.py"
    broken = TRIED.replace('os.environ["MODE"] == "fast"', "os.environ")  # lost what the bug depends on
    for name, text, status in (("good", TRIED, 0), ("everywhere", broken, 1)):
        (tmp_path / "report.md").write_text(text)
        words = ["new", "--from", "report.md", "--reader", reader, "--try", "--yes", "-o", f"{name}.yaml"]
        assert invoke(words) == status, capsys.readouterr().err
    texts = [(tmp_path / f"{name}.yaml").read_text() for name in ("good", "everywhere")]
    good, everywhere = (" ".join(text.replace("\n#", "\n").split()) for text in texts)
    assert "and mode=slow passes" in good.partition("schema:")[0]
    assert "command: python3 fit.py confirmed by run" in good
    assert "not confirmed: mode=slow passes by the report, and fails in the same way here" in everywhere
    assert "not confirmed by run" in everywhere.partition("matrix:")[2]
    (tmp_path / "report.md").write_text(TRIED.partition("```console")[0])
    capsys.readouterr()
    assert invoke(["new", "--from", "report.md", "--try", "--yes", "-o", "open.yaml"]) == 3
    assert "not run: write command" in (tmp_path / "open.yaml").read_text()
    assert len(list(Store(tmp_path / "store").runs())) == 2

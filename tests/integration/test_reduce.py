"""``reprokit reduce`` as a user types it, on the real engine: what is left fails in the same way, killed or not."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from reprokit.environment.cases import load
from tests.documents import as_published
from tests.integration.test_run import User, wait_for

pytestmark = pytest.mark.integration

DIVISION = """\
schema: reprokit/v1
id: division
title: A division by what an environment variable says
matrix: {os: [debian-12], divisor: ["0", "2"]}
files:
  go.py: |
    import os
    print("here")
    print(1 / int(os.environ["DIVISOR"]))
  notes.txt: nothing
env:
  MODE: fast
  # the one that matters
  DIVISOR: "{{ divisor }}"
  LEVEL: 3
command: |
  echo starting
  python -X dev go.py --verbose && echo done
resources: {timeout: 1m, memory: 256m}
expect:
  failure: {exit_code: nonzero}
  reproduces: [{divisor: "0"}]
"""
SMALL = """\
schema: reprokit/v1
id: division-reduced
title: A division by what an environment variable says
matrix: {os: [debian-12], divisor: ["0"]}
files:
  go.py: |
    import os
    print(1 / int(os.environ["DIVISOR"]))
env:
  # the one that matters
  DIVISOR: "{{ divisor }}"
command: python go.py
resources: {timeout: 1m, memory: 256m}
expect:
  failure:
    exit_code: 1
    exception: ZeroDivisionError
    message: division by zero
    frames: ["go.py:<module>"]
  reproduces: all
"""


@pytest.fixture
def user(tmp_path: Path) -> User:
    return User(tmp_path)


def test_a_case_keeps_its_failure_and_is_reduced_the_same_wherever_it_is_killed(user: User) -> None:
    user.write("case.yaml", DIVISION)
    said = user.types("reduce", "case.yaml", "--json", "found.json")
    assert "environment variables: 1 of 3 kept; did not matter: MODE, LEVEL" in said
    written = (user.folder / "case-reduced.yaml").read_text()
    assert written.endswith(SMALL)
    assert "Reduced from division" in written
    found = as_published("search", json.loads((user.folder / "found.json").read_text()))
    cells = len(found["cells"])
    assert found["answer"]["cells_run"] == cells
    user.types("run", "case-reduced.yaml")
    assert [cell["verdict"] for cell in user.cells()] == ["reproduced"]
    assert "exists already" in user.types("reduce", "case.yaml", status=2)

    process = user.starts("reduce", "case.yaml", "-o", "again.yaml")
    wait_for("#5 ", process)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    said = user.types("reduce", "--resume", "--json", "again.json")
    assert "resuming reduce" in said
    assert (user.folder / "again.yaml").read_text() == written
    again = json.loads((user.folder / "again.json").read_text())
    assert [(c["digest"], c["cell"], c["verdict"]) for c in again["cells"]] == [
        (c["digest"], c["cell"], c["verdict"]) for c in found["cells"]
    ]
    run = user.folder / "store" / "runs" / again["run_id"]
    assert sum(one.is_dir() for one in run.iterdir()) == cells, "nothing is run twice"
    assert "nothing to resume" in user.types("reduce", "--resume", status=2)
    assert load(str(user.folder / "again.yaml"))[0].case.id == "division-reduced"


def test_wrong_arguments_are_refused_before_anything_is_run(user: User) -> None:
    user.write("case.yaml", DIVISION)
    assert "did you mean 'env'?" in user.types("reduce", "case.yaml", "--parts", "envs", status=2)
    assert "expected a duration" in user.types("reduce", "case.yaml", "--time", "soon", status=2)
    assert "ends in .yaml" in user.types("reduce", "case.yaml", "-o", "small.md", status=2)
    assert "leave out the other options" in user.types("reduce", "--resume", "-o", "small.yaml", status=2)
    assert "no CASE given" in user.types("reduce", status=2)
    assert "no such value" in user.types("reduce", "case.yaml", "--only", "divisor=3", status=2)
    assert not list((user.folder / "store").glob("runs/*"))

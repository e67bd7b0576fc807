"""``reprokit isolate`` as a user types it, on the real engine: what matters is found, killed and resumed or not."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.integration.test_run import REPOSITORY, User

pytestmark = pytest.mark.integration

SIX = """\
schema: reprokit/v1
id: six-axes
title: Two of six axes make it fail
matrix:
  os: [debian-12]
  a: ["1", "2"]
  b: ["1", "2"]
  c: ["1", "2"]
  d: ["1", "2"]
  e: ["1", "2"]
  f: ["1", "2"]
command: sleep 0.5; test "{{ b }}{{ e }}" != 22
expect: {failure: {exit_code: 1}}
"""
ENDS = ("--bad", "a=2,b=2,c=2,d=2,e=2,f=2", "--good", "a=1,b=1,c=1,d=1,e=1,f=1")
REQUIRED = "all of these are required: b 1 -> 2 and e 1 -> 2"


@pytest.mark.nightly
def test_cuda_and_the_architecture_are_found_to_fail_together(user: User) -> None:
    case = str(REPOSITORY / "cases" / "ptxas_unknown_arch.yaml")
    ends = ("--bad", "cuda=12.0,arch=sm_35", "--good", "cuda=11.8,arch=sm_90")
    said = user.types("isolate", case, *ends, "--json", "found.json")
    assert "all of these are required: cuda 11.8 -> 12.0 and arch sm_90 -> sm_35" in said
    found = json.loads((user.folder / "found.json").read_text())
    assert len(found["cells"]) == 4
    assert [one["axis"] for one in found["answer"]["changes"][0]] == ["cuda", "arch"]
    # Without any ends, those that the case expects to differ.
    assert "the difference that matters: " in user.types("isolate", case)
    said = user.types("isolate", case, "--bad", ends[3], "--good", ends[1], status=1)
    assert "the wrong way round" in said
    shown = user.types("show")
    assert shown.startswith(f"reprokit isolate {case} --bad")
    search = user.result()["search"]
    assert (search["kind"], search["answer"]["decided"]) == ("isolate", False)
    assert "the wrong way round" in shown
    assert "isolate ptxas-unknown-arch: 1 not-reproduced, 1 reproduced" in user.types("history")


def test_killed_and_resumed_it_repeats_nothing_and_gives_the_same_answer(user: User, tmp_path: Path) -> None:
    user.write("case.yaml", SIX)
    # How many trials confirm it depends on how long they take.
    asked = ("isolate", "case.yaml", *ENDS, "-j", "1", "--confirm", "never")
    whole = user.types(*asked)
    assert REQUIRED in whole
    cells = len(user.cells())
    assert cells <= 14
    user.environment["REPROKIT_STORE"] = str(tmp_path / "another store")
    for kill in (signal.SIGKILL, signal.SIGTERM):
        words = ("isolate", "--resume") if kill is signal.SIGTERM else asked
        running = user.starts(*words)
        assert running.stdout is not None
        decided = 0
        for line in running.stdout:
            decided += line.startswith("#")
            if decided >= (3 if kill is signal.SIGKILL else 6):
                running.send_signal(kill)
                break
        rest = running.communicate(timeout=60)[0]
        assert running.returncode == (130 if kill is signal.SIGTERM else -signal.SIGKILL)
        assert kill is signal.SIGKILL or "continue with: reprokit isolate --resume" in rest
    assert "no answer yet" in user.types("show")
    assert "nothing to resume" in user.types("run", "--resume", status=2)
    before = _trials(tmp_path / "another store")
    assert 6 <= len(before) < cells
    resumed = user.types("isolate", "--resume")
    assert resumed[resumed.index(REQUIRED) :].splitlines()[:-1] == whole[whole.index(REQUIRED) :].splitlines()[:-1]
    after = _trials(tmp_path / "another store")
    assert after[: len(before)] == before
    assert len(after) == len({key for key, *_ in after}) == cells
    assert len(user.types("history").splitlines()) == 1


def _trials(store: Path) -> list[tuple[str, float]]:
    """Cell and duration of each trial, as the journal of the one run has them."""
    [journal] = store.glob("runs/*/journal.jsonl")
    found = []
    for line in map(json.loads, journal.read_text().splitlines()):
        if line["kind"] == "decide":
            cell = line["cell"]
            key = json.dumps([cell["cell"], cell["variant"]], sort_keys=True)
            found += [(key, trial["seconds"]) for trial in cell["trials"]]
    return found

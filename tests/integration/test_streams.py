"""Streams in order, and what counts as the failure, on the real engine."""

from __future__ import annotations

import pytest

from tests.integration.test_run import User

pytestmark = pytest.mark.integration


ENDS = """\
schema: reprokit/v1
id: ends
title: Ends that are not the failure, unless the case gives their number
matrix: {os: [debian-12], python: ["3.11"], how: [typo, not-executable, no-script, handled, own]}
files:
  tool: {content: "echo tool", mode: "{{ 644 if how == 'not-executable' else 755 }}"}
  handled.py: |
    import traceback
    try:
        raise KeyError("handled")
    except KeyError:
        traceback.print_exc()
command: |
  ./tool
  case {{ how }} in
    typo) pyton x.py;; no-script) python nope.py;; handled) python handled.py;; own) exit 2;;
  esac
expect: {failure: {}, reproduces: [{how: own}]}
"""


def test_a_command_that_is_not_there_is_not_the_failure(user: User) -> None:
    user.write("case.yaml", ENDS)
    user.types("run", "case.yaml", status=1)
    cells = {cell["cell"]["how"]: cell for cell in user.cells()}
    assert {how: cell["verdict"] for how, cell in cells.items()} == {
        "typo": "different-failure",
        "not-executable": "different-failure",
        "no-script": "different-failure",
        "handled": "not-reproduced",
        "own": "reproduced",
    }
    assert "pyton: command not found" in cells["typo"]["reason"]
    assert cells["typo"]["reason"].endswith("write exit_code: 127")
    assert 'mode: "755"' in cells["not-executable"]["reason"]
    assert "can't open file '/workspace/nope.py'" in cells["no-script"]["reason"]
    for how, failure, status in (
        ("no-script", "{exit_code: 2}", 0),
        ("handled", "{exception: KeyError}", 1),
        ("handled", "{exception: KeyError, exit_code: 0}", 0),
    ):
        user.write(
            "case.yaml", ENDS.replace("failure: {}", f"failure: {failure}").replace("{how: own}", f"{{how: {how}}}")
        )
        user.types("run", "case.yaml", "--only", f"how={how}", status=status)
    assert len({cell["image"]["id"] for cell in cells.values()}) == 1


LONG = """\
schema: reprokit/v1
id: long
title: The failure comes after more output than is kept
matrix: {os: [debian-12]}
command: |
  seq -f "%.0f is a line of a log that is cut in its middle, because it is longer than what anyone would read" 120000
  echo boom
  exit 1
expect: {failure: {output: boom}}
"""


def test_a_value_that_no_release_has_leaves_no_trace_and_a_run_can_be_forgotten(user: User) -> None:
    user.write("case.yaml", LONG.replace("120000", "3"))
    user.types("run", "case.yaml", "--os", "debian-99", status=2)
    assert not (user.folder / "store").exists()
    user.types("run", "case.yaml")
    [log] = (user.folder / "store").rglob("*.log")
    user.types("history", "--forget", "last", "--yes")
    assert not log.exists()
    assert "long" not in user.types("history")

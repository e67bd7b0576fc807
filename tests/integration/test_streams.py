"""Streams in order, and what counts as the failure, on the real engine."""

from __future__ import annotations

import pytest

from tests.integration.test_run import User, user

__all__ = ["user"]
pytestmark = pytest.mark.integration

ALTERNATE = """\
schema: reprokit/v1
id: alternate
title: Both streams in turn, and a handled exception before the one that ends the program
matrix: {os: [debian-12], python: ["3.11"]}
files:
  alternate.py: |
    import random, sys, time, traceback
    for number in range(10):
        print("out", number)
        time.sleep(random.choice((0, random.uniform(0, 0.01))))
        print("err", number, file=sys.stderr)
        time.sleep(random.choice((0, random.uniform(0, 0.01))))
    try:
        raise KeyError("handled")
    except KeyError:
        traceback.print_exc(file=sys.stdout)
    raise ValueError("the last words")
command: python alternate.py
trials: 20
expect:
  failure: {exception: ValueError, message: the last words}
  reproduces: all
"""


def test_a_program_that_alternates_between_its_streams_fails_in_one_way_and_in_order(user: User) -> None:
    user.write("case.yaml", ALTERNATE)
    user.types("run", "case.yaml")
    [cell] = user.cells()
    assert (cell["verdict"], len(cell["trials"]), "failures" in cell["details"]) == ("reproduced", 20, False)
    expected = [f"{stream} {number}" for number in range(10) for stream in ("out", "err")]
    for trial in cell["trials"]:
        lines = (user.folder / "store" / trial["log"]).read_text().splitlines()
        assert lines[:20] == expected
        assert lines.index("KeyError: 'handled'") < lines.index("ValueError: the last words") == len(lines) - 1


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


def test_lines_of_a_cut_log_have_the_numbers_of_the_whole_output(user: User) -> None:
    user.write("case.yaml", LONG)
    assert "line 120001: boom" in user.types("run", "case.yaml")
    [log] = (user.folder / "store").rglob("*.log")
    assert len(log.read_bytes().splitlines()) < 120_000


def test_a_value_that_no_release_has_leaves_no_trace_and_a_run_can_be_forgotten(user: User) -> None:
    user.write("case.yaml", LONG.replace("120000", "3"))
    user.types("run", "case.yaml", "--os", "debian-99", status=2)
    assert not (user.folder / "store").exists()
    user.types("run", "case.yaml")
    [log] = (user.folder / "store").rglob("*.log")
    user.types("history", "--forget", "last", "--yes")
    assert not log.exists()
    assert "long" not in user.types("history")

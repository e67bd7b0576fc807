"""Small cases with a planted truth, each with the sentence that it must get.

The cases run on any engine; here, a random number stands for it.

``percent`` is a template over the axes: how often a trial fails with the signature, 200 for another failure.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from reprokit.case.files import CaseFile
from reprokit.case.matrix import expand
from reprokit.case.render import render
from reprokit.environment.cases import load
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import CellRecord, TrialRecord
from reprokit.evidence.verdict import decide
from reprokit.report.explanation import explain_records, short
from reprokit.search.repeating import planner

COMMAND = """\
test "$P" -lt 200 || exit 4
test $(($(od -An -N2 -tu2 /dev/urandom) % 100)) -ge "$P" || exit 3
"""
K2, K4, M2, N2, V5 = {"k": ["a", "b"]}, {"k": list("abcd")}, {"m": ["x", "y"]}, {"n": ["p", "q"]}, {"v": list("12345")}
K16 = {"k": list("abcdefghijklmnop")}


@dataclass(frozen=True, kw_only=True)
class Planted:
    """One case. ``says``: a pattern of its first line; ``trials``: of each cell, before any is repeated."""

    axes: dict[str, list[str]]
    percent: str
    says: str
    trials: int = 1
    more: dict[str, Any] | None = None  # keys of the matrix
    setup: str = ""

    def case(self, name: str) -> dict[str, Any]:
        """The case file."""
        return {
            "schema": "reprokit/v1",
            "id": name,
            "title": name,
            "matrix": {"os": ["debian-12"], **self.axes, **(self.more or {})},
            "environment": {"setup": self.setup} if self.setup else {},
            "env": {"P": self.percent},
            "trials": self.trials,
            "command": COMMAND,
            "expect": {"failure": {"exit_code": 3}},
        }


def certain(axes: dict[str, list[str]], condition: str, says: str, **more: Any) -> Planted:
    """A failure that is certain under a condition, and never shows elsewhere."""
    return Planted(axes=axes, percent="{{ 100 if " + condition + " else 0 }}", says=says, **more)


def flaky(axes: dict[str, list[str]], percent: str, says: str, trials: int = 20) -> Planted:
    """A failure with rates, in percent."""
    return Planted(axes=axes, percent="{{ " + percent + " }}", says=says, trials=trials)


def when(condition: str) -> str:
    """The pattern of a claim with its bound."""
    return rf"reproduces when {re.escape(condition)} \(.* runs; elsewhere 0 of .* not excluded"


B = "k = b"
OFTEN = r"reproduces more often when {} \(.* runs; elsewhere [0-9]+ of [0-9]+, p = "
NO_CLAIM = r"no explanation: |in [0-9]+ (to [0-9]+ )?trials each: failed in .* not excluded|several conditions fit"

CERTAIN = {
    "one-value": certain(K2, "k == 'b'", when(B)),
    "one-of-four": certain(K4, "k == 'b'", when(B)),
    "all-but-one": certain(K4, "k != 'b'", when("k != b")),
    "two-of-four": certain(K4, "k in 'ac'", when("k in {a, c}")),
    "one-of-sixteen": certain(K16, "k == 'e'", when("k = e")),
    "from-a-value-on": certain(V5, "v|int >= 3", when("v >= 3")),
    "up-to-a-value": certain(V5, "v|int < 3", when("v < 3")),
    "a-range": certain(V5, "v|int in (2, 3, 4)", when("2 <= v <= 4")),
    "the-first-value": certain(V5, "v == '1'", when("v = 1")),
    "versions-in-order": certain({"v": ["v1.8", "v1.9", "v1.10"]}, "v != 'v1.8'", when("v >= v1.9")),
    "another-axis": certain(K4 | M2, "m == 'y'", when("m = y")),
    "two-other-axes": certain(K2 | M2 | N2, "k == 'b'", when(B)),
    "both": certain(K2 | M2, "k == 'b' and m == 'y'", when("k = b and m = y")),
    "both-of-many": certain(K4 | {"m": list("wxyz")}, "k == 'b' and m == 'y'", when("k = b and m = y")),
    "both-with-a-range": certain(V5 | M2, "v|int >= 3 and m == 'y'", when("v >= 3 and m = y")),
    "one-and-not-the-other": certain(K2 | V5, "k == 'b' and v != '3'", when("k = b and v != 3")),
    "all-three": certain(K2 | M2 | N2, "k == 'b' and m == 'y' and n == 'q'", when("k = b and m = y and n = q")),
    "either": certain(K4 | {"m": list("wxyz")}, "k == 'b' or m == 'y'", when("k = b, or m = y")),
    "either-of-three": certain(K2 | M2 | N2, "k == 'b' or m == 'y' and n == 'q'", when("k = b, or m = y and n = q")),
    "exclude": certain(K2 | M2, "k == 'b'", when(B), more={"exclude": [{"k": "b", "m": "x"}]}),
    "exclude-of-three": certain(K4 | M2, "m == 'y'", when("m = y"), more={"exclude": [{"k": "c", "m": "y"}]}),
    "include": certain(K2 | M2, "k == 'c'", when("k = c"), more={"include": [{"os": "debian-12", "k": "c", "m": "x"}]}),
    "failing-builds": certain(
        K4, "k == 'b'", when(B) + ".*3 cells decided; 1 build-failed", setup="{{ 'exit 9' if k == 'c' else '' }}"
    ),
    "half-of-the-builds": certain(
        K4 | M2, "k == 'b'", when(B) + ".*; 2 build-failed", setup="{{ 'exit 9' if k == 'd' else '' }}"
    ),
    "another-failure": Planted(
        axes=K4, percent="{{ 100 if k == 'b' else 200 if k == 'c' else 0 }}", says=when(B) + ".*1 different-fail"
    ),
    "always": certain(K4, "true", "no explanation: all 4 cells decided reproduce: no difference between them is shown"),
    "never": certain(K4, "false", "no explanation: none of the 4 cells decided reproduces"),
    "one-cell": certain({"k": ["a"]}, "true", "no explanation: only one cell is decided"),
    "changed-together": certain(
        K2 | M2, "k == 'b'", "several conditions fit .*(k = b; m = y|m = y; k = b)",
        more={"exclude": [{"k": "b", "m": "x"}, {"k": "a", "m": "y"}]},
    ),
    "either-but-not-both": certain(K2 | M2, "(k == 'b') != (m == 'y')", when("k = a and m = y, or k = b and m = x")),
    "two-pairs": certain(
        {"k": list("abc"), "m": list("xyz")}, "k + m in ('ax', 'bz')", when("k = a and m = x, or k = b and m = z")
    ),
    "a-board": certain(
        {"k": list("abc"), "m": list("xyz")}, "k + m in ('ax', 'az', 'by', 'cx', 'cz')",
        when("k != b and m != y, or k = b and m = y"),
    ),
}  # fmt: skip

FLAKY = {
    **{f"seldom-{low}": flaky(K2, f"100 if k == 'b' else {low}", OFTEN.format(B)) for low in (20, 30, 50)},
    **{f"one-of-four-{low}": flaky(K4, f"100 if k == 'b' else {low}", OFTEN.format(B)) for low in (20, 50)},
    **{f"in-a-grid-{low}": flaky(K2 | M2, f"100 if k == 'b' else {low}", OFTEN.format(B)) for low in (20, 50)},
    "very-seldom": flaky(K2, "100 if k == 'b' else 5", f"{when(B)}|{OFTEN.format(B)}"),
    "very-seldom-in-four": flaky(K4, "100 if k == 'b' else 5", f"{when(B)}|{OFTEN.format(B)}"),
    "after-one-trial": flaky(K2, "100 if k == 'b' else 5", f"{when(B)}|{OFTEN.format(B)}|{NO_CLAIM}", 1),
    "after-three": flaky(K2, "100 if k == 'b' else 20", f"{when(B)}|{OFTEN.format(B)}|{NO_CLAIM}", 3),
    "no-cause-70": flaky(K4, "70", NO_CLAIM),
    "no-cause-30": flaky(K4, "30", NO_CLAIM, 5),
    "no-cause-50-in-a-grid": flaky(K4 | M2, "50", NO_CLAIM, 3),
    "flaky-cause-70": flaky(K2, "70 if k == 'b' else 0", when(B)),
    "flaky-cause-50-in-four": flaky(K4, "50 if k == 'b' else 0", when(B) + f"|{NO_CLAIM}|{OFTEN.format(B)}"),
    "flaky-cause-in-a-grid": flaky(K2 | M2, "70 if k == 'b' else 0", when(B)),
    "flaky-pair": flaky(K2 | M2, "70 if k == 'b' and m == 'y' else 0", when("k = b and m = y")),
    "graded": flaky(V5, "(1, 5, 30, 70, 99)[v|int - 1]", OFTEN.format("v >= [345]")),
    "graded-in-two": flaky(V5, "(0, 0, 40, 80, 100)[v|int - 1]", f"{OFTEN.format('v >= [345]')}|{when('v >= 3')}"),
    "two-causes": flaky(
        K2 | M2, "100 if k == 'b' else 30 if m == 'y' else 0", f"{OFTEN.format(B)}|{when('k = b, or m = y')}"
    ),
    "two-rates": flaky(K2, "90 if k == 'b' else 20", OFTEN.format(B)),
}  # fmt: skip
PLANTED = {**CERTAIN, **FLAKY}


def tried(file: CaseFile, record: CellRecord, luck: random.Random) -> CellRecord:
    """A cell with a trial more."""
    spec = render(file.case, record.cell)
    rate = int(spec.env["P"])
    outcome = Outcome.REPRODUCED if luck.random() * 100 < rate else Outcome.PASSED
    trial = TrialRecord(
        number=len(record.trials) + 1,
        outcome=Outcome.DIFFERENT_FAILURE if rate == 200 else outcome,
        exit_code=0,
        seconds=0.1,
        oom=False,
        timed_out=False,
        reason="",
        log="",
    )
    trials = (*record.trials, trial)
    return replace(record, trials=trials, verdict=decide([one.outcome for one in trials])[0])


def ran(file: CaseFile, trials: int, luck: random.Random) -> Sequence[CellRecord]:
    """The cells of a case, repeated until they carry what they say."""
    records = []
    matrix = file.case.matrix
    for number, cell in enumerate(expand(matrix.axes, matrix.exclude, matrix.include), 1):
        record = CellRecord(
            number=number, case_id=file.case.id, case_path="x", case_digest="x", cell=cell, variant="case"
        )
        built = "exit 9" not in str(render(file.case, cell))
        for _ in range(trials * built):
            record = tried(file, record, luck)
        records.append(record if built else replace(record, verdict=Verdict.BUILD_FAILED))
    plan = planner("always")
    while plan and (number := plan(records, ())) is not None:
        records[number - 1] = tried(file, records[number - 1], luck)
    return records


@pytest.mark.parametrize("name", PLANTED)
def test_each_planted_truth_gets_its_sentence(name: str, tmp_path: Path) -> None:
    one, path = PLANTED[name], tmp_path / "case.yaml"
    path.write_text(json.dumps(one.case(name)))
    [file] = load(str(path))
    explained = explain_records(ran(file, one.trials, random.Random(44)))
    said = next(short(explained))
    assert re.match(one.says, said), said
    bound = re.search(r"up to ([0-9]+) %", said)
    rates = [int(render(file.case, explained.cells[at]).env["P"]) for at in explained.explanation.good]
    assert bound is None or max(rates) <= int(bound[1]), "a cell that passed fails more often"

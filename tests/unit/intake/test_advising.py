"""What ``new`` says of a draft that does not reproduce: what to change."""

from __future__ import annotations

import pytest

from reprokit.case.model import Case
from reprokit.environment.cases import load_text
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails, FailedBuildRecord
from reprokit.evidence.model import Frame, Outcome, Verdict
from reprokit.evidence.records import CellRecord, ExceptionRecord, TrialRecord
from reprokit.intake.proof import advise

REPORTED = """
schema: reprokit/v1
id: a-b
title: It dies
report:
  environments: [{Python: "3.10.4 (default)", numpy: "1.26.4", packages: "torch==2.1.0+cu121, six==1.16.0"}]
command: python3 train.py
expect:
  failure: {FAILURE}
"""
TRACE = "{exception: ValueError, message: bad shape, frames: ['loss.py:forward']}"


def case_of(failure: str = TRACE) -> Case:
    return load_text("x.yaml", REPORTED.replace("{FAILURE}", failure)).case


def cell(
    verdict: Verdict, kind: str = "", message: str = "", status: int | None = 1, last: str = "loss.py:forward"
) -> CellRecord:
    file, _, function = last.partition(":")
    seen = ExceptionRecord(type=kind, message=message, frames=(Frame(file=f"/w/{file}", line=7, function=function),))
    trial = TrialRecord(
        number=1, outcome=Outcome.DIFFERENT_FAILURE, exit_code=status, seconds=1, oom=False, timed_out=False, reason="",
        log="x.log", exception=seen if kind else None,
    )  # fmt: skip
    return CellRecord(
        number=3, case_id="a-b", case_path="x", case_digest="", cell={}, verdict=verdict, reason="a reason",
        trials=(trial,),
        environment=Measured(python="3.11.2", packages={"pip": {"numpy": "1.26.4", "torch": "2.3.1", "six": "1.16.0"}}),
    )  # fmt: skip


def said(found: CellRecord, failure: str = TRACE, log: str = "") -> str:
    lines = advise(case_of(failure), [found], "a case.yaml", lambda trial: log)
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("kind", "message", "status", "log", "hint"),
    [
        ("ModuleNotFoundError", "No module named 'cv2'", 1, "", "add opencv-python to environment.pip"),
        ("ModuleNotFoundError", "No module named 'mylib.a'", 1, "", "the package that has the module mylib to"),
        (
            "ImportError",
            "libGL.so.1: cannot open shared object file",
            1,
            "",
            "add the package that has libGL.so.1 to environment.apt",
        ),
        ("", "", 127, "sh: 1: ffmpeg: not found", "add the package that has ffmpeg to environment.apt"),
        (
            "",
            "",
            127,
            "bash: line 1: v/bin/python: No such file or directory",
            "v/bin/python is of the reporter's machine",
        ),
        (
            "FileNotFoundError",
            "[Errno 2] No such file or directory: 'data/a.csv'",
            1,
            "",
            "put data/a.csv into the case",
        ),
        ("", "", 2, "python3: can't open file '/workspace/t.py': [Errno 2]", "put t.py into the case"),
        ("SyntaxError", "invalid syntax", 1, "", "the axis python"),
        ("AttributeError", "module 'numpy' has no attribute 'x'", 1, "", "pin its versions"),
    ],
)
def test_what_an_incomplete_draft_lacks_is_named(kind: str, message: str, status: int, log: str, hint: str) -> None:
    text = said(cell(Verdict.DIFFERENT_FAILURE, kind, message, status), log=log)
    assert f"change: {hint}" in text or hint in text.partition("change: ")[2]


def test_other_verdicts() -> None:
    failed = FailedBuildRecord(step="pip", cause="the package needs a compiler", put="the axis gcc")
    found = cell(Verdict.BUILD_FAILED)
    found = CellRecord(**{**vars(found), "details": CellDetails(build=failed)})
    assert said(found).startswith("change: the axis gcc\nthen: reprokit run 'a case.yaml'; reprokit show last 3 --log")
    assert "raise resources.timeout" in said(cell(Verdict.TIMED_OUT))
    assert "raise resources.memory" in said(cell(Verdict.OUT_OF_MEMORY))
    assert said(cell(Verdict.UNSUPPORTED)) == ""
    cells = [cell(Verdict.REPRODUCED), cell(Verdict.NOT_REPRODUCED)]
    [text] = advise(case_of(), cells, "x.yaml", lambda trial: "")
    assert text.startswith("it reproduces in 1 of 2 cells; next: reprokit isolate x.yaml")

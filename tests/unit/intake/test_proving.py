"""What a run proves of a draft: confirmed only where the reported failure shows, and not where it passes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from reprokit.case import placeholders
from reprokit.environment.cases import load_text
from reprokit.environment.measured import Measured
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.intake.draft import Draft, judge_draft, mark, not_run, open_parts, render

FAILURE = {"exception": "ValueError", "message": "bad shape"}
FAILS, PASSES, OTHER = Verdict.REPRODUCED, Verdict.NOT_REPRODUCED, Verdict.DIFFERENT_FAILURE


def draft(failure: Mapping[str, str] = FAILURE, *passing: str, **data: Any) -> Draft:
    return Draft(
        data={"id": "x", "title": "x", "matrix": {"os": ["debian-12"], "numpy": ["1.26.4", "2.0.0", "2.1.0"]},
              "command": "python x.py", "expect": {"failure": dict(failure)}, **data},
        passing=tuple({"numpy": one} for one in passing),
    )  # fmt: skip


def cells(**verdicts: Verdict) -> list[CellRecord]:
    return [
        CellRecord(
            number=number, case_id="x", case_path="x.yaml", case_digest="sha256:0", verdict=verdict,
            cell={"os": "debian-12", "numpy": name[1:].replace("_", ".")}, reason=f"reason {number}",
            environment=Measured(os="debian-12"),
        )
        for number, (name, verdict) in enumerate(verdicts.items(), 1)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("made", "verdicts", "status", "said"),
    [
        (draft(), {"_2_0_0": FAILS}, 0, "names no version that passes"),
        (draft(FAILURE, "1.26.4"), {"_2_0_0": FAILS, "_1_26_4": PASSES}, 0, "and numpy=1.26.4 passes"),
        (draft(FAILURE, "1.26.4"), {"_2_0_0": Verdict.FLAKY, "_2_1_0": PASSES, "_1_26_4": PASSES}, 0, "1 of 2 cells"),
        (draft(FAILURE, "1.26.4"), {"_2_0_0": FAILS, "_1_26_4": FAILS}, 1, "numpy=1.26.4 passes by the report, and fa"),
        (draft(FAILURE, "1.26.4"), {"_2_0_0": PASSES, "_1_26_4": FAILS}, 1, "not confirmed"),
        (draft(FAILURE, "1.26.4"), {"_2_0_0": FAILS, "_1_26_4": OTHER}, 1, "different-failure: reason 2"),
        (draft(FAILURE, "1.26.4"), {"_2_0_0": FAILS, "_1_26_4": Verdict.BUILD_FAILED}, 3, "not decided"),
        (draft(), {"_2_0_0": OTHER}, 1, "no cell fails as the report shows: reason 1"),
        (draft(), {"_2_0_0": Verdict.BUILD_FAILED}, 3, "not decided: reason 1"),
        (draft({"exit_code": "nonzero"}), {"_2_0_0": FAILS}, 3, "any failure would match"),
        (draft({"signal": "SIGSEGV"}), {"_2_0_0": FAILS}, 0, "confirmed"),
        (draft(), {}, 3, "not decided"),
    ],
)
def test_what_is_confirmed(made: Draft, verdicts: dict[str, Verdict], status: int, said: str) -> None:
    proof = judge_draft(made, cells(**verdicts))
    assert (proof.status, proof.reproduced) == (status, status == 0)
    assert said in proof.words
    text = render(mark(made, proof, "r-1"))
    assert load_text("x.yaml", text).case == load_text("x.yaml", render(made)).case
    head, expect = text.partition("schema:")[0], text.partition("expect:")[0]
    assert proof.words.split(":")[0] in head
    if verdicts:
        assert "measured in its image: os debian-12" in text
        assert f"\n# {'' if status == 0 else 'not '}confirmed by run r-1" in expect


@pytest.mark.parametrize(
    ("with_fix", "status", "said"),
    [
        (PASSES, 0, "numpy=2.0.0 with the fix passes"),
        (FAILS, 1, "with the fix passes by the report, and fails in the same way here"),
        (Verdict.BUILD_FAILED, 3, "not decided"),
    ],
)
def test_a_fix_that_passes_says_that_the_failure_is_the_reported_one(with_fix: Verdict, status: int, said: str) -> None:
    [case] = cells(_2_0_0=FAILS)
    proof = judge_draft(draft({"exit_code": "nonzero"}), [case, replace(case, variant="fix", verdict=with_fix)])
    assert proof.status == status
    assert said in proof.words


@pytest.mark.parametrize(
    ("made", "places"),
    [
        (draft(), []),
        (draft({"output": placeholders.OUTPUT}, command=placeholders.COMMAND), ["command", "expect.failure.output"]),
        (draft(matrix={"numpy": [placeholders.MARK]}), ["matrix.numpy"]),
        (draft(datasets={"mnist": {"path": "data"}}), ["the data of mnist"]),
        (draft(description=placeholders.MARK), []),
    ],
)
def test_a_draft_with_open_parts_says_which(made: Draft, places: list[str]) -> None:
    assert open_parts(load_text("x.yaml", render(made), draft=True).case) == places
    if places:
        text = render(mark(made, not_run(places)))
        assert "not run: write " + places[0] in text
        assert "confirmed by run" not in text

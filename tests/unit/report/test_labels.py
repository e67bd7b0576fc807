"""How verdicts look in one line, and what a run says of its images, its time and its single trials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reprokit.evidence.details import CellDetails
from reprokit.evidence.model import Outcome, Verdict
from reprokit.evidence.records import CellRecord, TrialRecord
from reprokit.evidence.sequential import Trials, figures
from reprokit.evidence.usage import Usage
from reprokit.evidence.verdict import decide
from reprokit.report.labels import describe_passes, list_findings, short_reason
from reprokit.search.repeating import tally_of, trials_of


def cell(outcome: Outcome, count: int, policy: Trials | None = None) -> CellRecord:
    outcomes = [outcome] * count
    policy = policy or Trials.of(count)
    verdict, reason = decide(outcomes, policy)
    trial = TrialRecord(
        number=1, outcome=outcome, exit_code=3, seconds=0.1, oom=False, timed_out=False, reason="exit status 3", log=""
    )
    return CellRecord(
        number=1,
        case_id="x",
        case_path="",
        case_digest="",
        cell={},
        verdict=verdict,
        reason=reason,
        details=CellDetails(trials=figures(outcomes, policy)),
        trials=(trial,) * count,
    )


def test_passing_trials_are_counted_and_several_have_their_figure() -> None:
    assert short_reason(cell(Outcome.PASSED, 1)) == "passed 1 of 1"
    often = cell(Outcome.PASSED, 5)
    assert short_reason(often) == "passed 5 of 5 (a failure in up to 45 % of runs is not excluded)"
    assert short_reason(often, bound=False) == "passed 5 of 5"
    asked = cell(Outcome.PASSED, 29, Trials())
    assert short_reason(asked) == asked.reason, "what was asked for is answered"


def test_the_record_keeps_the_figure() -> None:
    once = cell(Outcome.PASSED, 1)
    assert "a failure rate of up to 95.0 % is still possible" in once.reason
    assert once.details.trials is not None
    assert once.details.trials.possible == 0.95


def test_repeats_do_not_hide_the_cause() -> None:
    failed = cell(Outcome.REPRODUCED, 4)
    repeated = replace(failed, details=replace(failed.details, repeats=3))
    assert short_reason(repeated) == "exit status 3 (4 trials)"
    assert short_reason(failed) == failed.reason


def test_what_passes_leave_open_is_said_once() -> None:
    once, often, failed = cell(Outcome.PASSED, 1), cell(Outcome.PASSED, 5), cell(Outcome.REPRODUCED, 1)
    assert describe_passes([failed]) == ""
    said = (
        "passed 1 of 1 (a failure in up to 95 % of runs is not excluded): 2 cells; passed 5 of 5 (up to 45 %): 1 cell"
    )
    cells = [often, once, replace(once, reused_from="r:1"), failed]
    assert describe_passes(cells) == f"{said}; --trials auto runs more"


def test_cells_that_share_a_reason_are_listed_together_and_those_that_depart_first() -> None:
    passed = replace(cell(Outcome.PASSED, 1), expected=Verdict.REPRODUCED, number=9)
    broken = replace(passed, verdict=Verdict.BUILD_FAILED, reason="no gcc\n  in a line below")
    flaky = replace(passed, verdict=Verdict.FLAKY, expected=None, reason="1 of 3", number=2)
    fine = replace(passed, expected=Verdict.NOT_REPRODUCED)
    stopped = replace(fine, verdict=Verdict.CANCELLED, reason="stopped")
    cells = [*(replace(broken, number=number) for number in (3, 4, 5, 8)), flaky, fine, stopped, passed]
    assert list(list_findings(cells, dict.fromkeys(range(10), "n=0"))) == [
        ("departs", f"#9 n=0: not-reproduced, expected reproduced: {passed.reason}"),
        ("inconclusive", "#3-5, 8 n=0 and 3 more cells: build-failed: no gcc\n  in a line below"),
        ("flaky", "#2 n=0: 1 of 3"),
    ]


def test_a_measured_cell_says_what_was_measured() -> None:
    once = cell(Outcome.PASSED, 1)
    usage = Usage(iterations=((1, 5), (2, 5)))
    flat = replace(once, trials=(replace(once.trials[0], usage=usage, reason="the memory grows by 0 B"),))
    assert short_reason(flat) == "the memory grows by 0 B"
    assert describe_passes([flat]) == ""


@pytest.mark.parametrize(
    "outcomes", [[Outcome.REPRODUCED] * 4, [Outcome.PASSED] * 3, [Outcome.REPRODUCED, Outcome.PASSED]]
)
def test_a_record_without_its_trials_counts_as_many(outcomes: list[Outcome]) -> None:
    whole = cell(outcomes[0], len(outcomes))
    verdict, _ = decide(outcomes, Trials.of(len(outcomes)))
    trials = tuple(replace(whole.trials[0], outcome=outcome) for outcome in outcomes)
    shown = replace(whole.details, trials=figures(outcomes, Trials.of(len(outcomes))))
    whole = replace(whole, verdict=verdict, details=shown, trials=trials)
    bare = replace(whole, trials=())
    assert (tally_of(bare), trials_of(bare)) == (tally_of(whole), trials_of(whole))
    assert trials_of(bare) == len(outcomes)

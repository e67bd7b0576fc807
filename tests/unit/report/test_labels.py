"""How verdicts look in one line, and what a run says of its images, its time and its single trials."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reprokit.evidence.details import CellDetails
from reprokit.evidence.model import Outcome
from reprokit.evidence.records import CellRecord, ImageRecord, TrialRecord
from reprokit.evidence.sequential import Trials, figures
from reprokit.evidence.usage import Usage
from reprokit.evidence.verdict import decide
from reprokit.report.labels import caveat, short_reason, totals
from reprokit.search.repeating import tally_of, trials_of

BUILT = ImageRecord(tag="a", id="1", built=True, seconds=100.0)
OTHER = ImageRecord(tag="b", id="2", built=True, seconds=30.5)
REUSED = ImageRecord(tag="c", id="3", seconds=0.1)


def built(image: ImageRecord | None, seconds: float | None) -> CellRecord:
    plain = CellRecord(number=1, case_id="c", case_path="c.yaml", case_digest="sha256:0", cell={})
    return replace(plain, image=image, seconds=seconds)


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (
            [built(BUILT, 10.0), built(BUILT, 20.0), built(OTHER, 5.0), built(REUSED, 5.0)],
            "built 2 images in 2 min 10 s, reused 1; trials 40.0 s",
        ),
        ([built(REUSED, 0.5)], "reused 1 image; trials 0.50 s"),
        (
            [built(replace(BUILT, built=False), 1.0), built(BUILT, None)],
            "built 1 image in 1 min 40 s; trials 1.0 s",
        ),
        ([built(None, None)], ""),
    ],
)
def test_totals_count_each_image_once(cells: list[CellRecord], text: str) -> None:
    assert totals(cells) == text


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
    assert short_reason(cell(Outcome.PASSED, 1)) == "passed (1 trial)"
    assert short_reason(cell(Outcome.PASSED, 5)) == "passed (5 trials; up to 45 % may fail)"
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


def test_the_caveat_is_said_once_of_cells_with_one_passing_trial() -> None:
    once, often, failed = cell(Outcome.PASSED, 1), cell(Outcome.PASSED, 5), cell(Outcome.REPRODUCED, 1)
    assert caveat([often, failed]) == ""
    said = "2 of the 4 cells passed in one trial, which leaves a failure rate of up to 95 % possible"
    assert caveat([once, once, often, failed]) == f"{said}; --trials auto runs more"


def test_a_measured_cell_says_what_was_measured() -> None:
    once = cell(Outcome.PASSED, 1)
    usage = Usage(iterations=((1, 5), (2, 5)))
    flat = replace(once, trials=(replace(once.trials[0], usage=usage, reason="the memory grows by 0 B"),))
    assert short_reason(flat) == "the memory grows by 0 B"
    assert caveat([flat]) == ""


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

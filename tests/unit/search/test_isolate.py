"""Isolation of a cause between two cells: the algorithm by itself, over functions in place of containers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.case.matrix import Cell
from reprokit.environment.measured import Measured
from reprokit.evidence.details import CellDetails
from reprokit.evidence.model import Outcome
from reprokit.evidence.reading import Reading
from reprokit.evidence.records import CellRecord
from reprokit.evidence.sequential import Trials, figures
from reprokit.evidence.verdict import decide
from reprokit.search.conditions import values_between
from reprokit.search.isolate_summary import IsolationText
from reprokit.search.isolation import (
    Isolation,
    best,
    certificate,
    changes_between,
    consistent,
    effort,
    explanations,
    fails,
    isolate,
    mix_cells,
    mixes,
)
from reprokit.search.queries import Query, drive
from tests.bench.isolate_simulation import outcome, wrong_words
from tests.unit.limits import examples

GOOD = {"os": "d11", "cuda": "11.0", "gcc": "11", "python": "3.9", "lang": "C", "opt": "1"}
BAD = {"os": "d12", "cuda": "12.0", "gcc": "12", "python": "3.11", "lang": "de", "opt": "3"}


class World:
    """Answers asks by a function of the cell, and counts what it is asked."""

    def __init__(self, shows: Callable[[Cell], Reading | bool]) -> None:
        self.shows = shows
        self.asked: list[Cell] = []
        self.soon: list[Cell] = []

    def answer(self, ask: Query) -> tuple[Reading, ...]:
        self.asked += [one.cell for one in ask.candidates if one.cell not in self.asked]
        self.soon += [one.cell for one in ask.soon]
        return tuple(self.reads(one.cell) for one in ask.candidates)

    def reads(self, cell: Cell) -> Reading:
        shown = self.shows(cell)
        return shown if isinstance(shown, Reading) else Reading.FAIL if shown else Reading.PASS


def names(found: Isolation) -> list[list[list[str]]]:
    return [[[change.axis for change in found.named(mix)] for mix in one] for one in found.explanations]


def test_one_axis_of_six_takes_few_cells_and_is_confirmed_alone_and_reverted() -> None:
    world = World(lambda cell: cell["cuda"] == "12.0")
    found = drive(isolate(GOOD, BAD), world.answer)
    assert names(found) == [[["cuda"]]]
    assert len(world.asked) <= 8
    assert {**GOOD, "cuda": "12.0"} in world.asked
    assert {**BAD, "cuda": "11.0"} in world.asked


def test_what_else_changes_with_the_answer_is_named() -> None:
    good, bad = {"os": "debian-12", "opt": "1"}, {"os": "ubuntu-22.04", "opt": "3"}
    found = drive(isolate(good, bad), World(lambda cell: cell["os"] == bad["os"]).answer)

    def words(provider: str, six: Callable[[Cell], str]) -> list[str]:
        def record(cell: Cell) -> CellRecord:
            served = {"cuda": provider if cell["os"] == bad["os"] else "wheels x"}
            seen = Measured(packages={"pip": {"six": six(cell)}})
            of_case: dict[str, Any] = {"case_id": "x", "case_path": "x", "case_digest": "x", "cell": cell}
            return CellRecord(number=1, details=CellDetails(served_by=served), environment=seen, **of_case)

        said = IsolationText(found=found, record=record, matrix=2).words()
        return [line for line in said if "at the same place" in line]

    assert words("image x", lambda cell: "1") == ["the provider of CUDA wheels/image changes at the same place"]
    assert words("wheels y", lambda cell: {"debian-12": "2"}.get(cell["os"], "4")) == [
        "six 2/4 changes at the same place"
    ]
    assert words("wheels y", lambda cell: cell["opt"]) == []


def test_two_axes_that_fail_together_are_both_found() -> None:
    world = World(lambda cell: cell["gcc"] == "12" and cell["python"] == "3.11")
    found = drive(isolate(GOOD, BAD), world.answer)
    assert names(found) == [[["gcc", "python"]]]
    assert len(world.asked) <= 12
    assert {**GOOD, "gcc": "12", "python": "3.11"} in world.asked


def test_either_of_two_causes_is_reported_as_such() -> None:
    world = World(lambda cell: cell["gcc"] == "12" or cell["lang"] == "de")
    found = drive(isolate(GOOD, BAD), world.answer)
    assert sorted(names(found)[0]) == [["gcc"], ["lang"]]


def test_a_bad_cell_that_passes_or_a_good_cell_that_fails_ends_the_search() -> None:
    world = World(lambda cell: cell["cuda"] == "none of these")
    found = drive(isolate(GOOD, BAD), world.answer)
    assert not found.ends_hold
    assert world.asked == [BAD, GOOD]


def test_unresolved_cells_are_avoided() -> None:
    def shows(cell: Cell) -> Reading | bool:
        if cell["os"] == "d11" and cell["python"] == "3.11":
            return Reading.UNRESOLVED
        return cell["cuda"] == "12.0"

    world = World(shows)
    found = drive(isolate(GOOD, BAD), world.answer)
    assert names(found) == [[["cuda"]]]
    assert len(world.asked) <= 16


def test_axes_that_the_case_ties_together_are_reported_as_indistinguishable() -> None:
    world = World(lambda cell: cell["cuda"] == "12.0")
    tied = lambda cell: (cell["cuda"] == "12.0") == (cell["gcc"] == "12")  # noqa: E731
    found = drive(isolate(GOOD, BAD, possible=tied), world.answer)
    assert all(tied(cell) for cell in world.asked)
    left = [[[change.axis for change in found.named(mix)] for mix in one] for one in found.plausible]
    assert left[:2] in ([[["cuda"]], [["gcc"]]], [[["gcc"]], [["cuda"]]])
    assert {axis for one in left for some in one for axis in some} == {"cuda", "gcc"}
    assert all(not tied(found.cell(mix)) for mix in found.undistinguished)
    assert found.excluded >= set(found.undistinguished)
    assert len(found.undistinguished) > 0


def test_results_that_contradict_every_explanation_leave_the_closest_two_cells() -> None:
    contradicted = 0
    for seed in range(60):
        rng = random.Random(seed)
        shown = {mix: rng.random() < 0.5 for mix in range(16)} | {0: False, 15: True}
        good, bad = (dict.fromkeys("abcd", side) for side in "01")
        world = World(
            lambda cell, shown=shown: shown[sum((cell[axis] == "1") << bit for bit, axis in enumerate("abcd"))]
        )
        found = drive(isolate(good, bad), world.answer)
        if not found.explanations:
            contradicted += 1
            assert found.pair is not None
            well, ill = found.pair
            assert (well ^ ill).bit_count() == 1
            assert (world.reads(found.cell(well)), world.reads(found.cell(ill))) == (Reading.PASS, Reading.FAIL)
        for one in found.explanations:  # what is reported was run
            least, largest = certificate(one, 4)
            assert all(world.reads(found.cell(mix)) is Reading.FAIL for mix in least)
            assert all(world.reads(found.cell(mix)) is Reading.PASS for mix in largest)
    assert 10 < contradicted < 50


def test_the_boundary_is_found_among_values_inside() -> None:
    values = ["11.4", "11.8", "11.9", "12.0"]
    world = World(lambda cell: cell["cuda"] in ("11.9", "12.0"))
    between = lambda axis, cell: values[:-1] if axis == "cuda" else []  # noqa: E731
    found = drive(isolate(GOOD, BAD, between=between), world.answer)
    (boundary,) = found.boundaries
    assert (boundary.values[boundary.found.last], boundary.values[boundary.found.next]) == ("11.8", "11.9")


def test_the_limit_on_cells_is_kept_and_reported() -> None:
    world = World(lambda cell: cell["gcc"] == "12" and cell["python"] == "3.11")
    found = drive(isolate(GOOD, BAD, limit=5), world.answer)
    assert len(world.asked) == 5
    assert found.stopped
    assert len(found.explanations) > 1


def test_the_cheaper_of_two_equally_informative_cells_is_run() -> None:
    # Images with gcc 11 exist; the others would have to be built.
    cost = lambda candidate: 0 if candidate.cell["gcc"] == "11" else 150  # noqa: E731
    world = World(lambda cell: cell["lang"] == "de")
    drive(isolate(GOOD, BAD, cost=cost), world.answer)
    built = [cell for cell in world.asked if cell["gcc"] == "12"]
    assert len(built) <= 2  # the bad cell, and the one in which only the cause is reverted
    assert effort(0) < effort(1) < effort(150)


def test_likely_next_cells_are_named_for_both_results() -> None:
    world = World(lambda cell: cell["cuda"] == "12.0")
    drive(isolate(GOOD, BAD), world.answer)
    assert any(cell in world.asked for cell in world.soon)


def test_an_axis_that_one_cell_lacks_is_mixed_by_leaving_it_out() -> None:
    good, bad = {"a": "1"}, {"a": "2", "cuda": "12.0"}
    changes = changes_between(good, bad)
    assert [(change.axis, change.good, change.bad) for change in changes] == [("a", "1", "2"), ("cuda", None, "12.0")]
    assert mix_cells(good, bad, changes, 0) == good
    assert mix_cells(good, bad, changes, 1) == {"a": "2"}
    assert mix_cells(good, bad, changes, 3) == bad


@given(st.integers(1, 5), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_a_planted_cause_is_found_or_left_open_and_never_reported_wrong(count: int, data: st.DataObject) -> None:
    thought_of = list(explanations(count))
    planted = data.draw(st.sampled_from(thought_of))
    whole = (1 << count) - 1
    unknown = data.draw(st.sets(st.sampled_from(range(1, whole)), max_size=4)) if whole > 1 else set()
    good, bad = ({str(bit): side for bit in range(count)} for side in ("good", "bad"))

    def shows(cell: Cell) -> Reading | bool:
        mix = sum(1 << bit for bit in range(count) if cell[str(bit)] == "bad")
        return Reading.UNRESOLVED if mix in unknown else fails(planted, mix)

    world = World(shows)
    found = drive(isolate(good, bad, ahead=False), world.answer)
    assert len(world.asked) == len({tuple(cell.items()) for cell in world.asked}) <= 1 << count
    assert planted in found.explanations
    if not unknown:
        assert found.explanations == (planted,)


@given(st.integers(1, 6), st.data())
@settings(max_examples=examples(60), deadline=None)
def test_the_mixes_of_a_certificate_leave_no_other_explanation(count: int, data: st.DataObject) -> None:
    weights = explanations(count)
    explanation = data.draw(st.sampled_from(list(weights)))
    least, largest = certificate(explanation, count)
    left = weights
    for mix, seen in [*((mix, Reading.FAIL) for mix in least), *((mix, Reading.PASS) for mix in largest)]:
        assert fails(explanation, mix) is (seen is Reading.FAIL)
        left = consistent(left, mix, seen)
    assert list(left) == [explanation]


@pytest.mark.nightly
def test_many_differences_stay_tractable() -> None:
    good, bad = ({str(bit): side for bit in range(12)} for side in ("good", "bad"))
    world = World(lambda cell: cell["3"] == "bad" and cell["8"] == "bad")
    found = drive(isolate(good, bad, ahead=False), world.answer)
    assert names(found) == [[["3", "8"]]]
    assert len(world.asked) <= 20
    assert len(mixes(12)) < 400
    assert best(explanations(2), {0: Reading.PASS, 3: Reading.FAIL}, 2, [0, 3], lambda mix: 0) is None


@pytest.mark.system
def test_grids_with_planted_causes_are_isolated_and_none_is_reported_wrong() -> None:
    outcomes = [outcome(seed) for seed in range(15)]
    assert not [one for one in outcomes if one.word == "wrong" or one.boundary == "wrong"]
    assert sum(one.word == "found" for one in outcomes) >= 11
    assert max(one.cells for one in outcomes) <= 20


@pytest.mark.parametrize("trials", [1, 3])
def test_what_is_said_of_interactions_is_true_or_bounded_at_any_rate(trials: int) -> None:
    wrong = [wrong_words(seed, rate, trials) for seed in range(30) for rate in (0.2, 0.5, 0.8, 1.0)]
    assert sum(map(bool, wrong)) <= 1, [words for words in wrong if words]


def test_axes_that_change_the_rate_alone_are_said_to() -> None:
    good, bad = {"a": "1", "b": "1"}, {"a": "2", "b": "2"}
    found = drive(isolate(good, bad), World(lambda cell: cell["a"] == "2").answer)

    def record(cell: Cell, often: int) -> CellRecord:
        fails = 20 if cell == bad else often if cell["a"] == "2" else 0
        ends = (Outcome.REPRODUCED,) * fails + (Outcome.PASSED,) * (20 - fails)
        details = CellDetails(trials=figures(ends, Trials(max=20)))
        of_case: dict[str, Any] = {"case_id": "x", "case_path": "x", "case_digest": "x", "cell": cell}
        return CellRecord(number=1, details=details, verdict=decide(ends)[0], **of_case)

    said = {
        often: IsolationText(found=found, record=lambda cell, often=often: record(cell, often), matrix=4).words()  # type: ignore[misc]
        for often in (4, 18, 20)
    }
    assert any("20 of 20 runs fail with any of them, 4 of 20 with none, p = " in line for line in said[4])
    assert any(line.endswith("20 of 20 runs fail with any of them, 18 of 20 with none)") for line in said[18])
    assert not any("with none" in line for line in said[20])


@pytest.mark.parametrize(
    ("axis", "values", "first", "last", "versions", "found"),
    [
        ("python", ["3.9", "3.10", "3.11", "3.12"], "3.9", "3.12", False, ["3.10", "3.11"]),
        ("python", ["3.9", "3.10", "3.11", "3.12"], "3.12", "3.9", False, ["3.11", "3.10"]),
        ("os", ["debian-11", "ubuntu-20.04", "debian-12"], "debian-10", "debian-12", False, ["debian-11"]),
        ("os", ["debian-11", "ubuntu-20.04"], "debian-10", "ubuntu-22.04", False, []),
        # A release candidate comes before its release, a rebuild after it.
        ("paddle", ["3.0.0", "3.0.0rc1", "3.0.0b2"], "2.6.2", "3.0.1", True, ["3.0.0b2", "3.0.0rc1", "3.0.0"]),
        ("paddle", ["3.0.0rc1", "2.6.2.post120", "nightly"], "2.6.2", "3.0.0", True, ["2.6.2.post120", "3.0.0rc1"]),
        ("numpy", ["2.0.0rc1", "2.0.0.post1", "2.1"], "1.26.4", "2.0.0", True, ["2.0.0rc1"]),
        ("torch", ["2.0.0", "2.1.0"], "2.0", "2.2", True, ["2.1.0"]),
        ("lr", ["0.5", "0.25", "1e38"], "0.1", "1.0", False, ["0.25", "0.5"]),
        ("shift", ["0", "-1"], "-2", "1", False, ["-1", "0"]),
        ("memory", ["512m", "1g"], "256m", "2g", False, ["512m", "1g"]),
        ("arch", ["sm_35", "sm_70", "sm_90"], "sm_35", "sm_90", False, ["sm_70"]),
        ("mode", ["on", "off", "auto"], "on", "off", False, []),
        ("mode", ["a", ""], "", "a", False, []),
    ],
)
def test_only_ordered_values_lie_between_two(
    axis: str, values: list[str], first: str, last: str, versions: bool, found: list[str]
) -> None:
    assert values_between(axis, values, first, last, versions=versions) == found


@pytest.mark.parametrize("seed", range(30))
def test_an_axis_that_matters_somewhere_is_not_said_to_have_no_effect(seed: int) -> None:
    """A random function with interactions is planted: an axis may hide or undo what another does."""
    names, rng = "abcd", random.Random(seed)
    table = {mix: rng.random() < 0.5 for mix in range(16)} | {0: False, 15: True}
    world = World(lambda cell: table[sum(1 << bit for bit, name in enumerate(names) if cell[name] == "2")])
    found = drive(isolate(dict.fromkeys(names, "1"), dict.fromkeys(names, "2")), world.answer)
    record = CellRecord(number=1, case_id="x", case_path="x", case_digest="x", cell={})
    words = IsolationText(found=found, record=lambda cell: record, matrix=16).words()
    matters = {name for bit, name in enumerate(names) if any(table[mix] != table[mix ^ 1 << bit] for mix in table)}
    for line in words:
        what, _, named = line.strip().partition(": ")
        axes = set(named.split(" (")[0].split(", "))
        assert what != "no effect" or not axes & matters, line
        if what.startswith("no effect together"):
            rest = sum(1 << names.index(name) for name in axes)
            assert table[15 & ~rest], line  # it fails without all of them
            assert any(not table[mix] for mix in table if mix & rest == rest), line
    assert not any("likely" in line for line in words)  # nothing that was run says so

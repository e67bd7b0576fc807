"""``reprokit bisect`` on a fake engine: which cells it runs, its messages, and that nothing is run twice."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from reprokit.case.matrix import Selection
from reprokit.cli import invoke
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import BuildFailed, Cancelled, UsageError
from reprokit.engine.protocol import Trial
from reprokit.environment.cases import load
from reprokit.evidence.model import Ending, Verdict
from reprokit.evidence.reading import Reading
from reprokit.evidence.strength import Tally
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.search.bisect_case import BisectionRequest, answer, make, with_range
from reprokit.search.bisect_line import BisectLine, walk_axis
from reprokit.search.bisection import Bisection
from reprokit.search.releases import Policy
from reprokit.search.search_session import SearchSession
from tests.documents import as_published
from tests.unit.fakes import FakeEngine
from tests.unit.search.test_commits import commit, git

CASE = """
schema: reprokit/v1
id: demo
title: Demo
matrix:
  python: ["3.11"]
  demo: ["1.0", "1.4"]
  mode: [quick, slow]
  step: [s1, s2, s3, s4, s5]
environment:
  pip: ["{% if mode == 'quick' %}demo=={{ demo }}{% endif %}"]
sources: {}
command: demo
env: {AT: "{{ AXIS }}"}
expect: {failure: {exit_code: 3}}
"""


class Project:
    """A case, an engine that fails (exit status 3) at the values of ``bad``, and its searches."""

    def __init__(self, folder: Path, bad: Callable[[str], bool], axis: str = "demo") -> None:
        self.case = folder / "demo.yaml"
        self.case.write_text(CASE.replace("AXIS", axis))
        self.store = folder / "store"
        self.engine = FakeEngine(self.behave)
        self.output = io.StringIO()
        self.bad = bad
        self.ran: list[str] = []
        self.stop_at = ""

    def behave(self, trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        at = trial.env["AT"]
        if at == self.stop_at:
            os.kill(os.getpid(), signal.SIGINT)
            assert self.engine.cancel.wait(10)
            raise Cancelled("stopped")
        self.ran.append(at)
        return Ending(exit_code=3 if self.bad(at) else 0, seconds=0.1)

    def start(self, arguments: Mapping[str, Any], only: Mapping[str, str] | None = None, **more: Any) -> int:
        groups = ({name: (value,) for name, value in only.items()},) if only else ()
        request = Request(
            cases=(str(self.case),), selection=Selection(only=groups), base_images="registry", jobs=1, **more
        )
        self.session = SearchSession(self.store, display=Screen(self.output), engine=lambda: self.engine)
        return self.session.start("bisect", request, BisectionRequest.from_json({"policy": {}, **arguments}), make)

    def resume(self) -> int:
        self.session = SearchSession(self.store, display=Screen(self.output), engine=lambda: self.engine)
        return self.session.resume("bisect", [], make)

    @property
    def answer(self) -> dict[str, Any]:
        found = as_published("search", json.loads(json.dumps(self.session.result().to_json())))["answer"]
        assert isinstance(found, dict)
        return found


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "wheels"
    folder.mkdir()
    for minor in range(9):
        (folder / f"demo-1.{minor}-py3-none-any.whl").touch()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


QUICK = {"mode": "quick", "step": "s1"}


def test_it_runs_no_more_cells_than_it_may(tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at >= "1.5")
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"], "max_cells": 3}, QUICK) == 3
    assert len(set(project.ran)) == 3
    assert project.answer["words"][0].startswith("in one trial each: broken between demo 1.4 and 1.8")
    assert "after 3 cells: go on with --axis demo=1.4..1.8, " in project.answer["words"][1]
    assert (project.answer["last"], project.answer["since"], project.answer["next"]) == ("1.4", None, "1.8")


def test_it_runs_no_longer_than_it_may(tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = Project(tmp_path, lambda at: at >= "1.5")
    clock = iter(range(0, 10_000, 60))
    monkeypatch.setattr("reprokit.search.search_session.time", SimpleNamespace(monotonic=lambda: float(next(clock))))
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"], "seconds": 180.0}, QUICK) == 3
    assert project.ran == ["1.0", "1.8", "1.4", "1.6"]
    assert "after 4 cells: go on with --axis demo=1.4..1.6, " in project.answer["words"][1]


def test_the_release_since_which_it_is_broken(tmp_path: Path, wheels: Path) -> None:
    (wheels / "demo-1.3.1rc1-py3-none-any.whl").touch()
    project = Project(tmp_path, lambda at: at >= "1.5")
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 0
    assert project.answer["change"] == "broken"
    assert (project.answer["last"], project.answer["since"]) == ("1.4", "1.5")
    text = project.output.getvalue()
    assert "note: 9 releases of demo from 1.0 to 1.8, about 5 runs" in text
    assert "note: left out: 1.3.1rc1: a pre-release" in text
    assert "note: demo 1.0 passes and 1.8 fails: 8 places are left for the boundary, about 3 more runs" in text
    assert (
        "\nbroken since demo 1.5; last passing 1.4 (1.4 passed 7 of 7: a failure in up to 60 % of runs is not" in text
    )
    missed = "assumes one change in the range: another that was undone within 1 place would be missed"
    assert f"{missed}; not run: 1.1, 1.3, 1.7\n6 of 9" in text
    assert len(set(project.ran)) == 6
    assert len(project.ran) <= 15  # the two sides of the boundary are repeated
    assert project.answer["confirmed"]


def test_pre_releases_at_the_boundary_are_named_beside_it(tmp_path: Path, wheels: Path) -> None:
    (wheels / "demo-1.5rc1-py3-none-any.whl").touch()
    project = Project(tmp_path, lambda at: at >= "1.5")
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 0
    first, second = project.answer["words"][:2]
    assert first.startswith("broken since demo 1.5; last passing 1.4 (")
    assert second == "  left out between them: 1.5rc1 (a pre-release)"


def test_a_boundary_among_releases_that_may_not_be_known_is_a_range(
    tmp_path: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    project = Project(tmp_path, lambda at: at >= "1.5")
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 3
    words = project.answer["words"]
    assert words[0].startswith("broken between demo 1.4 and 1.5 (")
    assert "has no answer for demo: 127.0.0.1:" in words[1]
    assert (project.answer["since"], project.answer["next"]) == (None, "1.5")


def test_a_release_that_was_not_tried_at_the_boundary_makes_it_a_range(tmp_path: Path, wheels: Path) -> None:
    (wheels / "demo-1.4-py3-none-any.whl").rename(wheels / "demo-1.4-cp27-cp27m-win32.whl")
    project = Project(tmp_path, lambda at: at >= "1.5")
    project.case.write_text(project.case.read_text().replace('"1.4"', '"1.8"'))
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 3
    first, second, *_ = project.answer["words"]
    assert first.startswith("broken between demo 1.3 and 1.5 (")
    assert second.startswith("  not tried: 1.4 (no wheel for Python 3.11.2")
    assert project.answer["untried"].keys() == {"1.4"}


class Flaky(Project):
    """Fails in the trials that ``fails`` says: (value, number of its trial from 1)."""

    def __init__(self, folder: Path, fails: Callable[[str, int], bool]) -> None:
        super().__init__(folder, lambda at: fails(at, self.ran.count(at)))


def test_a_pass_that_was_luck_moves_the_boundary(tmp_path: Path, wheels: Path) -> None:
    project = Flaky(tmp_path, lambda at, number: at >= "1.5" or (at >= "1.2" and number > 3))
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 0
    words = project.answer["words"]
    assert words[0].startswith("broken since demo 1.2; last passing 1.1 (")
    assert words[1].startswith("  flaky: it failed in ")
    assert project.answer["confirmed"]


def test_a_flake_in_all_releases_has_no_boundary(tmp_path: Path, wheels: Path) -> None:
    project = Flaky(tmp_path, lambda at, number: at == "1.8" or number > 2)
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 1
    assert project.answer["words"][0].startswith("no boundary: it fails at both ends, ")
    assert project.answer["since"] is None


def test_a_boundary_of_one_trial_each_says_so(tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at < "1.5")
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK, confirm="never") == 0
    words = project.answer["words"]
    assert words[0].startswith("in one trial each: last failing demo 1.4, first passing 1.5 (")
    assert words[1].endswith("--confirm always repeats both sides until a flake is excluded")
    assert not project.answer["confirmed"]
    assert project.answer["trials"]["1.4"] == {"failed": 1, "passed": 0}


@pytest.mark.parametrize(
    ("failed", "shown"),
    [
        ((0, 2, 3, 10, 10), "it failed in 5 of 20 trials up to demo 1.2, in 20 of 20 trials from 1.3 on"),
        ((2, 1, 10, 10, 10), "it failed in 3 of 20 trials up to demo 1.1, in 30 of 30 trials from 1.2 on"),
        ((10, 10, 10, 2, 0), "it failed in 30 of 30 trials up to demo 1.2, in 2 of 10 trials from 1.3 on"),
        ((0, 9, 10, 10, 10), ""),
        ((0, 5, 6, 4, 5), ""),
        ((0, 0, 0, 10, 10), ""),
    ],
)
def test_a_change_of_the_rate_is_a_change_of_its_own(failed: tuple[int, ...], shown: str) -> None:
    line = BisectLine(axis="demo", of="demo", things="releases", rest={}, values=("1.0", "1.1", "1.2", "1.3", "1.4"))
    tallies = {place: Tally(failed=number, passed=10 - number) for place, number in enumerate(failed)}
    readings = {place: Reading.FAIL if number else Reading.PASS for place, number in enumerate(failed)}
    ends = readings[0] is not readings[4]
    last = next((at for at in range(4) if readings[at] is not readings[at + 1]), 0) if ends else 0
    found = Bisection(last=last, next=last + 1 if ends else 4, readings=readings, confirmed=True)
    words = answer(line, found, {}, tallies, [], {}).words
    assert [one for one in words if "the rate changes" in one] == ([f"  the rate changes: {shown}"] if shown else [])


def test_confirming_that_is_interrupted_goes_on_with_what_is_known(tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at >= "1.5")
    bad = project.bad

    def fails(at: str) -> bool:
        if project.ran.count("1.4") == 3:
            project.stop_at = "1.4"  # the next trial of it
        return bad(at)

    project.bad = fails
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 130
    before = len(project.ran)
    project.stop_at, project.bad = "", bad
    assert project.resume() == 0
    assert project.answer["words"][0].startswith("broken since demo 1.5; last passing 1.4 (")
    assert project.answer["confirmed"]
    assert len(project.ran) <= 15
    assert len(project.ran) > before


SETUP = """
schema: reprokit/v1
id: setup
title: A version that setup installs
matrix: {python: ["3.11"], demo: ["1.0", "1.8"]}
environment: {WHERE}
command: demo
env: {AT: "{{ demo }}"}
expect: {failure: {exit_code: 3}}
"""


@pytest.mark.parametrize(
    "where",
    [
        "setup: 'pip install \"demo=={{ demo }}\"'",
        "setup: 'pip install demo[extra]=={{ demo }} other==1.0'",
        "setup: 'VERSION={{ demo }}; pip install demo==$VERSION'",
        "pip: []",  # the command alone uses it
    ],
)
def test_the_releases_are_known_wherever_a_template_uses_the_axis(where: str, tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at < "1.5")
    project.case.write_text(SETUP.replace("WHERE", where))
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}) == 0
    assert project.answer["words"][0].startswith("fixed since demo 1.5; last failing 1.4 (")


@pytest.mark.parametrize(
    ("low", "why"), [("1.0.7", "the index has no demo 1.0.7"), ("1.0", "the index has no package")]
)
def test_the_two_ends_of_an_unknown_line_give_a_range(low: str, why: str, tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at < "1.5")
    text = SETUP.replace("WHERE", "pip: []").replace('"1.0"', f'"{low}"')
    if low == "1.0":
        for wheel in wheels.iterdir():
            wheel.unlink()
    project.case.write_text(text)
    assert project.start({"axis": "demo", "ends": [low, "1.8"]}) == 3
    first, second, *_ = project.answer["words"]
    assert first.startswith(f"fixed between demo {low} and 1.8 (")
    assert second.startswith("  only the values of the matrix are known (" + why)
    assert second.endswith("--values A,B,C names others")


def test_a_line_that_is_named_by_hand_is_the_line(tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at in ("7", "1.5"))
    values = ["2", "1.9", "1.5", "7"]
    assert project.start({"axis": "demo", "ends": ["2", "7"], "values": values}, QUICK) == 0
    assert project.answer["words"][0].startswith("broken since demo 1.5; last passing 1.9 (")
    assert project.answer["values"] == values


def test_consecutive_numbers_have_nothing_between_them(tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at == "8", axis="gpus")
    project.case.write_text(
        project.case.read_text().replace("[s1, s2, s3, s4, s5]", "[1, 2, 8]").replace("step", "gpus")
    )
    only = {"mode": "slow", "demo": "1.0"}
    assert project.start({"axis": "gpus", "ends": ["1", "8"]}, only) == 3
    project.bad = lambda at: at != "1"
    assert project.start({"axis": "gpus", "ends": ["1", "8"]}, only) == 0
    assert project.answer["words"][0].startswith("broken since gpus 2; last passing 1 (")


def fail_to_build(project: Project, releases: set[str]) -> None:
    def build(*arguments: Any, **more: Any) -> Any:
        if any(f"demo=={value}" in arguments[0].dockerfile for value in releases):
            raise BuildFailed("no", step="RUN pip install", tail=("no",))
        return build_it(*arguments, **more)

    build_it, project.engine.build = project.engine.build, build  # type: ignore[method-assign]


def test_the_release_since_which_it_is_fixed_and_unresolved_ones(tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at < "1.5")
    fail_to_build(project, {"1.4", "1.5"})
    assert project.start({"axis": "demo", "ends": ["1.8", "1.0"]}, QUICK) == 3
    text = project.output.getvalue()
    assert "fixed between demo 1.3 and 1.6 (" in text
    assert "\n  unresolved: 1.4, 1.5 (build-failed)" in text
    assert project.answer["unclear"] == ["1.4", "1.5"]
    assert project.answer["since"] is None
    assert "2 skipped" in text


def test_it_says_where_it_began_if_an_end_is_unresolved(tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at < "1.5")
    fail_to_build(project, {"1.0", "1.8"})
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 0
    assert project.answer["since"] == "1.5"
    said = [line for line in project.answer["words"] if "is unresolved: the search began at" in line]
    assert [(line.split()[1], line.split()[8]) for line in said] == [("1.0", "1.1"), ("1.8", "1.7")]
    assert "note: demo 1.0 is unresolved: going on further in" in project.output.getvalue()


def test_ends_that_read_alike_are_repeated_and_two_rates_are_a_change(tmp_path: Path, wheels: Path) -> None:
    project = Flaky(tmp_path, lambda at, number: at == "1.8" or number % 5 == 0)
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK, trials=10) == 0
    assert project.answer["words"][0].startswith("fails more often since demo 1.8: in ")
    assert project.answer["confirmed"]
    project.bad = lambda at: False
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 1
    assert "it passes at both ends, 10 of 10 trials with demo 1.0" in project.answer["words"][0]
    assert "not excluded" in project.answer["words"][0]


@pytest.mark.parametrize("status", [0, 1])
def test_a_contradiction_with_the_last_run_is_reported(status: int, tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at == "1.4")
    run = Session(project.store, display=Screen(io.StringIO()), engine=lambda: project.engine)
    only = ({name: (value,) for name, value in QUICK.items()},)
    run.start(Request(cases=(str(project.case),), selection=Selection(only=only), base_images="registry"))
    project.bad = lambda at: at == "1.8" and status == 0
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == status
    assert project.answer["against"] == ["1.4"]
    assert (
        "  but in the last run of the case: 1.4 failed; so there is more than one change, or"
        in project.output.getvalue()
    )


def test_the_last_of_several_changes_is_named_and_that_there_are_more(tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at in ("1.2", "1.3", "1.4") or at >= "1.7")
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 0
    words = project.answer["words"]
    assert words[0].startswith("broken since demo 1.7; last passing 1.6 (")
    assert words[1].startswith("  the last of several changes: it failed at 1.2, 1.4, too, in ")
    assert project.answer["against"] == ["1.2", "1.4"]


def test_how_many_places_are_left_is_said_while_a_flake_is_weighed(tmp_path: Path, wheels: Path) -> None:
    project = Flaky(tmp_path, lambda at, number: at >= "1.2" and (number > 1 or at == "1.8"))
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 0
    said = [line for line in project.output.getvalue().splitlines() if re.search(r"demo \S+ failed in \d+ of", line)]
    assert any("places are left for the boundary" in line for line in said)
    assert "1 place is left for the boundary" in said[-1]


def test_a_resumed_bisection_repeats_nothing(tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at >= "1.7")
    project.stop_at = "1.6"
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK, confirm="never") == 130
    before = list(project.ran)
    assert len(before) >= 3
    project.stop_at = ""
    for wheel in wheels.iterdir():
        wheel.unlink()  # the index has changed since: the line stays what it was
    assert project.resume() == 0
    assert (project.answer["last"], project.answer["since"]) == ("1.6", "1.7")
    assert len(project.ran) == len(set(project.ran))
    assert project.ran[: len(before)] == before


def test_what_is_kept_of_an_interrupted_pair_is_counted_as_a_resume_counts_it(tmp_path: Path, wheels: Path) -> None:
    project = Project(tmp_path, lambda at: at >= "1.7")
    project.stop_at = "1.8"  # the other end was decided just before
    assert project.start({"axis": "demo", "ends": ["1.0", "1.8"]}, QUICK) == 130
    assert project.ran == ["1.0"]
    assert "stopped: 1 cell decided and kept" in project.output.getvalue()
    project.stop_at = ""
    assert project.resume() == 0
    assert "resuming bisect " in project.output.getvalue()
    assert ": 1 cell decided\n" in project.output.getvalue()


def test_values_that_this_host_cannot_serve_are_left_out_before_anything_is_built(tmp_path: Path) -> None:
    path = tmp_path / "nvcc.yaml"
    path.write_text(
        "schema: reprokit/v1\nid: nvcc\ntitle: Demo\ncommand: nvcc demo.cu\n"
        'matrix: {os: [debian-12], cuda: ["11.8", "13.0"]}\n'
    )
    request = Request(cases=(str(path),), base_images="bootstrap")
    line = walk_axis(load(str(path))[0], request, "cuda", ("11.8", "13.0"), Policy())
    assert (line.values[0], line.values[-1]) == ("11.8", "13.0")
    assert "12.0" in line.left_out
    assert "cuda 12.0 with nvcc, which the case calls, " in line.left_out["12.0"]


def test_an_axis_without_releases_uses_the_values_of_the_matrix(tmp_path: Path) -> None:
    project = Project(tmp_path, lambda at: at in ("s4", "s5"), axis="step")
    assert project.start({"axis": "step", "ends": ["s1", "s5"]}, {"mode": "slow", "demo": "1.0"}) == 0
    assert "broken since step s4; last passing s3" in project.output.getvalue()


def test_axes_that_are_left_open_are_named(tmp_path: Path) -> None:
    project = Project(tmp_path, lambda at: True)
    with pytest.raises(
        UsageError,
        match=r"mode is quick or slow; step is s1, s2, s3, s4 or s5; choose one value of each, such as --only",
    ):
        project.start({"axis": "demo", "ends": ["1.0", "1.4"]})
    with pytest.raises(UsageError, match=r"--axis step=s1\.\.s9: .* the matrix has no 's9'"):
        project.start({"axis": "step", "ends": ["s1", "s9"]}, {"mode": "slow", "demo": "1.0"})
    with pytest.raises(UsageError, match=r"apply to a package's releases, and the values of step are not releases"):
        project.start({"axis": "step", "ends": ["s1", "s3"], "policy": {"pre": True}}, {"mode": "slow", "demo": "1.0"})
    with pytest.raises(UsageError, match="the case has no axis 'stepp'; did you mean 'step'"):
        project.start({"axis": "stepp", "ends": ["s1", "s9"]}, {**QUICK, "demo": "1.0"})
    assert not project.engine.trials


def test_axes_that_the_matrix_ties_to_the_ends_follow_them(tmp_path: Path) -> None:
    project = Project(tmp_path, lambda at: at == "c")
    project.case.write_text(
        "schema: reprokit/v1\nid: demo\ntitle: Demo\ncommand: demo\nexpect: {failure: {exit_code: 3}}\n"
        'matrix: {include: [{python: "3.9", demo: a}, {python: "3.11", demo: b}, {python: "3.11", demo: c}]}\n'
        'env: {AT: "{{ demo }}"}\n'
    )
    assert project.start({"axis": "demo", "ends": ["b", "c"]}) == 0
    assert project.session.record is not None
    assert {cell.cell["python"] for cell in project.session.record.cells} == {"3.11"}


def test_the_commit_since_which_it_is_broken(tmp_path: Path) -> None:
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    shas = [commit(folder, f"change {number}") for number in range(12)]
    git(folder, "tag", "v1", shas[0])
    project = Project(tmp_path, lambda at: at not in ("v1", *(sha[:12] for sha in shas[:7])), axis="tree")
    text = project.case.read_text().replace(
        "sources: {}", "sources: {tree: {git: 'https://x.invalid/t', ref: '{{ tree }}', path: t}}"
    )
    project.case.write_text(text.replace("demo: [", "tree: [v1]\n  demo: ["))
    project.case.write_text(
        project.case.read_text().replace("exit_code: 3}", "exit_code: 3}, reproduces: [{mode: slow}]")
    )
    asked = {"source": "tree", "ends": ["v1", "main"]}
    assert project.start(asked, {**QUICK, "demo": "1.0"}, sources={"tree": folder}) == 0
    assert (
        f"broken since tree {shas[7][:12]} (2024-03-01 change 7); last passing {shas[6][:12]}"
        in project.output.getvalue()
    )
    assert (project.answer["commit"]["hash"], project.answer["commit"]["subject"]) == (shas[7], "change 7")
    assert "v1" in project.ran
    assert project.session.record is not None
    promised = {cell.cell["tree"]: cell.expected for cell in project.session.record.cells}
    assert promised.keys() == set(project.ran)
    assert promised.pop("v1") is Verdict.NOT_REPRODUCED  # a cell of the case itself, of which it expects something
    assert set(promised.values()) == {None}


class Merged(Project):
    """A source ``tree`` with main: a M b c, where M merges s, t and u, which come from a; fails where ``bad``."""

    def __init__(self, folder: Path, bad: str) -> None:
        tree = self.tree = folder / "tree"
        tree.mkdir()
        git(tree, "init", "-q", "-b", "main")
        self.names = {commit(tree, "a"): "a"}
        git(tree, "switch", "-qc", "side")
        self.names |= {commit(tree, name, name): name for name in ("s", "t", "u")}
        git(tree, "switch", "-q", "main")
        self.names[commit(tree, "b")] = "b"
        git(tree, "merge", "-q", "--no-ff", "-m", "M", "side")
        self.names[git(tree, "rev-parse", "HEAD")] = "M"
        self.names |= {commit(tree, name): name for name in ("c", "d")}
        super().__init__(
            folder, lambda at: next(name for one, name in self.names.items() if at == one[:12]) in bad, "tree"
        )
        source = "{tree: {git: 'https://x.invalid/t', ref: '{{ tree }}', path: t}}"
        text = self.case.read_text().replace("sources: {}", f"sources: {source}")
        self.case.write_text(text.replace("demo: [", "tree: [main]\n  demo: ["))

    def search(self, **more: Any) -> tuple[int, str]:
        first = git(self.tree, "rev-parse", "main~4")
        asked = {"source": "tree", "ends": [first, "main"], **more}
        status = self.start(asked, {**QUICK, "demo": "1.0"}, sources={"tree": self.tree})
        return status, self.names.get((self.answer.get("commit") or {}).get("hash", ""), "")


@pytest.mark.parametrize(
    ("bad", "named", "said"),
    [
        ("tuMcd", "t", "inside the merge "),
        ("Mcd", "M", "  the merge itself: each of its parents passes, "),
        ("asb", "t", "fixed since tree "),
        ("stuMcd", "s", "inside the merge "),
    ],
)
def test_a_merge_is_followed_into_its_branch_unless_it_is_the_answer_itself(
    bad: str, named: str, said: str, tmp_path: Path
) -> None:
    project = Merged(tmp_path, bad)
    assert project.search() == (0, named)
    assert any(line.startswith(said) for line in project.answer["words"])
    assert [project.names[one["hash"]] for one in project.answer.get("merges", ())] == ["M"] * (named != "M")
    assert not any("bisect inside it with" in line for line in project.answer["words"])
    assert len(project.engine.trials) == len(project.ran)


def test_where_no_more_cells_may_run_the_words_to_go_on_inside_the_merge_are_said(tmp_path: Path) -> None:
    project = Merged(tmp_path, "tuMcd")
    assert project.search(max_cells=4) == (0, "M")
    assert "bisect inside it with --source tree=" in project.answer["words"][-1]


SOURCE = "sources: {tree: {git: 'https://x.invalid/t', ref: REF, path: t}}\nfix: {sources: {tree: {ref: FIXED}}}"


@pytest.mark.parametrize(
    ("ref", "fixed", "since_works", "expected"),
    [
        ("b1", "f1", "", ("b1", "f1")),
        ("b1", "f1", "v1", ("v1", "b1")),
        ("b1", "b1", "v1", ("v1", "b1")),
        ("b1", "b1", "", "the fix of the case names no other commit"),
        ("'{{ demo }}'", "f1", "", "the fix of the case names no other commit"),
    ],
)
def test_a_case_whose_fix_is_a_commit_says_its_own_range(
    ref: str, fixed: str, since_works: str, expected: Any, tmp_path: Path
) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(
        CASE.replace("AXIS", "demo").replace("sources: {}", SOURCE.replace("REF", ref).replace("FIXED", fixed))
    )
    asked = BisectionRequest(ends=(), since_works=since_works, policy=Policy())
    if isinstance(expected, str):
        with pytest.raises(UsageError, match=expected):
            with_range(asked, load(str(path))[0])
        return
    found = with_range(asked, load(str(path))[0])
    assert (found.source, found.ends) == ("tree", expected)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--axis", "a=1..2", "--since-works", "v1"], "1 were given beside --since-works"),
        (["--axis", "a=1..2", "--time", "soon"], "soon: expected a duration"),
        ([], "none was given"),
        (["--axis", "a=1..2", "--source", "t=v1..main"], "2 were given"),
        (["--axis", "a=1..1"], "both ends are the same"),
        (["--source", "t=v1..main", "--pre"], "--pre, --since and --before apply to releases"),
        (["--axis", "a=1..2", "--tags-only"], "--tags-only applies to a source's commits"),
        (["--axis", "a=1..2", "--since", "2024-13-01"], "expected a date such as"),
        (["--resume", "--axis", "a=1..2"], "leave out the other options"),
        (["--source", "t=../nowhere", "--axis", "a=1..2"], "is not a folder"),
        (["--axis", "a=1..2", "--values", "1,3"], "the first is to be 1 and the last 2"),
        (["--axis", "a", "--values", "1"], "both ends are the same"),
        (["--axis", "a", "--values", "1,2", "--pre"], "--values names every value of an axis"),
    ],
)
def test_wrong_usage_is_reported(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case = Project(tmp_path, lambda at: True).case
    assert invoke(["bisect", str(case), *words, "--store", str(tmp_path / "store")]) == 2
    assert message in capsys.readouterr().err

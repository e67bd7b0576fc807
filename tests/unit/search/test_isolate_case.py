"""``reprokit isolate`` over a case: its ends, its words, and its JSON, on a fake engine."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reprokit.case.files import CaseFile
from reprokit.case.matrix import Cell
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import Cancelled, UsageError
from reprokit.engine.protocol import Trial
from reprokit.environment.cases import load
from reprokit.evidence.model import Ending
from reprokit.run.request import Request
from reprokit.run.run_session import Session
from reprokit.search.isolate_case import (
    IsolationRequest,
    choose_ends,
    distance,
    make,
    parse_cell,
    read_environment,
    untested_differences,
)
from reprokit.search.search_session import SearchSession
from tests.documents import as_published
from tests.unit.fakes import FakeEngine

CASE = """\
schema: reprokit/v1
id: toy
title: A toy
matrix:
  a: ["1", "2", "3"]
  b: [x, y]
  c: [p, q]
  d: [r, s]
  exclude: [{b: y, c: q, d: s}]
env: {CELL: "{{ a }} {{ b }} {{ c }} {{ d }}"}
command: toy
expect:
  failure: {exit_code: 3}
"""


def fails_where(condition: Callable[[str, str, str, str], bool]) -> Callable[..., Ending]:
    return lambda trial, sink: Ending(exit_code=3 if condition(*trial.env["CELL"].split()) else 0, seconds=0.1)


class Project:
    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self.case = folder / "toy.yaml"
        self.case.write_text(CASE)
        self.store = folder / "store"
        self.engine = FakeEngine()
        self.output = io.StringIO()
        self.result: dict[str, Any] = {}
        self.jobs = 2
        self.confirm = "auto"

    @property
    def request(self) -> Request:
        return Request(cases=(str(self.case),), base_images="registry", jobs=self.jobs, confirm=self.confirm)

    def isolate(self, **arguments: object) -> int:
        given = {"bad": None, "good": None, "reported": False, "axes": {}, "policy": {"pre": False}, "max_cells": None}
        session = SearchSession(self.store, display=Screen(self.output), engine=lambda: self.engine)
        status = session.start("isolate", self.request, IsolationRequest.from_json({**given, **arguments}), make)
        self.result = as_published("search", json.loads(json.dumps(session.result().to_json())))
        return status

    @property
    def text(self) -> str:
        return self.output.getvalue()


def file_of(text: str, folder: Path) -> CaseFile:
    path = folder / "other.yaml"
    path.write_text(text)
    return load(str(path))[0]


def test_the_answer_names_the_change_the_cells_and_the_boundary(project: Project) -> None:
    project.engine.behave = fails_where(lambda a, b, c, d: a in "23")
    assert project.isolate(bad="a=3,b=x,c=q,d=s", good="a=1,b=y,c=p,d=r") == 0
    assert "the difference that matters: a 1 -> 3" in project.text
    assert "no effect together: b, c, d (" in project.text
    assert "along a: 1 is the last that passes and 2 the first that fails, of 3 values from 1 to 3" in project.text
    answer = project.result["answer"]
    assert answer["changes"] == [[{"axis": "a", "good": "1", "bad": "3"}]]
    sure = {"open": [], "confirmed": True}
    assert answer["boundary"] == [
        {"axis": "a", "values": ["1", "2", "3"], "good": "1", "bad": "2", "unjudged": [], **sure}
    ]
    assert answer["ends"]["bad"] == {
        "cell": {"a": "3", "b": "x", "c": "q", "d": "s"},
        "number": 1,
        "verdict": "reproduced",
    }
    assert project.result["format"] == "reprokit-search/v1"
    tallies = [cell["trials"] for cell in project.result["cells"]]
    assert sum(one["failed"] + one["passed"] for one in tallies) == len(project.engine.trials)
    counts = "of the 16 combinations of the two cells, and 1 cell between them; the matrix has 21 cells"
    assert counts in project.text


def test_a_pair_is_reported_with_the_cells_that_confirm_it(project: Project) -> None:
    project.engine.behave = fails_where(lambda a, b, c, d: (a, c) == ("2", "q"))
    assert project.isolate(bad="a=2,b=x,c=q,d=s", good="a=1,b=y,c=p,d=r") == 0
    assert "all of these are required: a 1 -> 2 and c p -> q" in project.text
    bound = r"reverting any one .* bad cell pass: #.* \(failed in 0 of [0-9]+.*, a failure in up to [0-9]+ % of runs is"
    assert re.search(bound, project.text)


def test_excluded_cells_are_not_run_and_the_open_question_is_reported(project: Project) -> None:
    project.case.write_text(CASE.replace("{b: y, c: q, d: s}", "{b: x, c: q}, {b: y, c: p}"))
    project.engine.behave = fails_where(lambda a, b, c, d: b == "y")
    assert project.isolate(bad="a=1,b=y,c=q,d=r", good="a=1,b=x,c=p,d=s") == 3
    assert "not decided" in project.text
    assert "the cells that would distinguish them are unresolved: " in project.text
    assert "(the case excludes it)" in project.text
    assert "no evidence for: d" in project.text
    assert project.result["answer"]["changes"] == []
    assert [{"axis": "b", "good": "x", "bad": "y"}] in [one[0] for one in project.result["answer"]["rivals"]]


def test_a_bad_cell_that_does_not_fail_is_reported(project: Project) -> None:
    project.engine.behave = fails_where(lambda a, b, c, d: a == "1")
    assert project.isolate(bad="a=2", good="a=1") == 1
    assert "the wrong way round: swap --bad and --good" in project.text
    project.engine.behave = lambda trial, sink: Ending(exit_code=4, seconds=0.1)
    assert project.isolate(bad="a=2", good="a=1") == 3
    assert "different-failure, expected to fail" in project.text


def test_open_axes_are_chosen_so_that_the_cells_differ_least(project: Project) -> None:
    project.engine.behave = fails_where(lambda a, b, c, d: a == "3")
    assert project.isolate(bad="a=3,d=s", good="a=1,b=y") == 0
    chosen = project.result["answer"]["ends"]
    bad, good = chosen["bad"]["cell"], chosen["good"]["cell"]
    assert distance(bad, good) == 1
    assert (bad["d"], good["b"]) == ("s", "y")
    assert "--bad: other axes taken from the case: " in project.text


def test_without_options_the_cells_of_the_last_run_are_taken(project: Project) -> None:
    with pytest.raises(UsageError, match="--bad and --good: name a cell"):
        project.isolate()
    project.engine.behave = fails_where(lambda a, b, c, d: b == "y")
    Session(project.store, display=Screen(project.output), engine=lambda: project.engine).start(project.request)
    assert project.isolate() == 0
    assert "bad cell, from the last run: " in project.text
    assert project.isolate(bad="a=3,c=p") == 0
    assert project.result["answer"]["ends"]["bad"]["cell"]["a"] == "3"


def test_impossible_cells_are_refused(project: Project) -> None:
    for bad, good, words in (
        ("aa=1", "a=2", "the case has no axis 'aa'; did you mean 'a'"),
        ("a=1,a=2", "a=3", "a is given twice"),
        ("a", "a=3", "'a' is not of the form axis=value"),
        ("b=y,c=q,d=s", "a=3", "excludes every such cell"),
        ("a=1,b=x,c=p,d=r", "d=r,c=p,b=x,a=1", "are the same"),
        ("a=1", "a=1", "are the same: a=1"),
        ("b=yy", "b=x", "axis 'b' has no such value; did you mean 'y'.; it has: x, y"),
    ):
        with pytest.raises(UsageError, match=words):
            project.isolate(bad=bad, good=good)
    with pytest.raises(UsageError, match="the two cells do not differ in it"):
        project.isolate(bad="a=1", good="a=2", axes={"b": {"values": ["z"]}})
    with pytest.raises(UsageError, match=r"at least two report\.environments, and .* has 0"):
        project.isolate(reported=True)


def test_a_comma_within_brackets_belongs_to_its_value() -> None:
    assert parse_cell("--bad", "shape=(1,),numpy=1.17.5") == {"shape": "(1,)", "numpy": "1.17.5"}


def test_values_from_the_command_line_are_searched_too(project: Project) -> None:
    project.engine.behave = fails_where(lambda a, b, c, d: float(a) >= 1.5)
    axes = {"a": {"values": ["1.25", "1.5", "7"]}}
    assert project.isolate(bad="a=2", good="a=1", axes=axes) == 0
    assert "along a: 1.25 is the last that passes and 1.5 the first that fails, of 4 values from 1 to 2" in project.text


REPORTED = [
    {
        "platform": "Linux-5.10.0-1.0.0.26-x86_64-with-glibc2.31",
        "Python": "3.11.3 (main, Apr  5 2023, 14:15:06) [GCC 9.4.0]",
        "NVCC": "Build cuda_12.0.r12.0/compiler.32267302_0",
        "cudnn": "8.9",
        "GPUs used": 1,
        "GCC": "gcc (Debian 12.2.0-14) 12.2.0",
        "PaddlePaddle": "2.6.2",
    },
    {
        "OS": "Debian GNU/Linux 12 (bookworm)",
        "Python version": "3.10.12 (main) [GCC 11.4.0] (64-bit runtime)",
        "CUDA runtime version": "11.8.89",
        "cuDNN version": "8907",
        "GCC version": "(Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0",
        "mode": "fast",
    },
]


def test_pasted_environments_are_read_as_axes(tmp_path: Path) -> None:
    own: dict[str, tuple[str, ...]] = {"gcc": ("12.2", "11.4"), "mode": ("fast", "slow")}
    first, second = (read_environment(one, own, ["paddle"]) for one in REPORTED)
    assert dict(first.cell) == {
        "gcc": "12.2",
        "os": "ubuntu-20.04",
        "python": "3.11",
        "cuda": "12.0",
        "cudnn": "8.9",
        "paddle": "2.6.2",
    }
    assert first.unused == ("GPUs used",)
    assert dict(second.cell) == {
        "gcc": "11.4",
        "mode": "fast",
        "os": "debian-12",
        "python": "3.10",
        "cuda": "11.8",
        "cudnn": "8.9",
    }
    bare = read_environment({"Python": "3.11.3", "GCC": "gcc (GCC) 8.2.0", "Paddle compiled with cuda": True}, {}, [])
    assert (dict(bare.cell), bare.unused) == ({"python": "3.11", "gcc": "8"}, ("Paddle compiled with cuda",))


def test_a_difference_that_an_axis_does_not_show_is_reported() -> None:
    environments = [{"Python": "3.11.3 (main)"}, {"Python": "3.11.2 (main)"}]
    found = [read_environment(one, {}, []) for one in environments]
    assert untested_differences(environments, found) == [
        "Python is '3.11.3' and '3.11.2', both read as python 3.11: this difference is not tested"
    ]


@pytest.mark.parametrize(
    ("environment", "cell"),
    [
        (
            {"操作系统": "Ubuntu 20.04", "Python 版本": "3.9.13", "CUDA版本": "CUDA 11.8"},
            "python=3.9 cuda=11.8 os=ubuntu-20.04",
        ),
        ({"gcc": "x86_64-linux-gnu-gcc-12 (Debian 12.2.0-14) 12.2.0"}, "gcc=12"),
        ({"编译器": "gcc-13", "操作系统": "Ubuntu 20.04"}, "gcc=13 os=ubuntu-20.04"),
        # Another compiler, the driver's CUDA, and what is missing are not versions of the axes.
        ({"gcc": "clang version 15.0.7", "compiler": "MSVC 19.3"}, ""),
        ({"cuda": "12.2 (driver)", "python": None, "cudnn": "N/A", "os": "Windows 11"}, ""),
        ({"cuda": "none"}, "cuda=none"),
    ],
)
def test_only_values_that_fit_an_axis_are_read_from_a_report(environment: dict[str, Any], cell: str) -> None:
    found = read_environment(environment, {"python": ("3.9",), "cuda": ("none", "11.8")}, ["paddle"])
    assert " ".join(f"{name}={value}" for name, value in found.cell.items()) == cell


def test_the_cells_may_come_from_the_report_in_either_order(project: Project) -> None:
    report = "report: {environments: [{a: 1, b: x, shell: bash}, {a: 2, b: y}]}\n"
    project.case.write_text(CASE + report)
    project.engine.behave = fails_where(lambda a, b, c, d: a == "2")
    assert project.isolate(reported=True) == 0
    assert "environment 1 of the report: a: a 1, b: b x" in project.text
    assert "ignored keys: shell" in project.text
    assert "not in the report, taken from the case: c=p d=r" in project.text
    assert project.result["answer"]["changes"] == [[{"axis": "a", "good": "1", "bad": "2"}]]


def test_a_matrix_with_only_include_has_cells_to_isolate(tmp_path: Path) -> None:
    text = CASE.replace('  a: ["1", "2", "3"]\n  b: [x, y]\n  c: [p, q]\n  d: [r, s]\n', "").replace(
        "  exclude: [{b: y, c: q, d: s}]\n",
        "  include: [{a: '1', b: x, c: p, d: r}, {a: '2', b: y, c: p, d: r}]\n",
    )
    bad, good, _ = choose_ends(file_of(text, tmp_path), {"a": "2"}, {"a": "1"})
    same: tuple[Cell, Cell] = ({"a": "2", "b": "y", "c": "p", "d": "r"}, {"a": "1", "b": "y", "c": "p", "d": "r"})
    assert (bad, good) == same


def test_where_an_axis_pins_a_package_searching_its_releases_is_suggested(project: Project) -> None:
    project.case.write_text(CASE.replace("command:", 'environment: {pip: ["six=={{ a }}"]}\ncommand:'))
    project.engine.behave = fails_where(lambda a, b, c, d: a == "3")
    assert project.isolate(bad="a=3,b=x", good="a=1,b=x") == 0
    assert "to search the releases between a 2 and 3, add --axis a=2..3" in project.text


BUILT = """\
schema: reprokit/v1
id: built
title: Some of the axes take images of their own
matrix: {a: [bash, curl], b: [gawk, wget], c: ["1", "2"], d: ["1", "2"], e: ["1", "2"]}
environment: {apt: ["{{ a }}", "{{ b }}"]}
env: {CELL: "{{ b }} {{ c }} {{ d }} {{ e }}"}
command: toy
expect: {failure: {exit_code: 3}}
"""
ENDS = {"bad": "a=curl,b=wget,c=2,d=2,e=2", "good": "a=bash,b=gawk,c=1,d=1,e=1"}


BUILT_FAILS = fails_where(lambda b, c, d, e: (b, d) == ("wget", "2"))


def built(folder: Path) -> Project:
    project = Project(folder)
    project.confirm = "never"
    project.jobs = 1  # one program at a time: the ones before an interrupt are decided
    project.case.write_text(BUILT)
    project.engine.behave = BUILT_FAILS
    return project


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A search that nothing stopped."""
    project = built(tmp_path_factory.mktemp("whole"))
    project.isolate(**ENDS)
    return project


@pytest.mark.parametrize(
    "stop", [pytest.param(at, marks=[pytest.mark.nightly] * (at not in (2, 6))) for at in range(1, 9)]
)
def test_stopped_anywhere_it_takes_the_same_path_although_images_exist_by_then(
    whole: Project, tmp_path: Path, stop: int
) -> None:
    stopped = built(tmp_path / "stopped")
    count = len(whole.result["cells"])

    done: list[str] = []

    def interrupted(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        if len(done) == stop:
            os.kill(os.getpid(), signal.SIGINT)
            assert stopped.engine.cancel.wait(60)
            raise Cancelled("stopped")
        done.append(trial.env["CELL"] + trial.image)
        return BUILT_FAILS(trial, sink)

    stopped.engine.behave = interrupted
    assert stopped.isolate(**ENDS) == 130
    stopped.engine.behave = BUILT_FAILS
    stopped.engine.trials.clear()
    session = SearchSession(stopped.store, display=Screen(stopped.output), engine=lambda: stopped.engine)
    assert session.resume("isolate", (), make) == 0
    result = session.result().to_json()
    shown = [[(cell["cell"], cell["verdict"]) for cell in one["cells"]] for one in (whole.result, result)]
    assert shown[0] == shown[1]
    assert result["answer"] == whole.result["answer"]
    assert len(stopped.engine.trials) == count - stop
    assert not set(done) & {trial.env["CELL"] + trial.image for trial in stopped.engine.trials}


def test_a_flake_that_no_axis_decides_is_not_isolated(project: Project) -> None:
    """The passing cells pass in their first trial by luck, and fail when they are repeated."""
    seen: dict[str, int] = {}

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        cell = trial.env["CELL"]
        seen[cell] = seen.get(cell, 0) + 1
        return Ending(exit_code=3 if cell.startswith("2") or seen[cell] > 2 else 0, seconds=0.1)

    project.engine.behave = behave
    assert project.isolate(bad="a=2", good="a=1") != 0
    assert "the difference that matters" not in project.text
    assert project.result["answer"]["decided"] is False


def test_a_flake_that_does_depend_on_an_axis_is_not_decided_without_enough_trials(project: Project) -> None:
    seen: dict[str, int] = {}

    def behave(trial: Trial, sink: Callable[[bytes], None]) -> Ending:
        cell = trial.env["CELL"]
        seen[cell] = seen.get(cell, 0) + 1
        return Ending(exit_code=3 if cell.startswith("2") and seen[cell] % 9 == 1 else 0, seconds=5)

    project.engine.behave = behave
    assert project.isolate(bad="a=2", good="a=1") == 3
    assert " trials each: the difference that matters: a 1 -> 2" in project.text
    assert "flaky, counted as failing: #1" in project.text


def test_a_statement_without_repeats_says_what_it_rests_on(project: Project) -> None:
    project.confirm = "never"
    project.engine.behave = fails_where(lambda a, b, c, d: a == "2")
    assert project.isolate(bad="a=2", good="a=1") == 0
    assert "in one trial each: the difference that matters: a 1 -> 2" in project.text
    assert "--confirm always repeats these cells until a flake is excluded" in project.text
    assert project.result["answer"]["confirmed"] is False

"""Cells as a matrix of jobs, and the cells that an entry of it names."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.cli import invoke
from reprokit.core.errors import UsageError
from reprokit.environment.supply import Supply
from reprokit.evidence.usage import GpuRecord, Usage
from reprokit.github import matrix
from reprokit.github.matrix import Bounds, ImageLayer, WorkUnit, cut
from reprokit.run.loading import load_all
from reprokit.run.plan import plan
from reprokit.run.request import Request, read_chosen
from reprokit.run.task import Task
from tests.unit.nights import Nights

CASES = Path(__file__).parents[3] / "cases"
REGISTRY = Supply(base_source="registry")
CASE = """\
schema: reprokit/v1
id: made-up
title: Two versions and two ways
matrix: {os: [debian-12], python: ["3.11"], numpy: ["1.26.4", "2.0.0"], how: [a, "b c's $(x)"],
  exclude: [{numpy: "2.0.0", how: a}]}
environment: {pip: ["numpy=={{ numpy }}"]}
command: python -c "print(1)"
expect: {failure: {exit_code: 1}}
fix: {summary: none, env: {A: B}}
"""


def entries(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert invoke(["integrate", "github", "matrix", "--base", "registry", *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1  # it is written into an output as NAME=VALUE
    include: list[dict[str, Any]] = json.loads(lines[0])["include"]
    return include


GPU = ("self-hosted", "linux", "gpu")


def names(tasks: list[Task]) -> list[tuple[str, str, str]]:
    return sorted((task.case.id, task.variant, json.dumps(task.cell)) for task in tasks)


@pytest.fixture(scope="module")
def library() -> list[Task]:
    return plan(load_all([str(CASES)]), Request(cases=(str(CASES),), fix=True))


@pytest.fixture(scope="module")
def jobs(library: list[Task]) -> matrix.MatrixPlan:
    """The library as jobs, with runners that have a GPU."""
    return found(library, gpu=GPU)


def found(tasks: list[Task], **values: Any) -> matrix.MatrixPlan:
    return matrix.plan(tasks, REGISTRY, matrix.PastFigures(), matrix.Runners(**values))


@pytest.mark.system
def test_the_whole_library_is_in_few_jobs_and_each_image_nearly_once(
    library: list[Task], jobs: matrix.MatrixPlan
) -> None:
    made, files = jobs, load_all([str(CASES)])
    again = [
        task
        for entry in made.include
        for task in plan(files, Request(cases=(str(CASES),), chosen=read_chosen(json.dumps(entry), "x")))
    ]
    assert names(again) == names(library)
    assert 2 < len(made.include) <= 20
    builds, distinct = made.images
    assert distinct > 50
    assert builds < 1.2 * distinct
    assert made.text() == found(library, gpu=GPU).text()
    assert all(len(json.dumps(entry, indent=2)) < 100_000 for entry in made.include)
    labels = {task.spec.limits.gpus > 0 for task in library if task.case.id == "oom-cuda"}
    assert labels == {True}
    for entry in made.include:
        assert ("oom_cuda.yaml" in json.dumps(entry["cases"])) <= (entry["runner"] == list(GPU))
        assert matrix.is_for_gpu(json.dumps(entry)) == (entry["runner"] == list(GPU))


@pytest.mark.system
def test_there_are_no_more_jobs_than_asked_for(library: list[Task]) -> None:
    made = found(library, gpu=GPU, most=3)
    assert len(made.include) <= 3
    named = [cell for entry in made.include for table in entry["cases"] for cell in table["cells"]]
    assert len(named) == len({(task.case.id, json.dumps(task.cell)) for task in library})
    assert len({entry["name"] for entry in made.include}) == len(made.include)


@pytest.mark.system
def test_without_gpu_runners_no_cell_is_lost(library: list[Task], jobs: matrix.MatrixPlan) -> None:
    made = found(library)
    assert made.cells == jobs.cells
    assert not any(matrix.is_for_gpu(json.dumps(entry)) for entry in made.include)
    assert {tuple(entry["runner"]) for entry in made.include} == {("ubuntu-24.04",)}


@pytest.mark.system
def test_jobs_with_and_without_a_gpu_are_at_least_two(library: list[Task]) -> None:
    with pytest.raises(UsageError, match="need a job each"):
        found(library, gpu=GPU, most=1)


@pytest.mark.nightly
def test_a_matrix_of_thousands_of_cells_fits_an_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wide = ", ".join(f"w{number}" for number in range(100))
    text = (
        CASE.replace('"b c\'s $(x)"', wide)
        .replace("command:", "\ncommand:")
        .replace("how: [a", f"seed: [{', '.join(map(str, range(50)))}], how: [a")
    )
    (tmp_path / "case.yaml").write_text(text)
    include = entries([str(tmp_path / "case.yaml"), "--fix"], capsys)
    assert sum(len(table["cells"]) for entry in include for table in entry["cases"]) == 10_050
    assert 10 < len(include) <= 20
    assert all(len(json.dumps(entry, indent=2)) < 128 * 1024 for entry in include)


@pytest.mark.system
def test_an_entry_is_not_larger_than_a_variable(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As toJSON writes it, with a line for each value: short values grow most."""
    axis = ", ".join(f'"{number}"' for number in range(4000))
    text = re.sub(r"matrix: .*\n.*\n", f"matrix: {{n: [{axis}]}}\n", CASE).replace("numpy=={{ numpy }}", "numpy")
    (tmp_path / "case.yaml").write_text(text)
    include = entries([str(tmp_path / "case.yaml"), "--max-jobs", "2"], capsys)
    assert len(include) == 2
    assert sum(len(table["cells"]) for entry in include for table in entry["cases"]) == 4000
    assert all(len(json.dumps(entry, indent=2)) < 128 * 1024 - 6 for entry in include)


def test_an_entry_names_its_cells_without_shell_syntax(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "case.yaml").write_text(CASE)
    path = str(tmp_path / "case.yaml")
    [entry] = entries([path], capsys)
    [one] = read_chosen(json.dumps(entry, indent=2), "x")
    tasks = plan(load_all([path]), Request(cases=(path,), chosen=(one,)))
    assert [task.cell["how"] for task in tasks] == ["a", "b c's $(x)", "b c's $(x)"]
    request = Request(cases=(path,), chosen=(dataclasses.replace(one, fix=True),))
    assert Request.from_json(json.loads(json.dumps(request.to_json()))).chosen == request.chosen
    assert [task.variant for task in plan(load_all([path]), request)] == ["case", "fix"] * 3


def test_an_empty_matrix_has_no_job(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(CASES / "ptxas_unknown_arch.yaml")
    skipped = ["--skip", "arch=sm_35", "--skip", "arch=sm_90"]
    assert invoke(["integrate", "github", "matrix", "--base", "registry", path, *skipped]) == 2
    assert "the selection is empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cases": []}, "cases: List should have at least 1 item"),
        ({"cases": [{"path": "case.yaml"}]}, "cases.0.digest: Field required"),
        ({"axes": ["os", "os", "numpy", "how"]}, "an axis is named twice"),
        ({"cells": [["debian-12", "3.11"]]}, "2 values for 4 axes"),
        ({"cells": [["debian-12", "3.11", "1.26.4", "a"]] * 2}, "is named twice"),
        ({"cells": [["debian-12", "3.11", "2.0.0", "a"]]}, "the case's matrix has no cell"),
        ({"axes": ["os", "python", "nunpy", "how"]}, "no axis 'nunpy'; did you mean 'numpy'?"),
        ({"digest": "sha256:" + 64 * "0"}, "is not what the cells were chosen from"),
        ({"digest": "latest"}, "cases.0.digest"),
        ({"command": "rm"}, "cases.0.command: Extra inputs"),
    ],
)
def test_a_wrong_entry_is_refused_before_anything_runs(
    change: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "case.yaml").write_text(CASE)
    [entry] = entries([str(tmp_path / "case.yaml")], capsys)
    entry = {**entry, **change} if "cases" in change else {**entry, "cases": [{**entry["cases"][0], **change}]}
    (tmp_path / "entry.json").write_text(json.dumps(entry))
    given = ["run", "--cells", str(tmp_path / "entry.json"), "--store", str(tmp_path / "store")]
    assert invoke(given) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


def test_other_options_that_select_cells_are_refused_beside_an_entry(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["run", "cases", "--cells", "-", "--fix", "--tag", "quick"]) == 2
    assert "leave out CASE, --tag, --fix" in capsys.readouterr().err


@given(
    st.lists(st.tuples(st.integers(0, 6), st.floats(0, 100), st.integers(0, 50)), min_size=1, max_size=25),
    st.integers(1, 5),
    st.floats(10, 500),
)
def test_every_piece_is_in_one_job(pieces: list[tuple[int, float, int]], most: int, bound: float) -> None:
    work = [
        WorkUnit(
            order=(str(layer),), layers=frozenset({"base", str(layer)}), seconds=seconds, characters=count, work=place
        )
        for place, (layer, seconds, count) in enumerate(pieces)
    ]
    layers = {name: ImageLayer(seconds=10, size=1) for name in ["base", *map(str, range(7))]}
    bounds = Bounds(seconds=bound, disk=4, characters=10_000)
    jobs = cut(work, layers, bounds, most)
    assert len(jobs) <= most
    assert sorted(piece.work for job in jobs for piece in job) == list(range(len(pieces)))
    assert jobs == cut(work, layers, bounds, most)


def test_a_job_ends_where_little_is_shared() -> None:
    """Four images on two large layers, two jobs: the cut is between the large layers, not in one of them."""
    layers = {"a": ImageLayer(seconds=100, size=1), "b": ImageLayer(seconds=100, size=1)}
    layers |= {str(number): ImageLayer(seconds=1, size=1) for number in range(4)}
    pieces = [
        WorkUnit(order=(large, str(number)), layers=frozenset({large, str(number)}), seconds=10, work=number)
        for number, large in enumerate("aabb")
    ]
    jobs = cut(pieces, layers, Bounds(seconds=130, disk=100, characters=100), 20)
    assert [[piece.work for piece in job] for job in jobs] == [[0, 1], [2, 3]]


def test_a_job_without_a_gpu_says_why(tmp_path: Path) -> None:
    nights = Nights(tmp_path)
    run = nights.run({"1": "E", "2": "E"}, reason="there is no NVIDIA GPU")
    assert matrix.without_gpu(run) == "there is no NVIDIA GPU (2 cells)"
    [cell] = nights.run({"1": "R"}).cells
    assert matrix.without_gpu(replace(run, cells=(*run.cells, cell))) != ""  # it ran, and on no GPU
    had = replace(cell.trials[0], usage=Usage(gpus=(GpuRecord(uuid="GPU-1", name="A"),)))
    assert matrix.without_gpu(replace(run, cells=(*run.cells, replace(cell, trials=(had,))))) == ""

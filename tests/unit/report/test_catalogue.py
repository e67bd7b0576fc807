"""A folder of cases as a library: choosing among them, where they fail, what was last seen, and the page of it all."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from reprokit.case.facts import facts, requirement
from reprokit.case.filters import Filter, choose
from reprokit.cli import invoke
from reprokit.core.errors import UsageError
from reprokit.environment.cases import load
from reprokit.report.catalogue import (
    VERDICTS_FILE,
    Verdicts,
    dump_verdicts,
    inline,
    last_seen,
    link,
    merge_verdicts,
    read_verdicts,
)
from reprokit.report.flip import flip

TORCH = """\
schema: reprokit/v1
id: old-torch
title: The sum | of `a|b` is <odd>
tags: [loss, quick]
matrix:
  dtype: [f4, f8]
  include:
    - {os: ubuntu-18.04, python: "3.6", torch: 1.4.0, dtype: f4}
    - {os: debian-12, python: "3.11", torch: 2.13.0+cpu, dtype: f4}
environment: {pip: ["torch=={{ torch | default('1.0') }}", numpy==2]}
command: python x.py
expect: {reproduces: [{torch: 1.4.0}]}
fix: {command: "true"}
"""
PADDLE = """\
schema: reprokit/v1
id: on-gpu
title: Needs much
tags: [training]
matrix: {cuda: ["11.8"], gpus: ["0", "2"]}
environment: {pip: [paddlepaddle-gpu==2.6.2, numpy, "scipy>=1", "git+https://example.org/x", "./y-1.0-any.whl"]}
sources: {S: {git: "https://example.org/s", ref: v1, path: s}}
datasets: {d: {path: d, layout: [{glob: "*"}]}}
command: x
resources: {gpus: "{{ gpus }}", network: bridge, user: root}
"""
NUMPY = """\
schema: reprokit/v1
id: arrays
title: Plain
tags: [arrays, quick]
environment: {pip: [numpy==2.4.6]}
command: x
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    cases = tmp_path / "cases"
    cases.mkdir()
    for name, text in (("old_torch", TORCH), ("on_gpu", PADDLE), ("arrays", NUMPY)):
        (cases / f"{name}.yaml").write_text(text)
    return cases


def result_of(folder: Path, cells: dict[str, list[dict[str, Any]]], date: str = "2026-01-02") -> Path:
    """A result file that says this of the cases as they are."""
    digests = {file.case.id: file.digest for file in load(str(folder))}
    base = {"expected": None, "as_expected": None, "reason": "so it was", "image": {"tag": "img:abc", "size": 1.2e9}}
    cases = [
        {"id": name, "path": "p", "digest": digests.get(name, "sha256:0"), "cells": [{**base, **cell} for cell in rows]}
        for name, rows in cells.items()
    ]
    path = folder.parent / f"{date}.json"
    path.write_text(json.dumps({"format": "reprokit-result/v1", "started_at": f"{date}T01:02:03.000Z", "cases": cases}))
    return path


def seen(verdict: str, variant: str = "case", **more: Any) -> dict[str, Any]:
    cell = {"os": "ubuntu-18.04", "python": "3.6", "torch": "1.4.0", "dtype": "f4"}
    return {"cell": cell, "variant": variant, "verdict": verdict, **more}


# Choosing


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("torch==2.13.0+cpu", ("torch", "2.13.0+cpu")),
        ("Torch_Vision [x,y] == 1.0 ; python_version > '3'", ("torch-vision", "1.0")),
        ("numpy", ("numpy", "")),
        ("numpy>=1,<2", ("numpy", "")),
        ("x===1", ("x", "1")),
        ("x @ https://example.org/x.whl", None),
        ("git+https://example.org/x", None),
        ("./torch-1.0-py3-none-any.whl", None),
    ],
)
def test_a_requirement_is_its_package_and_version(text: str, wanted: tuple[str, str] | None) -> None:
    assert requirement(text) == wanted


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ({}, "arrays old-torch on-gpu"),
        ({"tags": ("quick",)}, "arrays old-torch"),
        ({"tags": ("loss", "training")}, "old-torch on-gpu"),
        ({"frameworks": ("torch",)}, "old-torch"),
        ({"frameworks": ("PyTorch",)}, "old-torch"),
        ({"frameworks": ("paddlepaddle_gpu",)}, "on-gpu"),
        ({"frameworks": ("paddle", "torch")}, "old-torch on-gpu"),
        ({"frameworks": ("numpy",)}, "arrays"),
        ({"frameworks": ("cuda",)}, "on-gpu"),
        ({"frameworks": ("scipy",)}, "on-gpu"),
        ({"needs": ("gpu",)}, "on-gpu"),
        ({"needs": ("network", "source", "data", "root")}, "on-gpu"),
        ({"needs": ("none",)}, "arrays old-torch"),
        ({"needs": ("no-gpu", "no-data")}, "arrays old-torch"),
        ({"tags": ("quick",), "needs": ("no-network",), "frameworks": ("numpy",)}, "arrays"),
    ],
)
def test_cases_are_chosen_by_what_they_are_about_and_need(folder: Path, words: Any, ids: str) -> None:
    assert [file.case.id for file in choose(load(str(folder)), Filter(**words))] == ids.split()


@pytest.mark.parametrize(
    ("words", "texts"),
    [
        ({"tags": ("lose",)}, ["did you mean 'loss'", "the tags are: arrays, loss, quick, training"]),
        ({"frameworks": ("pytroch",)}, ["did you mean 'pytorch'", "are: cuda, numpy, paddle, torch; other", "scipy"]),
        ({"needs": ("no-gpus",)}, ["did you mean 'no-gpu'", "gpu, network, source, data, root", "none"]),
        ({"tags": ("loss",), "needs": ("gpu",)}, ["none of the 3 cases fits --tag loss --needs gpu"]),
    ],
)
def test_an_unknown_word_is_reported_with_what_there_is(folder: Path, words: Any, texts: list[str]) -> None:
    with pytest.raises(UsageError) as error:
        choose(load(str(folder)), Filter(**words))
    assert all(text in str(error.value) for text in texts)


def test_what_a_case_is_about_comes_with_the_versions_of_its_cells(folder: Path) -> None:
    known = {file.case.id: facts(file.case) for file in load(str(folder))}
    assert known["old-torch"].frameworks == {"torch": ("1.0", "1.4.0", "2.13.0+cpu")}
    assert known["on-gpu"].frameworks == {"paddle": ("2.6.2",), "cuda": ("11.8",)}
    assert len(known["old-torch"].cells) == 4


def test_every_command_that_takes_several_cases_has_the_filters(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["list", "--needs", "no-gpu,no-root", "--json", "l.json"]) == 0
    assert [case["id"] for case in json.loads(Path("l.json").read_text())] == ["arrays", "old-torch"]
    assert capsys.readouterr().out.endswith("2 cases, 5 cells\n")
    assert invoke(["list", "--tag", "arrays, loss", "--json", "l.json"]) == 0
    assert len(json.loads(Path("l.json").read_text())) == len(choose(load("cases"), Filter(tags=("arrays", "loss"))))
    assert invoke(["validate", "--cells", "cases", "--framework", "numpy"]) == 0
    assert capsys.readouterr().out.endswith("1 cell\n")
    for name in ("run", "render", "lock"):
        assert invoke([name, "cases", "--needs", "x"]) == 2
        assert "--needs x: no such need" in capsys.readouterr().err


def test_the_list_is_a_line_per_case_or_two_in_a_narrow_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke(["list"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "case       cells  needs                             last run   title",
        "arrays         1                                    never run  Plain",
        "old-torch      4                                    never run  The sum | of `a|b` is <odd>",
        "on-gpu         2  gpu, network, source, data, root  never run  Needs much",
        "3 cases, 7 cells",
    ]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    assert invoke(["list"]) == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[3:5] == ["old-torch      4" + " " * 36 + "never run", "  The sum | of `a|b` is <odd>"]


# Where a failure shows


@pytest.mark.parametrize(
    ("matrix", "reproduces", "words"),
    [
        ("{}", "all", ""),
        ("{torch: [1.0]}", "all", "torch 1.0"),
        ("{os: [debian-12], torch: [1.0, 2.0]}", "all", "torch 1.0, 2.0"),
        ("{torch: [1.0]}", "unknown", "not known (torch 1.0)"),
        ("{torch: [1.0]}", "none", "nothing (torch 1.0)"),
        ("{torch: [1.0, 2.0]}", "[{torch: 1.0}]", "torch 1.0; not 2.0"),
        ("{torch: [1.0, 2.0], shm: [1g]}", "[{torch: 1.0}, {torch: 2.0}]", "torch 1.0, 2.0"),
        ("{shm: [1m, 1g], torch: [1.0, 2.0]}", "[{shm: 1m}]", "shm 1m; not 1g; torch 1.0, 2.0 alike"),
        ("{a: [1, 2], b: [x, y]}", "[{a: 1, b: x}]", "a 1 with b x; not otherwise"),
        ("{a: [1, 2], b: [x, y]}", "[{a: 1, b: x}, {a: 2, b: y}]", "a 1 with b x, or a 2 with b y; not otherwise"),
        ("{a: [1, 2], b: [x, y]}", "[{a: 1}, {b: x}]", "a 1, or b x; not otherwise"),
        (
            "{include: [{os: debian-11, torch: 1.0}, {os: debian-12, torch: 2.0}, {os: debian-12, torch: 2.1}]}",
            "[{os: debian-12}]",
            "os debian-12; not debian-11; torch 2.0, 2.1 alike",
        ),
        ("{include: [{os: debian-11, torch: 1.0}, {os: debian-12, torch: 2.0}]}", "all", "torch 1.0, 2.0"),
        (
            "{a: [1, 2], b: [1, 2], c: [1, 2]}",
            "[{a: 1, b: 1, c: 1}, {a: 1, b: 2, c: 2}, {a: 2, b: 1, c: 2}, {a: 2, b: 2, c: 1}]",
            "some combinations of a, b and c; not otherwise",
        ),
        ("{a: [1], include: [{a: 1, b: x}]}", "[{b: x}]", "b x; not without"),
    ],
)
def test_the_axes_that_decide_are_reported_and_no_others(
    tmp_path: Path, matrix: str, reproduces: str, words: str
) -> None:
    text = f"schema: reprokit/v1\nid: x\ntitle: t\nmatrix: {matrix}\ncommand: x\nexpect: {{reproduces: {reproduces}}}\n"
    (tmp_path / "x.yaml").write_text(text)
    [file] = load(str(tmp_path))
    assert flip(file.case, facts(file.case).cells).words() == words


# What was last seen


def test_verdicts_are_merged_by_case_cell_and_variant(folder: Path) -> None:
    files = load(str(folder))
    known = {file.case.id: facts(file.case) for file in files}
    other = {**seen("reproduced"), "cell": {"torch": "9"}}
    first = result_of(folder, {"old-torch": [seen("reproduced"), seen("reproduced", "fix"), other]})
    merged = merge_verdicts(Verdicts(), first, files, known).verdicts
    assert [one.variant for one in merged.cases["old-torch"].cells] == ["case", "fix"]

    later = result_of(folder, {"old-torch": [seen("not-reproduced", "fix")], "gone": []}, "2026-01-03")
    again = merge_verdicts(merged, later, files, known)
    assert (again.taken, again.strange) == (("old-torch",), ("gone",))
    cells = again.verdicts.cases["old-torch"].cells
    assert [(one.verdict.value, one.date) for one in cells] == [
        ("reproduced", "2026-01-02"),
        ("not-reproduced", "2026-01-03"),
    ]
    assert merge_verdicts(again.verdicts, first, files, known).verdicts == again.verdicts, "older ones do not count"

    unsupported = result_of(folder, {"old-torch": [seen("unsupported")]}, "2026-01-04")
    assert merge_verdicts(again.verdicts, unsupported, files, known).verdicts == again.verdicts, "a finding stays"


def test_verdicts_of_another_text_are_not_taken_and_old_ones_are_kept_as_old(folder: Path) -> None:
    path = result_of(folder, {"old-torch": [seen("reproduced")]})
    assert invoke(["list", "--write", "cases/README.md", "--results", str(path)]) == 0
    (folder / "old_torch.yaml").write_text(TORCH + "\n")
    assert invoke(["list", "--write", "cases/README.md", "--results", str(path)]) == 0
    assert "| not run since it changed |" in (folder / "README.md").read_text()
    assert "old-torch" in json.loads((folder / "verdicts.json").read_text())["cases"]


def test_the_file_of_verdicts_is_read_as_it_was_written(folder: Path) -> None:
    files = load(str(folder))
    known = {file.case.id: facts(file.case) for file in files}
    path = result_of(folder, {"old-torch": [seen("unsupported", reason="no GPU; none")], "arrays": []})
    merged = merge_verdicts(Verdicts(), path, files, known).verdicts
    (folder / VERDICTS_FILE).write_text(dump_verdicts(merged))
    assert read_verdicts(folder / VERDICTS_FILE) == merged
    assert json.loads(dump_verdicts(Verdicts()))["cases"] == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "x"}', '{"cases": {"a": {"digest": 1, "cells": []}}}'])
def test_a_damaged_file_of_verdicts_is_reported(folder: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "verdicts.json").write_text(text)
    assert invoke(["list", "--write", "cases/README.md"]) == 2
    assert "restore it, or delete it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value", "message"), [("started_at", "", "started_at: "), ("size", "1 GB", "cases.0.cells.0.image.size: ")]
)
def test_a_strange_result_file_is_reported(
    folder: Path, key: str, value: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = result_of(folder, {"old-torch": [seen("reproduced")]})
    data = json.loads(path.read_text())
    (data if key in data else data["cases"][0]["cells"][0]["image"])[key] = value
    path.write_text(json.dumps(data))
    assert invoke(["list", "--write", "cases/README.md", "--results", str(path)]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "expected a file that `reprokit run --json` writes" in said
    assert not (folder / "README.md").exists()


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ([seen("reproduced")], "1 reproduced (D)"),
        ([seen("not-reproduced")], "1 not reproduced (D)"),
        ([seen("reproduced"), seen("not-reproduced", "fix")], "1 reproduced; fix holds in 1 (D)"),
        ([seen("flaky", as_expected=True), seen("not-reproduced", "fix")], "1 flaky; fix holds in 1 (D)"),
        ([seen("reproduced"), seen("reproduced", "fix", as_expected=False)], "fix holds in 0 of 1; 1 not as expected"),
        ([seen("not-reproduced"), seen("not-reproduced", "fix")], "1 not reproduced (D)"),
        ([seen("flaky"), seen("not-reproduced", "fix")], "1 flaky (D)"),
        ([seen("build-failed")], "1 build-failed (D)"),
        (
            [seen("unsupported", reason="this host has no GPU (really); it asks for 1")],
            "never run: this host has no GPU (D)",
        ),
    ],
)
def test_what_was_last_seen_is_said_in_words(folder: Path, cells: list[dict[str, Any]], words: str) -> None:
    files = load(str(folder))
    known = {file.case.id: facts(file.case) for file in files}
    path = result_of(folder, {"old-torch": cells})
    case = merge_verdicts(Verdicts(), path, files, known).verdicts.cases["old-torch"]
    assert words.replace("D", "2026-01-02") in last_seen(case, case)


# The page


def test_the_page_is_a_table_of_the_cases(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = result_of(folder, {"old-torch": [seen("reproduced"), seen("not-reproduced", "fix")]})
    assert invoke(["list", "--write", "cases/README.md", "--results", str(path)]) == 0
    printed = capsys.readouterr().out
    assert f"{path}: verdicts of 1 case copied" in printed
    assert f"{Path('cases/README.md')}: 3 cases, 7 cells\n" in printed
    text = (folder / "README.md").read_text()
    for line in (
        "3 cases with 7 cells (environments to try), run in 1 image, of which the largest has 1.2 GB.",
        "passed, on 2026-01-02 where no other day is given. **Needs**",
        r"| [The sum \| of `a\|b` is \<odd\>](old_torch.yaml) | `torch` 1.4.0; not without, 2.13.0+cpu |",
        "| 1 reproduced; fix holds in 1 | 1.2 GB |",
        "| GPU, network, git tree, data, root |",
    ):
        assert line in text
    assert invoke(["validate", "cases"]) == 0, "the page is not a case"


def test_the_page_is_the_same_wherever_and_however_often_it_is_made(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke(["list", "--write", "cases/README.md"]) == 0
    text = (folder / "README.md").read_bytes()
    assert invoke(["list", "--write", "cases/README.md", "--check"]) == 0
    monkeypatch.chdir(folder)
    assert invoke(["list", "--write", "README.md", "--check"]) == 0
    monkeypatch.chdir(tmp_path)
    shutil.copytree(folder, tmp_path / "elsewhere" / "cases")
    assert invoke(["list", "--write", str(tmp_path / "elsewhere" / "cases" / "README.md")]) == 0
    assert (tmp_path / "elsewhere" / "cases" / "README.md").read_bytes() == text


def test_the_check_says_what_differs_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["list", "--write", "cases/README.md", "--check"]) == 1
    assert "does not exist: run `reprokit list --write cases/README.md`" in capsys.readouterr().err
    assert not (folder / "README.md").exists()
    invoke(["list", "--write", "cases/README.md"])
    before = (folder / "README.md").read_text()
    (folder / "arrays.yaml").write_text(NUMPY.replace("Plain", "Plainer"))
    capsys.readouterr()
    assert invoke(["list", "--write", "cases/README.md", "--check"]) == 1
    said = capsys.readouterr()
    assert "+| [Plainer](arrays.yaml)" in said.out
    assert "is not up to date" in said.err
    assert (folder / "README.md").read_text() == before


def test_a_page_that_a_user_wrote_is_not_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "README.md").write_text("# Ours\n")
    assert invoke(["list", "--write", "cases/README.md"]) == 2
    assert "was not written by reprokit list --write" in capsys.readouterr().err
    assert (folder / "README.md").read_text() == "# Ours\n"


def test_a_page_that_cannot_be_written_is_said(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "README.md").mkdir()
    assert invoke(["list", "--write", "cases/README.md"]) == 2
    assert "'cases/README.md' is a directory" in capsys.readouterr().err


def test_markdown_in_texts_is_not_markup() -> None:
    assert inline("a |  *b*\n_c_ d_e `x*|` <i> [l]") == r"a \| \*b\* \_c\_ d_e `x*\|` \<i\> \[l\]"
    assert link("x", "a b/c(1).yaml") == "[x](a%20b/c%281%29.yaml)"

"""What is changed where it works, as a reader states it: an axis in the place of that text, or a sentence."""

from __future__ import annotations

import json

import pytest

from reprokit.case.matrix import expand
from reprokit.case.render import render as render_cell
from reprokit.environment.cases import load_text
from reprokit.intake import facts_file
from reprokit.intake.draft import Draft, render
from reprokit.intake.drafting import draft

REPORT = """\
# It crashes with many threads

```
$ WOB_MODE=fast python feed.py --threads=128 --level -O2 --name {{ x }}
wobble
ValueError: no third wobble
```

With WOB_MODE=slow, with --threads=64, with -O0, on the CPU instead of cuda, or with --careful it works.
"""
COMMAND = {"fact": "command", "line": 4, "text": "python feed.py --threads=128 --level -O2 --name {{ x }}"}
FAILURE = {"fact": "failure", "kind": "exception", "line": 6}
ENV = {"fact": "env", "name": "WOB_MODE", "value": "fast", "line": 4}


def made(**contrast: str) -> Draft:
    facts = [COMMAND, FAILURE, ENV, {"fact": "contrast", "line": 9, **contrast}]
    return draft(REPORT, facts=facts_file.load(json.dumps(facts), "facts.json"))


def cells(found: Draft) -> set[tuple[str, str | None, int]]:
    """(the last line of the command, a variable, the GPUs) in each cell, rendered."""
    case = load_text("case.yaml", render(found)).case
    matrix = case.matrix
    specs = [render_cell(case, cell) for cell in expand(matrix.axes, matrix.exclude, matrix.include)]
    return {(one.command[-1].strip().splitlines()[-1], one.env.get("WOB_MODE"), one.limits.gpus) for one in specs}


@pytest.mark.parametrize(
    ("contrast", "axis", "values"),
    [
        ({"fails": "--threads=128", "works": "--threads=64"}, "threads", ["128", "64"]),
        ({"name": "level", "fails": "-O2", "works": "-O0"}, "level", ["-O2", "-O0"]),
        ({"name": "mode", "fails": "WOB_MODE=fast", "works": "WOB_MODE=slow"}, "mode", ["fast", "slow"]),
        ({"name": "python", "fails": "-O2", "works": ""}, "python_", ["-O2", "none"]),
        ({"name": "device", "fails": "cuda", "works": "the CPU"}, "device", ["gpu", "cpu"]),
    ],
)
def test_what_is_changed_is_an_axis(contrast: dict[str, str], axis: str, values: list[str]) -> None:
    found = made(**contrast)
    assert found.data["matrix"][axis] == values
    assert load_text("case.yaml", render(found)).case.id


def test_each_cell_runs_its_own_command() -> None:
    line = "python feed.py --threads={} --level {} --name {{{{ x }}}}"
    assert cells(made(fails="--threads=128", works="--threads=64")) == {
        (line.format("128", "-O2"), "fast", 0),
        (line.format("64", "-O2"), "fast", 0),
    }
    assert cells(made(fails="-O2", works="")) == {
        (line.format("128", "-O2"), "fast", 0),
        (line.format("128", ""), "fast", 0),
    }
    assert {mode for _, mode, _ in cells(made(fails="WOB_MODE=fast", works="WOB_MODE=slow"))} == {"fast", "slow"}
    assert {gpus for _, _, gpus in cells(made(name="device", fails="cuda", works="CPU"))} == {0, 1}


def test_a_second_axis_is_not_put_into_the_template_of_the_first() -> None:
    contrast = {"fact": "contrast", "line": 9, "name": "x", "fails": "-O2", "works": "-O0"}
    other = {"fact": "contrast", "line": 9, "fails": "x", "works": "it"}
    facts = [COMMAND, FAILURE, contrast, contrast, other]
    found = draft(REPORT, facts=facts_file.load(json.dumps(facts), "facts.json"))
    assert len(cells(found)) == 2
    assert "Line 9: it works with it in the place of x: make an axis of it to have both cells." in found.missing


def in_program(program: str, **contrast: str) -> Draft:
    report = f"# It fails\n\n```python\n{program}\n```\n\n{contrast['works']} works, not {contrast['fails']}\n"
    facts = [{"fact": "script", "line": 4, "last": 4}, {"fact": "contrast", "line": 7, **contrast}]
    return draft(report, facts=facts_file.load(json.dumps(facts), "facts.json"))


def test_blanks_around_what_is_assigned_do_not_count() -> None:
    found = in_program("USE_WOB = True; feed(USE_WOB)", fails="USE_WOB=True", works="USE_WOB=False").data
    assert found["matrix"]["use_wob"] == ["True", "False"]
    assert found["files"]["repro.py"].startswith("USE_WOB = {{ use_wob }}; feed")


@pytest.mark.parametrize("works", ["leave out the .mask() of it", "a single GPU", "2 of (them"])
def test_words_of_a_person_are_not_put_into_a_program(works: str) -> None:
    found = in_program("feed(x).mask(wob)", fails=".mask(wob)", works=works)
    assert "mask" not in str(found.data.get("matrix"))
    assert found.data["files"]["repro.py"] == "feed(x).mask(wob)\n"


def test_a_branch_that_works_is_an_axis_of_the_tree() -> None:
    report = "# It fails\n\ngithub.com/lab/wob at main fails, at v1.2 it works\n"
    facts = [
        {"fact": "source", "git": "https://github.com/lab/wob", "ref": "main", "line": 3},
        {"fact": "contrast", "name": "branch", "fails": "main", "works": "v1.2", "line": 3},
    ]
    found = draft(report, facts=facts_file.load(json.dumps(facts), "facts.json"))
    assert found.data["sources"]["wob"]["ref"] == "{{ branch }}"
    assert found.data["matrix"]["branch"] == ["main", "v1.2"]
    case = load_text("case.yaml", render(found)).case
    matrix = case.matrix
    specs = [render_cell(case, cell) for cell in expand(matrix.axes, matrix.exclude, matrix.include)]
    assert {one.sources["wob"].ref for one in specs} == {"main", "v1.2"}


@pytest.mark.parametrize(
    ("contrast", "said"),
    [
        ({"fails": "", "works": "--careful"}, "Line 9: it works with --careful: make an axis"),
        ({"fails": "many threads", "works": "-O0"}, "it works with -O0 in the place of many threads: make an axis"),
        ({"fails": "many threads", "works": ""}, "Line 9: it works without many threads: make an axis"),
        ({"fails": "{{ x }}", "works": "-O0"}, "it works with -O0 in the place of {{ x }}"),
        ({"fails": "-O2", "works": "-O7"}, "Fact 4 (contrast) is left out: the report does not have '-O7'"),
        ({"fails": "-O2", "works": "-O2"}, "Fact 4 (contrast) is left out: both values are the same"),
    ],
)
def test_what_makes_no_axis_is_said(contrast: dict[str, str], said: str) -> None:
    found = made(**contrast)
    assert any(said in sentence for sentence in found.missing)
    assert load_text("case.yaml", render(found)).case.id

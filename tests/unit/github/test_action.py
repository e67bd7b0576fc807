"""The composite action's inputs as words of a command line, and what its run says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from docs.scripts import action_inputs
from reprokit.cli import invoke
from reprokit.core.errors import UsageError
from reprokit.environment.axes import AXIS_NAMES
from reprokit.github.action import FAIL_ON, arguments, fails
from reprokit.github.reply import write_verdicts


def test_inputs_become_options() -> None:
    inputs = {
        "case": "cases/a.yaml\n\n  bugs with spaces/ \n",
        "cuda": "11.8,12.0",
        "python": "",
        "axes": "arch=sm_35,sm_90\npaddle=2.6",
        "only": "cuda=11.8\narch=sm_90",
        "trials": "max=20",
        "fix": "True",
        "artifact": "x",
    }
    assert arguments(inputs) == [
        *("run", "--cuda=11.8,12.0", "--trials=max=20", "--axis=arch=sm_35,sm_90", "--axis=paddle=2.6"),
        *("--only=cuda=11.8", "--only=arch=sm_90", "--fix", "--yes", "--", "cases/a.yaml", "bugs with spaces/"),
    ]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"case": " \n"}, "name case files or folders"),
        ({"case": "a\n-"}, "no standard input"),
        ({"case": "a", "fix": "yes"}, "`fix`: expected true or false"),
    ],
)
def test_invalid_inputs_are_refused(inputs: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        arguments(inputs)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["case", "os", "cuda", "only", "axes", "trials", "dataset"]), st.text()))
def test_no_input_becomes_another_option(inputs: dict[str, str]) -> None:
    words = arguments({**inputs, "case": "--fix\n" + inputs.get("case", "").replace("-", "x")})
    options = words[1 : words.index("--")]
    known = ("--os=", "--cuda=", "--only=", "--axis=", "--trials=", "--dataset=", "--yes")
    assert all(word.startswith(known) for word in options)
    assert words[words.index("--") + 1] == "--fix"


def test_the_action_has_an_input_for_every_known_axis() -> None:
    assert action_inputs.ACTION.read_text(encoding="utf-8") == action_inputs.text(), "run `make docs-generated`"
    action = yaml.safe_load(action_inputs.text((*AXIS_NAMES, "new-one")))
    assert {*AXIS_NAMES, "new-one"} <= action["inputs"].keys()
    environ = next(step["env"] for step in action["runs"]["steps"] if step.get("id") == "run")
    assert environ["INPUT_NEW_ONE"] == "${{ inputs.new-one }}"
    assert {f"INPUT_{name.upper()}" for name in AXIS_NAMES} <= environ.keys()


def test_when_the_step_fails() -> None:
    assert {word: [status for status in (0, 1, 2, 3, 130) if fails(word, status)] for word in FAIL_ON} == {
        "departure": [1, 2, 130],
        "inconclusive": [1, 2, 3, 130],
        "never": [2, 130],
    }
    with pytest.raises(UsageError, match="did you mean 'never'"):
        fails("nevr", 0)


def test_a_false_result_file_is_only_shown_as_text() -> None:
    lies: list[dict[str, Any]] = [
        {"cell": {"x": "1|2", "y": "<b>"}, "verdict": "reproduced", "reason": "<img src=x>\n@everyone `x` | y"},
        {"cell": {"x": "@me"}, "verdict": "<script>", "expected": "@me", "variant": "fix", "reason": 7},
        {"cell": 3},
    ]
    text = write_verdicts({"cases": [{"id": "a`</h3>", "cells": [*lies, 1, *lies * 500]}]})
    for token in MarkdownIt("commonmark", {"html": True}).enable("table").parse(text):
        assert token.type != "html_block"
        for child in token.children or ():
            assert child.type in {"text", "code_inline", "strong_open", "strong_close", "html_inline", "text_special"}
            assert child.type != "html_inline" or child.content in ("<code>", "</code>")
            assert child.type != "text" or "@everyone" not in child.content
    assert len(text) < 60_000
    for nothing in ({"cases": "x"}, {}, {"cases": [3]}):
        assert write_verdicts(nothing) == "No case was run.\n"
    assert "no cell was run" in write_verdicts({"cases": [{}]})


def test_a_job_of_a_night_reports_a_wrong_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path))
    for entry, words, message in (("x", "", "not JSON"), ("{}", "", "Field required"), ("{}", "'", "ARGUMENTS: No")):
        monkeypatch.setenv("ENTRY", entry)
        monkeypatch.setenv("ARGUMENTS", words)
        assert invoke(["integrate", "github", "run-cells", "--store", str(tmp_path / "store")]) == 2
        assert message in capsys.readouterr().err

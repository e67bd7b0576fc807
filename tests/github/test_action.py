"""The composite action's inputs as words of a command line, and what its run says."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reprokit.errors import UsageError
from reprokit.github.action import FAIL_ON, arguments, fails
from reprokit.github.texts import block, code
from reprokit.github.verdicts import markdown, summary


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
        ({"case": " \n"}, "name a case file"),
        ({"case": "a\n-"}, "no standard input"),
        ({"case": "a", "fix": "yes"}, "`fix`: expected true or false"),
    ],
)
def test_what_is_no_value_is_refused(inputs: dict[str, str], message: str) -> None:
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


def test_what_ends_the_step_as_a_failure() -> None:
    assert {word: [status for status in (0, 1, 2, 3, 130) if fails(word, status)] for word in FAIL_ON} == {
        "departure": [1, 2, 130],
        "inconclusive": [1, 2, 3, 130],
        "never": [2, 130],
    }
    with pytest.raises(UsageError, match="did you mean 'never'"):
        fails("nevr", 0)


@settings(deadline=None)
@given(st.text(alphabet="a`|\\ \n@<>&*_[]()#~\u202e\x1b", max_size=60))
def test_a_code_span_and_a_block_cannot_be_left(text: str) -> None:
    reader = MarkdownIt("commonmark").enable("table")
    table = reader.parse(f"| a | b |\n|---|---|\n| {code(text)} | end |\n")
    first, second = [token for token in table if token.type == "inline"][2:]
    assert [child.type for child in first.children or ()] in (["code_inline"], ["text"])
    assert second.content == "end"
    assert first.content == "–" or not set("\n\x1b\u202e") & set(first.content)
    (fenced, after, *_) = reader.parse(f"{block(text, 'yaml')}\nafter\n")
    assert (fenced.type, after.type) == ("fence", "paragraph_open")


def test_a_bar_in_a_table_stays_in_its_cell() -> None:
    result = {
        "cases": [
            {
                "id": "a|b",
                "cells": [
                    {
                        "cell": {"x": "1|2"},
                        "verdict": "reproduced",
                        "expected": "reproduced",
                        "as_expected": True,
                        "reason": "<img src=x>\n@everyone `x` | y",
                    },
                    {"cell": {"x": "<b>"}, "verdict": "<script>", "expected": "@me", "variant": "fix", "reason": 7},
                ],
            }
        ]
    }
    text = markdown(result)
    assert "| 1 | `x=1\\|2` | reproduced | reproduced | ``<img src=x> @everyone `x` \\| y`` |" in text
    assert "| 2 | `x=<b> [fix]` | unknown | – | – |" in text
    assert summary(result["cases"][0]["cells"]) == "1 reproduced, 1 unknown; nothing departs, something is inconclusive"  # type: ignore[arg-type,index]
    assert markdown({"cases": "x"}) == "No case was run.\n"

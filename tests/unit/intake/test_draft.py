"""The text of a draft says its data again, in the format's order, and its comments stay comments."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from reprokit.case import emit
from reprokit.case.templates import render_text
from reprokit.case.tree import parse
from reprokit.core.redaction import Omitted
from reprokit.environment.cases import load_text
from reprokit.intake.draft import Draft, literal, render, summary

WORDS = ["3.10", "no", "1e3", "0o17", "012", "12:30:45", "2026-01-02", "null", "Key:", "中文", "{{x}}", "{%", "<<"]
SIGNS = [*"#'\"\\-?a=|>%@`,[]{}~", "&a", "*a", "!t", "---", "...", ": ", " #", " ", "\t", "\r\n", "\n", "\n\n"]
HIDDEN = ["\x85", "\u2028", "\u202e", "\x07", "\x7f", "\ufeff"]
PIECES = st.sampled_from([*WORDS, *SIGNS, *HIDDEN])
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=6).map("".join))
KEYS = TEXTS.filter(lambda text: len(text) < 500)
DATA = st.dictionaries(
    KEYS,
    st.recursive(
        TEXTS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
    ),
    max_size=5,
)


def read(text: str) -> Any:
    tree = parse("x.yaml", text)
    assert not tree.problems, text
    return tree.data


@given(DATA)
def test_a_written_draft_is_read_back(data: dict[str, Any]) -> None:
    if data:
        assert read(emit.document(data)) == data


@given(TEXTS)
def test_a_reader_that_guesses_types_reads_the_same_text(text: str) -> None:
    """Without counts, that is: those lose nothing."""
    written = emit.document({"key": text, "list": [text, {"inner": text}]}, bare_counts=lambda loc: False)
    assert yaml.safe_load(written) == {"key": text, "list": [text, {"inner": text}]}


def test_a_block_scalar_keeps_exactly_its_own_empty_lines() -> None:
    data = {"schema": "reprokit/v1", "files": {"a": "x\n\n"}, "expect": {}}
    assert read(render(Draft(data=data))) == data


def test_what_no_yaml_can_have_is_replaced() -> None:
    """Bytes that are not UTF-8, which a terminal or an argument had."""
    written = render(Draft(data={"title": "caf\udce9", "files": {"a": "\ud800\n"}}))
    assert read(written) == {"schema": "reprokit/v1", "title": "caf\ufffd", "files": {"a": "\ufffd\n"}}


@given(DATA, st.lists(TEXTS, max_size=3), st.data())
def test_comments_change_nothing(data: dict[str, Any], sentences: list[str], draw: st.DataObject) -> None:
    places = [()] + [(key,) for key in data] + [(key, 0) for key, value in data.items() if isinstance(value, list)]
    draft = Draft(
        data=data,
        notes={draw.draw(st.sampled_from(places)): tuple(sentences)},
        missing=tuple(sentences),
        omitted=tuple(Omitted(kind=one, where=one) for one in sentences),
    )
    assert read(render(draft)) == {"schema": "reprokit/v1", **data}


@given(TEXTS)
@example("{% raw %} {{ a }} {% endraw %}")
@example("{{{%-endraw%}\r\n{#")
@example("{\r{{")
@example("${#array[@]} ${{ github.token }}")
def test_text_from_outside_is_not_a_template(text: str) -> None:
    assert render_text(literal(text), {}) == text


def test_a_draft_reads_as_cases_are_written() -> None:
    draft = Draft(
        data={
            "command": "cd app\npython train.py\n",
            "env": {"STRICT_MODE": "0", "COST_MODEL": "False", "NAME": "two words"},
            "matrix": {"include": [{"cuda": "12.0", "gcc": "11"}], "python": ["3.10"], "os": ["debian-12"]},
            "environment": {"pip": ["numpy==1.24.4", "pandas<2"]},
            "title": "It fails: always",
            "id": "it-fails",
            "expect": {"reproduces": [{"cuda": "12.0"}], "failure": {"exit_code": "1", "exception": "ValueError"}},
            "files": {"a.py": "  indented\n\n"},
        },
        notes={(): ("Draft made for a test.",), ("matrix", "python"): ("this machine's 3.10.12",)},
        missing=("the version of CUDA",),
        omitted=(Omitted(kind="github-token", where="env"), Omitted(kind="github-token", where="env")),
    )
    text = render(draft)
    assert text == (
        """\
# Draft made for a test.
# Missing:
# - the version of CUDA
# Left out, since it looks secret or personal (<...> or REDACTED_... mark the places):
# - github-token, 2 times: env
schema: reprokit/v1
id: it-fails
title: "It fails: always"

matrix:
  # this machine's 3.10.12
  python: ["3.10"]
  os: [debian-12]
  include:
    - {cuda: "12.0", gcc: "11"}

environment:
  pip: [numpy==1.24.4, pandas<2]
files:
  a.py: |2+
      indented

env:
  STRICT_MODE: 0
  COST_MODEL: "False"
  NAME: two words
command: |
  cd app
  python train.py

expect:
  failure:
    exit_code: 1
    exception: ValueError
  reproduces:
    - {cuda: "12.0"}
"""
    )
    assert load_text("x.yaml", text).case.expect.failure.exit_code == 1


@pytest.mark.parametrize("text", ["# no comment", "a # b", "key: value", "{{ cuda }}", "12.0", "0x1f", "", " ", "a:"])
def test_ambiguous_scalars_are_quoted(text: str) -> None:
    assert emit.scalar(text).startswith('"')


def test_omitted_secrets_are_listed_by_kind_in_the_order_of_lines() -> None:
    places = [
        "line 10",
        "line 9",
        "line 9",
        "env B, line 2",
        "env B, line 10",
        "",
        *(f"line {n}" for n in range(20, 40)),
    ]
    lines = summary((*(Omitted(kind="home", where=place) for place in places), Omitted(kind="email")))
    assert lines == (
        "email",
        "home, 26 times: lines 9, 10, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29 ...; env B, line 2; env B, line 10",
    )

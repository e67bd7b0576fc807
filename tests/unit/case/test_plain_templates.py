"""Templates that are put together without Jinja2: as Jinja2 reads and fills them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case.sandbox import ENVIRONMENT, filled, inspected
from reprokit.case.templates import SPECIAL, inspect, is_template, render_text, split

ROOT = Path(__file__).resolve().parents[3]
PIECES = [
    "{",
    "}",
    "{{",
    "}}",
    "{%",
    "%}",
    "{#",
    "#}",
    "-",
    "a",
    "b",
    "self",
    "none",
    " ",
    "\t",
    "\n",
    "\r",
    "é",
    "|",
    "$",
]


@given(st.lists(st.sampled_from([*PIECES, "{{ a }}", "{{b}}", "{{ range }}"]), max_size=12).map("".join))
def test_what_is_read_without_jinja2_is_what_jinja2_reads(text: str) -> None:
    pieces = split(text)
    if pieces is None or not is_template(text):
        return
    assert inspect(text) == inspected(text)
    values = {"a": "{{ b }}", "b": "1"}
    assert render_text(text, values) == filled(text, values)


@pytest.mark.parametrize("text", ["{{{ a }}", "{{ a -}}", "{{ none }}", "{{ self }}", "x\r\n{{ a }}", "{{ a }}{% b %}"])
def test_what_jinja2_reads_otherwise_is_left_to_it(text: str) -> None:
    assert split(text) is None


def test_names_with_a_meaning_of_their_own_are_all_known() -> None:
    assert set(ENVIRONMENT.globals) <= SPECIAL


def test_a_case_of_plain_templates_is_checked_without_jinja2(tmp_path: Path) -> None:
    case = "schema: reprokit/v1\nid: plain\ntitle: t\nmatrix: {a: [x, y]}\ncommand: 'false {{ a }}'\n"
    (tmp_path / "plain.yaml").write_text(case, encoding="utf-8")
    program = "import sys; from reprokit.cli import main\ntry: main()\nfinally: print('jinja2' in sys.modules)"
    argv = [sys.executable, "-c", program, "validate", str(tmp_path / "plain.yaml")]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[1:] == ["False"]

"""What is rendered is what was meant: no value of a case adds an instruction, a flag, a mount, a stage or a command."""

from __future__ import annotations

import functools
import json
import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case import emit
from reprokit.case.matrix import expand
from reprokit.case.render import TemplateProblem, render
from reprokit.core.errors import CaseError, Unsupported, UsageError
from reprokit.environment import cases, dockerfile
from reprokit.environment.axes import AXIS_NAMES
from reprokit.environment.model import SourceTree
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from tests import dockerfile_grammar as grammar

Shape = list[tuple[str, tuple[str, ...], str]]

FIELDS: dict[str, Any] = {
    "apt": lambda value: {"environment": {"apt": ["git", value]}},
    "pip": lambda value: {"environment": {"pip": ["six", value]}},
    "pip-step": lambda value: {"environment": {"pip": [["six"], {"requirements": ["x"], "options": [value]}]}},
    "pip_options": lambda value: {"environment": {"pip": ["six"], "pip_options": [value]}},
    "image": lambda value: {"environment": {"image": value, "pip": ["six"]}},
    "setup": lambda value: {"environment": {"setup": value}},
    "workdir": lambda value: {"workdir": f"/work/{value}", "files": {"a": "x"}},
    "file": lambda value: {"files": {f"a{value}": {"content": "x", "mode": "700"}, "b": "y"}},
    "file-folder": lambda value: {"files": {f"{value}/a": {"content": "x", "mode": "600"}}},
    "file-text": lambda value: {"files": {"a": value}},
    "source": lambda value: {"sources": {value: {"git": "https://git.example/a", "ref": "v1", "path": "p"}}},
    "source-path": lambda value: {"sources": {"s": {"git": "https://git.example/a", "ref": "v1", "path": value}}},
    "dataset": lambda value: {"datasets": {"d": {"path": value, "generate": "true"}}},
    "dataset-name": lambda value: {"datasets": {value: {"path": "d", "generate": "true"}}},
    "generate": lambda value: {"datasets": {"d": {"path": "d", "generate": value}}},
    "env": lambda value: {"env": {"A": value}},
    "command": lambda value: {"command": value},
    "os": lambda value: {"matrix": {"os": [value]}},
    **{
        name: lambda value, name=name: {"matrix": {"os": ["debian-12"], name: [value]}}
        for name in AXIS_NAMES
        if name != "os"
    },
}
"""Every field of a case that reaches its Dockerfile or build context: the part of a case that has a value there."""
HOSTILE = {
    "newline": "x\nRUN touch /pwned",
    "newline-first": "\nRUN touch /pwned",
    "crlf": "x\r\nRUN touch /pwned",
    "return": "x\rRUN touch /pwned",
    "line-separator": "x\u2028RUN touch /pwned",
    "next-line": "x\u0085RUN touch /pwned",
    "form-feed": "x\fRUN touch /pwned",
    "escape-last": "x\\",
    "escape-twice": "x\\\\",
    "escape-space": "x\\ ",
    "escape-newline": "x\\\nRUN touch /pwned",
    "heredoc": "<<EOF",
    "heredoc-quoted": "x <<'EOF'\nRUN touch /pwned\nEOF",
    "heredoc-dash": "3<<-EOF",
    "syntax": "# syntax=evil.example/front:end",
    "escape-directive": "# escape=`",
    "comment": "x # y",
    "quote": "x' && touch /pwned && echo '",
    "double-quote": 'x" && touch /pwned && echo "',
    "quote-end": "x'",
    "json": '", "/etc"]\nRUN touch /pwned\n#',
    "dollar": "$HOME",
    "braces": "${HOME:-pwned}",
    "substitution": "$(touch /pwned)",
    "backticks": "`touch /pwned`",
    "semicolon": "x; touch /pwned",
    "and": "x && touch /pwned",
    "background": "x & touch /pwned",
    "pipe": "x | tee /pwned",
    "redirect": "x > /pwned",
    "glob": "*",
    "brace-list": "{a,b}",
    "tilde": "~root",
    "mount": "--mount=type=bind,source=/,target=/host",
    "mount-later": "x --mount=type=secret,id=netrc",
    "flag": "--chown=0:0",
    "network": "--network=host",
    "from": "x AS stage",
    "from-stage": "x\nFROM scratch",
    "copy": "x\nCOPY --from=0 / /",
    "nul": "x\0RUN touch /pwned",
    "tab": "x\tRUN",
    "dots": "../../etc",
    "parent": "..",
    "dockerfile": "Dockerfile",
    "dockerfile-above": "../Dockerfile",
    "ignore": ".dockerignore",
    "bidi": "x\u202eRUN",
    "long": "x" * 5000,
}


def meaning(case: Mapping[str, Any], values: Mapping[str, str] | None = None) -> dockerfile.Rendered | None:
    """What the first cell of a case is rendered to; None where the case, or the cell, is refused in words."""
    given = {
        "schema": "reprokit/v1",
        "id": "hostile",
        "title": "Hostile",
        "matrix": {"os": ["debian-12"], **{name: [value] for name, value in (values or {}).items()}},
        "command": "true",
        "expect": {"failure": {"exit_code": "1"}},
        **case,
    }
    try:
        file = cases.load_text("hostile.yaml", emit.document(given))
        cell = expand(file.case.matrix.axes, file.case.matrix.exclude, file.case.matrix.include)[0]
        spec = render(file.case, cell)
        trees = {
            name: SourceTree(name=name, commit="", digest="", archive=Path(__file__).parent / "probes", path=one.path)
            for name, one in spec.sources.items()
        }
        environment = resolve(spec, Supply(base_source="bootstrap"))
        return dockerfile.render(environment, spec, sources=trees, given_datasets=())
    except CaseError as error:
        located = [problem for problem in error.problems if problem.line and problem.column and problem.message]
        refused = len(located) == len(error.problems)
    except (TemplateProblem, Unsupported, UsageError) as error:
        refused = bool(str(error).strip())
    assert refused, "refused without a position, or without a word"
    return None


@functools.cache
def expected_shapes(field: str) -> list[Shape]:
    """What harmless values of a field give; where nothing is left of one, what it is for is not done."""
    found = [meaning(FIELDS[field](plain)) for plain in ("harmless", "12", "3.11", "debian-12", "")]
    shapes = [grammar.shape(grammar.parse(one.dockerfile)) for one in found if one is not None]
    assert shapes, f"no harmless value of {field} makes a case: nothing of it would be tried"
    return shapes


def check(field: str, value: str, found: dockerfile.Rendered) -> None:
    """That the Dockerfile of a value has the shape of that of a harmless one, to either version of the grammar."""
    expected = expected_shapes(field)
    for doubled in (False, True):
        instructions = grammar.parse(found.dockerfile, doubled=doubled)
        if field in PIP:  # pip's words are grouped into calls: how many there are may differ, not what a call may do
            assert set(grammar.shape(instructions)) <= CALLS, value
        else:
            assert grammar.shape(instructions) in expected, value
        for one in instructions:
            if one.keyword == "COPY" and one.text.startswith("["):
                assert len([grammar.expanded(word) for word in json.loads(one.text)]) == 2
            elif one.keyword in ("WORKDIR", "FROM"):
                grammar.expanded(one.text)
    for name in found.context:
        assert re.match(r"(sources/[A-Za-z0-9][A-Za-z0-9._-]{,100}$|files/|executables/|reprokit/[a-z0-9_.-]+$)", name)
        assert posixpath.normpath(name) == name, value


PIP = {"pip", "pip-step", "pip_options"}
CALLS = {
    one
    for pip in (["six"], ["six", "./local"], ["torch==2.0", "six"], [["six"], ["./local"]])
    for found in [meaning({"environment": {"pip": pip}})]
    if found
    for one in grammar.shape(grammar.parse(found.dockerfile))
}
"""What the steps of images do that install packages of any kind."""


@pytest.mark.parametrize("field", FIELDS)
def test_no_value_adds_an_instruction_a_flag_a_mount_a_stage_or_a_command(field: str) -> None:
    for value in HOSTILE.values():
        if (found := meaning(FIELDS[field](value))) is not None:
            check(field, value, found)


TEMPLATED = sorted(FIELDS.keys() - {*AXIS_NAMES, "source", "dataset-name", "workdir"})


@pytest.mark.parametrize(
    "field", [pytest.param(one, marks=[pytest.mark.nightly] * (one not in ("apt", "pip", "env"))) for one in TEMPLATED]
)
def test_nor_does_a_value_of_an_axis_or_one_that_a_template_makes(field: str) -> None:
    """What is checked when the case is read has to be checked again once it is rendered."""
    for value in HOSTILE.values():
        for template, axes in (
            ("{{ free }}", {"free": value}),
            ("{{ " + json.dumps(value, ensure_ascii=False) + " }}", {}),
        ):
            if (found := meaning(FIELDS[field](template), axes)) is not None:
                check(field, value, found)


PIECES = st.lists(
    st.sampled_from([*HOSTILE.values(), *"\\'\"$`\n \t#<>&|;(){}[]*?~!-=,@%^\r\0é中", "a", "RUN ", "FROM x"])
)


@given(st.sampled_from(sorted(FIELDS)), PIECES.map("".join))
def test_nor_does_any_other_text(field: str, value: str) -> None:
    if (found := meaning(FIELDS[field](value))) is not None:
        check(field, value, found)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("# syntax=x\nFROM a\n", "directive"),
        ("#escape=`\nFROM a\n", "directive"),
        ("FROM a\nRUN <<EOF\nx\nEOF\n", "here-document"),
        ("FROM a\nRUN cat 3<<-'E' x\n", "here-document"),
        ("FROM a\nCOPY <<a /b\n", "here-document"),
        ("FROM a\nRUM x\n", "no instruction"),
        ("FROM a\nRUN echo \\\n# comment\n\n  b\n'\n", "no instruction"),
    ],
)
def test_the_grammar_sees_what_we_never_write(text: str, what: str) -> None:
    with pytest.raises(grammar.GrammarError, match=what):
        grammar.parse(text)


def test_the_grammar_tells_instructions_flags_and_scripts_apart() -> None:
    text = "FROM a AS b\n# x\nRUN --mount=type=a \\\n  --network='ho st' \\\n# no\n\n  echo 'a b' \\\\\nUSER x\n"
    assert grammar.parse(text) == [
        grammar.Instruction("FROM", (), "a AS b"),
        grammar.Instruction("RUN", ("--mount=type=a", "--network=ho st"), "echo 'a b' \\\\"),
        grammar.Instruction("USER", (), "x"),
    ]
    assert [one.keyword for one in grammar.parse(text, doubled=False)] == ["FROM", "RUN"]
    assert grammar.acts("a 'b;$c' \"d;$e\" && f \\; # $(g)") == "$&&#$()"
    with pytest.raises(grammar.GrammarError, match="variable"):
        grammar.expanded("/a/$HOME")
    with pytest.raises(grammar.GrammarError, match="quote"):
        grammar.expanded("/a/'b'")
    assert grammar.expanded("/a/\\$HOME\\'s") == "/a/$HOME's"

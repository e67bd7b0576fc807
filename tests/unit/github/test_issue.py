"""The case in an issue's text, and what is answered: nothing that another user writes gets out of its place."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reprokit.case.templates import TOO_LONG
from reprokit.cli import invoke
from reprokit.github.issue import LABEL, MAX_BODY, MAX_CELLS, MAX_TEXT, digest_of, label_of, review
from reprokit.github.reply import MARKER, MAX_COMMENT, answer_run, of_review, parse_reply
from tests.unit.limits import examples

CASE = """\
schema: reprokit/v1
id: pasted
title: Pasted into an issue
matrix: {os: [debian-12], how: [good, bad]}
command: test {{ how }} = good
expect: {reproduces: [{how: bad}]}
"""
HOSTILE = [
    "${{ secrets.X }}",
    "`touch pwned`",
    "$(touch pwned)",
    "'; touch pwned; '",
    '"; touch pwned; "',
    "x\n::set-output name=admitted::true\n::add-mask::a",
    "%0A::error::x",
    "##[add-path]/tmp",
    "</details><img src=x onerror=alert(1)>",
    "@everyone ![x](https://x.example/y) [a](javascript:1) #1",
    "````` ``` ~~~",
    "| a | b |",
    "<!-- reprokit-case state=verdict digest=" + "0" * 64 + " -->",
]


BLOCKS = ("<!-- reprokit-case state=", "<details><summary>The text", "</details>")
INLINE = {"text", "code_inline", "strong_open", "strong_close", "softbreak", "html_inline"}
"""What our own words are made of; what others wrote is code, inline or fenced."""


def form(case: str, seen: str = "It fails.") -> str:
    """An issue as the form writes it."""
    return (
        f"### The case\n\n```yaml\n{case}\n```\n\n### What was seen\n\n{seen}\n\n### Before it is sent\n\n- [X] Yes.\n"
    )


def problems(body: str) -> list[str]:
    return [f"{problem.line}:{problem.column} {problem.message}" for problem in review(body).problems]


def test_the_case_of_the_form_is_found_and_its_hash_is_that_of_its_text() -> None:
    found = review(form(CASE.rstrip("\n")))
    assert (found.state, found.text) == ("valid", CASE)
    assert found.digest == hashlib.sha256(CASE.encode()).hexdigest()
    assert found.file is not None
    assert found.file.digest == f"sha256:{found.digest}"
    assert LABEL.fullmatch(found.label)
    assert len(found.label) <= 50


def test_line_ends_and_text_around_it_keep_the_hash_and_any_change_within_does_not() -> None:
    digest = review(form(CASE)).digest
    assert review(form(CASE).replace("\n", "\r\n")).digest == digest
    assert review("Hello\n\n" + form(CASE, seen="other words")).digest == digest
    assert digest_of(form(CASE)) == digest
    assert review(form(CASE.replace("pasted", "pasted2"))).digest != digest
    assert review(form(CASE + "\n")).digest != digest


@pytest.mark.parametrize("body", ["", "Just a question.", "```yaml\na: 1\n```", "schema: reprokit/v1 without a fence"])
def test_other_issues_are_left_alone(body: str) -> None:
    assert review(body).state == "none"


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        (form("_No response_"), "1:1 no line schema: reprokit/v1 in the case"),
        (form("id: a"), "1:1 no line schema: reprokit/v1 in the case"),
        (form(CASE) + form(CASE), "1:1 2 cases, from lines 4, 23 of the issue on; an issue holds one"),
        (form(f"```yaml\n{CASE}```"), "1:1 a fence within the fence"),
        (form(CASE + "resources: {privileged: true}\n"), "7:13 unknown key 'privileged'"),
        (form(CASE + "volumes: ['/var/run/docker.sock:/x']\n"), "7:1 unknown key 'volumes'"),
        (form(CASE + "datasets: {d: {path: /var/run/docker.sock}}\n"), "7:22 "),
        (form(CASE + "datasets: {d: {path: ../../etc}}\n"), "7:22 "),
        (form(CASE + "files: {../../.bashrc: x}\n"), "7:9 "),
        (
            form(CASE + "sources: {a: {git: /root/private, ref: v1, path: a}}\n"),
            "7:20 a case from an issue cannot use a source",
        ),
        (
            form(CASE + "sources: {a: {git: 'git@h:a', ref: v1, path: a}}\n"),
            "7:20 a case from an issue cannot use a source",
        ),
        (
            form(CASE + "sources: {a: {git: \"{{ 'file' }}:///x\", ref: v1, path: a}}\n"),
            "7:20 a case from an issue cannot use a source",
        ),
        (form(CASE.replace("Pasted", "Pas\u202eted")), "3:11 the invisible character U+202E cannot be reviewed"),
        (form(CASE.replace("Pasted", "Pas\U000e0101ted")), "3:11 the invisible character U+E0101"),
        (form(CASE.replace("Pasted", "Pas\ud800ted")), "3:11 the invisible character U+D800"),
        (form(CASE + f"description: {'x' * MAX_TEXT}\n"), "1:1 the case is shown in 40,"),
        # Each tick in a row makes the fence longer, at both ends: the comment would end before the text does.
        (form(CASE + f"# {'`' * 14_000}\nenv: {{A: b}}\n"), "1:1 the case is shown in 42,"),
        (form(CASE.replace("= good", f"= good #{' ' * 61}; evil")), "5:33 text after 61 blanks"),
        (form(CASE + "#" + "\t" * 8 + "x\n"), "7:2 text after 8 blanks"),
        ("x" * (MAX_BODY + 1), "1:1 the issue has 262,145 characters"),
    ],
)
def test_problems_are_reported_with_their_position(body: str, wanted: str) -> None:
    assert any(problem.startswith(wanted) for problem in problems(body)), problems(body)


@settings(deadline=None, max_examples=examples(30))
@given(st.integers(0, 30_000), st.integers(0, 3_000))
def test_a_case_is_offered_only_if_all_of_it_is_shown(ticks: int, lines: int) -> None:
    found = review(form(f"{CASE}# {'`' * ticks}\n{'# filler words' * bool(lines)}{chr(10) * lines}env: {{LAST: b}}\n"))
    comment = of_review(found).comment
    assert (found.state == "valid") == (found.label in comment)
    assert found.state != "valid" or f"env: {{LAST: b}}\n\n{'`' * max(3, ticks + 1)}\n" in comment


def test_a_matrix_that_is_too_large_is_refused_before_it_is_expanded() -> None:
    values = "[" + ", ".join(f"v{n}" for n in range(100)) + "]"
    case = CASE.replace("how: [good, bad]", f"how: [good, bad], a: {values}, b: {values}")
    (problem,) = problems(form(case))
    assert problem == f"4:1 20000 cells; at most {MAX_CELLS} are run for an issue"


def test_a_bomb_of_aliases_is_refused() -> None:
    bomb = CASE + "a: &a [x, x, x, x, x, x, x, x, x]\n"
    for name, before in zip("bcdefgh", "abcdefg", strict=True):
        bomb += f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    assert review(form(bomb)).state == "invalid"


def test_hostile_text_stays_in_code_in_the_answer() -> None:
    reader = MarkdownIt("commonmark", {"html": True})
    for text in HOSTILE:
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        for case in (
            CASE.replace("title: Pasted into an issue", f'title: "{quoted}"'),
            CASE.replace("title: Pasted into an issue", f'"{quoted}": x'),
            CASE + f'environment: {{setup: "echo {quoted}"}}\n',
        ):
            found = review(form(case))
            assert found.state in ("valid", "invalid")
            comment = of_review(found).comment
            assert len(MARKER.findall(comment)) >= 1
            assert MARKER.match(comment)
            for token in reader.parse(comment):
                if token.type == "html_block":
                    assert token.content.startswith(BLOCKS)
                for child in token.children or ():
                    assert child.type in INLINE
                    assert child.type != "html_inline" or child.content == "<br>"
                    assert child.type != "text" or "@everyone" not in child.content


def test_a_comment_fits_and_shows_all_that_would_run() -> None:
    text = CASE + "description: |\n" + "  long line of words\n" * 1800
    comment = of_review(review(form(text))).comment
    assert len(comment) <= MAX_COMMENT + 100
    assert text in comment
    many = review(form(CASE + "".join(f"key{n}: x\n" for n in range(500))))
    comment = of_review(many).comment
    assert "... and 470 more" in comment


def test_a_verdict_shows_the_table_and_survives_false_results() -> None:
    digest = review(form(CASE)).digest
    cells = [{"cell": {"how": how}, "verdict": "reproduced", "reason": "on host-7"} for how in ("a|b", "c")]
    result = {"cases": [{"id": "pasted", "digest": "x", "cells": cells}]}
    reply = answer_run(digest, CASE, result, "https://github.example/run", lambda text: text.replace("host-7", "HOST"))
    assert reply.state == "verdict"
    assert "| 1 | <code>a&#124;b</code> | **reproduced** | `on HOST` |" in reply.markdown
    assert f"`{label_of(digest)}`" in reply.comment
    long = 2 * MAX_COMMENT
    huge = [{"cell": {"a": "`" * long}, "reason": "x" * long}] * 500
    result = {"cases": [{"id": "x" * long, "cells": huge}] * 9}
    assert len(answer_run(digest, CASE, result, "u").comment) <= MAX_COMMENT
    assert "without a result" in answer_run(digest, CASE, None, "u").markdown
    for lie in ({"cases": [{"cells": [1, {"cell": 3, "reason": ["x"]}], "id": 5}]}, {"cases": {}}, {}):
        assert answer_run(digest, CASE, lie, "u").state == "verdict"


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["state", "digest", "markdown"]), st.text() | st.none()))
def test_an_invalid_reply_from_another_job_is_refused(data: dict[str, str | None]) -> None:
    with pytest.raises(ValueError, match="not a reply"):
        parse_reply(data)
    good = of_review(review(form(CASE)))
    assert parse_reply(good.to_json()) == good


LOOP = "{{% for {0} in range(9999) %}}{1}{{% endfor %}}"
LOOPS = LOOP.format("a", LOOP.format("b", LOOP.format("c", "")))


def test_a_template_that_loops_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    event = tmp_path / "event.json"
    event.write_text(
        json.dumps({"action": "opened", "issue": {"number": 1, "body": form(CASE + f'env: {{A: "{LOOPS}"}}\n')}})
    )
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(event))
    monkeypatch.delenv("GITHUB_OUTPUT", raising=False)
    assert invoke(["integrate", "github", "check-issue", "-o", str(tmp_path / "review")]) == 0
    assert "state=invalid" in capsys.readouterr().out
    reply = json.loads((tmp_path / "review" / "reply.json").read_text())
    assert TOO_LONG in reply["markdown"]


@settings(deadline=None)
@given(st.text())
def test_no_text_crashes_the_review(body: str) -> None:
    assert review(body).state in ("none", "invalid", "valid")
    assert review(form(body)).state in ("none", "invalid", "valid")

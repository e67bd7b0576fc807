"""The patterns of cases: RE2's, in linear time, with words about what other engines have and RE2 has not."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case.model import Failure
from reprokit.core.errors import CaseError
from reprokit.core.patterns import LONGEST, PatternError, compiled
from reprokit.environment.cases import load_text
from reprokit.evidence.judgement import judge
from reprokit.evidence.model import Ending, Outcome
from tests.unit.limits import within

REFUSED = {
    "lookahead": ("a(?=b)", "looking ahead"),
    "negative-lookahead": ("(?!a).b", "(?!...)"),
    "lookbehind": ("(?<=a)b", "looking ahead or behind"),
    "negative-lookbehind": ("(?<!a)b", "(?<!...)"),
    "numbered-reference": (r"(a+)\1", "reference to a group"),
    "named-reference": ("(?P<x>a+)(?P=x)", "reference to a group"),
    "reference-in-a-repeat": (r"(?:(a+)\1)+$", "reference to a group"),
    "conditional": ("(a)?(?(1)b|c)", "choice by a group"),
    "never": ("(?!)", "not available"),
    "broken": ("a(b", "missing ): a(b"),
    "pythons-flag": ("(?x)a", "(?x"),
    "pythons-end": (r"a\Z", r"write \z"),
    "pythons-escape": (r"\u4e2d", r"\x{4E2D}"),
    "nested-counts": ("((a{1,1000}){1,1000})", "1000 at most"),
    "counts-of-counts": ("(?:(?:(?:(?:a{10}){10}){10}){10}){10}", "1000 at most"),
    "many-counts": ("a{1,100}" * 30, "steps for each byte"),
    "optional-then-required": ("(?:a?){1000}a{1000}", "steps for each byte"),
    "count-of-any": (".{0,1000}x", "steps for each byte"),
    "large-count": ("a{2000}", "1000 at most"),
    "count-of-5000-digits": ("a{" + "9" * 5000 + "}", "5003 characters"),
    "long": ("a" * (LONGEST + 1), "4001 characters"),
    "very-long": ("a?" * 5_000_000, "characters"),
    "deep-groups": ("(" * 1900 + "a" + ")" * 1900, "steps for each byte"),
    "many-ends": ("$" * 3900, "steps for each byte"),
    "atomic": ("(?>a+)b", "(?>...) is not available"),
    "possessive": ("a++b", "after a repeat"),
}


@pytest.mark.parametrize("pattern", [pytest.param(pattern, id=name) for name, (pattern, _) in REFUSED.items()])
def test_what_is_refused_says_why(pattern: str) -> None:
    [said] = [said for one, said in REFUSED.values() if one == pattern]
    with within(seconds=10, megabytes=200), pytest.raises(PatternError, match=re.escape(said)):
        compiled(pattern)


@pytest.mark.parametrize("key", ["output", "message"])
@pytest.mark.parametrize("name", ["lookahead", "deep-groups", "nested-counts", "very-long"])
def test_a_case_with_such_a_pattern_is_refused_at_its_place(name: str, key: str) -> None:
    text = (
        f"schema: reprokit/v1\nid: a\ntitle: A\ncommand: run\nexpect: {{failure: {{{key}: '/{REFUSED[name][0]}/'}}}}\n"
    )
    with within(seconds=60, megabytes=400), pytest.raises(CaseError) as caught:
        load_text("a.yaml", text)
    [problem] = caught.value.problems
    assert (problem.line, problem.column) == (5, 20 + len(key) + 2)
    assert "does not compile" in problem.message
    assert len(str(problem)) < 2000


EXPLODING = {
    "nested-plus": ("(a+)+b$", "a"),
    "nested-star": ("(a*)*b$", "a"),
    "alternatives": ("(a|a)+b$", "a"),
    "alternatives-that-overlap": ("(a|aa)+b$", "a"),
    "optional": ("(a?){30}a{30}b", "a"),
    "two-stars": ("a*a*b$", "a"),
    "five-stars": ("a*a*a*a*a*b$", "a"),
    "dots": (".*.*=x", "="),
    "leading-dots": ("^.*.*.*b$", "a"),
    "spaces-before-the-end": (r"\s+$b", " "),
    "words": (r"(\w+\s?)+:b$", "word "),
    "emails": (r"([a-z0-9]+[.-]?)*@b", "a."),
    "digits": (r"(\d+,?)+!b", "1,"),
    "deep-star": ("(((a*)*)*)*b", "a"),
    "lazy": ("(a+?)+?b$", "a"),
    "lines": (r"(?s)(.*\n)*b", "x\n"),
    "wide": ("(错+)+b$", "错"),
    "wide-words": (r"(\w+)+b$", "é"),
    "any-case": ("(?i)(A+)+b$", "a"),
    "class": ("([a-z]+)*[0-9]b$", "q"),
    "quotes": (r'"(\\?.)*"b', '"\\'),
    "spaces": (r"(\s*\S*)*b$", "a "),
    "escapes": (r"(\[[0-9;]*m)*b", "[0;"),
}


@pytest.mark.parametrize("name", EXPLODING)
@pytest.mark.parametrize("lines", [False, True], ids=["one-line", "many-lines"])
def test_no_pattern_explodes(name: str, lines: bool) -> None:
    pattern, pump = EXPLODING[name]
    text = pump * (200_000 // len(pump))
    if lines:
        text = "\n".join(text[at : at + 80] for at in range(0, len(text), 80))
    with within(seconds=60):
        judgement = judge(Failure(output=f"/{pattern}/"), Ending(exit_code=1), text)
        assert judgement.outcome is Outcome.DIFFERENT_FAILURE


def test_signals_are_answered_while_a_pattern_is_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(random.Random(0).choices("ab", k=250_000))
    pattern, over = compiled("a[ab]{450}c"), threading.Event()
    program = pattern._program

    def search(data: bytes) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        program.search(data)  # takes seconds
        over.set()

    monkeypatch.setattr(pattern, "_program", SimpleNamespace(search=search, programsize=program.programsize))
    with pytest.raises(KeyboardInterrupt):
        pattern.search(text)
    assert not over.is_set(), "the search was over before the signal was answered"


@pytest.mark.parametrize(
    ("pattern", "text", "span"),
    [
        ("^a$", "b\na\nc", (2, 3)),
        (r"\Aa", "b\na", None),
        ("a.b", "a\nb", None),
        ("(?s)a.b", "a\nb", (0, 3)),
        ("(?i)k", "x\u212a", (1, 2)),
        ("错.", "é 错误 x", (2, 4)),
        (r"\x{4E2D}[é-ÿ]", "中ê", (0, 2)),
        (r"\w+", "错误 word", (3, 7)),
        (r"\pL+", "1 错误e", (2, 5)),
        (r"\bError", "错误Error", (2, 7)),
        ("(?P<name>a)(?<other>b)", "ab", (0, 2)),
        ("a{" + "9" * 400 + "}", "aaa", None),
        ("x", "\ud800x", (1, 2)),
        (r"\C", "é", (0, 1)),
        ("b*", "a", (0, 0)),
    ],
)
def test_what_patterns_mean_in_characters_of_a_text(pattern: str, text: str, span: tuple[int, int] | None) -> None:
    assert compiled(pattern).search(text) == span


@given(st.text(alphabet="a中\n\u3000é", max_size=12), st.sampled_from(["中", "a|é", "[^a]+$", ".a"]))
def test_spans_are_those_of_python_where_both_know_the_syntax(text: str, pattern: str) -> None:
    hit = re.compile(pattern, re.MULTILINE).search(text)
    assert compiled(pattern).search(text) == (hit.span() if hit else None)


def test_the_patterns_of_the_library_are_searched_for() -> None:
    found = 0
    for path in (Path(__file__).parents[3] / "cases").glob("*.yaml"):
        for pattern in re.findall(r"(?:output|message): (['\"]?)/(.+)/\1$", path.read_text(), re.MULTILINE):
            compiled(pattern[1])
            found += 1
    assert found > 50

"""The patterns of cases: Python's meaning, in linear time, and refused where RE2 lacks what they need."""

from __future__ import annotations

import random
import re
import signal
import sys
import threading
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import example, given
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
    "broken": ("(", "unterminated subpattern"),
    "bytes-flag": ("(?L)a", "bad inline flags"),
    "nested-counts": ("((a{1,1000}){1,1000})", "too large"),
    "counts-of-counts": ("(?:(?:(?:(?:a{10}){10}){10}){10}){10}", "too large"),
    "many-counts": ("a{1,100}" * 30, "steps for each character"),
    "optional-then-required": ("(?:a?){900}a{900}", "steps for each character"),
    "count-of-any": (".{0,1000}x", "steps for each character"),
    "large-count": ("a{2000}", "1000 at most"),
    "count-of-20-digits": ("a{" + "9" * 20 + "}", "1000 at most"),
    "count-of-400-digits": ("a{" + "9" * 400 + "}", "1000 at most"),
    "open-count-of-400-digits": ("a{" + "9" * 400 + ",}", "1000 at most"),
    "count-of-5000-digits": ("a{" + "9" * 5000 + "}", "5003 characters"),
    "long": ("a" * (LONGEST + 1), "4001 characters"),
    "very-long": ("a?" * 5_000_000, "characters"),
    "deep-groups": ("(" * 1900 + "a" + ")" * 1900, "nested too deeply"),
    "deep-repeats": ("(?:" * 700 + "a" + ")*" * 700, "nested too deeply"),
    "deep-empty-alternatives": ("(|" * 900 + ")" * 900, "nested too deeply"),
    "many-borders": (r"\b" * 1900, "steps for each character"),
    "many-ends": ("$" * 3900, "steps for each character"),
    "200-wide-characters": ("".join(map(chr, range(0x4E00, 0x4E00 + 200))), "beyond ASCII"),
}
if sys.version_info >= (3, 11):
    REFUSED["atomic"] = ("(?>a+)b", "(?>...) is not available")
    REFUSED["possessive"] = ("a++b", "after a repeat")


@pytest.mark.parametrize("pattern", [pytest.param(pattern, id=name) for name, (pattern, _) in REFUSED.items()])
def test_what_is_refused_says_why(pattern: str) -> None:
    [said] = [said for one, said in REFUSED.values() if one == pattern]
    with within(seconds=10, megabytes=200), pytest.raises(PatternError, match=re.escape(said)):
        compiled(pattern)


@pytest.mark.parametrize("key", ["output", "message"])
@pytest.mark.parametrize("name", ["lookahead", "count-of-400-digits", "deep-groups", "nested-counts", "very-long"])
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


def test_signals_are_answered_while_a_pattern_is_searched_for() -> None:
    text = "".join(random.Random(0).choices("ab", k=400_000))
    searching: list[Thread] = []

    def late(*_: object) -> None:
        searching.extend(one for one in threading.enumerate() if one is not threading.current_thread())
        raise TimeoutError

    others = threading.enumerate()
    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(TimeoutError):
            compiled("a[ab]{450}c").search(text)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert set(searching) - set(others), "the search was over before the signal was answered"


_PIECES = st.sampled_from(
    [
        *"aKké中_1 .\n^$|",
        r"\d",
        r"\D",
        r"\w",
        r"\W",
        r"\s",
        r"\S",
        r"\A",
        r"\Z",
        "[a-k]",
        "[^a1]",
        r"[\w-]",
        r"[^\s中]",
        "[é-ÿ]",  # not up to 一: a range around U+212A matches k in Python where case is ignored, and does not here
        "a{2}",
        "(?i:k)",
        "(?a:\\w)",
        "(?s:.)",
        "a*?",
        "(?:a|中)+",
        r"[^\W\d]",
        "(?P<name>k|é)",
        "\\u4e2d",
        "\\x41?",
        r"\.",
        "(?#x)",
    ]
)
_TEXTS = st.text(alphabet="aAkKéÉ中文_1٣ \t\n.\u3000\u2028²\u212a", max_size=12)


@given(st.lists(_PIECES, max_size=5).map("".join), st.sampled_from(["", "(?i)", "(?s)", "(?a)"]), _TEXTS)
@example("^a$", "", "b\na\nc")
@example("k", "(?i)", "\u212a")
def test_patterns_mean_what_they_mean_in_python(pattern: str, flags: str, text: str) -> None:
    try:
        theirs = re.compile(flags + pattern, re.MULTILINE)
    except re.error:
        return
    hit = theirs.search(text)
    assert compiled(flags + pattern).search(text) == (hit.span() if hit else None)


@pytest.mark.parametrize(
    ("pattern", "text", "ours", "pythons"),
    [
        pytest.param(r"\bError", "错误Error", True, False, id="border-beside-other-scripts"),
        pytest.param(r"\BError", "错误Error", False, True, id="no-border-beside-other-scripts"),
        pytest.param("(?-m:a$)", "a\n", False, True, id="end-before-the-last-line-end"),
    ],
)
def test_the_differences_that_are_documented(pattern: str, text: str, ours: bool, pythons: bool) -> None:
    assert (compiled(pattern).search(text) is not None) is ours
    assert (re.search(pattern, text, 0 if "-m" in pattern else re.MULTILINE) is not None) is pythons


def test_the_patterns_of_the_library_are_searched_for() -> None:
    found = 0
    for path in (Path(__file__).parents[3] / "cases").glob("*.yaml"):
        for pattern in re.findall(r"(?:output|message): (['\"]?)/(.+)/\1$", path.read_text(), re.MULTILINE):
            try:
                re.compile(pattern[1])
            except re.error:
                continue
            compiled(pattern[1])
            found += 1
    assert found > 50

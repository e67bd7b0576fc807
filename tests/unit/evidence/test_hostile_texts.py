"""Output made to hold its readers: each is linear in it."""

from __future__ import annotations

import pytest

from reprokit.case.model import Failure
from reprokit.evidence.judgement import judge
from reprokit.evidence.model import Ending, Outcome
from reprokit.evidence.text import clean, clean_bytes
from tests.unit.limits import within

PUMPS = {
    "one-letter": "a",
    "carriage-returns": "\r",
    "carriage-returns-and-letters": "\r\rx",
    "spaces": " ",
    "spaces-before-line-ends": "   \n",
    "line-ends": "\n",
    "escapes": "\x1b",
    "escapes-open": "\x1b[0",
    "titles-open": "\x1b]",
    "nul-bytes": "\0",
    "brackets": "(",
    "angles": "<",
    "quotes": '"',
    "backslashes": "\\",
    "urls": "http://a/",
    "logins": "http://a:b@",
    "path": "/a",
    "dots": "a.",
    "versions": "1.",
    "colons": "a: ",
    "tracebacks": "Traceback (most recent call last):\n",
    "traceback-heads-in-one-line": "Traceback (most recent call last):",
    "frames": '  File "a", line 1, in b\n',
    "frames-open": '  File "',
    "exceptions": "ValueError: ",
    "groups": "  + Exception Group Traceback (most recent call last):\n",
    "pytest": "E   a\n",
    "rules": "=== a ===\n",
    "cpp": "what():  ",
    "compiler": "a.c:1:1: error: ",
    "other-scripts": "错",
    "cut-marks": "[reprokit: 1 bytes (1 lines) cut]\n",
}


def pumped(name: str, size: int) -> str:
    """``size`` characters of one of the texts, repeated."""
    return (PUMPS[name] * (size // len(PUMPS[name]) + 1))[:size]


@pytest.mark.system
@pytest.mark.parametrize("name", PUMPS)
def test_cleaning_takes_linear_time(name: str) -> None:
    text = pumped(name, 2_000_000)
    with within(seconds=60):
        assert len(clean(text)) == len(clean_bytes(text.encode()).decode())


@pytest.mark.system
@pytest.mark.parametrize("name", PUMPS)
def test_judging_takes_linear_time(name: str) -> None:
    with within(seconds=60):
        failure = Failure(exception="Never", message="/(n+)+ever/", output="/(a*)*never$/")
        judgement = judge(failure, Ending(exit_code=1), pumped(name, 150_000))
        assert judgement.outcome is Outcome.DIFFERENT_FAILURE

"""The work of a draft grows with the text and not faster, whatever the text repeats."""

from __future__ import annotations

import sys
from contextlib import suppress

import pytest

from reprokit.core.errors import UsageError
from reprokit.intake import report_text
from reprokit.intake.drafting import draft
from tests.unit.limits import within

PIECES = {
    "exports": "export A{n}=b{n}\n",
    "empty lines": "\n",
    "environments": "Python: 3.{n}\nOS: Ubuntu 20.04\nscipy: 1.{n}.0\n\n\n\n",
    "packages": "name{n}  1.{n}.0\n",
    "installations": "pip install name{n}==1.{n}\n",
    "sentences": "It works with numpy 1.{n} and fails with scipy 2.{n}.\n\n",
    "containers": "docker run --gpus all -e A{n}=b image:{n}.1 bash\n",
    "blanks": "It fails" + " " * 500 + "{n}\n",
    "blanks at ends": "{n}" + " " * 99 + "\n",
    "steps": "{n}. run `python a{n}.py` first\n",
    "shown files": "```\n$ cat a{n}.py\nimport b\n```\n",
    "fences": "```\n$ python a{n}.py\n```\n",
    "carriage returns": "\r\rx",
}


def repeated(piece: str, count: int) -> str:
    return "".join(piece.replace("{n}", str(number)) for number in range(count))


def calls(text: str) -> int:
    """Calls of functions while a text becomes a draft."""
    count = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += 1

    sys.setprofile(called)
    try:
        with suppress(UsageError):  # there is nothing in empty lines
            draft(text)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.system
@pytest.mark.parametrize("piece", PIECES.values(), ids=PIECES)
def test_four_times_the_text_is_at_most_four_times_the_work(piece: str) -> None:
    few, many = (calls(repeated(piece, count)) for count in (100, 400))
    assert many <= 4.1 * few + 2000


@pytest.mark.system
@pytest.mark.parametrize(
    "name", ["exports", "empty lines", "installations", "blanks", "blanks at ends", "carriage returns"]
)
def test_a_large_text_is_read_within_limits(name: str) -> None:
    text = repeated(PIECES[name], 300_000 // len(PIECES[name]))
    with within(seconds=60, megabytes=200):
        read = report_text.shorten_report(text)
        assert read.count("\n") <= report_text.MOST_LINES + 1
        with suppress(UsageError):  # there is nothing in empty lines
            draft(text)

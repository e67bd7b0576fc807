"""Numbers in texts of others: ASCII digits, and not more of them than a number has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reprokit
from reprokit.case.model import Failure
from reprokit.core.text import whole_number
from reprokit.environment.versions import order
from reprokit.evidence.judgement import judge
from reprokit.evidence.model import Ending


@pytest.mark.parametrize("text", ["", "²", "٣", "１", "৩", "+1", "1_0", " 1", "1\n", "9" * 19, "9" * 5000])
def test_what_is_not_a_number_in_ascii_digits_is_not_read(text: str) -> None:
    assert whole_number(text) is None


def test_a_number_is_read() -> None:
    assert [whole_number(text) for text in ("0", "007", "9" * 18)] == [0, 7, 10**18 - 1]


@pytest.mark.parametrize("digits", ["²", "٣" * 5000, "9" * 5000])
def test_logs_and_versions_may_hold_any_digits(digits: str) -> None:
    order(f"1.{digits}")
    log = f'Traceback (most recent call last):\n  File "a.py", line {digits}, in f\nValueError: x\n'
    log += f'a.py:{digits}: in f\n[reprokit: 5 bytes ({digits} lines) cut]\n  File "a.py", line {digits} in f\n'
    judge(Failure(exit_code=1), Ending(exit_code=1, seconds=1.0), log)


def test_no_other_module_asks_a_text_whether_it_is_digits() -> None:
    root = Path(reprokit.__file__).parent
    alone = {"core/text.py", "intake/collect.py", "engine/venv/inside.py", "engine/tracer_inside.py"}  # run elsewhere
    asks = [path for path in root.rglob("*.py") if re.search(r"\.is(digit|decimal)\(", path.read_text())]
    assert {str(path.relative_to(root)) for path in asks} <= alone

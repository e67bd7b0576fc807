"""Of which day a report is."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from reprokit.intake import days
from reprokit.intake.draft import render
from reprokit.intake.drafting import draft
from reprokit.intake.reporting import read_report
from reprokit.intake.table import table

TODAY = date(2026, 11, 27)
ROWS = [
    (kind, row["pattern"], text, day)
    for kind in ("created", "pages")
    for row in table("days")[kind]
    for text, day in row["examples"].items()
]


@pytest.mark.parametrize(("kind", "pattern", "text", "day"), ROWS)
def test_the_examples_of_the_rows(kind: str, pattern: str, text: str, day: date) -> None:
    found = [one for one, _ in days._days(kind, f"some words\n{text}\nothers\n")]
    assert day.isoformat() in found
    assert days._plausible(found[0], TODAY) == day


def of(text: str, created: str = "") -> str:
    found = days.of_report(text, created, TODAY)
    return f"{found.limit}: {found.why}" if found else ""


TENSORFLOW = "{} 10:22:11.123456: I tensorflow/core/platform/cpu_feature_guard.cc:142] This TensorFlow binary\n"


def test_what_the_server_says_counts_before_the_text_and_a_log_says_nothing() -> None:
    text = "# It fails\n\ncreated: 2021-05-04\n\n" + TENSORFLOW.format("2021-05-03")
    assert of(text, "2021-12-31T23:00:00Z") == "2022-01-01: the report was created on 2021-12-31"
    assert of(text) == "2021-05-05: line 3 says that it was created on 2021-05-04"
    assert of(TENSORFLOW.format("2021-05-03")) == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "It fails since 2021-05-04.\n",
        "I0504 10:22:11.123456 12345 tracer.cc:77] x\n",
        "2021-05-04 10:22:11    0.123\n2021-05-05 10:22:11    0.125\n",  # a table
        "date,value\n2021-05-04 10:22:11,0.5\n",
        TENSORFLOW.format("2009-05-04"),
        TENSORFLOW.format("2062-05-04"),
        TENSORFLOW.format("2021-13-04"),
        "created: 2062-01-01\n",
        "created: 1999-01-01\n",
        "Python 3.6.9 (default, Jan 26 2021, 15:33:00)\n",
        "Cuda compilation tools, release 11.2, built on Sun_Feb_14_21:12:58_PST_2021\n",
        "Linux host 5.4.0 #1 SMP Tue May 4 10:22:11 UTC 2021 x86_64\n",
        '{"created_at": 5}',
        "{" * 2000,
    ],
)
def test_no_day(text: str) -> None:
    assert of(text) == ""


@pytest.mark.parametrize("created", ["2062-01-01T00:00:00Z", "soon", "2021-02-31", "5"])
def test_an_implausible_day_of_the_server_does_not_count(created: str) -> None:
    assert of("It fails.", created) == ""


def test_saved_pages_and_mails() -> None:
    page = '<!doctype html><html><head><title>x</title></head><body><relative-time datetime="2021-05-04T10:22:11Z">'
    assert days.of_page(page.encode()) == "2021-05-04"
    assert days.of_page(b'<relative-time datetime="2021-05-04T10:22:11Z">') == ""
    mail = b"From: a@example.org\nReceived: by x;\n  Mon, 3 May 2021\nDate: Tue, 4 May 2021 10:22:11 +0200\n\nHello\n"
    assert days.of_page(mail) == "2021-05-04"
    assert days.of_page(b"Date: soon\n\nx") == ""
    assert days.of_page(b"\xff\xfe\0") == ""


def test_a_report_that_is_a_saved_page_has_the_day_of_the_page(tmp_path: Path) -> None:
    saved = tmp_path / "issue.html"
    saved.write_text('<!doctype html><html><title>x</title><p>It fails <relative-time datetime="2021-05-04T10:22:11Z">')
    assert read_report(str(saved)).created == "2021-05-04"


@pytest.mark.parametrize(
    ("matrix", "pip", "fits"),
    [
        ({"python": ["3.8"]}, ["torch==1.8.0"], True),
        ({"python": ["3.8"]}, ["torch==1.9.0"], False),
        ({"python": ["3.8"]}, ["tensorflow-gpu==2.5.0"], False),
        ({"python": ["3.8"]}, ["torch=={{ torch }}+cu111"], True),
        ({"python": ["3.8"], "torch": ["1.8.0", "2.0.0"]}, ["torch=={{ torch }}"], False),
        ({"python": ["3.8", "3.10"]}, ["six"], False),
        ({"python": ["2.7"]}, ["six"], True),
        ({"os": ["ubuntu-18.04"]}, ["six"], True),
        ({}, ["six"], False),  # debian-12 has Python 3.11
        ({"os": ["nothing-1"]}, ["six"], True),
        ({"python": ["none"]}, ["six"], True),
    ],
)
def test_what_is_pinned_was_released_by_then(matrix: dict[str, Any], pip: list[str], *, fits: bool) -> None:
    assert days.fits(days.ReportDay(day=date(2021, 5, 4), why=""), matrix, pip) is fits


REPORT = """# torch.wib fails

created: 2021-05-04T10:22:11Z

- Python 3.8.5
- PyTorch 1.8.0

```
$ pip install torch==1.8.0 torchvision
$ python -c "import torch; torch.wib()"
Traceback (most recent call last):
  File "<string>", line 1, in <module>
AttributeError: module 'torch' has no attribute 'wib'
```
"""


def test_a_draft_has_the_day_with_its_reason() -> None:
    text = render(draft(REPORT))
    assert '  pip_before: "2021-05-05"\n' in text
    assert "  # line 3 says that it was created on 2021-05-04: what is not pinned comes as it was then\n" in text
    later = render(draft(REPORT, created="2021-08-01T00:00:00Z"))
    assert '  pip_before: "2021-08-02"\n' in later
    assert "pip_before" not in render(draft(REPORT.replace("3.8.5", "3.12.1")))
    assert "pip_before" not in render(draft(REPORT, created="2021-01-01T00:00:00Z"))  # torch 1.8.0 came later

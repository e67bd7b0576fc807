"""The text of a report: of files in every encoding, of issues that were saved as JSON, and of long logs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reprokit.core.errors import UsageError
from reprokit.intake import report_text
from reprokit.intake.report_text import read_issue_json, read_report

CHINESE = "# 训练报错\n\n运行 `python train.py` 之后，出现段错误（核心已转储），请帮忙看一下。\n"
BODY = "With wob 1.2.3:\n\n```\n$ wob --go\nfatal: the wobble is gone\n```\n"
DAY = "2021-05-04T10:22:11Z"
URL = "https://git.example/o/wob/issues/7"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "gb18030"])
def test_texts_of_every_encoding_are_read(encoding: str) -> None:
    assert report_text.decode(CHINESE.encode(encoding), "a") == CHINESE


def test_a_broken_byte_does_not_make_another_encoding_of_a_text() -> None:
    assert report_text.decode(CHINESE.encode() + b"\xff\n", "a") == CHINESE + "\ufffd\n"


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n\0\0", b"\x7fELF\x02\0\0", bytes(range(256)) * 20])
def test_what_is_not_text_is_refused(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"a\.png: not text: copy what it shows"):
        report_text.decode(data, "a.png")


@pytest.mark.parametrize(
    "issue",
    [
        {"title": "It ends", "body": BODY, "createdAt": DAY, "url": URL, "comments": [{"body": "me too"}]},
        {
            "url": "https://api.git.example/7", "html_url": URL, "title": "It  ends", "body": BODY, "created_at": DAY,
            "milestone": {"title": "3.0", "created_at": "2015-01-01T00:00:00Z"},
        },
        {"title": "It ends", "description": BODY, "web_url": URL, "created_at": DAY},
        {"data": {"repository": {"issue": {"title": "It ends", "body": BODY, "createdAt": DAY, "url": URL}}}},
        [{"title": "It ends", "body": BODY, "createdAt": DAY, "url": URL}],
    ],
)  # fmt: skip
def test_an_issue_is_read_whoever_saved_it(issue: Any, tmp_path: Path) -> None:
    file = tmp_path / "issue.json"
    file.write_text(json.dumps(issue))
    report = read_report(str(file))
    assert (report.text, report.url, report.created) == (f"# It ends\n\n{BODY}", URL, DAY)


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{" * 100_000, '{"title": 5, "body": "x"}', '{"title": "x"}', '[["title", "body"], 5]', "{'a': 3}"],
)
def test_other_json_stays_what_it_is(text: str) -> None:
    assert read_issue_json(text, "a.json") is None


def test_one_of_several_issues_is_to_be_named(tmp_path: Path) -> None:
    file = tmp_path / "issues.json"
    file.write_text(json.dumps([{"title": "a", "body": "b"}] * 3))
    with pytest.raises(UsageError, match=r"a list of 3 issues: name a file with one of them \(jq"):
        read_report(str(file))


@pytest.mark.parametrize(
    "url", ["https://joe:hunter2wob@git.example/o/wob/issues/7", "https://10.2.3.4/o/wob/issues/7"]
)
def test_an_address_with_something_private_stays_in_the_file(url: str, tmp_path: Path) -> None:
    file = tmp_path / "issue.json"
    file.write_text(json.dumps({"title": "It ends", "body": BODY, "url": url}))
    assert read_report(str(file)).url == ""


def test_of_a_long_log_both_ends_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"line {number}\n" for number in range(1, 1001))
    assert report_text.shorten_report(text) == text
    monkeypatch.setattr(report_text, "MOST", 100)
    short = report_text.shorten_report(text)
    assert short.startswith("line 1\n")
    assert short.endswith("line 1000\n")
    head, tail = short.split("[reprokit: ")
    lost = int(tail.split("(")[1].split(" ")[0])
    assert head.count("\n") + lost + tail.count("\n") - 1 == 1000

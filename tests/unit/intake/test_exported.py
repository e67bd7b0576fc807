"""Issues that were saved as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reprokit.core.errors import UsageError
from reprokit.intake import exported
from reprokit.intake.drafting import draft
from reprokit.intake.reporting import read_report

BODY = "With wob 1.2.3:\n\n```\n$ wob --go\nfatal: the wobble is gone\n```\n"
DAY = "2021-05-04T10:22:11Z"
URL = "https://git.example/o/wob/issues/7"


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
    data = draft(report.text, url=report.url, source=report.path, created=report.created).data
    assert (data["command"], data["report"]["url"]) == ("wob --go", URL)


def test_the_fields_of_jira_are_the_report() -> None:
    text = [{"type": "text", "text": "It ends "}, {"type": "text", "text": "after a while."}]
    code = [{"type": "text", "text": "wob --go"}]
    item = {"type": "listItem", "content": [{"type": "paragraph", "content": [{"type": "text", "text": "wob 1.2.3"}]}]}
    description = {
        "type": "doc",
        "content": [
            {"type": "heading", "content": [{"type": "text", "text": "What"}]},
            {"type": "paragraph", "content": text},
            {"type": "codeBlock", "attrs": {"language": "bash"}, "content": code},
            {"type": "bulletList", "content": [item]},
        ],
    }
    fields = {"summary": "It ends", "description": description, "environment": "Debian 12", "created": DAY}
    found = exported.read(json.dumps({"key": "WOB-7", "self": "https://x.example/7", "fields": fields}))
    assert found
    assert [line for line in found.text.split("\n") if line] == [
        "# It ends", "## What", "It ends after a while.", "```bash", "wob --go", "```", "- wob 1.2.3",
        "## Environment", "Debian 12",
    ]  # fmt: skip
    assert found.created == DAY


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{" * 100_000,
        '{"title": 5, "body": "x"}',
        '{"title": "x"}',
        '{"title": "x", "body": null}',
        '{"data": {"data": {"data": {"data": {"data": {"data": {"title": "x", "body": "y"}}}}}}}',
        '[["title", "body"], 5]',
        "{'loss': 3}\nTraceback",
    ],
)
def test_other_json_stays_what_it_is(text: str) -> None:
    assert exported.read(text) is None


def test_a_text_that_is_nested_too_deeply_is_cut() -> None:
    node: dict[str, Any] = {"type": "text", "text": "x"}
    for _ in range(300):
        node = {"type": "paragraph", "content": [node]}
    found = exported.read(json.dumps({"title": "It ends", "body": node}))
    assert found
    assert "x" not in found.body


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

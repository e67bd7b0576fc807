"""The threat model: each defence names the tests that hold it, and they exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / "security.md", ROOT / "docs" / "security.zh-CN.md"]


def defences(page: Path) -> list[list[str]]:
    """The rows of the table of defences: the cells of each."""
    table = re.split(r"^## .*\n", page.read_text(encoding="utf-8"), flags=re.MULTILINE)[-1]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("|")]
    return rows[2:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_defence_names_tests_that_exist(page: Path) -> None:
    rows = defences(page)
    assert len(rows) > 15
    for row in rows:
        named = re.findall(r"`(tests/[\w/.]+)`", row[3])
        assert (len(row), bool(named)) == (4, True), row
        for name in named:
            assert re.search(r"^(?:async )?def test_", (ROOT / name).read_text(), re.MULTILINE), name


def test_both_languages_name_the_same_tests() -> None:
    english, chinese = map(defences, PAGES)
    assert [row[3] for row in english] == [row[3] for row in chinese]


def test_reports_of_vulnerabilities_find_the_page() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "](docs/security.md)" in text
    assert all("`SECURITY.md`" in page.read_text(encoding="utf-8") for page in PAGES)

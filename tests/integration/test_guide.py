"""``docs/first-case.md`` as a newcomer follows it: its files written, its commands typed, its words compared."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.integration.test_run import REPOSITORY, User
from tests.unit.test_docs import FENCE

pytestmark = pytest.mark.integration
GUIDE = (REPOSITORY / "docs" / "first-case.md").read_text()
BLOCKS = [(language, body) for _, language, body in FENCE.findall(GUIDE)]


def block(language: str, text: str) -> str:
    """The first block of that language that holds a text."""
    return next(body for kind, body in BLOCKS if kind == language and text in body)


def verdicts(screen: str) -> list[str]:
    """What the lines of a run say that are the same every time, in the order of the cells."""
    cells = re.findall(r"^\[\d+/\d+\] #\d+ (\S+(?: \[fix\])?): ([^(]+) \(", screen, re.MULTILINE)
    last = re.findall(r"^(?:\d+ [a-z-]+, \d+ [a-z-]+(?:; .*)?$|reproduces [^(]*)", screen, re.MULTILINE)
    return [*sorted(f"{cell} {verdict}" for cell, verdict in cells), *last]


def test_the_guide_says_what_its_commands_say(tmp_path: Path) -> None:
    user = User(tmp_path)
    user.write("report.md", block("markdown", "np.bool"))

    shown = user.types("new", "--from", "report.md", "-o", "mask.yaml")
    assert shown == block("console", "$ reprokit new").split("\n", 1)[1]
    case = (tmp_path / "mask.yaml").read_text()
    assert case == block("yaml", "schema: reprokit/v1")

    run = block("console", "$ reprokit validate")
    assert user.types("validate", "mask.yaml") in run
    found = verdicts(user.types("run", "mask.yaml"))
    assert found == verdicts(run)
    assert len(found) == 4

    more = block("yaml", "fix:")
    user.write("mask.yaml", case + more[more.index("  reproduces") :])
    fixed = verdicts(user.types("run", "mask.yaml", "--fix"))
    assert fixed == verdicts(block("console", "mask.yaml --fix"))
    assert len(fixed) == 6

    user.types("share", "mask.yaml", "-o", "issue.md")
    assert "as expected" in user.types("run", "issue.md")

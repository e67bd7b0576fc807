"""A coding agent's way over the Model Context Protocol: report, verdict, cause, on the real engine."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.conftest import docker
from tests.integration.test_run import REPOSITORY, User

pytestmark = pytest.mark.integration
REPORT = """\
# int() refuses a text that float() takes

```
$ python3 -c "import os; print(int(os.environ.get('TEXT', '3.0')))"
Traceback (most recent call last):
  File "<string>", line 1, in <module>
ValueError: invalid literal for int() with base 10: '3.0'
```

Python: 3.11
"""
SLOW = "schema: reprokit/v1\nid: slow-mcp\ntitle: Slow\nmatrix: {os: [debian-12]}\ncommand: sleep 300\n"


def session(user: User, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    """The structured answers of these calls, over one connection to ``reprokit integrate mcp``."""
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "reprokit", "integrate", "mcp"], cwd=user.folder, env=user.environment
    )

    async def talk() -> list[Any]:
        found = []
        async with Client(stdio_client(parameters)) as client:
            for tool, arguments in calls:
                answer = await client.call_tool(tool, arguments)
                assert not answer.is_error, answer.content
                found.append(answer.structured_content)
        return found

    return asyncio.run(talk())


def test_a_report_comes_to_a_verdict_and_a_cause(user: User) -> None:
    user.write("report.md", REPORT)
    [draft] = session(user, ("draft", {"report": "report.md"}))
    # What the agent adds: the other side, which the report does not have.
    case = draft["case"].replace('  python: ["3.11"]\n', '  python: ["3.11"]\n  text: ["3", "3.0"]\n')
    user.write("case.yaml", case + "env: {TEXT: '{{ text }}'}\n")
    bad, good = {"text": "3.0"}, {"text": "3"}
    checked, ran, log, measured, done, why, isolated = session(
        user,
        ("validate", {"case": "case.yaml"}),
        ("run", {"case": "case.yaml", "max_cells": 2}),
        ("log", {"cell": 2, "offset": 1, "lines": 1}),
        ("environment", {"cell": 2}),
        ("exec", {"case": "last:2", "command": ["sh", "-c", "echo -- $TEXT; exit 5"]}),
        ("explain", {}),
        ("isolate", {"case": "case.yaml", "bad": bad, "good": good}),
    )
    assert (checked["valid"], checked["cases"][0]["cells"]) == (True, 2)
    assert [cell["verdict"] for cell in ran["cases"][0]["cells"]] == ["not-reproduced", "reproduced"]
    assert (ran["exit_status"], ran["cases"][0]["explanation"]) == (0, "text = 3.0")
    assert log == {"lines": ['  File "<string>", line 1, in <module>'], "total": 3, "next_offset": 2}
    assert any(line.startswith("Python: 3.11") for line in measured["lines"])
    assert [(one["exit_code"], one["output"]) for one in done["cells"]] == [(5, "-- 3.0\n")]
    assert why["cases"][0]["explanation"]["words"] == "text = 3.0"
    assert "text" in " ".join(isolated["answer"]["words"])


@pytest.mark.nightly
def test_minutes_end_a_run_and_leave_nothing(user: User) -> None:
    user.write("slow.yaml", SLOW)
    user.types("run", "--build-only", "slow.yaml")
    [ran] = session(user, ("run", {"case": "slow.yaml", "minutes": 0.3}))
    assert ran["exit_status"] == 130
    assert "resume" in ran["note"]
    assert [cell["verdict"] for cell in ran["cases"][0]["cells"]] == ["cancelled"]
    assert docker("ps", "-aq", "--filter", "label=org.reprokit.case=slow-mcp") == ""


def test_the_case_of_the_page_for_agents_is_right(user: User) -> None:
    Path(user.folder, "AGENTS.md").write_text((REPOSITORY / "AGENTS.md").read_text())
    assert "reproduces when text = 3.0" in user.types("run", "AGENTS.md", "--fix")

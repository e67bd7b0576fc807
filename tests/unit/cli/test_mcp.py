"""``reprokit integrate mcp`` without an engine: what agents may do, and what is refused."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp.client import Client
from mcp.types import TextContent

from reprokit.cli import agents, invoke
from reprokit.cli.agents import server
from tests.unit.serving import Quiet, serving

pytestmark = pytest.mark.system
CASE = "schema: reprokit/v1\nid: a\ntitle: A\nmatrix: {os: [debian-12], n: [1, 2, 3]}\ncommand: 'true'\n"
TOOLS = {
    *("draft", "validate", "cells", "run", "resume", "result"),
    *("log", "environment", "explain", "isolate", "bisect", "exec"),
}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))


class Site(Quiet):
    """Someone else's server, with a case."""

    def do_GET(self) -> None:
        self.answer(200, CASE.encode())


def called(tool: str, reviewed: tuple[str, ...] = (), **arguments: Any) -> Mapping[str, Any] | str:
    """The structured answer of a tool, or the words of its error."""

    async def ask() -> Mapping[str, Any] | str:
        async with Client(server(Path("store"), reviewed)) as client:
            answer = await client.call_tool(tool, arguments)
        if not answer.is_error:
            assert answer.structured_content is not None
            return answer.structured_content
        [said] = answer.content
        assert isinstance(said, TextContent)
        return said.text

    return asyncio.run(ask())


def test_every_tool_says_what_it_does_and_has_schemas() -> None:
    async def tools() -> Any:
        async with Client(server(None)) as client:
            return (await client.list_tools()).tools

    found = {tool.name: tool for tool in asyncio.run(tools())}
    assert found.keys() == TOOLS
    assert all(len(tool.description) > 30 and tool.input_schema and tool.output_schema for tool in found.values())
    assert "minutes" in found["run"].input_schema["properties"]
    assert "reviewed" not in found["run"].input_schema["properties"], "an agent does not review for its user"


def test_a_case_is_validated_and_its_cells_are_listed() -> None:
    Path("a.yaml").write_text(CASE)
    found = called("validate", case="a.yaml")
    assert isinstance(found, Mapping)
    assert (found["valid"], found["cases"][0]["cells"]) == (True, 3)
    cells = called("cells", case="a.yaml", only=[{"n": "2"}], axes={"os": ["debian-11", "debian-12"]})
    assert isinstance(cells, Mapping)
    assert [one["cell"] for one in cells["cells"]] == [
        {"os": "debian-11", "n": "2"},
        {"os": "debian-12", "n": "2"},
    ]
    Path("b.yaml").write_text(CASE.replace("command", "comand"))
    wrong = called("validate", case="b.yaml")
    assert isinstance(wrong, Mapping)
    assert (wrong["valid"], wrong["problems"][0]["line"]) == (False, 5)


def test_a_report_becomes_a_draft() -> None:
    Path("report.md").write_text("# int fails\n\n```\n$ python3 -c 'int(1.0 / 0)'\nZeroDivisionError: float\n```\n")
    found = called("draft", report="report.md")
    assert isinstance(found, Mapping)
    assert "exception: ZeroDivisionError" in found["case"]
    facts = [{"fact": "version", "of": "python", "value": one, "line": 1} for one in ("3.12", "9.9")]
    Path("report.md").write_text("# On our 3.12 boxes int fails\n\n```\n$ python3 -c 'int(1.0 / 0)'\n```\n")
    found = called("draft", report="report.md", facts={"facts": facts})
    assert 'python: ["3.12"]' in found["case"]
    assert any("Fact 2 (version) is left out" in note for note in found["notes"])


def test_more_cells_than_allowed_are_refused_before_anything_runs() -> None:
    Path("a.yaml").write_text(CASE)
    said = called("run", case="a.yaml", max_cells=2)
    assert "3 cells are selected, and max_cells is 2" in said
    Path("a:1").write_text(CASE)
    for case in ("a.yaml", "a:1"):
        assert "3 cells are selected" in called("exec", case=case, command=["true"], max_cells=2)
    assert not Path("store").exists()


def test_a_long_output_keeps_its_beginning_and_its_end() -> None:
    short = agents._shortened("a" * 10_000 + "b" * 10_000 + "c" * 10_000)
    assert short.startswith("a" * agents.HEAD + "\n[10000 characters cut]\n")
    assert short.endswith("c" * 10_000)
    assert agents._shortened("short") == "short"


def test_an_untrusted_case_runs_only_where_a_person_named_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Site) as address:
        monkeypatch.setenv("http_proxy", f"http://{address}")
        said = called("run", case="http://reports.example/a.yaml")
        assert isinstance(said, str)
        assert not Path("store").exists()
        digest = re.search("sha256:[0-9a-f]{64}", said)
        assert digest
        other = digest[0][:-4] + "0000"
        assert "sha256:" in called("run", (other,), case="http://reports.example/a.yaml")
        monkeypatch.setenv("DOCKER_HOST", f"unix://{Path.cwd()}/none.sock")
        assert "none.sock" in called("run", (digest[0],), case="http://reports.example/a.yaml")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("run", {"case": "--yes"}),
        ("validate", {"case": "-h"}),
        ("draft", {"report": "--force"}),
        ("log", {"cell": 1, "run": "--store=/etc"}),
        ("explain", {"what": "--json"}),
        ("exec", {"case": "--yes", "command": ["true"]}),
        ("exec", {"case": "a.yaml", "command": []}),
        ("run", {"case": "a.yaml", "minutes": 0}),
        ("run", {"case": "a.yaml", "minutes": 1e9}),
        ("log", {"cell": 1, "lines": 10**9}),
    ],
)
def test_arguments_that_are_not_names_or_know_no_bounds_are_refused(tool: str, arguments: dict[str, Any]) -> None:
    assert "validation error" in called(tool, **arguments)


def test_errors_of_commands_are_passed_on_in_their_words() -> None:
    assert "none.yaml: no such file or folder" in called("run", case="none.yaml")
    assert "nothing was run here yet" in called("log", cell=1)


def test_a_command_is_interrupted_when_its_minutes_are_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    _stand_in(monkeypatch, "try: wait()\nexcept KeyboardInterrupt: raise SystemExit(130)")
    done = asyncio.run(agents.call("run", minutes=0.001))
    assert (done.status, done.out, done.late) == (130, "up\n", True)
    assert "its minutes were spent" in done.said()


def test_a_command_that_ignores_the_interrupt_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    _stand_in(monkeypatch, "signal.signal(signal.SIGINT, signal.SIG_IGN); wait()")
    monkeypatch.setattr(agents, "GRACE", 0.2)
    done = asyncio.run(agents.call("run", minutes=0.001))
    assert (done.status, done.late) == (-signal.SIGKILL, True)


def test_a_caller_that_leaves_takes_its_command_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started = _stand_in(monkeypatch, "wait()")

    async def leave() -> None:
        task = asyncio.create_task(agents.call("run", minutes=10))
        while not started:
            await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    with pytest.raises(ProcessLookupError):
        os.kill(int(Path("pid").read_text()), 0)


def test_without_the_extra_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "mcp"] + ["reprokit.cli.agents"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert invoke(["integrate", "mcp"]) == 2
    assert "pip install 'reprokit-harness[mcp]'" in capsys.readouterr().err


PROGRAM = """
import os, signal, time
from pathlib import Path

def wait():
    print("up", flush=True)
    Path("pid.part").write_text(str(os.getpid()))
    Path("pid.part").rename("pid")
    time.sleep(600)

"""


def _stand_in(monkeypatch: pytest.MonkeyPatch, script: str) -> list[Any]:
    """Let a script be what runs in place of the command. Gives the processes that were handed to the caller: each once
    its script waits."""
    started: list[Any] = []
    program = Path("program.py").absolute()
    program.write_text(PROGRAM + script)
    opened = agents.anyio.open_process

    async def instead(words: list[str], **named: Any) -> Any:
        process = await opened([sys.executable, str(program)], **named)
        while not Path("pid").exists():
            await asyncio.sleep(0.02)
        started.append(process)
        return process

    monkeypatch.setattr(agents.anyio, "open_process", instead)
    return started

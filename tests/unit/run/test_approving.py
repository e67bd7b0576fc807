"""Who may decide that an untrusted case is built and run here, and what happens without that."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from reprokit.case.files import CaseFile
from reprokit.core.errors import UsageError
from reprokit.environment.cases import load_text
from reprokit.run.approving import approve
from reprokit.run.request import Request
from tests.unit.serving import Quiet

URL = "https://github.com/o/r/issues/7"
CASE = "schema: reprokit/v1\nid: pasted\ntitle: Pasted\ncommand: 'false'\nenvironment: {setup: id}\n"
CASE += "sources: {s: {git: https://git.invalid/x, ref: v1, path: p}}\n"


def case_at(path: str) -> CaseFile:
    return load_text(path, CASE)


def never(question: str) -> bool:
    raise AssertionError(question)


@pytest.mark.parametrize("path", ["bug.yaml", "<stdin>", "http://127.0.0.1:8000/x", "http://localhost/x"])
def test_what_is_on_this_host_is_its_users_own(path: str) -> None:
    approve([case_at(path)], Request(cases=(path,)), ask=never)


def test_an_untrusted_case_is_shown_and_asked_about(capsys: pytest.CaptureFixture[str]) -> None:
    asked: list[str] = []

    def answer(question: str) -> bool:
        asked.append(question)
        return len(asked) > 1

    request = Request(cases=(URL,))
    with pytest.raises(UsageError, match="nothing was built or run"):
        approve([case_at(URL)], request, ask=answer)
    approve([case_at(URL)], request, ask=answer)
    assert asked == ["Build and run it here?"] * 2
    shown = capsys.readouterr().err
    assert case_at(URL).digest in shown
    assert "5:22: runs 1 line while it is built: id" in shown
    assert "--engine venv refuses it" in shown


def test_without_a_terminal_it_is_refused_with_both_ways_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
    digest = case_at(URL).digest
    with pytest.raises(UsageError, match=rf"--reviewed {digest} .*--yes"):
        approve([case_at("own.yaml"), case_at(URL)], Request(cases=("own.yaml", URL)))
    approve([case_at(URL)], Request(cases=(URL,), yes=True), ask=never)


def test_reviewed_runs_exactly_that_text_wherever_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = case_at(URL).digest
    approve([case_at(URL)], Request(cases=(URL,), reviewed=(digest,)), ask=never)
    for path in (URL, "own.yaml"):
        edited = load_text(path, CASE.replace("id}", "id >&2}"))
        with pytest.raises(UsageError, match="look at what changed"):
            approve([edited], Request(cases=(path,), reviewed=(digest,), yes=True), ask=never)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a reprokit for which https://github.com/o/r/issues/7 is served by this host."""

    class Handler(Quiet):
        def do_GET(self) -> None:
            self.answer(200, json.dumps({"title": "t", "body": f"```yaml\n{CASE}```\n"}).encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "GH_"))},
            "GITHUB_API_URL": f"http://127.0.0.1:{server.server_port}",
            "REPROKIT_STORE": str(tmp_path / "store"),
            # No engine is reached: what goes on past the question ends there.
            "DOCKER_HOST": "tcp://127.0.0.1:1",
        }
        server.shutdown()


COMMANDS = [
    ("run",),
    ("run", "--build-only"),
    ("render",),
    ("render", "--devcontainer", "-o", "out"),
    ("render", "--as", "swe-bench", "-o", "out"),
    ("lock",),
    ("isolate", "--bad", "a=1", "--good", "a=2"),
    ("bisect", "--axis", "a=1..2"),
    ("reduce",),
]


@pytest.mark.system
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_that_builds_refuses_an_untrusted_case_when_no_one_can_be_asked(
    page: dict[str, str], words: tuple[str, ...], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "reprokit", words[0], URL, *words[1:]]
    done = subprocess.run(command, env=page, cwd=tmp_path, input="y\n", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "this case is untrusted" in done.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.system
def test_the_terminal_is_asked_and_no_is_the_default(page: dict[str, str], tmp_path: Path) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "reprokit", "run", URL]
    with subprocess.Popen(command, env=page, cwd=tmp_path, stdin=follower, stderr=subprocess.PIPE) as process:
        os.write(leader, b"\n")
        assert process.stderr is not None
        said = process.stderr.read().decode()
    os.close(leader)
    os.close(follower)
    assert process.returncode == 2
    assert "Build and run it here? [y/N]" in said
    assert said.endswith("nothing was built or run\n")

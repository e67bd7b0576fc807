"""``--reader``: real programs that answer, fail, hang and print too much; and what may name one."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.core.errors import UsageError
from reprokit.engine.site import config
from reprokit.environment.cases import load
from reprokit.intake.facts import GpuFact, ask_reader

REPORT = """\
# It fails

On Debian 12 with numpy 2.0.0 (fine with 1.26.4):

```console
$ python -c "import numpy; numpy.arange(3).ptp()"
Traceback (most recent call last):
  File "<string>", line 1, in <module>
AttributeError: `ptp` was removed from the ndarray class in NumPy 2.0.
```
"""
FACTS = [
    {"fact": "version", "of": "package numpy", "value": "2.0.0", "line": 3},
    {"fact": "version", "of": "package numpy", "value": "1.26.4", "line": 3, "works": True},
    {"fact": "version", "of": "package torch", "value": "9.9.9", "line": 3},
    {"fact": "command", "line": 6, "text": 'python -c "import numpy; numpy.arange(3).ptp()"'},
    {"fact": "failure", "kind": "exception", "line": 7, "last": 9},
]
GPU = '{"facts": [{"fact": "gpu", "line": 1}]}'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.md").write_text(REPORT, encoding="utf-8")
    return tmp_path


def program(text: str) -> str:
    """The command of a reader with this text."""
    Path("reader.py").write_text(f"import json, sys, time, subprocess\n{text}\n", encoding="utf-8")
    return shlex.join([sys.executable, "reader.py"])


@pytest.mark.system
def test_the_facts_of_a_reader_are_in_the_draft_and_what_the_report_does_not_say_is_not() -> None:
    reader = program(
        "question = sys.stdin.read()\n"
        "assert 'follow no instruction' in question and 'numpy 2.0.0' in question and '\"fact\"' in question\n"
        f"print('Sure:\\n```json\\n' + json.dumps({{'facts': {FACTS!r}}}) + '\\n```')"
    )
    assert invoke(["new", "--from", "report.md", "--reader", reader, "-o", "case.yaml", "--no-input"]) == 0
    assert sorted(load("case.yaml")[0].case.matrix.axes["numpy"]) == ["1.26.4", "2.0.0"]
    assert "torch" in Path("case.yaml").read_text().partition("schema:")[0]


@pytest.mark.system
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sys.exit('no model qwen3\\n' + 'x' * 10 + ' ghp_' + 'A1b2C3d4' * 5)", ["exit status 1", "no model qwen3"]),
        ("print('I cannot help with that.')", ["Expecting value", "reprokit integrate schema facts"]),
        ("", ["it printed nothing"]),
        ("time.sleep(600)", ["took more than 1 s"]),
        ("while True: print('x' * 1000)", ["printed more than 10000 bytes"]),
        ("print('{\"facts\": [')", ["Expecting value"]),
        ("sys.stdout.close(); time.sleep(600)", ["took more than 1 s"]),
        ("import os; os.kill(os.getpid(), 11)", ["exit status -11"]),
    ],
    ids=["status", "words", "nothing", "hangs", "endless", "cut off", "closed", "signal"],
)
def test_a_reader_that_fails_says_how(text: str, said: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        ask_reader(program(text), "?" * 500_000, seconds=1 if "600" in text else 60, largest=10_000)
    assert all(one in str(refused.value) for one in said)
    assert "ghp_A" not in str(refused.value)


@pytest.mark.system
def test_what_a_reader_leaves_behind_is_ended_and_not_waited_for() -> None:
    reader = program(f"subprocess.Popen(['sleep', '600'])\nprint({GPU!r})")
    start = time.monotonic()
    assert ask_reader(reader, "?") == [GpuFact(fact="gpu", line=1)]
    assert time.monotonic() - start < 60


@pytest.mark.parametrize(
    ("command", "said"),
    [("gone-for-good -x", "gone-for-good cannot be started"), ("a 'b", "closed quotes"), (" ", "a program")],
)
def test_a_command_that_is_not_a_program(command: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ask_reader(command, "?")


@pytest.mark.system
def test_no_shell_reads_the_command_and_nothing_of_the_answer_is_run() -> None:
    reader = program("print(json.dumps({'facts': [{'fact': 'command', 'line': 1, 'text': 'touch run'}]}))")
    assert invoke(["new", "--from", "report.md", "--reader", f"{reader} ; touch shell", "--no-input"]) == 0
    assert not Path("run").exists()
    assert not Path("shell").exists()


@pytest.mark.system
def test_the_users_configuration_may_name_a_reader_and_a_projects_may_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reader = program(f"print(json.dumps({{'facts': {FACTS!r}}}))")
    monkeypatch.setenv("REPROKIT_READER", reader)
    assert invoke(["new", "--from", "report.md", "--no-input"]) == 0
    assert "1.26.4" in capsys.readouterr().out
    assert invoke(["new", "--from", "report.md", "--no-input", "--reader", ""]) == 0
    assert "numpy: [TODO" in capsys.readouterr().out
    user = folder / "user" / "reprokit" / config.FILE
    user.parent.mkdir(parents=True)
    user.write_text('reader = "llm -m qwen3"\n')
    environ = {"XDG_CONFIG_HOME": str(folder / "user")}
    assert config.load(environ, folder).reader == "llm -m qwen3"
    (folder / config.FILE).write_text('reader = "rm -rf ."\n')
    with pytest.raises(UsageError, match=r"reader.*REPROKIT_READER"):
        config.load(environ, folder)
    assert config.load({"REPROKIT_CONFIG": str(folder / config.FILE)}, folder).reader == "rm -rf ."


@pytest.mark.parametrize("others", [["--facts", "facts.json"], ["--ask"], ["--all", "-o", "x"]])
def test_a_reader_beside_other_sources_of_facts_is_refused(
    others: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(["new", "--from", "report.md", "--reader", "llm", *others]) == 2
    assert "--reader" in capsys.readouterr().err
    assert invoke(["new", "--reader", "llm"]) == 2

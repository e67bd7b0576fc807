"""What ``validate`` says of a case that is valid and would mislead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprokit.cli import invoke
from tests.documents import as_published

CASE = """schema: reprokit/v1
id: odd
title: Odd
matrix: {{os: [debian-12], python: ["3.11"]}}
command: {command}
expect: {expect}
"""
ANY = "{failure: {exit_code: nonzero}}"


def said_of(folder: Path, capsys: pytest.CaptureFixture[str], command: str, expect: str) -> str:
    (folder / "odd.yaml").write_text(CASE.format(command=command, expect=expect))
    assert invoke(["validate", str(folder / "odd.yaml")]) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize("expect", [ANY, "{}"])
@pytest.mark.parametrize(
    "command",
    [
        "pip install numpy==1.26.4",
        '["python", "-m", "pip", "install", "numpy"]',
        "cd x && uv pip install numpy",
        "pip --no-cache-dir install numpy",
        "(curl -sf http://example.com/x)",
        "apt-get install -y gcc",
    ],
)
def test_any_failure_of_a_download_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, expect: str
) -> None:
    assert "5:10: warning: the command downloads" in said_of(tmp_path, capsys, command, expect)


@pytest.mark.parametrize(
    ("command", "expect"),
    [
        ("pip install numpy", "{failure: {output: No matching distribution}}"),
        ("pip install numpy", "{failure: {exit_code: 2}}"),
        ("pip install --no-index ./wheel", ANY),
        ("python train.py --install", ANY),
        ("python curly.py", ANY),
        ("pip install numpy", "{compare: {outputs: [a.npy], reference: majority}}"),
    ],
)
def test_other_cases_are_not(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, expect: str) -> None:
    assert "downloads" not in said_of(tmp_path, capsys, command, expect)


@pytest.mark.parametrize(
    ("command", "error"),
    [
        ('"if true; then python a.py"', "line 2: syntax error: unexpected end of file"),
        ('"echo start\\npython a.py )"', "line 2: syntax error near unexpected token `)'"),
        ('"echo \'hello"', "line 1: unexpected EOF while looking for matching"),
        ('["bash", "-c", "echo )"]', ""),
        ('"shopt -s extglob\\nls !(a)"', ""),
        ('"touch ran; cd nosuchdir && $(exit 1)"', ""),
    ],
)
def test_a_command_that_bash_cannot_read_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str, error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "start").write_text("touch ran")
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "start"))
    said = said_of(tmp_path, capsys, command, ANY)
    assert (f"5:10: warning: bash cannot read it: {error}" in said) if error else "bash" not in said
    assert not (tmp_path / "ran").exists()


PROGRAMS = """schema: reprokit/v1
id: odd
title: Odd
matrix:
  os: [debian-12]
  node: ["18.17.1"]
  wob: ["1.0"]
{more}
"""


def test_a_cell_that_nothing_serves_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "odd.yaml").write_text(
        PROGRAMS.replace("{more}", "command: make").replace("node: [", 'python: ["2.6", "3.11"]\n  node: [')
    )
    assert invoke(["validate", str(tmp_path / "odd.yaml")]) == 3
    said = capsys.readouterr()
    assert "warning: python 2.6 is not available on debian-12" in said.err
    assert said.out.endswith("odd: 1 of 2 cells cannot be built\n")
    assert invoke(["validate", "--json", str(tmp_path / "odd.yaml")]) == 3
    found = json.loads(capsys.readouterr().out)
    as_published("validate", found)
    assert (found["valid"], found["problems"], found["cases"][0]["unavailable"]) == (False, [], 1)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("environment:\n  setup: |\n    # install node {{ node }}\ncommand: make", ["6:3"]),
        ("environment:\n  setup: |\n    npm install node@{{ node }}  # as reported\ncommand: wob-{{ wob }} make", []),
        ("environment:\n  setup: |\n    # {{ node }}, {{ wob }}\nenv: {WOB: '{{ wob }}'}\ncommand: make", ["6:3"]),
        ("command: make", []),
        ("files:\n  a.h: |\n    #define NODE {{ node }}\n    # {{ wob }}\ncommand: make", []),
        ("command: make\nfix: {summary: x, command: 'make {{ wob }} {% if node %}1{% endif %}'}", []),
        ("command: make\nexpect: {compare: {outputs: [a.npy], reference: majority}}", []),
    ],
)
def test_an_axis_on_which_nothing_depends_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: str, named: list[str]
) -> None:
    (tmp_path / "odd.yaml").write_text(PROGRAMS.replace("{more}", more))
    assert invoke(["validate", str(tmp_path / "odd.yaml")]) == 0
    said = [line for line in capsys.readouterr().err.split("\n") if "depends on the axis" in line]
    assert [line.partition("odd.yaml:")[2].partition(": warning")[0] for line in said] == named

"""What ``validate`` says of a case that is valid and would mislead."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.cli import invoke

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

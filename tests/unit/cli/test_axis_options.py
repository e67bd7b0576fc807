"""Every axis of the registry is an option, with its values completed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from reprokit.cli import invoke
from reprokit.environment.axes import AXIS_NAMES


@pytest.mark.parametrize("command", ["run", "matrix", "render", "build", "bisect"])
def test_every_axis_is_an_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([command, "--help"]) == 0
    said = capsys.readouterr().out
    assert [name for name in AXIS_NAMES if f"--{name} A,B" not in said] == []


def test_a_value_that_is_not_a_version_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["matrix", "cases/cmake_minimum_removed.yaml", "--cmake", "newest"]) == 2
    assert "--cmake newest: expected a version (digits and dots) or none" in capsys.readouterr().err


def test_the_last_value_of_a_list_is_completed() -> None:
    environ = {
        **os.environ,
        "_REPROKIT_COMPLETE": "bash_complete",
        "COMP_WORDS": "reprokit run --cmake 3.31,4.",
        "COMP_CWORD": "3",
    }
    words = [sys.executable, "-c", "from reprokit.cli import main; main()"]
    done = subprocess.run(words, capture_output=True, text=True, env=environ, timeout=60)
    assert done.stdout.splitlines()[:2] == ["plain,3.31,4.0", "plain,3.31,4.1"]

"""Every axis of the registry is an option, with its values completed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.environment.axes import AXIS_NAMES
from reprokit.store.database import Store


@pytest.mark.parametrize("command", ["run", "validate", "render", "new", "bisect"])
def test_every_axis_is_an_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke([command, "--help"]) == 0
    said = capsys.readouterr().out
    assert [name for name in AXIS_NAMES if f"--{name} A,B" not in said] == []


@pytest.mark.system
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


@pytest.mark.parametrize("command", ["run", "validate", "render", "lock", "bisect", "reduce"])
@pytest.mark.parametrize(("option", "value"), [("--os", "debian-99"), ("--python", "3.99"), ("--axis", "gcc=99")])
def test_a_value_that_no_release_has_is_wrong_usage(
    command: str,
    option: str,
    value: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REPROKIT_STORE", str(tmp_path / "store"))
    case = str(Path("cases/cmake_minimum_removed.yaml").resolve())
    monkeypatch.chdir(tmp_path)
    more = {"bisect": ["--axis", "cmake=3.27..4.0"], "validate": ["--cells"]}.get(command, [])
    assert invoke([command, case, option, value, *more]) == 2
    said = capsys.readouterr().err
    assert f"there is no {({'--os': 'OS debian-99', '--python': 'Python 3.99'}).get(option, 'GCC 99')}" in said
    assert "reprokit knows" in said
    if (tmp_path / "store").exists():
        assert Store(tmp_path / "store").runs() == []


def test_the_cells_of_isolate_are_checked_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["isolate", "cases/cmake_minimum_removed.yaml", "--bad", "cmake=4.0,os=debian-99", "--good", "cmake=3.31"]
    assert invoke([*words, "--store", str(tmp_path)]) == 2
    assert "--bad os=debian-99: there is no OS debian-99" in capsys.readouterr().err


CASE = """
schema: reprokit/v1
id: odd
title: Odd values
matrix: {os: [debian-12, debian-99], cuda: ["13.0", "14.0"]}
command: nvcc a.cu
"""


def test_a_case_may_have_such_a_value_and_is_warned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(CASE)
    assert invoke(["validate", str(path)]) == 3  # a release that does not exist
    said = capsys.readouterr().err
    assert f"{path}:5:26: warning: there is no OS debian-99" in said
    assert f"{path}:5:53: warning: CUDA 14.0 is newer than this reprokit knows" in said
    assert "warning: the case calls nvcc, which needs a host compiler, and nothing brings one: add the axis gcc" in said
    assert invoke(["validate", "--cells", str(path), "--os", "debian-99", "--cuda", "13.0", "--base", "bootstrap"]) == 0
    assert "unsupported: os debian-99 is not among the available releases" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("command: nvcc a.cu", "command: nvcc --version"),
        ("command: nvcc a.cu", "command: nvcc -ccbin clang-14 a.cu"),
        ("command: nvcc a.cu", "environment: {apt: [build-essential]}\ncommand: nvcc a.cu"),
        ("matrix: {", 'matrix: {gcc: ["12"], '),
    ],
)
def test_nvcc_with_a_host_compiler_is_not_warned_of(
    old: str, new: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(CASE.replace(old, new))
    assert invoke(["validate", str(path)]) == 3
    assert "host compiler" not in capsys.readouterr().err


def test_the_library_has_nothing_to_warn_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["validate", "cases"]) == 0
    assert capsys.readouterr().err == ""


def test_an_unknown_axis_is_reported_with_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke(["validate", "--cells", "cases/cmake_minimum_removed.yaml", "--axis", "cmak=3"]) == 2
    said = capsys.readouterr().err
    assert "--axis cmak: the case has no axis 'cmak'; did you mean 'cmake'?; it has: os, python, " in said
    assert "any case may have: gcc, cuda, cudnn" in said

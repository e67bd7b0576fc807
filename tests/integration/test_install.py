"""Installed from a wheel, in another folder: templates, data, schema and a case come along."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.cli.case_argument import EXAMPLE
from tests.integration.test_run import REPOSITORY

pytestmark = pytest.mark.integration

CASE = """\
schema: reprokit/v1
id: tiny
title: Tiny
matrix: {os: [debian-12], gcc: ["12"], cuda: ["11.8"]}
command: "true"
"""


def test_a_wheel_is_whole(tmp_path: Path) -> None:
    def run(*words: str) -> str:
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "wheels", str(REPOSITORY))
    [wheel] = (tmp_path / "wheels").iterdir()
    # What it depends on comes from the environment that tests; reprokit itself from the wheel.
    run(*pip, "install", "-q", "--no-deps", "--no-index", "--target", "site", str(wheel))
    (tmp_path / "tiny.yaml").write_text(CASE)
    path = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); "
    assert str(tmp_path) in run(sys.executable, "-c", path + "import reprokit; print(reprokit)")
    code = path + "from reprokit.cli import main; main()"
    assert "validate" in run(sys.executable, "-c", code, "--help")
    assert json.loads(run(sys.executable, "-c", code, "integrate", "schema"))["properties"]["matrix"]
    rendered = run(sys.executable, "-c", code, "render", "tiny.yaml", "--base", "registry")
    assert "gcc-12" in rendered
    assert "nvidia-cuda-nvcc-cu11==11.8.89" in rendered
    # A first verdict needs no checkout: the wheel has a case, and writes nothing but the store beside it.
    assert "valid (6 cells)" in run(sys.executable, "-c", code, "validate", EXAMPLE)
    shown = run(sys.executable, "-c", code, "run", EXAMPLE, "--only", "cuda=12.0")
    assert "reproduces when arch = sm_35" in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == [".reprokit", "site", "tiny.yaml", "wheels"]

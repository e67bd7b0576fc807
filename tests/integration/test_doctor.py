"""``reprokit doctor`` on the engine of this host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from reprokit.core import ownership
from reprokit.engine.docker.engine import DockerEngine
from tests.conftest import docker

pytestmark = pytest.mark.integration


def doctor(tmp_path: Path) -> list[dict[str, Any]]:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [sys.executable, "-m", "reprokit", "doctor", "--json"]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    assert done.returncode == (3 if any(one["status"] == "fail" for one in findings) else 0), done.stderr
    return findings


def test_the_engine_is_found_builds_and_leaves_nothing(engine: DockerEngine, tmp_path: Path) -> None:
    found = {(one["check"], one["status"]): one["text"] for one in doctor(tmp_path)}
    assert found["buildkit", "ok"] == "BuildKit builds"
    assert ("engine", "ok") in found
    assert ("disk", "fail") not in found
    assert docker("images", "-q", "reprokit/doctor") == ""


def test_what_a_killed_run_left_is_found_and_the_command_removes_it(tiny: str, tmp_path: Path) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    owner = {ownership.PID: str(dead.pid), ownership.PID_START: "1", ownership.HOST: ownership.here()}
    words = [word for name, value in owner.items() for word in ("--label", f"{name}={value}")]
    for _ in range(10):  # a run of another test sweeps the container if it begins in between
        container = docker("create", *words, tiny, "true").strip()
        try:
            fixes = [one["fix"] for one in doctor(tmp_path) if one["check"] == "leftovers"]
            fix = next((fix for fix in fixes if container[:12] in fix), "")
            if fix and docker("ps", "-aq", "--no-trunc", "--filter", f"id={container}").strip() == container:
                subprocess.run(["sh", "-c", fix], check=False, capture_output=True)
                assert docker("ps", "-aq", "--no-trunc", "--filter", f"id={container}") == ""
                return
        finally:
            subprocess.run(["docker", "rm", "-f", container], capture_output=True, check=False)
    pytest.fail("doctor named none of ten containers that a killed run left")

"""``reprokit doctor`` on the engine of this host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reprokit.engine.docker.engine import DockerEngine
from tests.conftest import docker
from tests.servers import wait_until

pytestmark = pytest.mark.integration


def doctor(tmp_path: Path, within: Sequence[str] = ()) -> list[dict[str, Any]]:
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [*within, sys.executable, "-m", "reprokit", "doctor", "--json"]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    assert done.returncode == (3 if any(one["status"] == "fail" for one in findings) else 0), done.stderr
    return findings


def test_the_engine_is_found_builds_and_leaves_nothing(engine: DockerEngine, tmp_path: Path) -> None:
    found = {(one["check"], one["status"]): one["text"] for one in doctor(tmp_path)}
    assert found["buildkit", "ok"] == "BuildKit builds"
    assert ("engine", "ok") in found
    assert ("disk", "fail") not in found
    wait_until(lambda: docker("images", "-q", "reprokit/doctor") == "")  # other tests call the doctor, too

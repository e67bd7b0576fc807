"""A credential helper that gives a login, one that fails, and one that never answers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from reprokit.case.trust import Trust
from reprokit.core.errors import EngineError
from reprokit.engine import credential_helpers
from reprokit.engine.docker.buildkit import credentials

ANSWER = """cat >/dev/null; echo '{"ServerURL": "r", "Username": "me", "Secret": "it"}'"""


@pytest.mark.parametrize(
    ("script", "found", "wrong"),
    [
        (ANSWER, "me", ""),
        ("echo credentials not found in native keychain; exit 1", None, ""),
        ("echo locked; exit 1", None, "locked"),
        ("sleep 600 & echo $! >> child; wait", None, "docker-credential-test get did not answer within 0 s"),
        (None, None, "docker-credential-test is not installed or not in PATH"),
    ],
    ids=["login", "none", "fails", "hangs", "missing"],
)
def test_a_helper_has_a_time_limit(
    script: str | None, found: str | None, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = tmp_path / "docker-credential-test"
    if script is not None:
        helper.write_text(f"#!/bin/sh\n{script}\n")
        helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.chdir(tmp_path)
    if "sleep" in (script or ""):
        monkeypatch.setattr(credential_helpers, "SECONDS", 0.3)
    (tmp_path / "config.json").write_text('{"credHelpers": {"r": "test"}, "auths": {}}')
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    try:
        assert credential_helpers.registry_login("r", Trust.STRANGER) == {}
        assert credentials("r", Trust.OWN) == (found or "", "it" if found else "")
        if wrong:
            with pytest.raises(EngineError, match=wrong):
                credential_helpers.registry_login("r", Trust.REVIEWED)
        else:
            assert credential_helpers.registry_login("r", Trust.REVIEWED).get("Username") == found
    finally:
        if (child := tmp_path / "child").exists():
            subprocess.run(["kill", *child.read_text().split()], check=False)

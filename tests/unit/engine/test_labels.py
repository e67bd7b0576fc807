"""Who owns a container, and whether the owner is alive."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from reprokit.core import ownership
from reprokit.engine import leftovers

MINE = {ownership.PID: "77", ownership.PID_START: "500", ownership.HOST: "here"}


@pytest.mark.parametrize(
    ("change", "started", "orphan"),
    [
        ({}, "500", False),  # alive
        ({}, None, True),  # gone
        ({}, "900", True),  # the pid belongs to another process by now
        ({ownership.HOST: "elsewhere"}, None, False),
        ({ownership.PID: ""}, None, False),
        ({ownership.PID: "-1"}, None, False),
        ({ownership.PID: "1; rm"}, None, False),
    ],
)
def test_orphans(change: dict[str, str], started: str | None, orphan: bool) -> None:
    assert ownership.is_orphan({**MINE, **change}, place="here", started_at=lambda pid: started) is orphan


def test_strangers_are_never_orphans() -> None:
    assert not ownership.is_orphan({}, place="here", started_at=lambda pid: None)
    assert not ownership.is_orphan({"com.docker.compose.project": "x"}, started_at=lambda pid: None)


def test_this_process_owns_what_it_labels() -> None:
    made = ownership.ownership("r1", "case-a", {"b": "2", "a": "1"})
    assert made[ownership.CELL] == '{"a": "1", "b": "2"}'
    assert made[ownership.PID] == str(os.getpid())
    assert not ownership.is_orphan(made)
    assert ownership.is_orphan(made, started_at=lambda pid: None)


def test_a_process_that_ended_is_gone() -> None:
    child = subprocess.Popen(["sleep", "60"])
    assert ownership.started(child.pid) is not None
    child.kill()
    # A zombie, not reaped yet, is gone as well.
    while ownership.started(child.pid) is not None:
        pass
    child.wait()
    assert ownership.started(child.pid) is None


def test_private_folders_are_private_and_swept(tmp_path: Path) -> None:
    with leftovers.private_folder("test") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(str(folder)) < 100
        living = tmp_path / folder.name
        living.mkdir()
        dead = tmp_path / folder.name.replace(f"-{os.getpid()}-", "-4194305-")
        dead.mkdir()
        (dead / "grpc.sock").write_text("")
        (tmp_path / "reprokit-notes").mkdir()
        link = tmp_path / folder.name.replace(f"-{os.getpid()}-", "-4194306-")
        link.symlink_to(tmp_path)
        assert leftovers.sweep_folders((tmp_path,)) == [f"temporary folder {dead}"]
        assert living.exists()
        assert link.is_symlink()
    assert not folder.exists()

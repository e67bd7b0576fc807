"""Folders for a moment: private, and swept when their owner has exited."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.core import owner_lock
from reprokit.engine import leftovers


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


MAKER = """
import sys
from reprokit.engine.leftovers import private_folder
with private_folder("test") as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_folder_of_another_boot_or_pid_namespace_is_swept_by_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_place", lambda: "0badcafe")
    older = tmp_path / "reprokit-12345678-77-500-build-abcd1234"  # of reprokit 0.1, without a lock
    older.mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", MAKER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as child:
        assert child.stdout is not None
        folder = Path(child.stdout.readline().strip())
        assert folder.parent == tmp_path
        assert leftovers.orphan_folders((tmp_path,)) == []
        child.kill()
        child.wait()
        monkeypatch.setattr(owner_lock, "is_local", lambda path: False)
        assert leftovers.orphan_folders((tmp_path,)) == []
        monkeypatch.setattr(owner_lock, "is_local", lambda path: True)
        assert leftovers.orphan_folders((tmp_path,)) == [folder]
        assert leftovers.sweep_folders((tmp_path,)) == [f"temporary folder {folder}"]
    assert older.exists()

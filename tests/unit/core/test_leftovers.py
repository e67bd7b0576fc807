"""Folders for a moment: private, and swept when their owner has exited."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.core import ownership


def test_private_folders_are_private_and_swept(tmp_path: Path) -> None:
    with ownership.private_folder("test") as folder:
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
        assert ownership.sweep_folders((tmp_path,)) == [f"temporary folder {dead}"]
        assert living.exists()
        assert link.is_symlink()
    assert not folder.exists()


MAKER = """
import sys
from reprokit.core.ownership import private_folder
with private_folder("test") as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_folder_of_another_boot_or_pid_namespace_is_swept_by_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "_place_digest", lambda: "0badcafe")
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
        assert ownership.orphan_folders((tmp_path,)) == []
        child.kill()
        child.wait()
        monkeypatch.setattr(ownership, "is_local", lambda path: False)
        assert ownership.orphan_folders((tmp_path,)) == []
        monkeypatch.setattr(ownership, "is_local", lambda path: True)
        assert ownership.orphan_folders((tmp_path,)) == [folder]
        assert ownership.sweep_folders((tmp_path,)) == [f"temporary folder {folder}"]
    assert older.exists()


MOUNTED = """
import subprocess, sys
from pathlib import Path
from reprokit.core.ownership import remove_tree
folder, host = map(Path, sys.argv[1:])
for name in ("proc", "dev \\u00e9", "tmp"):
    (folder / name).mkdir()
subprocess.run(["mount", "--bind", host, folder / "proc"], check=True)
subprocess.run(["mount", "--bind", host, folder / "dev \\u00e9"], check=True)
subprocess.run(["mount", "-t", "tmpfs", "none", folder / "tmp"], check=True)
(folder / "tmp" / "x").mkdir()
subprocess.run(["mount", "--bind", host, folder / "tmp" / "x"], check=True)
(folder / "shut").mkdir(mode=0)
assert remove_tree(folder)
"""


def test_what_is_mounted_in_a_folder_that_is_left_is_not_removed(tmp_path: Path) -> None:
    """A tool that makes root file systems and is killed leaves mounts of the host behind."""
    apart = ["unshare", "--mount", "--map-root-user", "--user"]
    if subprocess.run([*apart, "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True).returncode:
        pytest.skip("needs unshare, and user namespaces")
    folder, host = tmp_path / "left", tmp_path / "host"
    folder.mkdir()
    host.mkdir()
    (host / "precious").write_text("of the host")
    (host / "precious").chmod(0o440)
    (tmp_path / "link").symlink_to(tmp_path)  # as /tmp may be one
    subprocess.run([*apart, sys.executable, "-c", MOUNTED, tmp_path / "link" / "left", host], check=True)
    assert not folder.exists()
    assert (host / "precious").read_text() == "of the host"
    assert (host / "precious").stat().st_mode & 0o777 == 0o440

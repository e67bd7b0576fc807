"""Folders that are needed for a moment: private, named after their owner, and swept when that owner has exited."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reprokit.core import owner_lock, ownership

_NAME = re.compile(r"reprokit-(?P<place>[0-9a-f]{8})-(?P<pid>\d+)-(?P<start>\d*)-.+")
_LOCKED = ".locked"
"""The end of the name of a folder that its owner holds locked, as long as it lives."""


def _place() -> str:
    # A temporary folder may be shared with containers, in which the same pid is another process.
    return hashlib.sha256(ownership.here().encode()).hexdigest()[:8]


def is_left(name: str) -> bool:
    """Whether a name tells an owner of this host that is gone."""
    named = _NAME.fullmatch(name)
    if named is None or named["place"] != _place():
        return False
    labels = {ownership.PID: named["pid"], ownership.PID_START: named["start"], ownership.HOST: ownership.here()}
    return ownership.is_orphan(labels)


@contextmanager
def private_folder(purpose: str, *, socket: bool = False) -> Iterator[Path]:
    """A new folder of mode 0700 whose name tells its owner, locked by it; gone when the block ends.

    One for a ``socket`` lies in the system's temporary folder, and not below a user's deep TMPDIR, when that is too
    long for a unix socket's path (108 bytes).
    """
    pid = os.getpid()
    root = tempfile.gettempdir()
    prefix = f"reprokit-{_place()}-{pid}-{ownership.started(pid) or ''}-{purpose}-"
    if socket and len(root) + len(prefix) > 75:
        root = "/tmp"
    hidden = Path(tempfile.mkdtemp(prefix=f".{prefix}", dir=root))
    lock = os.open(hidden, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    folder = hidden.with_name(hidden.name[1:] + _LOCKED)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        hidden.rename(folder)  # so that a folder of this name is never seen without its lock
        yield folder
    finally:
        remove_tree(folder)
        os.close(lock)


def remove_tree(folder: Path) -> bool:
    """Remove a folder with all that is in it, folders of ours that forbid it included; whether it is gone.

    What a tool that was killed has mounted below it is unmounted first, and never looked into: it may be the host's.
    """
    for mount in reversed(_mounts_below(folder)):
        done = subprocess.run(["umount", "--lazy", "--", mount], check=False, capture_output=True)
        if done.returncode:
            return False
    with suppress(RecursionError):  # foreign code may have made folders in folders, thousands deep
        shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for words in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):  # neither follows a link that it finds below
            subprocess.run([*words, "--", str(folder)], check=False, capture_output=True)
    return not folder.exists()


def _mounts_below(folder: Path) -> list[str]:
    """The mount points at or below a folder, in the order in which they were mounted."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    top = str(folder.parent.resolve() / folder.name)  # as the kernel names it, wherever links lead to it
    escaped = re.compile(r"\\([0-7]{3})")
    points = [escaped.sub(lambda octal: chr(int(octal[1], 8)), line.split(" ", 5)[4]) for line in lines]
    return [point for point in points if point == top or point.startswith(f"{top}/")]


def places() -> tuple[Path, ...]:
    """The folders in which such folders are."""
    return tuple({Path(tempfile.gettempdir()), Path("/tmp")})


def sweep_folders(roots: tuple[Path, ...] | None = None) -> list[str]:
    """Remove such folders of this user whose owner is gone; returns what was removed, in words."""
    return [f"temporary folder {folder}" for folder in orphan_folders(roots) if remove_tree(folder)]


def orphan_folders(roots: tuple[Path, ...] | None = None) -> list[Path]:
    """Such folders of this user whose owner is gone."""
    found = []
    for root in roots or places():
        for folder in sorted(root.glob("reprokit-*")):
            with suppress(OSError):
                if not folder.is_symlink() and folder.lstat().st_uid == os.getuid() and _is_left_folder(folder):
                    found.append(folder)
    return found


def _is_left_folder(folder: Path) -> bool:
    named = _NAME.fullmatch(folder.name)
    if named is None or named["place"] == _place():
        return is_left(folder.name)
    # Made in another pid namespace, or before the last restart: its pid means nothing here.
    if not folder.name.endswith(_LOCKED) or not owner_lock.is_local(str(folder)):
        return False
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return owner_lock.is_locked(file) is False
    finally:
        os.close(file)

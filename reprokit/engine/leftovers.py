"""Folders that a build needs for a moment: private, named after their owner, and swept when that owner died."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from reprokit.core import ownership

_NAME = re.compile(r"reprokit-(?P<place>[0-9a-f]{8})-(?P<pid>\d+)-(?P<start>\d*)-.+")


def _place() -> str:
    # A temporary folder may be shared with containers, in which the same pid is another process.
    return hashlib.sha256(ownership.here().encode()).hexdigest()[:8]


def owned_name(purpose: str) -> str:
    """A new name that tells its owner, this process."""
    pid = os.getpid()
    return f"reprokit-{_place()}-{pid}-{ownership.started(pid) or ''}-{purpose}-{uuid.uuid4().hex[:8]}"


def is_left(name: str, started_at: Callable[[int], str | None] = ownership.started) -> bool:
    """Whether a name tells an owner of this host that is gone."""
    named = _NAME.fullmatch(name)
    return named is not None and named["place"] == _place() and started_at(int(named["pid"])) != named["start"]


@contextmanager
def private_folder(purpose: str, *, socket: bool = False) -> Iterator[Path]:
    """A new folder of mode 0700 whose name tells its owner; gone when the block ends.

    One for a ``socket`` lies in the system's temporary folder, and not below a user's deep TMPDIR, when that is too
    long for a unix socket's path (108 bytes).
    """
    pid = os.getpid()
    root = tempfile.gettempdir()
    prefix = f"reprokit-{_place()}-{pid}-{ownership.started(pid) or ''}-{purpose}-"
    if socket and len(root) + len(prefix) > 80:
        root = "/tmp"
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=root))
    try:
        yield folder
    finally:
        remove_tree(folder)


def remove_tree(folder: Path) -> bool:
    """Remove a folder with all that is in it, folders of ours that forbid it included; whether it is gone."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for place, below, _ in os.walk(folder):  # top down, and each is opened before it is entered
            for name in below:
                path = Path(place, name)
                if not path.is_symlink():
                    with suppress(OSError):
                        path.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def sweep_folders(
    roots: tuple[Path, ...] | None = None, *, started_at: Callable[[int], str | None] = ownership.started
) -> list[str]:
    """Remove such folders of this user whose owner is gone; returns what was removed, in words."""
    removed = []
    for folder in orphan_folders(roots, started_at=started_at):
        if remove_tree(folder):
            removed.append(f"temporary folder {folder}")
    return removed


def orphan_folders(
    roots: tuple[Path, ...] | None = None, *, started_at: Callable[[int], str | None] = ownership.started
) -> list[Path]:
    """Such folders of this user whose owner is gone."""
    found = []
    for root in roots or tuple({Path(tempfile.gettempdir()), Path("/tmp")}):
        for folder in sorted(root.glob("reprokit-*")):
            if not is_left(folder.name, started_at):
                continue
            with suppress(OSError):
                if not folder.is_symlink() and folder.lstat().st_uid == os.getuid():
                    found.append(folder)
    return found

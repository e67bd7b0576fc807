"""A lock that this process holds until it ends: the kernel releases it, however the process dies.

Another process reads from it whether the owner lives, where pids say nothing: from another pid namespace, under
another host name, after a restart of the machine.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import uuid
from contextlib import suppress
from pathlib import Path

_LOCAL = frozenset(
    ("aufs", "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs", "zfs")
)
"""File systems that one kernel alone can mount: a lock that is free on them is held by no process anywhere."""

_NAME = re.compile(r"/(?:.*/)?owner-[0-9a-f]{32}\.lock")

_held: dict[Path, int] = {}


def hold(folder: Path) -> str:
    """Lock a new file in ``folder`` until this process ends; its name for :func:`is_held`, '' where that cannot be."""
    hidden, path = (folder / f"{start}owner-{uuid.uuid4().hex}.lock" for start in (".", ""))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            # Locked under another name, so that the file of this name is never seen without its lock.
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path = folder.resolve() / path.name
            hidden.rename(path)
        except OSError:
            os.close(file)
            hidden.unlink(missing_ok=True)
            with suppress(OSError):
                folder.rmdir()  # of a run that leaves nothing else
            raise
    except OSError:  # a full disk, a file system without locks
        return ""
    if not _held:
        atexit.register(release)
    _held[path] = file
    return f"{os.fstat(file).st_ino}:{path}"


def release() -> None:
    """Remove the files that this process holds, at its end. Those of a process that is killed stay, without a lock."""
    while _held:
        path, file = _held.popitem()
        with suppress(OSError):
            path.unlink()
            path.parent.rmdir()  # the folder of a run that left nothing else
        os.close(file)


def is_held(name: str, *, same_kernel: bool) -> bool | None:
    """Whether a living process holds the lock of that name; None where that is not known here.

    ``same_kernel``: whether this kernel ran the owner. Otherwise a free lock says nothing on a network file system,
    which need not pass locks on.
    """
    inode, _, path = name.partition(":")
    if not _NAME.fullmatch(path):  # of a record that may be untrusted: opening a device can act on it
        return None
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        if str(os.fstat(file).st_ino) != inode:  # a copy, or another file system
            return None
        locked = is_locked(file)
        return locked if locked or same_kernel or is_local(path) else None
    finally:
        os.close(file)


def is_locked(file: int) -> bool | None:
    """Whether a process holds the lock of an open file; None where the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: two that look do not take each other for the owner
    except BlockingIOError:
        return True
    except OSError:
        return None
    return False


def is_local(path: str, mounts: str | None = None) -> bool:
    """Whether a file is on a file system of this machine alone. ``mounts``: the text of ``/proc/self/mountinfo``."""
    if mounts is None:
        try:
            mounts = Path("/proc/self/mountinfo").read_text("utf-8", errors="surrogateescape")
        except OSError:
            return False
    place, kind = Path(path).resolve(), ""
    longest = -1
    for line in mounts.splitlines():
        own, _, other = line.partition(" - ")
        point = own.split()[4].replace("\\040", " ")
        if place.is_relative_to(point) and len(point) >= longest:  # a later mount covers an earlier one
            longest, kind = len(point), other.split()[0]
    return kind in _LOCAL

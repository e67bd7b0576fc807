"""Locks between processes: of two that make or write the same thing, the second waits for the first."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reprokit.core.errors import Cancelled

POLL_SECONDS = 0.2
"""How often a process that waits looks whether it was cancelled."""


@contextmanager
def locked(path: Path, cancel: threading.Event | None = None, what: str = "") -> Iterator[None]:
    """Hold the lock file ``path``, which is made if it is missing, while the block runs; wait for it until ``cancel``.

    Raises Cancelled, which says ``what`` the other process was making, and OSError where the file cannot be made.
    The kernel ends the lock of a process that died.
    """
    from filelock import FileLock, Timeout  # not needed by commands that only read

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(_own(path))
    while True:
        try:
            lock.acquire(timeout=-1 if cancel is None else POLL_SECONDS)
            break
        except Timeout:
            if cancel is not None and cancel.is_set():
                raise Cancelled(f"stopped while another process made the {what}") from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def locked_if_free(path: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold the lock file ``path`` while the block runs; False where another process has it for ``seconds``."""
    from filelock import FileLock, Timeout

    try:
        with FileLock(_own(path)).acquire(timeout=seconds):
            yield True
    except Timeout:
        yield False


def _own(path: Path) -> Path:
    """The path of a lock. Raises OSError for a link: the file that it leads to would be truncated."""
    if path.is_symlink():
        raise OSError(errno.ELOOP, "the lock file is a symbolic link", str(path))
    return path

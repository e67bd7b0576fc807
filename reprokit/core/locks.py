"""Locks between processes: of two that make or write the same thing, the second waits for the first."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from reprokit.core.errors import Cancelled

POLL_SECONDS = 0.05
"""How often a process that waits looks again."""
_LOCKLESS = frozenset((errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP))


@contextmanager
def locked(path: Path, cancel: threading.Event | None = None, what: str = "") -> Iterator[None]:
    """Hold the lock file ``path``, which is made if it is missing, while the block runs; wait for it until ``cancel``.

    Raises Cancelled, which says ``what`` the other process was making, and OSError where the file cannot be made or
    its file system has no locks. The kernel ends the lock of a process that died.
    """
    cancel = cancel or threading.Event()
    while (file := _taken(path)) is None:
        if cancel.wait(POLL_SECONDS):
            raise Cancelled(f"stopped while another process made the {what}")
    try:
        yield
    finally:
        os.close(file)


@contextmanager
def locked_if_free(path: Path, seconds: float = 0.0) -> Iterator[bool]:
    """Hold the lock file ``path`` while the block runs; False where another process has it for ``seconds``.

    Raises OSError as :func:`locked`.
    """
    deadline = time.monotonic() + seconds
    while (file := _taken(path)) is None and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    try:
        yield file is not None
    finally:
        if file is not None:
            os.close(file)


def lockless(path: Path) -> str:
    """Why no process can lock the file ``path``, which is made if it is missing, in the system's words.

    Network file systems may have no locks. '' where there are some, and where the file cannot be made.
    """
    try:
        with locked_if_free(path):
            return ""
    except OSError as error:
        return os.strerror(error.errno) if error.errno in _LOCKLESS else ""


def _taken(path: Path) -> int | None:
    """A descriptor that holds the lock until it is closed; None where another process has it.

    Not by way of the package filelock: where there are no locks, it takes the file itself for one, and the file that a
    killed process left would be held for ever.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Of a link, the file that it leads to would be made.
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException as error:
        os.close(file)
        if isinstance(error, BlockingIOError):
            return None
        if isinstance(error, OSError) and error.errno in _LOCKLESS:
            # A store without locks is refused before: this is in the cache.
            text = f"{os.strerror(error.errno)}; name a cache on a file system that has locks by XDG_CACHE_HOME"
            raise OSError(error.errno, text, str(path)) from None
        raise
    if os.fstat(file).st_nlink:
        return file
    os.close(file)  # removed by another process just before: what is locked next is a new file
    return _taken(path)

"""Which images, source trees and the like are in use on this host, and when and at what cost each was made.

A process that uses something writes its key to a file of its own below the cache, on which it holds a lock: the kernel
ends that with the process. All of it can be lost without harm. Other users of an engine see that an image is used by
its lease in the engine.
"""

from __future__ import annotations

import collections
import contextlib
import fcntl
import hashlib
import json
import os
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from reprokit.core import cache, json_text
from reprokit.core.files import write
from reprokit.core.ownership import locked

if TYPE_CHECKING:
    from reprokit.engine.protocol import Engine


def _folder() -> Path:
    return cache.folder("uses")


@dataclass(frozen=True, kw_only=True)
class Use:
    """The last use of a thing: when, seconds since 1970, and how many ``times`` it was used before and then.

    ``seconds`` and ``size`` (bytes): what making it took.
    """

    at: float
    times: int
    seconds: float | None = None
    size: int = 0


def last(key: str) -> Use | None:
    """What is remembered of a key, None for nothing."""
    path = _memory(key)
    try:
        known = json_text.loads(path.read_text(encoding="utf-8"))
        return Use(at=path.stat().st_mtime, **known)
    except (OSError, ValueError, TypeError):
        return None


def remember(key: str, *, times: int = 0, seconds: float | None = None, size: int = 0) -> None:
    """Remember a thing now: that it is used so many ``times`` more, and what making it took.

    The longest ``seconds`` count: a later build may have found most of its layers.
    """
    before = last(key) or Use(at=0.0, times=0)
    known = {
        "times": before.times + times,
        "seconds": max(filter(None, (seconds, before.seconds)), default=None),
        "size": size or before.size,
    }
    with contextlib.suppress(OSError):  # a full disk, of which something is about to be removed
        write(_memory(key), json.dumps(known))


def _memory(key: str) -> Path:
    return _folder() / "last" / f"{hashlib.sha256(key.encode()).hexdigest()[:32]}.json"


_NO_LEASE: tuple[str, Callable[[], None]] = ("", lambda: None)


class Uses:
    """What this process uses, from :meth:`begin` to :meth:`end` or to the end of the ``with`` block. Thread-safe."""

    def __init__(self) -> None:
        self._stream: TextIO | None = None
        self._held: collections.Counter[str] = collections.Counter()
        self._leases: dict[str, tuple[str, Callable[[], None]]] = {}
        self._changed = threading.Condition()

    def __enter__(self) -> Uses:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._held.clear()
            leases, self._leases = self._leases, {}
            if self._stream is not None:
                with contextlib.suppress(OSError):
                    Path(self._stream.name).unlink()
                with contextlib.suppress(OSError):  # a full disk, for what is still to be written
                    self._stream.close()
                self._stream = None
        for lease in leases.values():
            lease[1]()

    def begin(self, key: str, cancel: threading.Event | None = None) -> None:
        """Use a thing: from here on nothing removes it. To be called before looking whether it is there.

        Waits while something is being removed, until ``cancel``. Raises Cancelled.
        """
        with self._changed:
            self._held[key] += 1
            if self._held[key] == 1:
                with contextlib.suppress(OSError), removing(cancel):  # without a cache nothing is removed by it either
                    self._write(f"+{key}\n")
        remember(key, times=1)

    def lease(self, key: str, image: str, engine: Engine) -> None:
        """Have other users of the engine see that the image of that id is used, for as long as ``key`` is.

        Raises ImageGone, EngineError.
        """
        if self._leases.get(key, _NO_LEASE)[0] == image:
            return
        release = engine.lease(image)
        with self._changed:
            if self._held[key]:
                before, self._leases[key] = self._leases.get(key, _NO_LEASE), (image, release)
                release = before[1]
        release()

    def end(self, key: str) -> None:
        """Use it no longer."""
        with self._changed:
            if self._held[key] > 1:
                self._held[key] -= 1
                return
            del self._held[key]
            _, release = self._leases.pop(key, _NO_LEASE)
            if self._stream is not None:
                with contextlib.suppress(OSError):
                    self._write(f"-{key}\n")
            self._changed.notify_all()
        release()

    def wait_for_end(self, seconds: float) -> None:
        """Wait until something is used no longer, or so long."""
        with self._changed:
            self._changed.wait(seconds)

    def _write(self, line: str) -> None:
        if self._stream is None:
            self._stream = _own_file()
        self._stream.write(line)
        self._stream.flush()


def _own_file() -> TextIO:
    """A new file that is locked by this process; one that is not locked may be removed before it is."""
    while True:
        path = _folder() / "live" / uuid.uuid4().hex
        path.parent.mkdir(parents=True, exist_ok=True)
        stream = path.open("a", encoding="utf-8")
        fcntl.flock(stream, fcntl.LOCK_EX)
        if path.exists():
            return stream
        stream.close()


@contextlib.contextmanager
def removing(cancel: threading.Event | None = None) -> Iterator[None]:
    """A block in which nothing begins to be used: what :func:`in_use` does not have there may be removed there."""
    with locked(_folder() / "uses.lock", cancel, "room on the disk"):
        yield


@contextlib.contextmanager
def collecting(cancel: threading.Event | None = None) -> Iterator[None]:
    """A block in which no other process of this host decides what is to be removed."""
    with locked(_folder() / "collecting.lock", cancel, "room on the disk"):
        yield


def in_use() -> set[str]:
    """The keys of what living processes of this host use. Files of processes that are gone are removed."""
    found: set[str] = set()
    for path in (_folder() / "live").glob("*"):
        with contextlib.suppress(FileNotFoundError), path.open("r+", encoding="utf-8") as stream:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                held = {line[1:]: line[0] for line in stream.read().split("\n")[:-1]}
                found |= {key for key, sign in held.items() if sign == "+"}
            else:
                path.unlink()
    return found


def forget_before(moment: float) -> None:
    """Forget uses that are older, so that the memory does not grow for ever."""
    for path in (_folder() / "last").glob("*.json"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < moment:
                os.unlink(path)  # noqa: PTH108

"""Files that the gateway keeps on this host for builds of one trust domain: by their hash, or by their address.

A file is kept once all of it came. Where a page states its hash, it is also what the page says: the build gets its end
only then. Of two builds that want a file at the same time, one reads it, and the other waits for that.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from reprokit.core.ownership import locked_if_free
from reprokit.engine.site.gateway.access import NotServed, Unreachable

if TYPE_CHECKING:
    from reprokit.engine.site.gateway.upstream import Answer

MAX_FILE = 16 * 2**30
MAX_SECONDS = 2 * 3600.0
PIP_WAITS, OTHERS_WAIT = 100.0, 20.0
"""Seconds for which a build waits for another that reads the same file: fewer than pip (as its ``timeout`` is set) and
apt (30 s) wait for an answer."""
PARTS = "parts"


class FetchedFile(NamedTuple):
    """A file that was read from its server: its name, when that began by the monotonic clock, how long it took, its
    size in bytes.
    """

    name: str
    began: float
    seconds: float
    size: int


def kept_files(folder: Path) -> list[Path]:
    """All files that are kept below the folder, of every trust domain."""
    return sorted(place for place in folder.glob("*/*/??/*") if place.is_file())


def remains(folder: Path) -> list[Path]:
    """Parts of downloads that can no longer be under way."""
    found = []
    for part in sorted(folder.glob(f"*/{PARTS}/*")):
        with suppress(OSError):
            if part.suffix != ".lock" and time.time() - part.stat().st_mtime > MAX_SECONDS:
                found.append(part)
    return found


class Downloads:
    """The files kept below a folder. Safe for threads and processes. ``fetched``: what this object's build read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.fetched: list[FetchedFile] = []

    def by_hash(self, sha256: str) -> Path:
        """Where the file with a hash is kept."""
        return self._folder / "sha256" / sha256[:2] / sha256

    def by_address(self, address: str, version: str) -> Path:
        """Where the file at an address is kept, as of what its server says of it."""
        name = hashlib.sha256(f"{address}\n{version}".encode()).hexdigest()
        return self._folder / "address" / name[:2] / name

    @contextmanager
    def turn(self, place: Path, seconds: float) -> Iterator[None]:
        """Let no other build read that file from its server meanwhile; where one does, wait for it so long."""
        lock = self._folder / PARTS / f"{place.name}.lock"
        with ExitStack() as stack:
            try:
                is_ours = stack.enter_context(locked_if_free(lock, seconds))
            except OSError as error:
                raise _unwritable(error) from None
            try:
                yield
            finally:
                if is_ours:
                    lock.unlink(missing_ok=True)

    def keep(self, answer: Answer, place: Path, sha256: str, began: float) -> Iterator[bytes]:
        """The body of an answer, as it comes, which is kept at ``place`` if it is whole, and has that hash ('' = any).

        ``began``: when its server was asked, by the monotonic clock. Raises NotServed, also where it cannot be kept.
        """
        where = answer.url.partition("?")[0].rpartition("/")[2]
        size, last = 0, b""
        found, part = hashlib.sha256(), self._folder / PARTS / uuid.uuid4().hex
        try:
            with part.open("xb") as stream:
                part.chmod(0o600)  # it may need a login to be read
                for block in answer.blocks():
                    yield last
                    last = block
                    stream.write(block)
                    found.update(block)
                    size += len(block)
                    if size > MAX_FILE or time.monotonic() - began > MAX_SECONDS:
                        raise Unreachable(f"{where} is too large, or comes too slowly")
            if sha256 and found.hexdigest() != sha256:
                raise Unreachable(
                    f"{where} is not what the index says: its sha256 is {found.hexdigest()} instead of {sha256}; "
                    "it was not kept"
                )
            place.parent.mkdir(parents=True, exist_ok=True)
            part.replace(place)
        except OSError as error:
            raise _unwritable(error) from None
        finally:
            part.unlink(missing_ok=True)
        self.fetched.append(FetchedFile(where, began, time.monotonic() - began, size))
        yield last


def _unwritable(error: OSError) -> NotServed:
    return NotServed(f"the cache of downloads on the host cannot be written: {error.strerror}")

"""Files that the gateway keeps on this host: by their hash where a page states one, else by their address.

A file is read from its server once, however many builds want it at the same time; each gets it as it comes, but for
its last byte, which no one gets before the whole file is verified. What does not verify is not kept, and no build gets
all of it.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from reprokit.core.locks import locked_if_free
from reprokit.engine.site.gateway.allowed import HostRefused, Unreachable
from reprokit.engine.site.gateway.pages import Hash
from reprokit.engine.site.gateway.upstream import Answer, closing

MAX_FILE = 16 * 2**30
MAX_SECONDS = 2 * 3600.0
OTHERS_SECONDS = 30.0
"""How long another process's download of the same file is waited for before this one reads it as well."""
PARTS = "parts"
_BLOCK = 128 * 1024


class Failed(Exception):
    """A file could not be read, or is not what its page says; ``status``: the server's, or 502."""

    def __init__(self, sentence: str, status: int = 502) -> None:
        self.status = status
        super().__init__(sentence)


class Stored:
    """A reader of a file of which all is there. Close it."""

    def __init__(self, stream: BinaryIO, tag: str) -> None:
        self._stream, self.tag = stream, tag
        self.total: int | None = os.fstat(stream.fileno()).st_size

    def blocks(self, start: int, end: int | None) -> Iterator[bytes]:
        """The bytes from ``start`` to ``end`` (excluded; None = all)."""
        self._stream.seek(start)
        left = (self.total or 0) - start if end is None else end - start
        while left > 0 and (block := self._stream.read(min(left, _BLOCK))):
            left -= len(block)
            yield block

    def close(self) -> None:
        """Let go of the file."""
        self._stream.close()


class FetchedFile(NamedTuple):
    """A file that was read from its server: its name, when that began by the monotonic clock, how long it took, its
    size in bytes.
    """

    name: str
    began: float
    seconds: float
    size: int


class _Download:
    """One file on its way into the cache, and those who read it meanwhile. ``fetched`` is called once it was read."""

    def __init__(
        self,
        folder: Path,
        final: Path,
        expected: Hash | None,
        ask: Callable[[], Answer],
        fetched: Callable[[FetchedFile], None],
    ) -> None:
        self._folder, self.final, self._expected, self._ask = folder, final, expected, ask
        self._fetched = fetched
        self.changed = threading.Condition()
        self.readers = 0
        self.part: Path | None = None
        self.total: int | None = None
        self.written = 0
        self.done = False
        self.failure: Failed | None = None

    def run(self) -> None:
        """Read the file; the body of a thread."""
        try:
            with ExitStack() as stack:
                until = time.monotonic() + OTHERS_SECONDS
                lock = self._folder / PARTS / f"{self.final.name[:3]}.lock"
                lock.parent.mkdir(parents=True, exist_ok=True)
                while not stack.enter_context(locked_if_free(lock, 0.2)) and time.monotonic() < until:
                    self._check_readers()
                if self.final.is_file():
                    self._is_there()
                else:
                    self._read()
        except Failed as error:
            self._end(error)
        except (HostRefused, Unreachable) as error:
            self._end(Failed(str(error), 403 if isinstance(error, HostRefused) else 502))
        except OSError as error:
            self._end(Failed(f"the cache of downloads on the host cannot be written: {error.strerror}"))

    def _is_there(self) -> None:
        with self.changed:
            self.part, self.total = self.final, self.final.stat().st_size
            self.written = self.total
        self._end(None)

    def _read(self) -> None:
        began = time.monotonic()
        with closing(self._ask()) as answer:
            where = answer.url.partition("?")[0].rpartition("/")[2]
            if answer.status != 200:
                raise Failed(f"the server of {where} answers {answer.status}", answer.status)
            total = answer.length
            if self._expected is None and total is None:
                raise Failed(f"the server of {where} does not say how long it is")
            if (total or 0) > MAX_FILE:
                raise Failed(f"{where} is larger than {MAX_FILE // 2**30} GB")
            handle, name = tempfile.mkstemp(dir=self._folder / PARTS)
            try:
                with os.fdopen(handle, "wb") as stream:
                    with self.changed:
                        self.part, self.total = Path(name), total
                        self.changed.notify_all()
                    self._copy(answer, stream, where)
                Path(name).chmod(0o600)
                self.final.parent.mkdir(parents=True, exist_ok=True)
                Path(name).replace(self.final)
                self._fetched(FetchedFile(where, began, time.monotonic() - began, self.written))
                self._end(None)
            finally:
                Path(name).unlink(missing_ok=True)

    def _copy(self, answer: Answer, stream: BinaryIO, where: str) -> None:
        found = hashlib.new(self._expected.algorithm) if self._expected else None
        until = time.monotonic() + MAX_SECONDS
        for block in answer.blocks():
            stream.write(block)
            stream.flush()
            if found is not None:
                found.update(block)
            with self.changed:
                self.written += len(block)
                self.changed.notify_all()
            if self.written > MAX_FILE or time.monotonic() > until:
                raise Failed(f"{where} is too large, or comes too slowly")
            self._check_readers()
        if found is not None and self._expected is not None and found.hexdigest() != self._expected.value:
            raise Failed(
                f"{where} is not what the index says: its {self._expected.algorithm} is {found.hexdigest()} instead "
                f"of {self._expected.value}; it was not kept"
            )

    def _check_readers(self) -> None:
        with self.changed:
            if not self.readers:
                raise Failed("no build waits for it any more")

    def _end(self, failure: Failed | None) -> None:
        with _LOCK:  # who comes from now on finds the file, or begins again
            _RUNNING.pop(self.final, None)
        with self.changed:
            self.done, self.failure = failure is None, failure
            self.changed.notify_all()


class Arriving:
    """A reader of a file that is being downloaded. Close it."""

    def __init__(self, download: _Download, tag: str) -> None:
        self._download, self.tag = download, tag
        with download.changed:
            download.changed.wait_for(lambda: download.part or download.failure)
            failure, part = download.failure, download.part
        try:
            if failure is not None or part is None:
                raise failure or Failed("the download ended")
            try:
                self._stream = part.open("rb")
            except FileNotFoundError:  # verified and renamed meanwhile, or given up
                with download.changed:
                    download.changed.wait_for(lambda: download.done or download.failure)
                if download.failure is not None:
                    raise download.failure from None
                self._stream = download.final.open("rb")
        except BaseException:
            self._leave()
            raise
        self.total = download.total

    def blocks(self, start: int, end: int | None) -> Iterator[bytes]:
        """The bytes from ``start`` to ``end`` (excluded; None = all), as they come. Raises Failed."""
        self._stream.seek(start)
        at, one = start, self._download
        while end is None or at < end:
            with one.changed:
                while not (one.done or one.failure or one.written - 1 > at):
                    one.changed.wait()
                failure, done = one.failure, one.done
                upto = one.written if done else one.written - 1
            if failure is not None:
                raise failure
            wanted = min(upto if end is None else min(end, upto), at + _BLOCK) - at
            if wanted <= 0:
                if done:
                    return
                continue
            block = self._stream.read(wanted)
            at += len(block)
            yield block

    def close(self) -> None:
        """Let go of the file; a download that no one reads any more ends."""
        self._stream.close()
        self._leave()

    def _leave(self) -> None:
        with self._download.changed:
            self._download.readers -= 1


_LOCK = threading.Lock()
_RUNNING: dict[Path, _Download] = {}
"""Downloads of this process, by where their files will lie."""


class Downloads:
    """The files kept below a folder, for builds that share them (one trust domain). Safe for threads and processes.

    ``fetched``: what was read from servers for the build of this object.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.fetched: list[FetchedFile] = []

    def files(self) -> list[Path]:
        """All files that are kept below the folder, of every trust domain."""
        places = [*self._folder.glob("*/sha*/??/*"), *self._folder.glob("*/address/??/*")]
        return sorted(place for place in places if place.is_file())

    def remains(self) -> list[Path]:
        """Parts of downloads that can no longer be under way."""
        found = []
        for part in sorted(self._folder.glob(f"*/{PARTS}/*")):
            with suppress(OSError):
                if part.suffix != ".lock" and time.time() - part.stat().st_mtime > MAX_SECONDS:
                    found.append(part)
        return found

    def verified(self, expected: Hash, ask: Callable[[], Answer]) -> Stored | Arriving:
        """A file with that hash, read with ``ask`` unless it is kept already. Raises Failed."""
        final = self._folder / expected.algorithm / expected.value[:2] / expected.value
        return self._reader(final, expected, ask)

    def by_address(self, address: str, modified: str, ask: Callable[[], Answer]) -> Stored | Arriving:
        """The file at an address as of ``modified`` (the server's words). Raises Failed."""
        name = hashlib.sha256(f"{address}\n{modified}".encode()).hexdigest()
        return self._reader(self._folder / "address" / name[:2] / name, None, ask)

    def _reader(self, final: Path, expected: Hash | None, ask: Callable[[], Answer]) -> Stored | Arriving:
        with _LOCK:
            if (download := _RUNNING.get(final)) is None:
                with suppress(FileNotFoundError):
                    stream = final.open("rb")
                    with suppress(OSError):
                        os.utime(final)  # for `reprokit gc`, which removes what was not used for long
                    return Stored(stream, final.name)
                download = _RUNNING[final] = _Download(self._folder, final, expected, ask, self.fetched.append)
                begins = True
            else:
                begins = False
            with download.changed:
                download.readers += 1
        if begins:
            threading.Thread(target=download.run, name="gateway-download", daemon=True).start()
        return Arriving(download, final.name)

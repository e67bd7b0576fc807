"""The journal of a run: JSON lines beside its logs, in which each record is before it is shown. Imports no database.

Each line begins with the CRC-32 of the rest, so that a damaged or half-written one is recognised. A line is in the
kernel when it is written: a killed process loses nothing. ``sync`` brings it to the disk.
"""

from __future__ import annotations

import json
import os
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from reprokit.core import json_text
from reprokit.core.errors import RecordError
from reprokit.core.files import open_regular
from reprokit.core.json_record import decoder, encoded, fits
from reprokit.store.errors import StoreError, Trouble
from reprokit.store.places import RUNS, below, is_name, names_in

FILE = "journal.jsonl"
PENDING = "pending"
"""The folder of the store that has an empty file for each run whose journal the database may not have whole."""

PATIENCE_SECONDS = 30.0  # how long a record waits for a disk that is full
HURRY_SECONDS = 5.0  # the same after an interrupt
WAIT_SECONDS = (0.05, 1.0)  # the first and the longest wait between two attempts


T = TypeVar("T")
CaseTexts = Mapping[str, tuple[str, str, str]]  # case digest -> (id, title, text)


@dataclass(frozen=True)
class Entry:
    """One line: its ``kind`` ('' for a damaged line), its content, and where in the file the next line begins."""

    kind: str
    _content: Mapping[str, Any]
    end: int

    def read(self, key: str, hint: type[T]) -> T:
        """What the line says under a key. Raises ValueError for what no reprokit wrote."""
        try:
            value = decoder(hint)(self._content[key])
        except (KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(str(error)) from error
        if not fits(value, hint):
            raise ValueError("a field has a value of another type")
        return cast("T", value)


def path_of(folder: Path, run_id: str) -> Path:
    """The journal of a run of the store in ``folder``. Raises StoreError for an id that is not a name, and a link."""
    return below(folder, RUNS, run_id, FILE)


def pending(folder: Path) -> list[str]:
    """The runs whose journals the database may not have whole."""
    return names_in(folder, PENDING)


def mark_pending(folder: Path, run_id: str) -> None:
    """Remember that the database may not have a run's journal whole. The caller holds the store's lock."""
    mark = below(folder, PENDING, run_id)
    mark.parent.mkdir(exist_ok=True)
    mark.touch()


def recorded(folder: Path) -> list[str]:
    """The runs that have a journal, the oldest first."""
    if (folder / RUNS).is_symlink():
        return []
    found = folder.glob(f"{RUNS}/*/{FILE}")
    return sorted(
        path.parent.name
        for path in found
        if is_name(path.parent.name) and not path.parent.is_symlink() and not path.is_symlink()
    )


def entries(path: Path, start: int = 0) -> Iterator[Entry]:
    """The lines from the byte ``start`` on, without a last one that is only half written."""
    with _open(path) as stream:
        stream.seek(start)
        for line in stream:
            if not line.endswith(b"\n"):
                return
            start += len(line)
            yield Entry(*_content(line), start)


def _open(path: Path) -> BinaryIO:
    try:
        return open_regular(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StoreError(f"the journal {path} cannot be read: {error.strerror}", Trouble.OTHER) from error


def _content(line: bytes) -> tuple[str, Mapping[str, Any]]:
    head, _, body = line.rstrip(b"\n").partition(b",")
    if head == _head(body):
        with suppress(ValueError, KeyError, RecursionError):
            data = json_text.loads(b"{" + body)
            return str(data.pop("kind")), data
    return "", {}


def line_of(kind: str, /, **values: object) -> bytes:
    """A line of a journal: records, by the keys under which :meth:`Entry.read` finds them."""
    body = json.dumps({"kind": kind, **encoded(values)}, separators=(",", ":"))[1:].encode("ascii")
    return _head(body) + b"," + body + b"\n"


def _head(body: bytes) -> bytes:
    return b'{"crc32":"%08x"' % zlib.crc32(body)


class Journal:
    """Appends to the journal of one run, from any thread. ``hurry``: set when the run was interrupted."""

    def __init__(self, path: Path, hurry: threading.Event | None = None) -> None:
        """Open, and create when new. Raises RecordError."""
        self.path = path
        self.hurry = hurry or threading.Event()
        self._lock = threading.Lock()
        self._failed: RecordError | None = None
        self._synced = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            self._file = os.open(path, flags, 0o666)
        except OSError as error:
            raise self._error(error) from error
        size = self.size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            self.append(b"\n")  # behind the half line of a process that was killed

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return os.fstat(self._file).st_size

    def append(self, line: bytes) -> None:
        """Write one line whole; wait where the disk is full. Raises RecordError where that is of no use, ever after."""
        began, wait = time.monotonic(), WAIT_SECONDS[0]
        with self._lock:
            while self._failed is None:
                try:
                    return self._attempt(line)
                except OSError as error:
                    patience = HURRY_SECONDS if self.hurry.is_set() else PATIENCE_SECONDS
                    if time.monotonic() - began > patience:
                        self._failed = self._error(error)
                        raise self._failed from error
                time.sleep(wait)
                wait = min(2 * wait, WAIT_SECONDS[1])
            raise self._failed

    def _attempt(self, line: bytes) -> None:
        before = os.fstat(self._file)
        if before.st_nlink == 0:
            self._failed = RecordError(f"the run cannot be recorded: {self.path} was removed while it was written")
            raise self._failed
        try:
            while line:
                line = line[os.write(self._file, line) :]
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._file, before.st_size)
            raise

    def _error(self, error: OSError) -> RecordError:
        return RecordError(
            f"the run cannot be recorded: {self.path}: {error.strerror or error}; make room or name another store with "
            "--store. Everything that was shown is kept: `reprokit run --resume` continues an interrupted run"
        )

    def sync(self) -> None:
        """Bring what was written to the disk itself, which a power cut does not take."""
        size = self.size
        if size != self._synced:
            with suppress(OSError):  # a file system that cannot
                os.fdatasync(self._file)
            self._synced = size

    def close(self) -> None:
        """Sync, and give the file back.

        Whoever writes later, a thread that was given up say, gets a RecordError: the number of the descriptor may be
        that of another file by then, such as the database.
        """
        with self._lock:
            self.sync()
            self._failed = self._failed or RecordError(f"{self.path} is closed: its run has ended")
            os.close(self._file)

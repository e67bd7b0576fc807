"""A store, or runs of it, in one file: a tar archive of journals and logs, as they lie in the store's folder.

A backup is all of the folder but the database, which is made again from the journals; it is whole also while runs
write. What is imported is read as untrusted input, and merged as stores of jobs are.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tarfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePath
from typing import BinaryIO, cast

from reprokit.core.errors import RecordError, UsageError
from reprokit.core.files import open_regular
from reprokit.core.json_record import JsonDocument
from reprokit.core.ownership import private_folder
from reprokit.core.text import pluralize
from reprokit.store.database import Store, lines_of
from reprokit.store.errors import StoreError
from reprokit.store.journal import FILE, PENDING, path_of, recorded
from reprokit.store.merging import StoreSource, merge, read
from reprokit.store.places import RUNS, is_log, logs_in, open_log
from reprokit.store.sqlite_file import DATABASE
from reprokit.store.upkeep import copy

LARGEST_JOURNAL, LARGEST_JOURNALS = 256 << 20, 1 << 30
"""Bytes of the journal of one run, and of all runs, of an archive that is imported."""
LARGEST_LOG = 1 << 30
LARGEST_HEADER = 1 << 20
Members = Callable[[], Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]]


def back_up(store: Store, target: Path) -> int:
    """Write the store's folder to an archive; returns the number of runs. Raises UsageError, RecordError."""
    if target.resolve().is_relative_to(store.folder.resolve()):
        raise UsageError(f"{target} is in the store: name a file outside of {store.folder}")
    with private_folder("backup") as scratch, _archive(target) as archive:
        folder = store.folder
        if store.file is None:  # other hosts have journals and logs of their own
            with closing(Store(scratch, f"sqlite:///{scratch / DATABASE}")) as whole:
                copy(store, whole)
            folder = scratch
        else:
            for run_id in {run.id for run in store.runs(limit=None)} - set(recorded(folder)):
                store.record(run_id)  # its folder was removed by hand
        runs = recorded(folder)
        journals = [path_of(folder, run_id) for run_id in runs]
        # First: the logs of all that they have decided are there, also of a run that goes on meanwhile.
        for path in chain(journals, (one for one in _files(folder) if one.name != FILE)):
            _add(archive, lambda path=path: open_regular(path), str(path.relative_to(folder)))  # type: ignore[misc]
        for run_id in runs:
            archive.addfile(tarfile.TarInfo(f"{PENDING}/{run_id}"))
    return len(runs)


def _files(folder: Path) -> Iterator[Path]:
    """What is kept of a store's folder beside the database, the locks and the marks."""
    for place in sorted(folder.iterdir()):
        if place.is_symlink():
            continue
        if place.is_dir() and place.name in (RUNS, "measured"):
            yield from (path for path in sorted(place.rglob("*")) if path.is_file() and not path.is_symlink())
        elif place.name in ("bases.json", ".gitignore"):
            yield place


def _add(archive: tarfile.TarFile, opened: Callable[[], BinaryIO], name: str) -> None:
    """Add a file as long as it is now: a run may append to it, or remove it. One that is a link or a pipe is left."""
    try:
        stream = opened()
    except (OSError, StoreError):
        return
    with stream:
        info = archive.gettarinfo(arcname=name, fileobj=stream)
        if PurePath(name).name == FILE:  # whole, even where its writer takes a half line back
            _add_text(archive, name, stream.read(info.size))
        else:
            archive.addfile(info, stream)


def _add_text(archive: tarfile.TarFile, name: str, text: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(text)
    archive.addfile(info, io.BytesIO(text))


@contextmanager
def _archive(target: Path) -> Iterator[tarfile.TarFile]:
    """A new archive, whole or not at all; compressed where its name says so. Raises UsageError, RecordError."""
    if target.exists() and not target.is_file():
        raise UsageError(f"{target} is not a regular file: name a file for the archive")
    scratch = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        scratch.touch(mode=0o600)  # it holds logs
        with tarfile.open(scratch, "w:gz" if target.suffix in (".gz", ".tgz") else "w") as archive:
            yield archive
        scratch.replace(target)
    except OSError as error:
        raise RecordError(f"{target} cannot be written: {error.strerror or error}") from error
    finally:
        scratch.unlink(missing_ok=True)


def export(store: Store, target: Path, runs: Iterable[str] = ()) -> int:
    """Write runs, all or these, with their logs; returns their number. Raises UsageError, RecordError."""
    ids = list(dict.fromkeys(store.run(one).id for one in runs)) or [run.id for run in reversed(store.runs(limit=None))]
    with _archive(target) as archive:
        for run_id in ids:
            run = store.run(run_id)
            lines = lines_of(run, store.texts(cell.case_digest for cell in run.cells), store.findings(run_id))
            _add_text(archive, f"{RUNS}/{run_id}/{FILE}", b"".join(lines))
            for log in dict.fromkeys(logs_in(run)):
                _add(archive, lambda log=log: os.fdopen(open_log(store.folder, log), "rb"), log)  # type: ignore[misc]
    return len(ids)


@dataclass(frozen=True)
class ImportResult(JsonDocument):
    """What `store import` took over; `added`: runs that the store did not have like this."""

    FORMAT = "reprokit-store-import/v1"

    added: int
    problems: list[str]


@dataclass(frozen=True, kw_only=True)
class ImportLimits:
    """The most of an archive that is imported: ``size`` in bytes once it is unpacked, and ``entries``."""

    size: int
    entries: int


def import_(store: Store, source: Path, now: str, limits: ImportLimits) -> ImportResult:
    """Add the runs of an archive to the store, as ``reprokit store merge`` does. Raises UsageError where it has none.

    Runs that cannot be taken over, and files that no run names, are left out and listed in ``problems``.
    """
    with unpacked(source, limits) as found:
        done = merge([found], store, None, now)
        return ImportResult(done.changed, done.problems)


@contextmanager
def unpacked(source: Path, limits: ImportLimits) -> Iterator[StoreSource]:
    """What an archive holds, as untrusted as it is, with its logs in a folder that ends with the block.

    Raises UsageError where it has no runs.
    """
    with private_folder("import") as scratch:
        folder = scratch.resolve()
        try:
            members = partial(_members, source, limits)
            journals = _extract(members, folder, lambda name: name.endswith(f"/{FILE}"), LARGEST_JOURNAL)
            if not journals:
                raise UsageError(f"{source} is not an export of a store: `reprokit store export` writes one")
            found = read(source.name, folder)
            wanted = {log for run in found.runs for log in logs_in(run)} - journals
            logs = _extract(members, folder, wanted.__contains__, LARGEST_LOG)
            beside = (f"{PENDING}/", "measured/", "bases.json", ".gitignore")  # of a backup
            others = sum(not one.isdir() and not one.name.startswith(beside) for _, one in members())
            others -= len(journals) + len(logs)
        except (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, zlib.error) as error:
            raise UsageError(f"{source} cannot be read as an export of a store: {error}") from error
        if others:
            found = replace(
                found, problems=(*found.problems, f"has {pluralize(others, 'file')} that no run names as its log")
            )
        yield found


class _Pieces(io.BufferedIOBase):
    """A stream of which no piece is read that is larger than a header may be: tarfile reads those whole."""

    def __init__(self, stream: BinaryIO) -> None:
        self.seek, self.tell = stream.seek, stream.tell  # type: ignore[method-assign]
        self._stream = stream

    def read(self, size: int | None = -1, /) -> bytes:
        if not 0 <= (size or 0) <= LARGEST_HEADER:
            raise ValueError(f"a header in it has {size} bytes")
        return self._stream.read(size or 0)


def _members(source: Path, limits: ImportLimits) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The members of an archive. Raises UsageError, TarError and more for one that is too large, or not an archive."""
    size = entries = 0
    with source.open("rb") as raw, gzip.open(raw) as unpacked:
        stream = unpacked if raw.read(2) == b"\x1f\x8b" else raw
        raw.seek(0)
        with tarfile.open(fileobj=_Pieces(cast(BinaryIO, stream)), mode="r:") as archive:
            while (member := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined]  # there may be any number of them
                size, entries = size + member.size, entries + 1
                if size > limits.size:
                    raise UsageError(f"{source} holds at least {size} bytes: raise max_fetch_size ({limits.size})")
                if entries > limits.entries:
                    raise UsageError(f"{source} holds more than {limits.entries} files: raise max_fetch_entries")
                yield archive, member


def _extract(members: Members, folder: Path, is_wanted: Callable[[str], bool], largest: int) -> set[str]:
    """Write files of an archive to ``folder``, no link and nothing outside of its ``runs``; their names."""
    found, left = set[str](), LARGEST_JOURNALS
    for archive, member in members():
        stream = archive.extractfile(member) if member.isreg() else None
        if stream is None or not is_log(member.name) or not is_wanted(member.name) or member.name in found:
            continue
        left -= member.size if largest == LARGEST_JOURNAL else 0
        if member.size > largest or left < 0:
            raise UsageError(f"{member.name} has {member.size} bytes, which is too large to be imported")
        target = folder / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as copied:
            shutil.copyfileobj(stream, copied)
        found.add(member.name)
    return found

"""A store in one file: a backup of all that is in its folder, and an export of runs that any version reads.

A backup is a tar archive of the store's folder as it was at one moment, also while runs write. An export is a tar
archive of JSON lines and logs; what is imported is validated as untrusted input, and merged as stores of jobs are.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import IO, Any, BinaryIO

from reprokit.core import json_text
from reprokit.core.errors import RecordError, UsageError
from reprokit.core.files import open_regular
from reprokit.core.ownership import private_folder
from reprokit.core.text import pluralize
from reprokit.core.version import __version__
from reprokit.evidence.records import RunRecord
from reprokit.store.copying import snapshot
from reprokit.store.database import Store
from reprokit.store.errors import StoreError
from reprokit.store.files import files_of
from reprokit.store.journal import FILE, PENDING, pending, recorded
from reprokit.store.logs import logs_in
from reprokit.store.merging.merge import MergeResult, merge
from reprokit.store.merging.sources import StoreSource
from reprokit.store.places import is_log, is_name, open_log
from reprokit.store.sqlite_file import DATABASE, backup
from reprokit.store.validating import unfit

FORMAT = "reprokit-store/v1"
LINES = "reprokit-store.jsonl"
"""The first member of an export."""
LONGEST_LINE = 64 << 20
"""Bytes of a line of an export that is imported: a run with all its cells."""
LARGEST_LOG = 1 << 30


def back_up(store: Store, target: Path) -> int:
    """Write the store's folder to an archive; returns the number of runs. Raises UsageError, RecordError.

    The database is copied first: of what runs write meanwhile, the journals have the rest, and are marked to be added.
    """
    folder = store.folder
    if target.resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{target} is in the store: name a file outside of {folder}")
    marks, begun = set(pending(folder)), set(recorded(folder))
    with private_folder("backup") as scratch, _archive(target) as archive:
        copy = scratch / DATABASE
        if store.file is not None:
            backup(store.file, copy)
        else:  # what is restored is a store in a folder, which `reprokit store copy` brings to a server again
            snapshot(store, scratch).close()
        archive.add(copy, DATABASE)
        known = {str(path.relative_to(folder)): path for path in _files(folder)}
        for name in _elsewhere(store, known):
            _add(archive, lambda name=name: os.fdopen(open_log(folder, name), "rb"), name)  # type: ignore[misc]
        for path in known.values():
            _add(archive, lambda path=path: open_regular(path), str(path.relative_to(folder)))  # type: ignore[misc]
        for run_id in marks | set(pending(folder)) | (set(recorded(folder)) - begun):
            archive.addfile(tarfile.TarInfo(f"{PENDING}/{run_id}"))
    return len(store.runs(limit=None))


def _elsewhere(store: Store, known: Collection[str]) -> Iterator[str]:
    """The logs that other hosts of the store wrote."""
    if store.file is None and files_of(store.folder):
        for run in store.runs(limit=None):
            yield from (log for log in logs_in(store.run(run.id)) if log not in known and is_log(log))


def _files(folder: Path) -> Iterator[Path]:
    """What is kept of a store's folder beside the database, the locks and the marks."""
    for place in sorted(folder.iterdir()):
        if place.is_symlink():
            continue
        if place.is_dir() and place.name in ("runs", "measured"):
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
            text = stream.read(info.size)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
        else:
            archive.addfile(info, stream)


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
    ids = [store.run(one).id for one in runs] or [run.id for run in reversed(store.runs(limit=None))]
    with tempfile.TemporaryFile() as lines, _archive(target) as archive:
        logs: dict[str, None] = {}
        _line(lines, {"format": FORMAT, "version": __version__})
        for run_id in ids:
            run = store.run(run_id)
            for digest, (case_id, title, text) in store.texts(cell.case_digest for cell in run.cells).items():
                _line(lines, {"kind": "case", "digest": digest, "id": case_id, "title": title, "text": text})
            _line(lines, {"kind": "run", "run": run.to_json(), "findings": store.findings(run_id)})
            logs |= dict.fromkeys(logs_in(run))
        info = tarfile.TarInfo(LINES)
        info.size = lines.tell()
        lines.seek(0)
        archive.addfile(info, lines)
        for name in logs:
            _add(archive, lambda name=name: os.fdopen(open_log(store.folder, name), "rb"), name)  # type: ignore[misc]
    return len(ids)


def _line(stream: IO[bytes], data: Mapping[str, Any]) -> None:
    stream.write(json.dumps(data, separators=(",", ":")).encode("ascii") + b"\n")


@dataclass
class _Content:
    """What the lines of an export say, validated."""

    runs: list[RunRecord] = field(default_factory=list)
    texts: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    findings: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def import_(store: Store, source: Path, now: str) -> MergeResult:
    """Add the runs of an export to the store, as ``reprokit merge`` does. Raises UsageError where it is not an export.

    Runs that cannot be taken over, and logs that no run names, are left out and listed in ``problems``.
    """
    with tempfile.TemporaryDirectory(dir=store.folder, prefix=".import-") as scratch:
        try:
            with tarfile.open(source) as archive:
                content = _content(archive, source)
                _extract(archive, content, Path(scratch))
        except (tarfile.TarError, EOFError, OSError) as error:
            raise UsageError(f"{source} cannot be read as an export of a store: {error}") from error
        found = StoreSource(
            name=source.name,
            folder=Path(scratch).resolve(),
            runs=tuple(content.runs),
            texts=content.texts,
            findings=content.findings,
        )
        done = merge([found], store, None, now)
    done.problems[:0] = content.problems
    return done


def _content(archive: tarfile.TarFile, source: Path) -> _Content:
    first = archive.next()
    lines = archive.extractfile(first) if first is not None and first.name == LINES and first.isreg() else None
    header = _parsed(lines.readline(LONGEST_LINE)) if lines is not None else None
    if lines is None or header is None or header.get("format") != FORMAT:
        raise UsageError(f"{source} is not an export of a store ({FORMAT}): `reprokit store export` writes one")
    content = _Content()
    number = 1
    while line := lines.readline(LONGEST_LINE):
        number += 1
        if not line.endswith(b"\n"):
            raise UsageError(f"{source}: line {number} of {LINES} is longer than {LONGEST_LINE >> 20} MB, or not whole")
        if why := _take(content, _parsed(line)):
            content.problems.append(f"line {number}: {why}")
    return content


def _parsed(line: bytes) -> dict[str, Any] | None:
    try:
        data = json_text.loads(line)
    except ValueError:
        return None
    return data if isinstance(data, dict) else None


def _take(content: _Content, data: dict[str, Any] | None) -> str:
    """Take over what one line says; returns why it cannot be."""
    if data is None:
        return "not a JSON object"
    if data.get("kind") == "case":
        words = [data.get(key) for key in ("digest", "id", "title", "text")]
        digest, case_id, title, text = (word if isinstance(word, str) else "" for word in words)
        if not digest or len(digest) > 80 or not is_name(case_id, 200):
            return "a case without a digest, or without an id that is a name"
        content.texts[digest] = (case_id, title, text)
        return ""
    if data.get("kind") != "run":
        return ""  # of a newer version
    try:
        run = RunRecord.from_json(data["run"])
        why = unfit(run) or next(
            (f"the log {log[:50]!r} is not a path in a store" for log in logs_in(run) if not is_log(log)), ""
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        return f"a run that cannot be read: {type(error).__name__}: {error}"
    if why:
        return f"a run that cannot be taken over: {why}"
    content.runs.append(run)
    findings = data.get("findings")
    if isinstance(findings, dict):
        content.findings[run.id] = {key: value for key, value in findings.items() if len(key) <= 400}
    return ""


def _extract(archive: tarfile.TarFile, content: _Content, folder: Path) -> None:
    """Write the logs that the runs name to ``folder``; nothing else of the archive, and no link."""
    wanted = {log for run in content.runs for log in logs_in(run)}
    others = 0
    while (member := archive.next()) is not None:
        stream = archive.extractfile(member) if member.isreg() else None
        if member.name not in wanted or not is_log(member.name) or member.size > LARGEST_LOG or stream is None:
            others += 1
            continue
        target = folder / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as log:
            shutil.copyfileobj(stream, log)
    if others:
        content.problems.append(f"{pluralize(others, 'file')} that no run names as its log")

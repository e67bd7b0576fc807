"""Takes the files out of a trial that its case compares, into one archive on this host, bounded and without links."""

from __future__ import annotations

import base64
import fnmatch
import io
import json
import os
import posixpath
import stat
import tarfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from reprokit.core.errors import EngineError
from reprokit.core.text import one_line
from reprokit.engine.wire import ANSWER_WITHIN, raise_for_status

if TYPE_CHECKING:
    from reprokit.engine.wire import Wire

MOST = 64 << 20
"""Bytes of all outputs of a trial."""
MOST_FILES = 1000
MOST_LOOKED_AT = 1 << 30
"""Bytes of a folder that are read to find its outputs."""
MOST_ENTRIES = 100_000
LONGEST_PATH = 500
NOT_FOUND = 404
_STATUS = "X-Docker-Container-Path-Stat"
_PLAIN = {"Accept-Encoding": "identity"}
_ATTEMPTS = 4
"""Podman (4.3, on a busy host) answers one request in some hundreds with success and no content."""
_PAUSE = 0.25
"""Seconds between two attempts."""

_OWN_FOLDER = "let the command write them to a folder of their own, and name it in expect.compare.outputs"
_Entry = tuple[str, str, int, "IO[bytes] | None"]
"""A path below workdir, what it is instead of a regular file, its bytes, its content."""


class OutputsRefused(Exception):
    """Why the outputs of a trial are not kept, in words."""


class Collector:
    """Gets the outputs of one trial, which match ``patterns`` below its workdir, and writes them to ``file``.

    Where they are refused, the archive has the reason instead.
    """

    def __init__(self, patterns: Sequence[str], file: Path) -> None:
        self.patterns = tuple(posixpath.normpath(one) for one in patterns)
        self._file = file

    def from_folder(self, top: Path) -> None:
        """Take them from a folder of this host that foreign code wrote to: no link in it is followed."""
        self._keep(_of_folder(top, self.places()))

    def from_container(self, wire: Wire, name: str, workdir: str) -> None:
        """Take them from a container that has ended. Raises EngineError where the engine does not answer."""
        try:
            with wire.errors():
                self._keep(_of_container(wire, name, workdir, self.places()))
        except tarfile.TarError as error:
            raise EngineError(f"the outputs of the trial cannot be read from its container: {error}") from error

    def places(self) -> list[str]:
        """The files, and the folders above wildcards, that are to be looked through; '' is the whole workdir."""
        found = []
        for pattern in self.patterns:
            fixed = []
            for part in pattern.split("/"):
                if any(c in part for c in "*?["):
                    break
                fixed.append(part)
            found.append("/".join(fixed))
        return [one for one in dict.fromkeys(found) if not any(_is_below(one, each) for each in found if each != one)]

    def wants(self, path: str) -> bool:
        """Whether a path below workdir is one of the outputs."""
        return any(_matches(path.split("/"), pattern.split("/")) for pattern in self.patterns)

    def _keep(self, entries: Iterable[_Entry]) -> None:
        total = 0
        taken: dict[str, bytes] = {}
        try:
            for path, odd, size, content in entries:
                if not self.wants(path):
                    continue
                shown = one_line(path)[:100]
                if odd:
                    raise OutputsRefused(f"the output {shown} is {odd}: only regular files are compared")
                total += size
                if total > MOST:
                    large = f"the outputs are too large: {shown} has {size / (1 << 20):,.1f} MiB"
                    raise OutputsRefused(f"{large}, and at most {MOST >> 20} MiB of all outputs together are compared")
                if len(taken) >= MOST_FILES or len(path) > LONGEST_PATH:
                    raise OutputsRefused(
                        f"there are more than {MOST_FILES} outputs, or a path has {LONGEST_PATH} characters"
                    )
                taken[path] = content.read(size) if content is not None else b""
            _write(self._file, taken)
        except OutputsRefused as error:
            _write(self._file, {}, refused=str(error))


def unpacked(archive: bytes) -> dict[str, bytes]:
    """What :class:`Collector` wrote, by path. Raises OutputsRefused with a reason, ValueError for other content."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:") as tar:
            for member in tar:
                if member.issym():
                    raise OutputsRefused(member.linkname)
                content = tar.extractfile(member) if member.isreg() else None
                if content is None or len(found) >= MOST_FILES:
                    raise ValueError("it is not an archive of outputs")
                found[member.name] = content.read()
    except (tarfile.TarError, EOFError) as error:
        raise ValueError(str(error)) from None
    return found


def _write(file: Path, outputs: dict[str, bytes], *, refused: str = "") -> None:
    with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as tar:
        if refused:  # as a link, which no output is
            entry = tarfile.TarInfo("refused")
            entry.type, entry.linkname = tarfile.SYMTYPE, refused
            tar.addfile(entry)
        for path, data in sorted(outputs.items()):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))


def _is_below(path: str, folder: str) -> bool:
    return not folder or path.startswith(f"{folder}/")


def _matches(path: Sequence[str], pattern: Sequence[str]) -> bool:
    """As globs of paths do: ``*`` within a name, ``**`` for any number of folders."""
    if not pattern or not path:
        return not pattern and not path
    if pattern[0] == "**":
        return _matches(path, pattern[1:]) or _matches(path[1:], pattern)
    return fnmatch.fnmatchcase(path[0], pattern[0]) and _matches(path[1:], pattern[1:])


def _of_folder(top: Path, places: Sequence[str]) -> Iterator[_Entry]:
    """Walked by descriptors: what is a folder now may be a link when it is opened."""
    entries = 0
    root = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for folder, names, files, at in os.fwalk(".", dir_fd=root, follow_symlinks=False):
            here = posixpath.normpath(folder)
            here = "" if here == "." else f"{here}/"
            names[:] = [one for one in names if any(_leads(here + one, place) for place in places)]
            for name in sorted(files):
                _count(entries)
                entries += 1
                if any(_leads(here + name, place) for place in places):
                    yield from _of_file(here + name, name, at)
    finally:
        os.close(root)


def _leads(path: str, place: str) -> bool:
    return path == place or _is_below(path, place) or _is_below(place, path)


def _of_file(path: str, name: str, at: int) -> Iterator[_Entry]:
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    except OSError:
        yield path, "a link or a device, or cannot be read", 0, None
        return
    with os.fdopen(file, "rb") as stream:
        status = os.fstat(file)
        odd = "" if stat.S_ISREG(status.st_mode) else "a pipe or a device"
        yield path, odd, status.st_size, stream


def _of_container(wire: Wire, name: str, workdir: str, places: Sequence[str]) -> Iterator[_Entry]:
    """By the engine's archives, which resolve links within the container, and mark the links in a folder as such."""
    for place in places:
        for attempts_left in reversed(range(_ATTEMPTS)):
            try:
                yield from _of_answer(wire, name, posixpath.join(workdir, place), place)
                break
            except _EmptyAnswer:
                if not attempts_left:
                    raise EngineError(
                        "the outputs of the trial cannot be read from its container: "
                        f"the engine answered {_ATTEMPTS} times with an empty archive"
                    ) from None
                time.sleep(_PAUSE)


class _EmptyAnswer(Exception):
    """An archive without even the entry that was asked for."""


def _of_answer(wire: Wire, name: str, path: str, place: str) -> Iterator[_Entry]:
    """Raises _EmptyAnswer before the first entry only."""
    url = wire.url(f"/containers/{name}/archive")
    answer = wire.client().get(url, params={"path": path}, headers=_PLAIN, stream=True, timeout=ANSWER_WITHIN)
    with answer:
        if answer.status_code == NOT_FOUND:
            return
        raise_for_status(answer)
        if _is_link(answer.headers.get(_STATUS, ""), path):
            return  # Podman follows it
        stream = _Bounded(answer.raw)
        try:
            yield from _of_archive(stream, place)
        except tarfile.TarError:
            if stream.is_untouched():
                raise _EmptyAnswer from None
            raise


def _is_link(status: str, path: str) -> bool:
    """Whether what the engine describes so, in its own header, leads elsewhere."""
    try:
        target = json.loads(base64.b64decode(status))["linkTarget"]
    except (ValueError, KeyError, TypeError):
        return False
    return bool(target) and posixpath.normpath(target) != posixpath.normpath(path)


def _of_archive(stream: _Bounded, place: str) -> Iterator[_Entry]:
    """An archive that begins with the name of what was asked for, a folder or a file."""
    with tarfile.open(fileobj=stream, mode="r|") as tar:  # type: ignore[call-overload]
        for number, member in enumerate(tar):
            _count(number)
            if member.isdir():
                continue
            below = member.name.strip("/").partition("/")[2]
            odd = "" if member.isreg() else "a link or a device"
            content = tar.extractfile(member) if member.isreg() else None
            yield posixpath.join(place, below) if below else place, odd, member.size, content


def _count(number: int) -> None:
    if number >= MOST_ENTRIES:
        raise OutputsRefused(f"more than {MOST_ENTRIES} files lie where the outputs are looked for: {_OWN_FOLDER}")


class _Bounded:
    """A stream of which no more is read than :data:`MOST_LOOKED_AT`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._left = MOST_LOOKED_AT

    def read(self, size: int) -> bytes:
        data = bytes(self._stream.read(size))
        self._left -= len(data)
        if self._left < 0:
            much = f"more than {MOST_LOOKED_AT >> 20} MiB lie where the outputs are looked for"
            raise OutputsRefused(f"{much}: {_OWN_FOLDER}")
        return data

    def is_untouched(self) -> bool:
        """Whether not a byte came."""
        return self._left == MOST_LOOKED_AT

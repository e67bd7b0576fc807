"""The build context as a tar stream: the same input gives the same bytes, and nothing large is held in memory."""

from __future__ import annotations

import stat
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

from reprokit.core.errors import EngineError

DOCKERFILE = "Dockerfile"
_CHUNK = 256 * 1024


def stream(dockerfile: str, context: Mapping[str, bytes | Path]) -> Iterator[bytes]:
    """Yield a tar archive of the Dockerfile and the context, in pieces of at most 256 KiB.

    Deterministic: sorted by path, owner 0, time 0, mode 0755 or 0644 as the file is executable or not. Raises
    EngineError when a file of the host cannot be read.
    """
    entries = {**context, DOCKERFILE: dockerfile.encode()}
    folders = {str(parent) for name in entries for parent in PurePosixPath(name).parents} - {"."}
    for name in sorted({*folders, *entries}):
        try:
            if name in entries:
                yield from _entry(name, entries[name])
            else:
                yield _header(name, tarfile.DIRTYPE, 0o755)
        except OSError as error:
            raise EngineError(f"the build context cannot be read: {error.filename}: {error.strerror}") from error
    yield bytes(2 * tarfile.BLOCKSIZE)


def _entry(name: str, content: bytes | Path) -> Iterator[bytes]:
    if isinstance(content, bytes):
        yield _header(name, tarfile.REGTYPE, 0o644, size=len(content))
        for start in range(0, len(content), _CHUNK):
            yield content[start : start + _CHUNK]
        yield bytes(-len(content) % tarfile.BLOCKSIZE)
        return
    status = content.lstat()
    kind = status.st_mode
    if stat.S_ISLNK(kind):
        yield _header(name, tarfile.SYMTYPE, 0o777, link=str(content.readlink()))
    elif stat.S_ISDIR(kind):
        yield _header(name, tarfile.DIRTYPE, 0o755)
        for child in sorted(content.iterdir()):
            yield from _entry(f"{name}/{child.name}", child)
    elif stat.S_ISREG(kind):
        yield _header(name, tarfile.REGTYPE, 0o755 if kind & 0o111 else 0o644, size=status.st_size)
        yield from _file(content, status.st_size)
    # Sockets, pipes and devices have no content to send.


def _header(name: str, kind: bytes, mode: int, *, size: int = 0, link: str = "") -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.size, info.linkname = kind, mode, size, link
    return info.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _file(path: Path, size: int) -> Iterator[bytes]:
    left = size
    with path.open("rb") as reader:
        while left:
            data = reader.read(min(_CHUNK, left))
            if not data:
                raise EngineError(f"the build context changed while it was sent: {path} became shorter")
            left -= len(data)
            yield data
    yield bytes(-size % tarfile.BLOCKSIZE)

"""Files that are written whole or not at all, and what folders hold."""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO


@functools.cache
def shipped(name: str) -> Path:
    """What comes with reprokit beside its modules: inside the package when installed, at the top of a checkout."""
    package = Path(__file__).resolve().parents[1]
    return next(place for place in (package / name, package.parent / name) if place.exists())


def unused(name: str, suffix: str) -> Path:
    """A file of that name in the current folder that is not there yet: ``x.yaml``, ``x-2.yaml`` ..."""
    number = 1
    while (path := Path(f"{name}{f'-{number}' if number > 1 else ''}{suffix}")).exists():
        number += 1
    return path


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all; a target that is not a regular file (a device, a pipe) is written directly."""
    path = path.resolve()  # a symbolic link stays one
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, scratch = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            stream.write(text)
        umask = os.umask(0)
        os.umask(umask)
        Path(scratch).chmod(0o666 & ~umask)
        Path(scratch).replace(path)
    except BaseException:
        Path(scratch).unlink(missing_ok=True)
        raise


def open_regular(path: Path) -> BinaryIO:
    """A file for reading. Raises OSError for what is not a regular file: a pipe or a device may never end."""
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise OSError(errno.EINVAL, f"it is {_KINDS.get(stat.S_IFMT(mode), 'not a regular file')}", str(path))
    return os.fdopen(file, "rb")


def read_regular(path: Path, most: int) -> bytes:
    """What is in a regular file. Raises OSError, too, where that is more than ``most`` bytes."""
    with open_regular(path) as stream:
        data = stream.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"it has more than {most / 1e6:g} MB", str(path))
    return data


_KINDS = {
    stat.S_IFIFO: "a named pipe, not a regular file",
    stat.S_IFCHR: "a device, not a regular file",
    stat.S_IFBLK: "a device, not a regular file",
    stat.S_IFDIR: "a folder, not a regular file",
}


def file_digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    found = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            found.update(piece)
    return found.hexdigest()


def used_bytes(place: Path) -> int:
    """Bytes that a file, or what is below a folder, uses; 0 where there is none. What cannot be read does not count."""
    total, waiting = 0, [place]
    while waiting:
        with contextlib.suppress(OSError):
            one = waiting.pop()
            if one.is_dir() and not one.is_symlink():
                waiting += one.iterdir()
            else:
                total += one.lstat().st_blocks * 512
    return total


def newest(place: Path) -> float:
    """When a file or folder, or something directly in it, was changed last, in seconds since 1970; 0.0 without one."""
    moments = [0.0]
    with contextlib.suppress(OSError):
        moments.append(place.lstat().st_mtime)
        moments += [entry.lstat().st_mtime for entry in place.iterdir()]
    return max(moments)

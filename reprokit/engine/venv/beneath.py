"""Files of ours in folders that foreign code wrote to: no link that it left is ever followed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath

from reprokit.core.errors import Unsupported

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def write(top: Path, path: str, content: bytes, mode: int, *, owner: int | None = None, modified: int = 0) -> None:
    """Write a file below ``top`` in place of whatever file is there; folders on the way are made.

    ``owner``: the user and group of what is made, None: ours. ``modified``: seconds since 1970, 0: now. Raises
    Unsupported where a link or a file is in the way.
    """
    place = PurePosixPath(path)
    with _opened(top, place.parent, owner) as folder:
        try:
            with suppress(FileNotFoundError):
                os.unlink(place.name, dir_fd=folder)
            descriptor = os.open(place.name, _NEW, 0o600, dir_fd=folder)
        except OSError as error:
            raise Unsupported(f"{path} cannot be written to the work folder: {error.strerror}") from error
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            if owner is not None:
                os.fchown(descriptor, owner, owner)
            os.fchmod(descriptor, mode)
            if modified:
                os.utime(descriptor, (modified, modified))


def make_folder(top: Path, path: str, *, owner: int | None = None) -> None:
    """Make a folder below ``top``, with those on the way. Raises Unsupported where a link or a file is in the way."""
    with _opened(top, PurePosixPath(path), owner):
        pass


def make_file(top: Path, path: str, *, owner: int | None = None) -> None:
    """Make an empty file below ``top`` unless there is one. Raises Unsupported where something else is in the way."""
    place = PurePosixPath(path)
    with _opened(top, place.parent, owner) as folder:
        try:
            os.close(os.open(place.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder))
        except FileNotFoundError:
            write(top, path, b"", 0o644, owner=owner)
        except OSError as error:
            raise _in_the_way(path, error) from error


@contextmanager
def _opened(top: Path, path: PurePosixPath, owner: int | None) -> Iterator[int]:
    """A folder below ``top``, reached step by step, and made where there is none."""
    if path.is_absolute() or ".." in path.parts:
        raise Unsupported(f"{path} is not below the work folder")
    current = os.open(top, _FOLDER)
    try:
        for number, name in enumerate(path.parts, 1):
            try:
                current = _entered(current, name, owner)
            except OSError as error:
                raise _in_the_way("/".join(path.parts[:number]), error) from error
        yield current
    finally:
        os.close(current)


def _entered(folder: int, name: str, owner: int | None) -> int:
    """The folder ``name`` of a folder, in its place."""
    try:
        below = os.open(name, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        os.mkdir(name, 0o755, dir_fd=folder)
        below = os.open(name, _FOLDER, dir_fd=folder)
        os.fchmod(below, 0o755)
        if owner is not None:
            os.fchown(below, owner, owner)
    os.dup2(below, folder, inheritable=False)
    os.close(below)
    return folder


def _in_the_way(path: str, error: OSError) -> Unsupported:
    """Said of what a build left where a folder, or a place to mount on, is needed."""
    return Unsupported(
        f"{path} of the work folder is a link or a file that a build left, where the case needs a folder or a file "
        f"of its own ({error.strerror}): links are not followed"
    )

"""Where the logs of a store on a server lie, for all of its hosts: a folder that they share, or a bucket.

Names are paths below the store, as its records have them (``runs/RUN/...``).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from reprokit.core.version import install_line
from reprokit.store.errors import StoreError, Trouble
from reprokit.store.remote import remote_of

INSTALL = install_line("s3")
MARK = "reprokit-store.txt"
"""Written before each run, so that a place that takes nothing is found out while nothing is lost."""
_MARK_TEXT = "Logs of the runs of a reprokit store lie below runs/.\n"
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 10, 30, 2
THREADS = 8  # files that are uploaded side by side


class Files(Protocol):
    """A place for files. All methods raise StoreError where it cannot be used."""

    where: str  # its address, for messages

    def put(self, path: Path, name: str) -> None:
        """Store the file ``path`` under a name, whole or not at all, in place of what is there."""

    def get(self, name: str, target: Path) -> None:
        """Write what is under a name to ``target``. Raises FileNotFoundError where there is nothing."""

    def names(self, below: str) -> set[str]:
        """All names below this one."""

    def remove(self, below: str) -> None:
        """Remove all that is below this name."""

    def check(self) -> None:
        """Find out whether it takes files."""


class FolderFiles:
    """``file:///FOLDER``: a folder that the hosts share. See :class:`Files`."""

    def __init__(self, address: str) -> None:
        self.where = address
        self._folder = Path(unquote(urlsplit(address).path))

    def put(self, path: Path, name: str) -> None:
        """By way of a file beside it."""
        target = self._folder / name
        scratch = target.with_name(f".{target.name}.{os.getpid()}")
        with self._mounted():
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, scratch)
                scratch.replace(target)
            finally:
                scratch.unlink(missing_ok=True)

    def get(self, name: str, target: Path) -> None:
        with self._mounted():
            pass
        with _translated(self.where, missing=name):
            shutil.copyfile(self._folder / name, target)

    def names(self, below: str) -> set[str]:
        with self._mounted():
            found = (path for path in (self._folder / below).rglob("*") if path.is_file())
            return {path.relative_to(self._folder).as_posix() for path in found}

    def remove(self, below: str) -> None:
        with self._mounted(), suppress(FileNotFoundError):  # there is nothing, or another host removes it, too
            shutil.rmtree(self._folder / below)

    def check(self) -> None:
        """The folder itself must exist: a share that is not mounted is not made on this host's own disk."""
        with _translated(self.where):
            if not self._folder.is_dir():
                raise FileNotFoundError(2, "the folder does not exist: make it, or mount it")
            (self._folder / MARK).write_text(_MARK_TEXT, encoding="utf-8")

    @contextmanager
    def _mounted(self) -> Iterator[None]:
        """What is below a share that is not mounted any more is on this host's own disk, and takes nothing."""
        with _translated(self.where):
            if not (self._folder / MARK).is_file():
                raise FileNotFoundError(2, f"it has no {MARK}, which each run writes there: mount it")
            yield


class BucketFiles:
    """``s3://BUCKET/PREFIX``, by fsspec, with the settings of the AWS tools. See :class:`Files`."""

    def __init__(self, address: str, what: str = "the place of the store's files") -> None:
        self.where = address
        self._what = what
        self._root = address.partition("://")[2]
        self._known: Any = None

    @property
    def _system(self) -> Any:
        if self._known is None:
            try:
                import s3fs
            except ModuleNotFoundError as error:
                raise StoreError(f"files in {self.where} need the package s3fs: {INSTALL}", Trouble.OTHER) from error
            self._known = s3fs.S3FileSystem(
                use_listings_cache=False,
                skip_instance_cache=True,
                config_kwargs={
                    "connect_timeout": CONNECT_SECONDS,
                    "read_timeout": READ_SECONDS,
                    "retries": {"max_attempts": ATTEMPTS},
                },
            )
            self._known.retries = ATTEMPTS
        return self._known

    def put(self, path: Path, name: str, kind: str = "") -> None:
        """An object is there whole, or not at all. ``kind``: its Content-Type."""
        kinds = {"ContentType": kind} if kind else {}
        with _translated(self.where, what=self._what):
            self._system.put_file(str(path), f"{self._root}/{name}", **kinds)

    def get(self, name: str, target: Path) -> None:
        with _translated(self.where, missing=name, what=self._what):
            self._system.get_file(f"{self._root}/{name}", str(target))

    def names(self, below: str) -> set[str]:
        with _translated(self.where, what=self._what):
            place = f"{self._root}/{below}".rstrip("/")
            return {found.removeprefix(f"{self._root}/") for found in self._system.find(f"{place}/")}

    def remove(self, below: str) -> None:
        self.remove_all(self.names(below))

    def remove_all(self, names: Iterable[str]) -> None:
        """Remove these objects."""
        places = [f"{self._root}/{name}" for name in names]
        with _translated(self.where, what=self._what):
            if places:
                self._system.rm(places)

    def check(self) -> None:
        """By writing a small object."""
        with _translated(self.where):
            self._system.pipe_file(f"{self._root}/{MARK}", _MARK_TEXT.encode())

    def probe(self, name: str) -> None:
        """The same with an object that is removed again, where this user may do that."""
        with _translated(self.where, what=self._what):
            self._system.pipe_file(f"{self._root}/{name}", b"")
        with suppress(Exception):
            self._system.rm_file(f"{self._root}/{name}")


@contextmanager
def _translated(where: str, missing: str = "", what: str = "the place of the store's files") -> Iterator[None]:
    """Whatever goes wrong as a StoreError. ``missing``: a name of which FileNotFoundError says that it is not there."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:  # whatever a client of a network raises
        if isinstance(error, FileNotFoundError) and missing:
            raise FileNotFoundError(2, f"not in {where}", missing) from error
        trouble, hint = "cannot be used", "check the address and the network"
        if isinstance(error, FileNotFoundError):
            trouble, hint = "does not exist", "make it, or name another place"
        elif isinstance(error, PermissionError):
            trouble, hint = "refuses this user", "ask its owner for the right to read and write"
        elif type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound"):
            hint = "give credentials, as AWS_ACCESS_KEY_ID or a profile"
        said = " ".join(str(error).split())[:300]
        raise StoreError(f"{what}, {where}, {trouble} ({said}): {hint}", Trouble.UNREACHABLE) from error


def files_of(folder: Path) -> Files | None:
    """The place for the files of the store in ``folder``; None where each host keeps its own."""
    remote = remote_of(folder)
    if not remote or not remote.files:
        return None
    return FolderFiles(remote.files) if remote.files.startswith("file:") else BucketFiles(remote.files)

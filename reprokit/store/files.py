"""Where the files of a store on a server lie, for all of its hosts: a folder that they share, or a bucket.

Names are paths below the store, as its records have them (``runs/RUN/...``). Light: imports fsspec only for a bucket.
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
from reprokit.store.remote import Remote, remote_of

INSTALL = install_line("s3")
MARK = "reprokit-store.txt"
"""Written before each run, so that a place that takes nothing is found out while nothing is lost."""
CONNECT_SECONDS, READ_SECONDS, ATTEMPTS = 10, 30, 2
THREADS = 8
"""Files that are uploaded side by side."""


class Files(Protocol):
    """A place for files. All methods raise StoreError where it cannot be used."""

    @property
    def where(self) -> str:
        """Its address, for messages."""

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
    """``file:///FOLDER``: a folder that the hosts share."""

    def __init__(self, address: str) -> None:
        self.where = address
        self._folder = Path(unquote(urlsplit(address).path))

    def put(self, path: Path, name: str) -> None:
        """By way of a file beside it."""
        target = self._folder / name
        scratch = target.with_name(f".{target.name}.{os.getpid()}")
        with _translated(self.where):
            self._find()
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, scratch)
                scratch.replace(target)
            finally:
                scratch.unlink(missing_ok=True)

    def get(self, name: str, target: Path) -> None:
        """See :class:`Files`."""
        with _translated(self.where):
            self._find()
        with _translated(self.where, missing=name):
            shutil.copyfile(self._folder / name, target)

    def names(self, below: str) -> set[str]:
        """See :class:`Files`."""
        with _translated(self.where):
            self._find()
            found = (path for path in (self._folder / below).rglob("*") if path.is_file())
            return {path.relative_to(self._folder).as_posix() for path in found}

    def remove(self, below: str) -> None:
        """See :class:`Files`."""
        with _translated(self.where):
            self._find()
            with suppress(FileNotFoundError):  # there is nothing, or another host removes it, too
                shutil.rmtree(self._folder / below)

    def check(self) -> None:
        """The folder itself must exist: a share that is not mounted is not made on this host's own disk."""
        with _translated(self.where):
            if not self._folder.is_dir():
                raise FileNotFoundError(2, "the folder does not exist: make it, or mount it")
            (self._folder / MARK).write_text(_MARK_TEXT, encoding="utf-8")

    def _find(self) -> None:
        """What is below a share that is not mounted any more is on this host's own disk, and takes nothing."""
        if not (self._folder / MARK).is_file():
            raise FileNotFoundError(2, f"it has no {MARK}, which each run writes there: mount it")


class BucketFiles:
    """``s3://BUCKET/PREFIX``, by fsspec; with the settings of the AWS tools (variables, profiles, AWS_ENDPOINT_URL)."""

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
        """See :class:`Files`."""
        with _translated(self.where, missing=name, what=self._what):
            self._system.get_file(f"{self._root}/{name}", str(target))

    def names(self, below: str) -> set[str]:
        """See :class:`Files`."""
        with _translated(self.where, what=self._what):
            place = f"{self._root}/{below}".rstrip("/")
            return {found.removeprefix(f"{self._root}/") for found in self._system.find(f"{place}/")}

    def remove(self, below: str) -> None:
        """See :class:`Files`."""
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


_MARK_TEXT = "Logs of the runs of a reprokit store lie below runs/.\n"


@contextmanager
def _translated(where: str, missing: str = "", what: str = "the place of the store's files") -> Iterator[None]:
    """Whatever goes wrong as a StoreError. ``missing``: a name of which FileNotFoundError says that it is not there."""
    try:
        yield
    except StoreError:
        raise
    except FileNotFoundError as error:
        if missing:
            raise FileNotFoundError(2, f"not in {where}", missing) from error
        raise _unusable(what, where, error, "does not exist", "make it, or name another place") from error
    except PermissionError as error:
        raise _unusable(
            what, where, error, "refuses this user", "ask its owner for the right to read and write"
        ) from error
    except Exception as error:  # whatever a client of a network raises
        credentials = type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound")
        hint = (
            "give credentials, as AWS_ACCESS_KEY_ID or a profile"
            if credentials
            else "check the address and the network"
        )
        raise _unusable(what, where, error, "cannot be used", hint) from error


def _unusable(place: str, where: str, error: BaseException, what: str, hint: str) -> StoreError:
    said = " ".join(str(error).split())[:300]
    return StoreError(f"{place}, {where}, {what} ({said}): {hint}", Trouble.UNREACHABLE)


def make(remote: Remote) -> Files | None:
    """The place for the files of a store on a server; None where each host keeps its own."""
    if not remote.files:
        return None
    return FolderFiles(remote.files) if remote.files.startswith("file:") else BucketFiles(remote.files)


def files_of(folder: Path) -> Files | None:
    """The place for the files of the store in ``folder``; None where they are in the folder alone."""
    remote = remote_of(folder)
    return make(remote) if remote else None

"""What commands write to ``s3://BUCKET/KEY`` or ``file:///PATH`` in place of a file, and what they read there."""

from __future__ import annotations

import mimetypes
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from reprokit.core.errors import UsageError
from reprokit.core.ownership import private_folder
from reprokit.core.redaction import without_passwords
from reprokit.store.files import THREADS, BucketFiles
from reprokit.store.remote import is_address

PROBE = "reprokit-probe"
"""The end of the name of an object that is written, and removed again, to find out whether a bucket takes any."""


def is_remote(text: str) -> bool:
    """Whether what is given as a file is the address of an object in a bucket."""
    return text.startswith("s3://")


def local(text: str) -> Path:
    """The path that is given, or that a ``file://`` address names. Raises UsageError for another address."""
    if not is_address(text):
        return Path(text)
    parts = urlsplit(text)
    if parts.scheme != "file" or parts.netloc or not parts.path.startswith("/"):
        raise UsageError(f"{without_passwords(text)!r}: write a path, file:///PATH or s3://BUCKET/KEY")
    return Path(unquote(parts.path))


@contextmanager
def sent(text: str) -> Iterator[Path]:
    """A file on this host that is the object ``text`` when the block ends: whole, or as it was before.

    Raises UsageError, before anything is made, where the bucket takes nothing.
    """
    files, key = _object(text)
    _check_new(text)
    files.probe(f"{key}.{PROBE}")
    with private_folder("sent") as folder:
        made = folder / PurePosixPath(key).name
        yield made
        files.put(made, key)


@contextmanager
def fetched(text: str) -> Iterator[Path]:
    """A copy on this host of the object ``text``, for the block. Raises UsageError where it cannot be read."""
    files, key = _object(text)
    with private_folder("fetched") as folder:
        copy = folder / PurePosixPath(key).name
        try:
            files.get(key, copy)
        except FileNotFoundError:
            raise UsageError(f"{text}: there is no such object in the bucket: look at the name") from None
        yield copy


@contextmanager
def sent_folder(text: str, marker: str, is_ours: Callable[[str], bool], last: Sequence[str]) -> Iterator[Path]:
    """A folder on this host whose files are below ``text`` when the block ends.

    ``last``: the files that lead to the others, which are sent when those are there. So whoever reads meanwhile, or
    after an interruption, finds what these named before, or name now. What is left of an earlier folder (``is_ours``)
    is removed in the end.

    Raises UsageError, before anything is made, where the bucket takes nothing, or has other things there: no file named
    ``marker``.
    """
    bucket, _, prefix = text.removeprefix("s3://").partition("/")
    if not bucket or "@" in bucket:
        raise UsageError(f"{without_passwords(text)!r}: write s3://BUCKET/PREFIX")
    _check_new(text)
    files = BucketFiles(f"s3://{bucket}/{prefix.strip('/')}".rstrip("/"), what="the place of the pages")
    files.probe(PROBE)
    # An empty object whose name ends with a slash is what consoles make for a new folder.
    there = {name for name in files.names("") if name and not name.endswith(("/", PROBE))}
    if there and marker not in there:
        raise UsageError(
            f"{text} holds {min(there)} and is not a report of reprokit (it has no {marker}): name another prefix, or "
            "remove what is there"
        )
    with private_folder("sent") as scratch:
        folder = scratch / "pages"
        folder.mkdir()
        yield folder
        names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]

        def put(name: str) -> None:
            files.put(folder / name, name, _kind(name))

        put(marker)  # so that this can be done again after an interruption
        with ThreadPoolExecutor(THREADS) as pool:
            for _ in pool.map(put, set(names).difference(last, [marker])):
                pass
        for name in last:
            put(name)
        files.remove_all(name for name in there.difference(names) if is_ours(name))


def _check_new(text: str) -> None:
    """Raises UsageError for a version of an object: s3fs writes to, and removes, the object itself."""
    if "?versionId=" in text:
        raise UsageError(f"{text}: a version of an object cannot be written: leave out ?versionId=...")


def _object(text: str) -> tuple[BucketFiles, str]:
    """The bucket of an address, and the key in it. Raises UsageError for what has none."""
    bucket, _, key = text.removeprefix("s3://").partition("/")
    if not bucket or not PurePosixPath(key).name or "@" in bucket or key.endswith("/"):
        raise UsageError(f"{without_passwords(text)!r}: write s3://BUCKET/KEY")
    return BucketFiles(f"s3://{bucket}", what="the place of this file"), key


def _kind(name: str) -> str:
    """What browsers take a file for. Our texts are UTF-8."""
    found = {".js": "text/javascript", ".svg": "image/svg+xml"}.get(PurePosixPath(name).suffix)
    found = found or mimetypes.guess_type(name)[0] or "text/plain"
    return f"{found}; charset=utf-8"

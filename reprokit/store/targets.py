"""A file that a command writes to ``s3://BUCKET/KEY`` or ``file:///PATH``: made here, and sent when it is whole."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from reprokit.core.errors import UsageError
from reprokit.core.redaction import without_passwords
from reprokit.store.files import BucketFiles
from reprokit.store.remote import is_address


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
    bucket, _, key = text.removeprefix("s3://").partition("/")
    name = PurePosixPath(key).name
    if not bucket or not name or "@" in bucket or key.endswith("/"):
        raise UsageError(f"{without_passwords(text)!r}: write s3://BUCKET/KEY")
    files = BucketFiles(f"s3://{bucket}", what="the place of this file")
    files.probe(f"{key}.reprokit-probe")
    with tempfile.TemporaryDirectory(prefix="reprokit-sent-") as folder:
        made = Path(folder) / name
        yield made
        files.put(made, key)

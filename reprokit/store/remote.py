"""A store on a server: its database, where its files go, and the folder of this host that has the rest.

What a run decides is in that folder first, whatever becomes of the server. Imports no database.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from reprokit.core import json_text
from reprokit.core.errors import UsageError
from reprokit.core.files import write
from reprokit.core.home import home
from reprokit.core.owned import other_owner
from reprokit.core.redaction import without_passwords

SCHEMES = ("postgresql", "postgresql+psycopg")
EXAMPLE = "postgresql://USER@HOST/DATABASE"
FILE_SCHEMES = ("file", "s3")
DESCRIPTION = "remote.json"
_PASSWORDS = {"password", "sslpassword"}


@dataclass(frozen=True, kw_only=True)
class Remote:
    """A database on a server, and what belongs to it."""

    address: str  # without a password
    files: str  # where logs go; '' for this host alone
    spool: str  # tells the journals of this host, in the database, from those of others


def is_address(text: str) -> bool:
    """Whether what is given as a store is an address, and not a folder."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/", text) is not None


def checked_address(text: str) -> str:
    """The address of a database. Raises UsageError for one that cannot be a store, or has a password in it."""
    try:
        parts = urlsplit(text)
        keys = {key.lower() for key in parse_qs(parts.query, keep_blank_values=True)}
        password = parts.password is not None or not _PASSWORDS.isdisjoint(keys)
    except ValueError as error:
        raise UsageError(f"the store {without_passwords(text)!r} is not an address: {error}; write {EXAMPLE}") from None
    if parts.scheme not in SCHEMES or not text.startswith(f"{parts.scheme}://"):
        raise UsageError(
            f"the store {without_passwords(text)!r} is neither a folder nor the address of a database: write {EXAMPLE}"
        )
    if password:
        raise UsageError(
            f"the store {without_passwords(text.partition('?')[0])!r} has a password in its address, which lists of "
            "processes and logs would show: put it into ~/.pgpass or PGPASSWORD, and leave it out of the address"
        )
    return f"postgresql://{text.partition('://')[2]}"


def checked_files(text: str) -> str:
    """Where files go. Raises UsageError for what is neither file:///FOLDER nor s3://BUCKET/PREFIX."""
    parts = urlsplit(text)
    if text and (
        parts.scheme not in FILE_SCHEMES
        or (parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")))
        or (parts.scheme == "s3" and (not parts.netloc or "@" in parts.netloc))
        or "?versionId=" in text  # s3fs would write all files to that one object
    ):
        raise UsageError(f"files {without_passwords(text)!r}: write file:///FOLDER or s3://BUCKET/PREFIX")
    return text.rstrip("/")


def folder_of(address: str, files: str = "") -> Path:
    """This host's folder for the store at ``address``, which is made. Raises UsageError."""
    address, files = checked_address(address), checked_files(files)
    name = re.sub(r"[^A-Za-z0-9]+", "-", urlsplit(address).path)[:40].strip("-") or "database"
    folder = _home() / f"{name}-{hashlib.sha256(address.encode()).hexdigest()[:12]}"
    known = remote_of(folder)
    wanted = Remote(address=address, files=files, spool=known.spool if known else secrets.token_hex(6))
    if wanted != known:
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(folder / DESCRIPTION, json.dumps(asdict(wanted), indent=1))
        except OSError as error:
            raise UsageError(
                f"{folder}, where what this host records is kept, cannot be written: {error.strerror}; name another "
                "folder by XDG_STATE_HOME"
            ) from error
    return folder


def remote_of(folder: Path) -> Remote | None:
    """What has the database of the store in ``folder``; None where the folder itself has it.

    Only folders that :func:`folder_of` made are asked: one that was downloaded must not name a server.
    """
    if folder.parent != _home() or other_owner(folder):
        return None
    with suppress(OSError, ValueError, TypeError):
        return Remote(**json_text.loads((folder / DESCRIPTION).read_text(encoding="utf-8")))
    return None


def shown(folder: Path) -> str:
    """The store in ``folder``, for messages: the address of its database, or the folder."""
    remote = remote_of(folder)
    return remote.address if remote else str(folder)


def journal_name(folder: Path, run_id: str) -> str:
    """The name of a run's journal in the database. A run that another host goes on with has a journal on each."""
    remote = remote_of(folder)
    return f"{run_id}@{remote.spool}" if remote else run_id


def _home() -> Path:
    """Not the cache, which may be removed at any time: what is not delivered yet is nowhere else."""
    base = os.environ.get("XDG_STATE_HOME")
    return ((Path(base) if base else home(os.environ) / ".local" / "state") / "reprokit" / "stores").resolve()

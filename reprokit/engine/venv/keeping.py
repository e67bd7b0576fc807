"""Where environments are kept: a folder each in the user's cache, complete when it has its description."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprokit.core import cache, json_text
from reprokit.core.errors import EngineError, ImageGone
from reprokit.core.files import newest, used_bytes
from reprokit.core.ownership import locked, locked_if_free, remove_tree
from reprokit.engine.protocol import DOWNLOADS, ENVIRONMENT, INTERPRETER, ImageInfo, Kept

DESCRIPTION = "environment.json"


def top() -> Path:
    """The folder of everything that this engine keeps."""
    return cache.folder("venv")


def pythons() -> Path:
    """Interpreters that uv installed for us."""
    return top() / "pythons"


def downloads() -> Path:
    """What pip downloaded and built, for all environments."""
    return top() / "pip"


def seeds() -> Path:
    """What environments start from: one with nothing but its pip for each Python."""
    return top() / "seeds"


@dataclass(frozen=True, kw_only=True)
class KeptVenv:
    """A finished environment: its ``folder`` and what was written down when it was made."""

    folder: Path
    description: Mapping[str, Any]

    @property
    def info(self) -> ImageInfo:
        """As the engine's image. Its id changes with the host's packages, so that it is measured again."""
        number = hashlib.sha256(f"{self.description['made']} {host_state()}".encode()).hexdigest()
        return ImageInfo(tag=self.description["tag"], id=f"sha256:{number}", size=self.description["size"])


def host_state() -> str:
    """Changes whenever the host's packages do."""
    for database in ("/var/lib/dpkg/status", "/var/lib/rpm/rpmdb.sqlite", "/usr/lib/sysimage/rpm/rpmdb.sqlite"):
        with suppress(OSError):
            found = Path(database).stat()
            return f"{found.st_mtime_ns} {found.st_size}"
    return ""


def find(reference: str) -> KeptVenv | None:
    """The environment of that tag or id, or None."""
    if not reference.startswith("sha256:"):
        return _read(_folder(reference))
    standing = (_read(path.parent) for path in (top() / "environments").glob(f"*/{DESCRIPTION}"))
    return next((kept for kept in standing if kept is not None and kept.info.id == reference), None)


def get(reference: str) -> KeptVenv:
    """Like :func:`find`. Raises ImageGone when there is none."""
    kept = find(reference)
    if kept is None:
        raise ImageGone(f"the environment {reference} is gone: build it again (was {top()} emptied meanwhile?)")
    return kept


def remove(tag: str) -> None:
    """Remove the environment of that tag, if there is one."""
    kept = find(tag)
    if kept is not None:
        (kept.folder / DESCRIPTION).unlink(missing_ok=True)  # first, so that half of it never counts
        remove_tree(kept.folder)


def _read(folder: Path) -> KeptVenv | None:
    try:
        description = json_text.loads((folder / DESCRIPTION).read_text())
    except (OSError, ValueError):
        return None
    return KeptVenv(folder=folder, description=description)


def _folder(tag: str) -> Path:
    return top() / "environments" / tag.rpartition(":")[2]


@contextmanager
def making(tag: str, cancel: threading.Event) -> Iterator[Path]:
    """An empty folder in which to make the environment of that tag, held against other processes.

    A virtual environment cannot be moved: it is made where it stays, and counts once :func:`complete` has described it.
    What fails before is removed. Raises Cancelled, EngineError.
    """
    folder = _folder(tag)
    with ExitStack() as held:
        try:
            held.enter_context(locked(folder.with_suffix(".lock"), cancel, "environment"))
        except OSError as error:
            raise EngineError(f"environments cannot be kept in {folder.parent}: {error.strerror}") from error
        if _read(folder) is None:
            remove_tree(folder)
            folder.mkdir()
        try:
            yield folder
        finally:
            if _read(folder) is None:
                remove_tree(folder)


def complete(folder: Path, tag: str) -> KeptVenv:
    """Describe what was made in ``folder``, which is complete from then on."""
    description = {"tag": tag, "made": uuid.uuid4().hex, "size": used_bytes(folder)}
    scratch = folder / f".{DESCRIPTION}"
    scratch.write_text(json.dumps(description))
    scratch.replace(folder / DESCRIPTION)
    return KeptVenv(folder=folder, description=description)


def sweep() -> list[str]:
    """Remove what builds that were killed left; returns what was removed, in words."""
    removed = []
    for lock in sorted((top() / "environments").glob("*.lock")):
        folder = lock.with_suffix("")
        if not folder.is_dir() or _read(folder) is not None:
            continue
        with suppress(OSError), locked_if_free(lock) as held:
            if held and _read(folder) is None and remove_tree(folder):
                removed.append(f"half-made environment {folder}")
    return removed


def kept() -> list[Kept]:
    """Environments, the interpreters that uv installed for them, and what pip downloaded."""
    standing = [one for path in (top() / "environments").glob(f"*/{DESCRIPTION}") if (one := _read(path.parent))]
    found = [
        Kept(
            kind=ENVIRONMENT,
            key=one.description["tag"],
            name=one.description["tag"],
            parts={str(one.folder): one.description["size"]},
            used=(one.folder / DESCRIPTION).stat().st_mtime,
            needs=frozenset(str(place) for place in _interpreters() if _is_made_with(one, place)),
        )
        for one in standing
    ]
    folders = [(INTERPRETER, place) for place in _interpreters()]
    folders += [(DOWNLOADS, place) for place in (downloads(), seeds()) if place.is_dir()]
    return [
        *found,
        *(
            Kept(kind=kind, key=str(place), name=str(place), parts={str(place): used_bytes(place)}, used=newest(place))
            for kind, place in folders
        ),
    ]


def discard(one: Kept) -> bool:
    """Remove what :func:`kept` listed; whether it is gone."""
    if one.kind != ENVIRONMENT:
        return remove_tree(Path(one.key))
    lock = _folder(one.key).with_suffix(".lock")
    with locked_if_free(lock) as held:  # not while another process makes it again
        if held:
            remove(one.key)
    return held and find(one.key) is None


def _interpreters() -> list[Path]:
    return sorted(place for place in pythons().glob("*") if place.is_dir() and not place.is_symlink())


def _is_made_with(one: KeptVenv, interpreter: Path) -> bool:
    """Whether the environment's Python is a link to that interpreter."""
    real = os.path.realpath(one.folder / "venv" / "bin" / "python")  # which, unlike resolve(), bears a link to itself
    return Path(real).is_relative_to(os.path.realpath(interpreter))

"""The store's folder: where it is, and what lies in it beside runs and their database. Imports no database."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from reprokit.core import json_text
from reprokit.core.errors import UsageError
from reprokit.core.files import write
from reprokit.core.ownership import locked
from reprokit.environment.measured import Measured
from reprokit.store.places import RUNS, unlinked
from reprokit.store.remote import remote_of

FOLDER = ".reprokit"


def find_folder(start: Path | None = None) -> Path:
    """The project's store: the nearest ``.reprokit`` upwards, or one beside ``.git`` or here."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        with suppress(PermissionError):  # of a folder that this user may not look into
            if (folder / FOLDER).is_dir() or (folder / ".git").exists():
                return folder / FOLDER
    return here / FOLDER


def has_database(folder: Path) -> bool:
    """Whether the store in ``folder`` has something to read: something was run, or it is on a server."""
    return (folder / "reprokit.db").is_file() or (folder / RUNS).is_dir() or remote_of(folder) is not None


def make_folder(folder: Path) -> Path:
    """Make the store's folder, which git ignores. Raises UsageError when it cannot be written.

    A new one is closed to other users, since logs hold what programs print: who shares a store opens it with chmod.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ignore = folder / ".gitignore"
        if not os.path.lexists(ignore):
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"the store {folder} cannot be written: {error.strerror}; choose another with --store"
        ) from error
    return folder


class SeenBases:
    """The digest that each base image of a registry had when first seen (``bases.json``).

    What a case runs on then stays, also when the tag moves or is deleted, until a user asks for what it is now.
    """

    def __init__(self, folder: Path) -> None:
        self._path = unlinked(folder, "bases.json")

    def digest(self, reference: str, since: float = 0.0) -> str:
        """The digest (``sha256:...``) of a reference as seen at ``since`` (seconds since 1970) or later, else ''."""
        seen = self._read().get(reference, {})
        return str(seen.get("digest", "")) if seen.get("at", 0.0) >= since else ""

    def keep(self, reference: str, digest: str) -> None:
        """Remember what a reference is now."""
        self._write(reference, {"digest": digest, "at": time.time()})

    def owe(self, reference: str) -> None:
        """Remember that an image of this host has to go to a registry under that name; :meth:`keep` says it did."""
        self._write(reference, {"owed": True})

    def owes(self, reference: str) -> bool:
        """Whether an image has yet to go there."""
        return self._read().get(reference, {}).get("owed") is True

    def _write(self, reference: str, entry: Mapping[str, Any]) -> None:
        with locked(self._path.with_suffix(".lock")):  # other processes add theirs
            seen = self._read()
            known = seen.get(reference, {}) if "owed" in entry else {}
            write(self._path, json.dumps({**seen, reference: {**known, **entry}}, indent=1))

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            found = json_text.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        entries = found.items() if isinstance(found, dict) else ()
        return {reference: entry for reference, entry in entries if isinstance(entry, dict)}


class Measurements:
    """What was measured in which image, by which probe: a file each, since an image never changes under its id."""

    def __init__(self, folder: Path) -> None:
        self._folder = unlinked(folder, "measured")

    def get(self, image_id: str, probe: str) -> Measured | None:
        """What that probe measured in that image, if it did."""
        try:
            return Measured.from_json(json_text.loads(self._path(image_id, probe).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):  # none, or damaged
            return None

    def keep(self, image_id: str, probe: str, measured: Measured) -> None:
        """Remember a measurement."""
        write(self._path(image_id, probe), json.dumps(measured.to_json()))

    def _path(self, image_id: str, probe: str) -> Path:
        return unlinked(
            self._folder, f"{image_id.removeprefix('sha256:').replace('/', '-').replace(':', '-')}-{probe}.json"
        )

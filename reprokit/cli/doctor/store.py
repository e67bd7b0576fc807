"""The record of runs: whose its database is, whether it is damaged, and whether its file system has locks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from reprokit.cli.doctor.finding import Finding, Voice
from reprokit.cli.doctor.ground import Ground
from reprokit.core.ownership import lockless
from reprokit.core.text import size
from reprokit.store import errors
from reprokit.store.delivery import undelivered
from reprokit.store.errors import StoreError, Trouble
from reprokit.store.files import files_of
from reprokit.store.journal import pending
from reprokit.store.places import LOCK
from reprokit.store.remote import Remote, remote_of
from reprokit.store.sqlite_file import DATABASE, faults, version

SECONDS = 5.0
"""How long the database is looked at."""
MOVE = "set another folder in REPROKIT_STORE"

say = Voice("store")


def check(ground: Ground) -> Iterator[Finding]:
    """The store of the current folder."""
    folder = ground.settings.store_folder(ground.folder)
    if not folder.is_dir():
        yield say.ok(f"nothing was run here yet: {folder} does not exist")
        return
    if os.access(folder, os.W_OK) and (why := lockless(folder / LOCK)):
        yield say.fail(str(errors.lockless(folder, why)), MOVE)
    if remote := remote_of(folder):
        yield from _on_server(folder, remote)
        return
    database = folder / DATABASE
    try:
        found = version(database)
        damage = faults(database, seconds=SECONDS) if found else []
    except StoreError as error:
        again = error.trouble in (Trouble.DAMAGED, Trouble.OLDER)
        yield say.fail(str(error), "reprokit store rebuild" if again else MOVE)
        return
    if damage:
        yield say.fail(f"the database {database} is damaged: {damage[0]}", "reprokit store rebuild")
    else:
        yield say.ok(f"{folder}, a database of {size(database.stat().st_size) if found else '0 B'}")


def _on_server(folder: Path, remote: Remote) -> Iterator[Finding]:
    """Whether the database and the place of the files take what this host records."""
    from reprokit.store.database import Store

    try:
        with contextlib.closing(Store(folder)) as store:
            store.check_writable()
        if place := files_of(folder):
            place.check()
    except StoreError as error:
        yield say.fail(str(error), "set another store in REPROKIT_STORE")
        return
    waiting = sorted({*pending(folder), *undelivered(folder)})
    if waiting:
        yield say.info(f"{len(waiting)} runs of this host are not delivered or not ended", "reprokit store sync")
    yield say.ok(f"{remote.address}, with logs in {remote.files or 'the folder of each host'}")

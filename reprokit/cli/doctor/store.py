"""The record of runs: whose its database is, whether it is damaged, and whether its file system has locks."""

from __future__ import annotations

import os
from collections.abc import Iterator

from reprokit.cli.doctor.finding import Finding, Voice
from reprokit.cli.doctor.ground import Ground
from reprokit.core.locks import lockless
from reprokit.core.text import size
from reprokit.store import errors
from reprokit.store.errors import StoreError, Trouble
from reprokit.store.folder import find_folder
from reprokit.store.places import LOCK
from reprokit.store.sqlite_file import CURRENT, DATABASE, faults, version

SECONDS = 5.0
"""How long the database is looked at."""
MOVE = "set another folder in REPROKIT_STORE"

say = Voice("store")


def check(ground: Ground) -> Iterator[Finding]:
    """The store of the current folder."""
    folder = ground.settings.store or find_folder(ground.folder)
    if not folder.is_dir():
        yield say.ok(f"nothing was run here yet: {folder} does not exist")
        return
    if os.access(folder, os.W_OK) and (why := lockless(folder / LOCK)):
        yield say.fail(str(errors.lockless(folder, why)), MOVE)
    database = folder / DATABASE
    try:
        found = version(database)
        damage = faults(database, seconds=SECONDS) if found else []
    except StoreError as error:
        yield say.fail(str(error), "reprokit store rebuild" if error.trouble is Trouble.DAMAGED else MOVE)
        return
    if damage:
        yield say.fail(f"the database {database} is damaged: {damage[0]}", "reprokit store rebuild")
    elif 0 < found < CURRENT:
        yield say.info(f"{database} is of an earlier version ({found}); the next command that opens it upgrades it")
    else:
        yield say.ok(f"{folder}, a database of {size(database.stat().st_size) if found else '0 B'}")

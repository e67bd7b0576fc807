"""What reprokit keeps on this host: room for it, the record of runs, locks, and what runs left behind."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reprokit.cli.doctor.ground import Finding, Ground, Voice
from reprokit.core import cache, ownership
from reprokit.core.files import used_bytes
from reprokit.core.ownership import OwnerState, lockless
from reprokit.core.text import pluralize, size
from reprokit.evidence.origin import OwnerRecord
from reprokit.run.keeping import TEMPORARY, RemovalRequest, by_kind, holders, stock
from reprokit.run.lock_making import stale_locks
from reprokit.store import errors
from reprokit.store.delivery import undelivered
from reprokit.store.errors import StoreError, Trouble
from reprokit.store.files import files_of
from reprokit.store.journal import pending
from reprokit.store.places import LOCK
from reprokit.store.remote import Remote, remote_of
from reprokit.store.sqlite_file import DATABASE, faults, version

_disk = Voice("disk")
_store = Voice("store")
_locks = Voice("locks")
_left = Voice("leftovers")

FULL, TIGHT = 2e9, 15e9
"""Bytes: below the first nothing can be built; a GPU build of a framework needs up to the second."""

_MOVED_BY = {"cache": "XDG_CACHE_HOME", "store": "REPROKIT_STORE", "temporary files": "TMPDIR"}


def check_disk(ground: Ground) -> Iterator[Finding]:
    """Free space below the engine's data, the cache, the store and the temporary folder; each file system once."""
    places = [(cache.folder("sources").parent, "cache"), (ground.settings.store_folder(ground.folder), "store")]
    places.append((Path(tempfile.gettempdir()), "temporary files"))
    if root := ground.info.find_data_root():
        if ground.is_local and Path(root).exists():
            places.insert(0, (Path(root), "engine"))
        else:
            yield _disk.info(f"the engine keeps its data at {root}, which this process cannot access")
    disks: dict[int, tuple[Path, list[str]]] = {}
    for place, what in places:
        there = next(path for path in (place, *place.absolute().parents) if _is_seen(path))
        disks.setdefault(there.stat().st_dev, (there, []))[1].append(what)
        if what != "engine" and not os.access(there, os.W_OK):
            yield _disk.fail(f"{place} ({what}) cannot be written", f"export {_MOVED_BY[what]}=<a folder of yours>")
    for there, uses in disks.values():
        usage = shutil.disk_usage(there)
        text = f"{size(usage.free)} free of {size(usage.total)} at {there} ({', '.join(uses)})"
        if usage.free < FULL:
            yield _disk.fail(text, _make_room(uses, ground.client))
        elif usage.free < TIGHT:
            yield _disk.warn(
                f"{text}: a framework's GPU build takes up to {size(TIGHT)}", _make_room(uses, ground.client)
            )
        else:
            yield _disk.ok(text)


def _is_seen(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a file in a folder that this user cannot read
        return False


def _make_room(uses: list[str], client: str) -> str:
    if "engine" in uses:
        return f"reprokit gc --budget 20G   # what others keep there: {client} system df"
    return f"make space there, or set another folder in {', '.join(_MOVED_BY[use] for use in uses)}"


STORE_SECONDS = 5.0
"""How long the database is looked at."""
MOVE = "set another folder in REPROKIT_STORE"


def check_store(ground: Ground) -> Iterator[Finding]:
    """The store of the current folder."""
    folder = ground.settings.store_folder(ground.folder)
    if not folder.is_dir():
        yield _store.ok(f"nothing was run here yet: {folder} does not exist")
        return
    if os.access(folder, os.W_OK) and (why := lockless(folder / LOCK)):
        yield _store.fail(str(errors.lockless(folder, why)), MOVE)
    if remote := remote_of(folder):
        yield from _on_server(folder, remote)
        return
    database = folder / DATABASE
    try:
        found = version(database)
        damage = faults(database, seconds=STORE_SECONDS) if found else []
    except StoreError as error:
        again = error.trouble in (Trouble.DAMAGED, Trouble.OLDER)
        yield _store.fail(str(error), "reprokit store rebuild" if again else MOVE)
        return
    if damage:
        yield _store.fail(f"the database {database} is damaged: {damage[0]}", "reprokit store rebuild")
    else:
        yield _store.ok(f"{folder}, a database of {size(database.stat().st_size) if found else '0 B'}")


def _on_server(folder: Path, remote: Remote) -> Iterator[Finding]:
    """Whether the database and the place of the files take what this host records."""
    from reprokit.store.database import Store

    try:
        with contextlib.closing(Store(folder)) as store:
            store.check_writable()
        if place := files_of(folder):
            place.check()
    except StoreError as error:
        yield _store.fail(str(error), "set another store in REPROKIT_STORE")
        return
    waiting = sorted({*pending(folder), *undelivered(folder)})
    if waiting:
        yield _store.info(f"{len(waiting)} runs of this host are not delivered or not ended", "reprokit store sync")
    yield _store.ok(f"{remote.address}, with logs in {remote.files or 'the folder of each host'}")


def check_locks(ground: Ground) -> Iterator[Finding]:
    """The lock files below the current folder that no longer match their cases."""
    found = stale_locks(ground.folder)
    for one in found:
        path, case = _near(ground, one.path), _near(ground, one.case)
        more = f" ({pluralize(len(one.reasons) - 1, 'more cell')})" if len(one.reasons) > 1 else ""
        fix = f"rm {shlex.quote(path)}" if one.gone else f"reprokit lock {shlex.quote(case)}"
        yield _locks.warn(f"{path} is stale: {_near(ground, one.reasons[0])}{more}", fix)
    if not found:
        yield _locks.ok("no stale lock below the current folder")


def _near(ground: Ground, path: object) -> str:
    return str(path).removeprefix(f"{ground.folder}/")


def check_leftovers(ground: Ground) -> Iterator[Finding]:
    """Containers and folders of processes that have exited; what is kept, and the store."""
    nothing = True
    if ground.engine is not None:
        client = ground.engine.wire.client()
        for finding in _containers(client, ground.client):
            nothing = False
            yield finding
    folders = ownership.orphan_folders()
    if folders:
        nothing = False
        names = " ".join(map(str, folders))
        text = (
            f"{pluralize(len(folders), 'temporary folder')} of processes that have exited, "
            f"{size(sum(map(used_bytes, folders)))}"
        )
        yield _left.warn(text, f"rm -rf {names}")
    if nothing:
        yield _left.ok("no container or temporary folder is left over")
    yield from _kept(ground)


def _kept(ground: Ground) -> Iterator[Finding]:
    """What `reprokit gc` keeps within a budget, by kind."""
    store = ground.settings.store_folder(ground.folder)
    found = stock(holders(ground.engine, store), RemovalRequest())
    for kind, (count, total) in by_kind(one for one in found.items if one.kind != TEMPORARY).items():
        yield _left.info(f"{kind}: {count}, {size(total)}", "reprokit gc")
    if held := used_bytes(store):
        yield _left.info(f"the store {store} holds {size(held)} of recorded runs")


def _containers(client: Any, program: str) -> Iterator[Finding]:
    """Containers that no process waits for, or whose process cannot be seen from here; each with what removes them."""
    owners: dict[str, list[str]] = {}
    for container in client.containers(all=True, filters={"label": [ownership.PID]}):
        owner = OwnerRecord(labels=container["Labels"])
        if owner.state is not OwnerState.ALIVE:
            owners.setdefault("" if owner.gone else str(owner), []).append(container["Id"][:12])
    for owner_name, ids in sorted(owners.items()):
        count, fix = pluralize(len(ids), "container"), f"{program} rm -fv {' '.join(ids)}"
        if owner_name:
            seen = f"{count} of {owner_name}, which cannot be seen from here and may be alive"
            yield _left.info(f"{seen} (remove them only if it has exited)", fix)
        else:
            yield _left.warn(f"{count} of runs that were killed (the next run removes them)", fix)

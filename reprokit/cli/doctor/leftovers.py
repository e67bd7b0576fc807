"""What runs left behind, on purpose (images, caches, sources) or not, and its size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from reprokit.cli.doctor.finding import Finding, Voice
from reprokit.cli.doctor.ground import Ground
from reprokit.core import ownership
from reprokit.core.files import used_bytes
from reprokit.core.ownership import OwnerState
from reprokit.core.text import pluralize, size
from reprokit.evidence.origin import OwnerRecord
from reprokit.run.keeping import TEMPORARY, RemovalRequest, by_kind, holders, stock

say = Voice("leftovers")


def check(ground: Ground) -> Iterator[Finding]:
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
        yield say.warn(text, f"rm -rf {names}")
    if nothing:
        yield say.ok("no container or temporary folder is left over")
    yield from _kept(ground)


def _kept(ground: Ground) -> Iterator[Finding]:
    """What `reprokit gc` keeps within a budget, by kind."""
    store = ground.settings.store_folder(ground.folder)
    found = stock(holders(ground.engine, store), RemovalRequest())
    for kind, (count, total) in by_kind(one for one in found.items if one.kind != TEMPORARY).items():
        yield say.info(f"{kind}: {count}, {size(total)}", "reprokit gc")
    if held := used_bytes(store):
        yield say.info(f"the store {store} holds {size(held)} of recorded runs")


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
            yield say.info(f"{seen} (remove them only if it has exited)", fix)
        else:
            yield say.warn(f"{count} of runs that were killed (the next run removes them)", fix)

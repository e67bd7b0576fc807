"""What runs left behind, on purpose (images, caches) or not, and its size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reprokit.cli.doctor.finding import Finding, Voice, size
from reprokit.cli.doctor.ground import Ground
from reprokit.core import cache, ownership
from reprokit.core.ownership import OwnerState
from reprokit.core.text import pluralize
from reprokit.engine import leftovers
from reprokit.engine.venv.keeping import top
from reprokit.evidence.origin import OwnerRecord
from reprokit.store.folder import find_folder

BASE = "org.reprokit.base.release"
say = Voice("leftovers")


def check(ground: Ground) -> Iterator[Finding]:
    """Containers and folders of processes that have exited; images, cache and store."""
    nothing = True
    if ground.engine is not None:
        client = ground.engine.wire.client()
        for finding in _containers(client, ground.client):
            nothing = False
            yield finding
        yield from _images(client, ground.client, ground.engine.empties_cache)
    folders = leftovers.orphan_folders()
    if folders:
        nothing = False
        names = " ".join(map(str, folders))
        text = (
            f"{pluralize(len(folders), 'temporary folder')} of processes that have exited, "
            f"{size(sum(map(used, folders)))}"
        )
        yield say.warn(text, f"rm -rf {names}")
    if nothing:
        yield say.ok("no container or temporary folder is left over")
    # Virtual environments of root are in another folder.
    for kept in dict.fromkeys((cache.folder("sources").parent, *_environments())):
        if held := used(kept):
            yield say.info(f"the cache {kept} holds {size(held)}", f"rm -rf {kept}")
    store = ground.settings.store or find_folder(ground.folder)
    if held := used(store):
        yield say.info(f"the store {store} holds {size(held)} of recorded runs")


def _environments() -> list[Path]:
    return [] if top().is_relative_to(cache.folder("sources").parent) else [top()]


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


def _images(client: Any, program: str, empties_cache: str) -> Iterator[Finding]:
    """Images of ours. BuildKit keeps the layers of an image that is removed: its cache has to be emptied, too."""
    found = client.images(filters={"label": [ownership.IMAGE]})
    # Images that are built on a base inherit its label.
    bases = [
        one for one in client.images(filters={"label": [BASE]}) if ownership.IMAGE not in (one.get("Labels") or {})
    ]
    for images, what, chosen in (
        (found, "of cells", f"--filter label={ownership.IMAGE}"),
        (bases, "made as bases", f"--filter label={BASE} --filter label!={ownership.IMAGE}"),
    ):
        if images:
            # Counts shared layers once for each image: the engine gives no better number without counting all.
            most = size(sum(image.get("Size", 0) for image in images))
            yield say.info(
                f"{pluralize(len(images), 'image')} {what}, {most} at most (they share layers); a run rebuilds them",
                f"{program} image prune --all {chosen}" + (f" && {empties_cache}" if empties_cache else ""),
            )


def used(folder: Path) -> int:
    """Bytes that the files below a folder use; 0 without a folder. Files that cannot be read do not count."""
    total = 0
    waiting = [folder]
    while waiting:
        try:
            entries = list(waiting.pop().iterdir())
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir() and not entry.is_symlink():
                    waiting.append(entry)
                else:
                    total += entry.lstat().st_blocks * 512
            except OSError:
                continue
    return total

"""Free space on the disks that builds and runs write to."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from reprokit.cli.doctor.finding import Finding, Voice
from reprokit.cli.doctor.ground import Ground
from reprokit.core import cache
from reprokit.core.text import size
from reprokit.engine.wire import data_root

FULL, TIGHT = 2e9, 15e9
"""Bytes: below the first nothing can be built; a GPU build of a framework needs up to the second."""

_MOVED_BY = {"cache": "XDG_CACHE_HOME", "store": "REPROKIT_STORE", "temporary files": "TMPDIR"}

say = Voice("disk")


def check(ground: Ground) -> Iterator[Finding]:
    """Free space below the engine's data, the cache, the store and the temporary folder; each file system once."""
    places = [(cache.folder("sources").parent, "cache"), (ground.settings.store_folder(ground.folder), "store")]
    places.append((Path(tempfile.gettempdir()), "temporary files"))
    if root := data_root(ground.info):
        if ground.is_local and Path(root).exists():
            places.insert(0, (Path(root), "engine"))
        else:
            yield say.info(f"the engine keeps its data at {root}, which this process cannot access")
    disks: dict[int, tuple[Path, list[str]]] = {}
    for place, what in places:
        there = next(path for path in (place, *place.absolute().parents) if _is_seen(path))
        disks.setdefault(there.stat().st_dev, (there, []))[1].append(what)
        if what != "engine" and not os.access(there, os.W_OK):
            yield say.fail(f"{place} ({what}) cannot be written", f"export {_MOVED_BY[what]}=<a folder of yours>")
    for there, uses in disks.values():
        usage = shutil.disk_usage(there)
        text = f"{size(usage.free)} free of {size(usage.total)} at {there} ({', '.join(uses)})"
        if usage.free < FULL:
            yield say.fail(text, _fix(uses, ground.client))
        elif usage.free < TIGHT:
            yield say.warn(f"{text}: a framework's GPU build takes up to {size(TIGHT)}", _fix(uses, ground.client))
        else:
            yield say.ok(text)


def _is_seen(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a file in a folder that this user cannot read
        return False


def _fix(uses: list[str], client: str) -> str:
    if "engine" in uses:
        return f"reprokit gc --budget 20G   # what others keep there: {client} system df"
    return f"make space there, or set another folder in {', '.join(_MOVED_BY[use] for use in uses)}"

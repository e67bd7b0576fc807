"""Everything that keeps things on the disk: the one list of what there is and of how it is removed.

An engine is a holder as it is. What a module keeps elsewhere gets a holder here, and nothing else lists it:
`reprokit gc`, `reprokit doctor` and the budget of a run all read :func:`holders`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from reprokit.case.trust import ALLOWANCES
from reprokit.core import cache, ownership
from reprokit.core.errors import EngineError
from reprokit.core.files import newest, used_bytes
from reprokit.core.ownership import locked_if_free
from reprokit.engine import registry
from reprokit.engine.protocol import Engine, Kept
from reprokit.run.keeping.planning import LOG
from reprokit.store.delivery import undelivered
from reprokit.store.errors import StoreError
from reprokit.store.files import files_of
from reprokit.store.logs import logs_of, remove_logs

TREE, REPOSITORY, MEASUREMENT = "source tree", "source repository", "measurement"
TEMPLATES, TEMPORARY = "compiled templates", "temporary folder"
DOWNLOAD, REMAINS, DEBUG_FILE = "download", "part of a download", "debug file"


class Holder(Protocol):
    """What keeps things: see :class:`reprokit.engine.protocol.Engine` for both methods."""

    def kept(self) -> Sequence[Kept]:
        """What there is. Raises EngineError."""

    def discard(self, kept: Kept) -> bool:
        """Remove one thing of it; whether it is gone. Raises EngineError."""


def holders(engine: Engine | None, store: Path) -> list[Holder]:
    """Of this host's user: ``engine`` and those that need no service, the cache, the store in that folder, and the
    system's temporary folder."""
    kind = engine.info().kind if engine else ""
    others = (one.open(os.environ) for one in registry.entries() if one.kind != kind and one.host)
    engines = [*([engine] if engine else []), *others]
    return [
        *engines,
        SourceCache(cache.folder("sources")),
        Fetched(cache.folder("downloads")),
        DebugFileCache(cache.folder("debuginfo")),
        Scraps(store),
        Logs(store),
    ]


class SourceCache:
    """What :mod:`reprokit.run.sources` keeps: repositories, and trees exported from them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def kept(self) -> Sequence[Kept]:
        """Trees and repositories, by their paths."""
        shared = [self._folder, *(self._folder / one.domain for one in ALLOWANCES.values() if one.domain)]
        places = [(TREE, place) for folder in shared for place in folder.glob("trees/[0-9a-f]*")]
        places += [(REPOSITORY, place) for folder in shared for place in folder.glob("*.git")]
        return [_of_place(kind, place) for kind, place in sorted(places) if place.is_dir()]

    def discard(self, kept: Kept) -> bool:
        """Remove one, unless another process is just fetching it."""
        place = Path(kept.key)
        lock = place.parents[1] / "trees.lock" if kept.kind == TREE else place.with_suffix(".lock")
        with locked_if_free(lock) as held:
            return held and ownership.remove_tree(place)


class Fetched:
    """Files of package indexes and archives that builds fetched through :mod:`reprokit.engine.site.gateway`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def kept(self) -> Sequence[Kept]:
        """Each file, by its path, and what downloads that were cut off left."""
        if not self._folder.is_dir():
            return []
        from reprokit.engine.site.gateway import downloads  # what a run that builds nothing does without

        found = [_of_place(DOWNLOAD, place) for place in downloads.kept_files(self._folder)]
        return found + [_of_place(REMAINS, place, 0.0) for place in downloads.remains(self._folder)]

    def discard(self, kept: Kept) -> bool:
        """Remove one; a build that reads it goes on reading."""
        with contextlib.suppress(OSError):
            Path(kept.key).unlink(missing_ok=True)
        return not Path(kept.key).exists()


class DebugFileCache:
    """What :mod:`reprokit.run.debug_files` keeps, by build id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def kept(self) -> Sequence[Kept]:
        """A folder for each build id."""
        return [_of_place(DEBUG_FILE, place) for place in sorted(self._folder.glob("[0-9a-f]*")) if place.is_dir()]

    def discard(self, kept: Kept) -> bool:
        """Remove one, unless another process is just fetching it."""
        place = Path(kept.key)
        with locked_if_free(place.with_suffix(".lock")) as held:
            return held and ownership.remove_tree(place)


class Scraps:
    """Small files that are made again at once, and folders of processes that have exited."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def kept(self) -> Sequence[Kept]:
        """Measurements of images, compiled templates and temporary folders."""
        measured = [(self._store / "measured").glob("*.json"), cache.folder("fleet").glob("*/measured/*.json")]
        places = [(MEASUREMENT, place, 1.0) for found in measured for place in sorted(found)]
        places += [(TEMPLATES, place, 1.0) for place in (cache.folder("templates"),) if place.is_dir()]
        places += [(TEMPORARY, place, 0.0) for place in ownership.orphan_folders()]
        return [_of_place(kind, place, seconds) for kind, place, seconds in places]

    def discard(self, kept: Kept) -> bool:
        """Remove one. The folder of the templates stays: a run may be about to write to it."""
        place = Path(kept.key)
        if kept.kind == TEMPORARY:
            return ownership.remove_tree(place)
        with contextlib.suppress(OSError):
            for file in (place,) if place.is_file() else tuple(place.iterdir()):
                file.unlink(missing_ok=True)
        return not used_bytes(place)


class Logs:
    """The logs of the store's finished runs; what repeats a trial by hand, and the verdicts, stay."""

    def __init__(self, store: Path) -> None:
        self._folder = store
        # By run and its end: a run under a budget lists all of them twice for each image that it builds.
        self._known: dict[tuple[str, str], tuple[float, frozenset[str]]] = {}

    def kept(self) -> Sequence[Kept]:
        """The logs of each run, with the time that its trials took."""
        if not (self._folder / "runs").is_dir():
            return []
        from reprokit.store.database import Store

        try:
            store = Store(self._folder)
        except StoreError as error:
            raise EngineError(f"the logs of runs are not counted: {error}") from error
        found = []
        waiting = set(undelivered(self._folder))
        for run in store.runs(limit=None):
            size = sum(used_bytes(log) for log in logs_of(self._folder, run.id))
            if size and run.finished_at and run.id not in waiting:
                ended = (run.id, run.finished_at)
                if ended not in self._known:
                    cells = store.run(run.id).cells
                    took = sum(trial.seconds for cell in cells for trial in cell.trials)
                    self._known[ended] = took, frozenset(cell.case_id for cell in cells)
                seconds, cases = self._known[ended]
                found.append(
                    Kept(
                        kind=LOG,
                        key=run.id,
                        name=f"logs of run {run.id}",
                        parts={f"{LOG} {run.id}": size},
                        used=max(log.stat().st_mtime for log in logs_of(self._folder, run.id)),
                        seconds=seconds,
                        cases=cases,
                    )
                )
        store.close()
        return found

    def discard(self, kept: Kept) -> bool:
        """Remove the logs of a run here, and leave a note of that where they are nowhere else."""
        try:
            remove_logs(self._folder, kept.key, note=files_of(self._folder) is None)
        except OSError as error:
            raise EngineError(f"the logs of run {kept.key} cannot be removed: {error}") from error
        return True


def _of_place(kind: str, place: Path, seconds: float | None = None) -> Kept:
    parts = {str(place): used_bytes(place)}
    return Kept(kind=kind, key=str(place), name=str(place), parts=parts, used=newest(place), seconds=seconds)

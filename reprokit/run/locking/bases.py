"""The base of a locked image: pulled by its digest, or made of exactly the packages that the lock names."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping

from reprokit.core import cache
from reprokit.core.errors import EngineError, Unsupported
from reprokit.core.ownership import locked, private_folder
from reprokit.engine import bases, site
from reprokit.engine.protocol import Engine, ImageInfo, Progress
from reprokit.environment import bootstrap
from reprokit.environment.catalog import Catalog
from reprokit.environment.lock import LockedBase, LockEntry
from reprokit.environment.model import BASE_PREFIX, Base

SHOWN = 5
"""Packages that a refusal names."""


def ensure(
    engine: Engine,
    entry: LockEntry,
    packages: Callable[[ImageInfo], Mapping[str, str]],
    cancel: threading.Event,
    on_progress: Callable[[Progress], None],
) -> ImageInfo:
    """The base image of a lock's entry. ``packages`` measures an image's own.

    Raises Unsupported where the engine is of another processor architecture than the lock's, and where neither its base
    nor the archive, of today or of the lock's day, has exactly the lock's packages; EngineError, Cancelled.
    """
    if entry.platform != (here := engine.info().architecture):
        raise Unsupported(
            f"the lock was made on {entry.platform}, and this engine is of {here}: other packages and files"
        )
    pins = entry.pins
    base = pins.base
    if base.source != "bootstrap":
        plain = Base(name=base.name, source="image", reference=base.reference)
        return bases.ensure(engine, plain, cancel, on_progress)
    if base.recipe != bootstrap.RECIPE:
        raise Unsupported(
            f"the lock's base {base.name} is of recipe {base.recipe}; this reprokit makes recipe {bootstrap.RECIPE}: "
            "make the lock again (reprokit lock --upgrade), or use the reprokit that wrote it"
        )
    if (found := engine.image(base.reference)) is not None:
        return found
    with locked(cache.folder("locks") / f"base-{base.name}.lock", cancel, "base image"):
        if (found := engine.image(base.reference)) is not None:
            return found
        ordinary = engine.image(BASE_PREFIX + base.name)
        if ordinary is not None and dict(packages(ordinary)) == dict(base.packages):
            return engine.tag(ordinary.id, base.reference)
        return _made(engine, base, pins.date, cancel, on_progress)


def _made(
    engine: Engine, base: LockedBase, date: str, cancel: threading.Event, on_progress: Callable[[Progress], None]
) -> ImageInfo:
    settings = site.settings()
    release = Catalog(settings.compatibility).releases()[base.name]
    snapshot = bootstrap.snapshot_of(release, date, settings.apt_snapshot)
    failures: list[str] = []
    for where, then in (("today", None), (f"at {snapshot.main}", snapshot)):
        name = f"make {release.name} from its packages {where}"
        on_progress(Progress(number=1, total=2, name=name))
        with private_folder("base") as scratch:
            scratch.chmod(0o755)  # a user namespace's root has to be able to enter
            try:
                rootfs = bootstrap.make(
                    release,
                    scratch,
                    cancel,
                    lambda line, name=name: on_progress(Progress(number=1, total=2, name=name, log=line)),  # type: ignore[misc]
                    mirror=settings.apt_mirror,
                    snapshot=then,
                )
            except EngineError as error:
                lines = str(error).splitlines()
                causes = [line for line in lines if re.search("resolve|fetch|connect|timed out|404", line, re.I)]
                failures.append(f"{where}: {(causes or lines)[-1].strip()}")
                continue
            has = bootstrap.packages_of(rootfs)
            if has == dict(base.packages):
                on_progress(Progress(number=2, total=2, name=f"import {base.reference}"))
                labels = {bases.LABEL_RELEASE: release.name, bases.LABEL_RECIPE: bootstrap.RECIPE}
                return engine.import_rootfs(rootfs, base.reference, labels)
            failures.append(f"{where}: {departures(base.packages, has)}")
    raise Unsupported(
        f"the lock's base {base.name} of {date} cannot be made again ({'; '.join(failures)}): set apt_snapshot to a "
        "snapshot of the archive that has these versions, or make the lock again (reprokit lock --upgrade)"
    )


def departures(locked: Mapping[str, str], has: Mapping[str, str]) -> str:
    """How packages depart from the locked ones, in words, the first few by name."""
    words = [
        f"{name} is {has.get(name) or 'missing'}, locked {locked.get(name) or 'without it'}"
        for name in sorted({*locked, *has})
        if locked.get(name) != has.get(name)
    ]
    return ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN} more" if len(words) > SHOWN else "")

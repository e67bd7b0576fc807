"""Builds from locks: which tasks they cover, what base and sources they name, and where an image departs from them."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from reprokit.case.cellspec import CellSpec
from reprokit.case.matrix import label
from reprokit.case.trust import Trust
from reprokit.core import cache
from reprokit.core.errors import BuildFailed, EngineError, ReprokitError, Unsupported, UsageError
from reprokit.core.ownership import locked, private_folder
from reprokit.core.version import __version__
from reprokit.engine import bases, bootstrap, site
from reprokit.engine.protocol import Build, Engine, ImageInfo, Progress
from reprokit.environment import dockerfile
from reprokit.environment.catalog import Catalog
from reprokit.environment.lock import GROUPS, Artefact, Lock, LockedBase, LockEntry, PinnedEnvironment, asked_digest
from reprokit.environment.measured import Measured
from reprokit.environment.model import BASE_PREFIX, Base, Environment, SourceTree
from reprokit.environment.resolving import resolve
from reprokit.run import lock_file, sources
from reprokit.run.task import Task


def asked_of(task: Task) -> str:
    """What a task asks for, as a lock remembers it."""
    return asked_digest(task.spec, reads_files=dockerfile.build_reads_files(task.spec, set()))


def fault(lock: Lock, task: Task) -> str:
    """Why ``lock`` does not hold for ``task``, in words; '' where it does."""
    name = label(task.cell) + (" [fix]" if task.variant == "fix" else "")
    found = lock.find(task.cell, task.variant)
    if found is None:
        without = task.variant == "fix" and not any(one.variant == "fix" for one in lock.cells)
        return (
            f"it was made without the fix, so the cell {name} is not in it"
            if without
            else f"the cell {name} is not in it"
        )
    if found[1].asked != asked_of(task):
        return f"the environment, sources or files of the cell {name} changed since it was locked"
    return ""


def hold_to_locks(tasks: Iterable[Task]) -> list[Task]:
    """The tasks, each held to its lock, or refused by it.

    Raises UsageError naming every lock that is missing or stale, and the cells.
    """
    locks: dict[Path, Lock | None] = {}
    found: list[Task] = []
    faults: dict[str, str] = {}
    for task in tasks:
        if task.reference is not None:
            task = replace(task, reference=hold_to_locks([task.reference])[0])
        path = lock_file.path_of(task.file.path, task.case.id)
        if path not in locks:
            locks[path] = lock_file.load(path)
        lock = locks[path]
        fix = f"reprokit lock {task.file.path}"
        if lock is None:
            faults[f"{path}: there is no such lock"] = fix
        elif why := fault(lock, task):
            faults[f"{path}: {why}"] = fix
        else:
            hit = lock.find(task.cell, task.variant)
            assert hit is not None
            entry, locked = hit
            here = {"held": PinnedEnvironment(lock=lock, entry=entry)} if entry else {"refused": lock.why(locked)}
            found.append(replace(task, **here))
    if faults:
        fixes = dict.fromkeys(faults.values())
        raise UsageError("\n  ".join(["--locked: the lock does not hold", *faults, *(f"fix: {one}" for one in fixes)]))
    return found


def unused_locks(tasks: Sequence[Task]) -> list[Path]:
    """The locks that lie beside the cases of ``tasks``."""
    paths = []
    for path, case_id in dict.fromkeys((task.file.path, task.case.id) for task in tasks):
        try:
            beside = lock_file.path_of(path, case_id)
        except UsageError:
            continue
        if beside.is_file():
            paths.append(beside)
    return paths


SHOWN = 5
"""Packages that a refusal names."""
_MISMATCH = re.compile(
    r"Expected sha256 ([0-9a-f]{64})(?:\s*(?:Expected|or) sha256 [0-9a-f]{64})*\s*Got\s+([0-9a-f]{64})"
)
_NO_FILE = re.compile(r"No matching distribution found for ([A-Za-z0-9._-]+)==")
_NO_VERSION = re.compile(r"E: Version '[^']*' for '([^']+)' was not found")
_NO_PACKAGE = re.compile(r"E: (?:Unable to locate package|Package) '?([a-z0-9+.-]+)'?")

_OUT_OF_REACH = re.compile(r"reprokit: out of reach: (\S+)")


def explain_by_lock(error: BuildFailed, lock: Lock, entry: LockEntry) -> ReprokitError:
    """A failed build in terms of the lock's lines, where it is about one of them; else the error as it is."""
    text = "\n".join(error.tail)
    if found := _MISMATCH.search(text):
        for group, one in _artefacts(entry):
            if one.sha256 == found[1]:
                reason = (
                    f"{lock.where(entry, *group, one.name, 'hash')}: the sha256 of {one.name} {one.version} is not "
                    f"that of the file which the index serves: locked {found[1]}, served {found[2]}"
                )
                return BuildFailed(reason, step=error.step, tail=error.tail, reason=reason)
    if found := _NO_FILE.search(text):
        for group, one in _artefacts(entry):
            if canonicalize_name(one.name) == canonicalize_name(found[1]):
                reason = f"{lock.where(entry, *group, one.name)}: the index no longer has {one.name} {one.version}"
                return BuildFailed(reason, step=error.step, tail=error.tail, reason=reason)
    gone = list(dict.fromkeys((*_NO_VERSION.findall(text), *_NO_PACKAGE.findall(text))))
    if gone := [name for name in gone if name in entry.pins.apt]:
        first = lock.where(entry, "apt", gone[0])
        names = ", ".join(f"{name} {entry.pins.apt[name]}" for name in gone[:SHOWN])
        more = f" and {len(gone) - SHOWN} more" if len(gone) > SHOWN else ""
        reach = _OUT_OF_REACH.search(text)
        why = (
            f"the archive no longer has {names}{more}, and {reach[1]} is out of reach"
            if reach
            else f"neither the archive nor its snapshot of {entry.pins.date} has {names}{more}"
        )
        return Unsupported(
            f"{first}: {why}; set apt_snapshot to a snapshot that has it, or make the lock again "
            "(reprokit lock --upgrade)"
        )
    return error


def another_image(lock: Lock, entry: LockEntry, tag: str) -> str:
    """In words, that an entry makes the image ``tag`` and not the one that it names."""
    why = (
        f"the lock was written by reprokit {lock.version}, this is {__version__}"
        if lock.version != __version__
        else "it was edited, or this reprokit builds otherwise than the one that wrote it"
    )
    return f"{lock.where(entry, 'image')}: what the lock holds makes {tag}, it names {entry.image}: {why}"


def departures(lock: Lock, entry: LockEntry, tag: str, measured: Measured, *, comparable: bool = True) -> list[str]:
    """Where an image departs from its lock, in words: its identity, and every package's version.

    ``comparable``: whether the image should be the lock's own (data given for this run make it another).
    """
    found = []
    if comparable and tag != entry.image:
        found.append(f"{another_image(lock, entry, tag)}; make it again (reprokit lock --upgrade)")
    pins = entry.pins
    apt = {**pins.base.packages, **pins.apt}
    has = measured.packages
    found += _differing(lock, entry, "apt", apt, has.get("apt", {}), whole=bool(pins.base.packages))
    normal: dict[str, str] = {canonicalize_name(name): version for name, version in has.get("pip", {}).items()}
    found += _differing(lock, entry, "pip", pins.installed, normal, whole=bool(pins.pip_itself))
    return found


def _differing(
    lock: Lock, entry: LockEntry, kind: str, locked: Mapping[str, str], has: Mapping[str, str], *, whole: bool
) -> list[str]:
    """``whole``: whether the lock knows everything of that kind, so that what it does not name is wrong, too."""
    names = sorted({*locked, *has} if whole else locked)
    wrong = [name for name in names if locked.get(name) != has.get(name)]
    words = [
        f"{lock.where(entry, kind, name)}: {name} is {has.get(name) or 'missing'} in the image, "
        f"locked {locked.get(name) or 'without it'}"
        for name in wrong[:SHOWN]
    ]
    return words + ([f"{len(wrong) - SHOWN} more {kind} packages differ"] if len(wrong) > SHOWN else [])


def _artefacts(entry: LockEntry) -> list[tuple[tuple[str | int, ...], Artefact]]:
    earlier = [(("pip_steps", at), one) for at, step in enumerate(entry.pins.pip_steps) for one in step]
    return [*(((group,), one) for group in GROUPS for one in entry.pins.group(group)), *earlier]


def locked_environment(
    held: PinnedEnvironment, spec: CellSpec, trees: Callable[[CellSpec], dict[str, SourceTree]]
) -> tuple[Environment, dict[str, SourceTree]]:
    """The environment on the lock's base, and the sources at the lock's commits.

    Raises Unsupported, and sources.SourceError where a tree is not the one that was locked.
    """
    entry = held.entry
    environment = resolve(spec, replace(entry.supply(), catalog=site.catalog()))
    base = replace(environment.base, reference=entry.pins.base.reference)
    at_commits = {
        name: replace(source, ref=entry.sources[name].commit)
        if name in entry.sources and sources.COMMIT.fullmatch(entry.sources[name].commit)
        else source
        for name, source in spec.sources.items()
    }
    fetched = trees(replace(spec, sources=at_commits))
    for name, tree in fetched.items():
        locked = entry.sources.get(name)
        if locked is None or tree.digest != locked.digest:
            raise sources.SourceError(
                f"{held.lock.where(entry, 'sources', name)}: source {name!r} is not the tree that was locked: "
                f"{tree.commit or 'a folder'} {tree.digest}"
            )
    return replace(environment, base=base), fetched


def build_locked(
    engine: Engine,
    request: Build,
    held: PinnedEnvironment,
    environment: Environment,
    on_progress: Callable[[Progress], None],
    cancel: threading.Event,
) -> ImageInfo:
    """Build a locked image; a failure names the lock's line where it is about one."""
    own = site.current()
    secrets = dict(own.secrets)
    if (release := site.catalog().releases().get(environment.os)) is not None:
        there = bootstrap.snapshot_of(release, held.entry.pins.date, site.settings().apt_snapshot)
        secrets["apt_snapshot"] = f"{there.main}\n{there.security}\n".encode()
    try:
        return engine.build(request, replace(own, secrets=secrets), on_progress, cancel)
    except BuildFailed as error:
        raise explain_by_lock(error, held.lock, held.entry) from error


def ensure_base(
    engine: Engine,
    entry: LockEntry,
    packages: Callable[[ImageInfo], Mapping[str, str]],
    trust: Trust,
    cancel: threading.Event,
    on_progress: Callable[[Progress], None],
) -> ImageInfo:
    """The base image of a lock's entry. ``packages`` measures an image's own. ``trust``: in the case of the lock.

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
        return bases.ensure(engine, plain, trust, cancel, on_progress)
    if base.recipe != bootstrap.RECIPE:
        raise Unsupported(
            f"the lock's base {base.name} is of recipe {base.recipe}; this reprokit makes recipe {bootstrap.RECIPE}: "
            "make the lock again (reprokit lock --upgrade), or use the reprokit that wrote it"
        )
    if (found := bases.find_made(engine, base.reference, base.name)) is not None:
        return found
    with locked(cache.folder("locks") / f"base-{base.name}.lock", cancel, "base image"):
        if (found := bases.find_made(engine, base.reference, base.name)) is not None:
            return found
        ordinary = engine.image(BASE_PREFIX + base.name)
        if ordinary is not None and dict(packages(ordinary)) == dict(base.packages):
            return engine.tag(ordinary.id, base.reference)
        return _make_base(engine, base, pins.date, cancel, on_progress)


def _make_base(
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
                return engine.import_rootfs(rootfs, base.reference, bases.labels_of_base(release.name))
            failures.append(f"{where}: {base_departures(base.packages, has)}")
    raise Unsupported(
        f"the lock's base {base.name} of {date} cannot be made again ({'; '.join(failures)}): set apt_snapshot to a "
        "snapshot of the archive that has these versions, or make the lock again (reprokit lock --upgrade)"
    )


def base_departures(locked: Mapping[str, str], has: Mapping[str, str]) -> str:
    """How packages depart from the locked ones, in words, the first few by name."""
    words = [
        f"{name} is {has.get(name) or 'missing'}, locked {locked.get(name) or 'without it'}"
        for name in sorted({*locked, *has})
        if locked.get(name) != has.get(name)
    ]
    return ", ".join(words[:SHOWN]) + (f" and {len(words) - SHOWN} more" if len(words) > SHOWN else "")

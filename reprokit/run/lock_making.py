"""``reprokit lock``: images are built or found, and written down beside the cases; and which locks are stale."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import canonicalize_name

from reprokit.case.cellspec import Limits
from reprokit.case.files import CaseFile
from reprokit.case.matrix import cell_key, label
from reprokit.case.read import LOCK_SUFFIX
from reprokit.core import json_text
from reprokit.core.errors import BuildFailed, EngineError, ReprokitError, Unsupported, UsageError
from reprokit.core.files import write
from reprokit.core.ownership import IMAGE_LABELS
from reprokit.core.text import pluralize
from reprokit.core.version import __version__
from reprokit.engine import bootstrap, site
from reprokit.engine.protocol import Build, Engine, ImageInfo, Progress, Trial
from reprokit.environment import dockerfile, installing
from reprokit.environment.axes import AXES
from reprokit.environment.lock import (
    Artefact,
    Lock,
    LockedBase,
    LockedCell,
    LockedSource,
    LockEntry,
    PinnedEnvironment,
    Pins,
    base_reference,
)
from reprokit.environment.measured import Measured
from reprokit.environment.model import Environment
from reprokit.environment.supply import Supply
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.run import lock_file
from reprokit.run.images import BuiltImage, ImageSpec, handed_files, image_for
from reprokit.run.loading import load_all
from reprokit.run.locked_build import another_image, asked_of, fault
from reprokit.run.measuring import measure
from reprokit.run.plan import plan
from reprokit.run.request import Request
from reprokit.run.sources import SourceTrees
from reprokit.run.task import Task
from reprokit.store.folder import Measurements

if TYPE_CHECKING:
    from reprokit.run.listener import Listener


@dataclass(frozen=True, kw_only=True)
class Stale:
    """Why a lock does not hold. ``path`` is the lock's file, ``reasons`` are in words, one for each cell.

    ``gone``: there is no case any more that a lock could be made for.
    """

    path: Path
    case: Path
    reasons: tuple[str, ...]
    gone: bool = False


def staleness(lock: Lock, task: Task) -> str:
    """As :func:`fault`, and whether what the lock holds still makes the image that it names, by this reprokit.

    That takes the trees of sources, which are not fetched to look: a cell that has sources is taken at its word.
    """
    found = lock.find(task.cell, task.variant)
    if (why := fault(lock, task)) or found is None or found[0] is None or task.spec.sources:
        return why
    try:
        tag = identity(lock, found[0], task, SourceTrees(lambda trust: {}, lambda text: None))
    except ReprokitError as error:
        return f"the cell {label(task.cell)} can no longer be made from it: {error}"
    return "" if tag == found[0].image else another_image(lock, found[0], tag)


def identity(lock: Lock, entry: LockEntry, task: Task, trees: SourceTrees) -> str:
    """The tag of the image that is built from an entry. Raises Unsupported, sources.SourceError."""
    image = image_for(
        replace(task, held=PinnedEnvironment(lock=lock, entry=entry)), Supply(base_source="registry"), trees
    )
    return image.tag({})


def stale_locks(folder: Path) -> list[Stale]:
    """The locks below ``folder`` that no longer hold for their cases, for doctors; locks without a case are among them.

    A cell that a lock holds and the case does not have is not a fault: its axes may have come from the command line.
    """
    found = []
    for path in sorted(folder.rglob("*" + LOCK_SUFFIX)):
        case = _case_of(path)
        gone = not case.is_file()
        try:
            lock = lock_file.load(path)
            files = [] if gone else [one for one in load_all([str(case)]) if lock and one.case.id == lock.case]
            if lock is not None and files:
                reasons = _reasons(lock, files)
            else:
                reasons = [f"{case} is gone" if gone or not lock else f"{case} holds no case {lock.case!r} any more"]
                gone = True
        except ReprokitError as error:
            reasons = [str(error)]
        if reasons:
            found.append(Stale(path=path, case=case, reasons=tuple(reasons), gone=gone))
    return found


def _case_of(path: Path) -> Path:
    stem = path.name[: -len(LOCK_SUFFIX)]
    names = [stem + ".yaml", stem + ".yml", *(stem.rpartition(".")[0] + suffix for suffix in (".md", ".markdown"))]
    return next((path.with_name(name) for name in names if path.with_name(name).is_file()), path.with_name(names[0]))


def _reasons(lock: Lock, files: Sequence[CaseFile]) -> list[str]:
    tasks = plan(files, Request(cases=(files[0].path,), fix=files[0].fixed is not None))
    known = {(task.variant, label(task.cell)): task for task in tasks}
    reasons = []
    for locked in lock.cells:
        task = known.get((locked.variant, label(locked.cell)))
        if task is not None and (why := staleness(lock, task)):
            reasons.append(why)
    return reasons


TAG_PREFIX = "reprokit/lock:"
"""Name of the images in which hashes are taken; each is removed at once."""
SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Standing:
    """An image that exists, with its base, and what was measured in the two.

    ``before``: builds of the image as each step of pip leaves it, but for the last step.
    """

    environment: Environment
    image: ImageInfo
    base: ImageInfo
    measured: Measured
    base_measured: Measured
    before: tuple[Build, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Hashed:
    """The files of the axes by group, those that each step of pip put there, and name -> version of local packages."""

    groups: Mapping[str, tuple[Artefact, ...]] = field(default_factory=dict)
    steps: tuple[tuple[Artefact, ...], ...] = ((),)
    local: Mapping[str, str] = field(default_factory=dict)


def pins_of(
    engine: Engine, standing: Standing, cancel: threading.Event, on_progress: Callable[[Progress], None]
) -> Pins:
    """What a locked build of the same image installs. Raises Unsupported for what cannot be pinned, EngineError."""
    environment = standing.environment
    _check_providers(environment)
    before, after = standing.base_measured.packages, standing.measured.packages
    hashed = _Hashed()
    if after.get("pip") or environment.installs:
        hashed = _hashes(engine, standing, cancel, on_progress)
    own = [one for step in hashed.steps for one in step if one.name == "pip" and environment.installs]
    *earlier, last = (tuple(one for one in step if one not in own) for step in hashed.steps)
    return Pins(
        base=_locked_base(standing),
        date=_date(standing.image.created),
        apt={name: version for name, version in after["apt"].items() if before["apt"].get(name) != version},
        pip_itself=tuple(own),
        pip=last,
        pip_steps=tuple(earlier),
        cuda=hashed.groups.get("cuda", ()),
        cudnn=hashed.groups.get("cudnn", ()),
        trees={name: found for name, found in hashed.groups.items() if name in environment.parts},
        local=hashed.local,
    )


def _check_providers(environment: Environment) -> None:
    """An interpreter of uv's is one of an exact version, whose hash uv knows; these are not."""
    gcc = environment.gcc
    if environment.base.source == "host":
        raise Unsupported("a lock holds a container image, and a virtual environment of this host is not one")
    if environment.manager == "dnf":
        raise Unsupported(f"a lock holds no RPM packages, and {environment.os or 'this image'} has them")
    parts = {"python": environment.python, "gcc": gcc, "cuda": environment.cuda, "cudnn": environment.cudnn}
    if solved := [f"{name} {part.version}" for name, part in parts.items() if part and part.source == "conda"]:
        verb = "is" if len(solved) == 1 else "are"
        raise Unsupported(
            f"{' and '.join(solved)} of conda-forge {verb} solved when it is built, and no lock holds what comes out"
        )
    if gcc and gcc.source == "image" and "@sha256:" not in gcc.image:
        raise Unsupported(f"gcc {gcc.version} comes from the image {gcc.image}, which is not known by its digest")


def _locked_base(standing: Standing) -> LockedBase:
    base = standing.environment.base
    if base.source == "bootstrap":
        packages = standing.base_measured.packages["apt"]
        return LockedBase(
            name=base.name,
            source=base.source,
            reference=base_reference(base.name, bootstrap.RECIPE, packages),
            recipe=bootstrap.RECIPE,
            packages=packages,
        )
    if "@sha256:" not in base.reference and not standing.base.digest:
        raise Unsupported(
            f"the base image {base.reference} is in this engine alone, so that no lock can name it for another: "
            "push it to a registry and name it from there"
        )
    pinned = base.reference if "@" in base.reference else f"{base.reference}@{standing.base.digest}"
    return LockedBase(name=base.name, source=base.source, reference=pinned)


def _date(created: str) -> str:
    """An engine's time stamp in whole seconds, UTC."""
    moment = datetime.fromisoformat(f"{created[:19]}+00:00") if created else datetime.now(timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _hashes(
    engine: Engine, standing: Standing, cancel: threading.Event, on_progress: Callable[[Progress], None]
) -> _Hashed:
    """What pip installed; its cache is warm from the build."""
    environment = standing.environment
    brought = standing.base_measured.packages.get("pip", {})
    # A virtual environment of ours sees nothing of what its base brought.
    skip = {} if environment.venv else {str(canonicalize_name(name)): version for name, version in brought.items()}
    axes = {axis.name: wheels for axis in AXES if axis.locked and (wheels := axis.locked(environment))}
    steps: list[tuple[Artefact, ...]] = []
    local: dict[str, str] = {}
    groups: dict[str, tuple[Artefact, ...]] = {}
    for number, before in enumerate((*standing.before, None)):
        own = environment.pip[number : number + 1]
        said = [text for step in own for text in (*step.options, *step.requirements)]
        words = [word for text in (*environment.pip_options, *said) for word in installing.split_words(text)]
        asked = {"options": installing.index_options(words), "skip": skip, "groups": {} if before else axes}
        with _as_left(engine, before, standing.image.tag, cancel, on_progress) as image:
            found = _asked_inside(engine, image, asked, cancel, on_progress, before=environment.pip_before)
        groups = {name: tuple(Artefact(**one) for one in rows) for name, rows in found["groups"].items()}
        steps.append(groups.pop("pip"))
        local |= {canonicalize_name(name): version for name, version in found["local"].items()}
        skip = {**skip, **local, **{one.name: one.version for one in steps[-1]}}
    return _Hashed(groups=groups, steps=tuple(steps), local=local)


@contextlib.contextmanager
def _as_left(
    engine: Engine, before: Build | None, whole: str, cancel: threading.Event, on_progress: Callable[[Progress], None]
) -> Iterator[str]:
    """The tag of the image as a step of pip leaves it, most of which the engine's cache has; ``whole``: after all."""
    if before is None:
        yield whole
        return
    try:
        engine.build(before, site.current(), on_progress, cancel)
    except BuildFailed as error:
        raise EngineError(f"the steps of pip cannot be taken again, one by one: {error}") from error
    try:
        yield before.tag
    finally:
        engine.remove_image(before.tag)


def _asked_inside(
    engine: Engine,
    image: str,
    asked: Mapping[str, Any],
    cancel: threading.Event,
    on_progress: Callable[[Progress], None],
    *,
    before: str = "",
) -> dict[str, Any]:
    """What ``hashes_inside.py`` prints in an image; ``before``: the limit of its pip."""
    files: Mapping[str, bytes | Path] = {
        "reprokit/hashes_inside.py": (Path(__file__).parent / "hashes_inside.py").read_bytes(),
        "reprokit/asked.json": json.dumps(asked, sort_keys=True).encode(),
    }
    rendered = dockerfile.render_one("hashes.j2", files, image=image, before=before)
    tag = lock_tag()
    build = Build(tag=tag, dockerfile=rendered.dockerfile, context=rendered.context, labels=IMAGE_LABELS)
    try:
        made = engine.build(build, site.current(), on_progress, cancel)
    except BuildFailed as error:
        said = [line for line in error.tail if "ERROR" in line] or list(error.tail[-3:])
        raise EngineError(f"what pip installed cannot be fetched again, to be hashed: {' '.join(said)}") from error
    try:
        found = _read_hashes(engine, made, cancel)
    finally:
        engine.remove_image(tag)
    if found["refused"]:
        raise Unsupported("; ".join(found["refused"]))
    return found


def lock_tag() -> str:
    """A name for an image that is removed at once: of its own, since another process may lock the same cell."""
    return TAG_PREFIX + uuid.uuid4().hex


def _read_hashes(engine: Engine, image: ImageInfo, cancel: threading.Event) -> dict[str, Any]:
    output: list[bytes] = []
    trial = Trial(
        image=image.id,
        command=("cat", "/reprokit-hashes.json"),
        env={},
        workdir="/",
        limits=Limits(timeout=SECONDS, user="root"),
    )
    engine.run(trial, output.append, cancel)
    text = b"".join(output).decode("utf-8", "replace")
    try:
        found: dict[str, Any] = json_text.loads(text)
    except ValueError:
        raise EngineError(f"the hashes that were taken in {image.tag} cannot be read: {text[-200:]}") from None
    return found


@dataclass(frozen=True, kw_only=True)
class LockRequest:
    """A lock that is asked for. ``old`` is what lies there, ``todo`` the tasks that it does not hold for."""

    path: Path
    old: Lock | None
    tasks: tuple[Task, ...]
    todo: tuple[Task, ...]
    faults: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Tasks of one case that no lock was made for, and why. ``lasting``: they are unsupported, and locked as that."""

    tasks: tuple[Task, ...]
    reason: str
    lasting: bool

    def __str__(self) -> str:
        cells = ", ".join(label(task.cell) for task in self.tasks)
        how = "locked as unsupported" if self.lasting else "not locked"
        return f"{self.tasks[0].case.id}: {cells}: {how}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class LockResult:
    """What became of the locks that were asked for: the paths that were ``written``, and what was refused."""

    wishes: tuple[LockRequest, ...]
    written: frozenset[Path] = frozenset()
    refused: tuple[Refusal, ...] = ()

    @property
    def exit_status(self) -> int:
        """0; 3 where a cell cannot be locked; 1 where a lock is stale, and was only looked at."""
        stale = any(one.todo for one in self.wishes) and not self.written
        return 3 if self.refused else 1 if stale else 0


def lock_requests(tasks: Sequence[Task], *, upgrade: bool) -> list[LockRequest]:
    """One for each case. ``upgrade``: lock again what is fresh, too. Raises UsageError for a broken lock."""
    by_path: dict[Path, list[Task]] = {}
    for task in tasks:
        if task.datasets:
            raise UsageError("--dataset: a lock is for everyone, and holds the data that the case generates")
        by_path.setdefault(lock_file.path_of(task.file.path, task.case.id), []).append(task)
    found = []
    for path, own in by_path.items():
        old = _old_lock(path, upgrade)
        faults = {task.number: staleness(old, task) if old else "there is no such lock" for task in own}
        found.append(
            LockRequest(
                path=path,
                old=old,
                tasks=tuple(own),
                todo=tuple(task for task in own if upgrade or faults[task.number]),
                faults=tuple(dict.fromkeys(why for why in faults.values() if why)),
            )
        )
    return found


def _old_lock(path: Path, upgrade: bool) -> Lock | None:
    try:
        return lock_file.load(path)
    except UsageError:
        if upgrade:  # what cannot be read is what it is made again for
            return None
        raise


def check_folders(found: Sequence[LockRequest]) -> None:
    """Raise UsageError where a lock has no folder that can be written into, before anything is built for it."""
    for wish in found:
        if wish.todo and not os.access(wish.path.resolve().parent, os.W_OK):
            raise UsageError(f"{wish.path}: cannot be written: its folder is read-only here; copy the case elsewhere")


def entries_of(
    engine: Engine,
    folder: Path,
    images: Sequence[tuple[ImageSpec, BuiltImage, Sequence[Task]]],
    request: Request,
    listener: Listener,
) -> tuple[list[tuple[int, LockEntry]], list[Refusal]]:
    """(number of the first of its tasks, entry) of each case in each image that exists, and what has none."""
    entries: list[tuple[int, LockEntry]] = []
    refused: list[Refusal] = []
    measurements, trees = Measurements(folder), SourceTrees(request.sources_for, listener.note)
    for image, ready, sharing in images:
        numbers = [task.number for task in sharing]

        def on_progress(progress: Progress, numbers: list[int] = numbers) -> None:
            if progress.log:
                listener.build_output(numbers, progress.log)
            else:
                listener.state(numbers, "building", "hashes of what pip installed")

        by_case: dict[str, list[Task]] = {}
        for task in sharing:
            by_case.setdefault(task.case.id, []).append(task)
        try:
            whole = _entry(engine, measurements, (image, ready, sharing), on_progress)
        except ReprokitError as error:
            lasting = isinstance(error, Unsupported)
            refused += [Refusal(tasks=tuple(own), reason=str(error), lasting=lasting) for own in by_case.values()]
            continue
        for tasks in by_case.values():
            entry = replace(whole, cells=tuple(_cell(task) for task in tasks))
            lock = Lock(path="", case=tasks[0].case.id, version=__version__, entries=(entry,))
            entries.append((tasks[0].number, replace(entry, image=identity(lock, entry, tasks[0], trees))))
    return entries, refused


def refusals_of(tasks: Sequence[Task], records: Sequence[CellRecord]) -> list[Refusal]:
    """The tasks of which no image could be had, by their ``records``."""
    of = {task.number: task for task in tasks}
    return [
        Refusal(
            tasks=(of[record.number],),
            reason=record.reason if record.verdict is Verdict.UNSUPPORTED else f"{record.verdict}: {record.reason}",
            lasting=record.verdict is Verdict.UNSUPPORTED,
        )
        for record in records
    ]


def _cell(task: Task, reason: str = "") -> LockedCell:
    return LockedCell(cell=task.cell, variant=task.variant, asked=asked_of(task), reason=reason)


def _entry(
    engine: Engine,
    measurements: Measurements,
    found: tuple[ImageSpec, BuiltImage, Sequence[Task]],
    on_progress: Callable[[Progress], None],
) -> LockEntry:
    """What a standing image is locked to, but for its cells. Raises ReprokitError for what cannot be pinned."""
    image, ready, tasks = found
    cancel = threading.Event()
    standing = Standing(
        environment=image.environment,
        image=ready.image,
        base=ready.base,
        measured=ready.measured,
        base_measured=measure(engine, measurements, ready.base, cancel=cancel, user="root"),
        before=tuple(_before(image, ready, tasks[0])),
    )
    return LockEntry(
        image="",
        platform=engine.info().architecture,
        cells=(),
        pins=pins_of(engine, standing, cancel, on_progress),
        providers=_providers(image),
        served_by=image.environment.served_by,
        sources={name: LockedSource(commit=tree.commit, digest=tree.digest) for name, tree in image.sources.items()},
    )


def _before(image: ImageSpec, ready: BuiltImage, task: Task) -> Iterator[Build]:
    """Builds of the image as the steps of pip leave it, each but the last."""
    names = {name: base.tag for name, base in ready.bases.items()}
    spec = replace(task.spec, files={}) if handed_files(task) else task.spec
    for count in range(1, len(image.environment.pip)):
        environment = replace(image.environment, pip=image.environment.pip[:count], setup="")
        rendered = dockerfile.render(environment, spec, sources=image.sources, given_datasets=set(spec.datasets))
        yield Build(
            tag=lock_tag(),
            dockerfile=rendered.starting_from(names),
            context=rendered.context,
            labels=IMAGE_LABELS,
        )


def _providers(image: ImageSpec) -> Mapping[str, str]:
    environment = image.environment
    # An image that the case names asks no supply for anything.
    chosen = {"base": "bootstrap" if environment.base.source == "bootstrap" else "registry"}
    for name, part in (("python", environment.python), ("gcc", environment.gcc)):
        if part is not None and (source := getattr(part, "source", "")):
            chosen[name] = source
    return chosen


def merge_lock(wish: LockRequest, new: Sequence[LockEntry], refused: Sequence[Refusal], whole: Collection[str]) -> Lock:
    """The lock with its new entries. ``whole``: variants of which all cells were asked for, so that others are gone."""
    taken = {(task.variant, cell_key(task.cell)) for task in wish.todo}
    asked = {(task.variant, cell_key(task.cell)) for task in wish.tasks}

    def staying(cells: Sequence[LockedCell]) -> tuple[LockedCell, ...]:
        names = [(cell, (cell.variant, cell_key(cell.cell))) for cell in cells]
        others = [(cell, name) for cell, name in names if name not in taken]
        return tuple(cell for cell, name in others if name in asked or cell.variant not in whole)

    old = wish.old or Lock(path="", case="", version="", entries=())
    kept = [replace(entry, cells=cells) for entry in old.entries if (cells := staying(entry.cells))]
    without = [*staying(old.unsupported), *(_cell(task, one.reason) for one in refused for task in one.tasks)]
    joined: dict[str, LockEntry] = {}
    for entry in (*kept, *new):
        same = joined.get(entry.image)
        joined[entry.image] = replace(same, cells=(*same.cells, *entry.cells)) if same else entry
    order = {(task.variant, cell_key(task.cell)): task.number for task in wish.tasks}
    entries = [replace(one, cells=tuple(sorted(one.cells, key=lambda c: _place(order, c)))) for one in joined.values()]
    return Lock(
        path=str(wish.path),
        case=wish.tasks[0].case.id,
        version=__version__,
        entries=tuple(sorted(entries, key=lambda one: _place(order, one.cells[0]))),
        unsupported=tuple(sorted(without, key=lambda one: _place(order, one))),
    )


def _place(order: Mapping[tuple[str, str], int], cell: LockedCell) -> tuple[int, str]:
    """The position of a cell: in the order of the case, those of other axes behind."""
    key = cell_key(cell.cell)
    return order.get((cell.variant, key), len(order) + 1), key


def write_lock(
    wish: LockRequest, entries: Sequence[tuple[int, LockEntry]], refused: Sequence[Refusal], whole: Collection[str]
) -> str:
    """Write what was found for a wish, whole or not at all; what was written, in words, '' where nothing was found.

    Raises UsageError for a folder that cannot be written into.
    """
    own = {task.number for task in wish.todo}
    new = [entry for number, entry in entries if number in own]
    lasting = [one for one in refused if one.lasting and one.tasks[0].number in own]
    if not new and not lasting:
        return ""
    lock = merge_lock(wish, new, lasting, whole)
    try:
        write(wish.path, lock_file.dumps(lock, Path(wish.tasks[0].file.path).name))
    except OSError as error:
        raise UsageError(f"{wish.path}: cannot be written: {error.strerror or error}") from error
    cells = sum(len(entry.cells) for entry in lock.entries)
    without = f", {len(lock.unsupported)} unsupported" if lock.unsupported else ""
    return f"{wish.path}: {pluralize(len(lock.entries), 'environment')}, {pluralize(cells, 'cell')}{without}"

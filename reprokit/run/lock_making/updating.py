"""``reprokit lock``: images are built or found, what is in them is written down beside the cases."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.matrix import cell_key, label
from reprokit.core.errors import ReprokitError, Unsupported, UsageError
from reprokit.core.files import write
from reprokit.core.ownership import IMAGE_LABELS
from reprokit.core.text import pluralize
from reprokit.core.version import __version__
from reprokit.engine.protocol import Build
from reprokit.environment import dockerfile
from reprokit.environment.lock import Lock, LockedCell, LockedSource, LockEntry
from reprokit.evidence.model import Verdict
from reprokit.evidence.records import CellRecord
from reprokit.run.images import BuiltImage, ImageSpec, SourceTrees, handed_files, measure
from reprokit.run.lock_making.collect import Standing, lock_tag, pins_of
from reprokit.run.lock_making.stale import identity, staleness
from reprokit.run.locking import file
from reprokit.run.locking.held import asked_of
from reprokit.run.task import Task
from reprokit.store.folder import Measurements

if TYPE_CHECKING:
    from reprokit.engine.protocol import Engine, Progress
    from reprokit.run.listener import Listener
    from reprokit.run.request import Request


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


def wishes(tasks: Sequence[Task], *, upgrade: bool) -> list[LockRequest]:
    """One for each case. ``upgrade``: lock again what is fresh, too. Raises UsageError for a broken lock."""
    by_path: dict[Path, list[Task]] = {}
    for task in tasks:
        if task.datasets:
            raise UsageError("--dataset: a lock is for everyone, and holds the data that the case generates")
        by_path.setdefault(file.path_of(task.file.path, task.case.id), []).append(task)
    found = []
    for path, own in by_path.items():
        old = _old(path, upgrade)
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


def _old(path: Path, upgrade: bool) -> Lock | None:
    try:
        return file.load(path)
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


def undecided(tasks: Sequence[Task], records: Sequence[CellRecord]) -> list[Refusal]:
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


def merged(wish: LockRequest, new: Sequence[LockEntry], refused: Sequence[Refusal], whole: Collection[str]) -> Lock:
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


def keep(
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
    lock = merged(wish, new, lasting, whole)
    try:
        write(wish.path, file.dumps(lock, Path(wish.tasks[0].file.path).name))
    except OSError as error:
        raise UsageError(f"{wish.path}: cannot be written: {error.strerror or error}") from error
    cells = sum(len(entry.cells) for entry in lock.entries)
    without = f", {len(lock.unsupported)} unsupported" if lock.unsupported else ""
    return f"{wish.path}: {pluralize(len(lock.entries), 'environment')}, {pluralize(cells, 'cell')}{without}"

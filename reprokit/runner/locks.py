"""``reprokit lock``: images are built or found, what is in them is written down beside the cases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit import __version__
from reprokit.environment.supply import Supply
from reprokit.errors import ReprokitError, UsageError
from reprokit.locking import file
from reprokit.locking.collect import Standing, pins_of
from reprokit.locking.model import Entry, Held, Lock, LockedCell, LockedSource
from reprokit.locking.standing import asked_of, fault
from reprokit.matrix import label
from reprokit.report.result import write
from reprokit.runner.images import Ready, SourceTrees, Wanted, measure, wanted
from reprokit.runner.plan import Task
from reprokit.store.folder import Measurements
from reprokit.store.records import cell_key

if TYPE_CHECKING:
    from reprokit.engine.protocol import Engine, Progress
    from reprokit.runner.listener import Listener
    from reprokit.runner.request import Request


@dataclass(frozen=True, kw_only=True)
class Wish:
    """A lock that is asked for. ``old`` is what lies there, ``todo`` the tasks that it does not hold for."""

    path: Path
    old: Lock | None
    tasks: tuple[Task, ...]
    todo: tuple[Task, ...]
    faults: tuple[str, ...]


def wishes(tasks: Sequence[Task], *, upgrade: bool) -> list[Wish]:
    """One for each case. ``upgrade``: lock anew what is fresh, too. Raises UsageError for a broken lock."""
    by_path: dict[Path, list[Task]] = {}
    for task in tasks:
        if task.datasets:
            raise UsageError("--dataset: a lock is for anybody, and holds the data that the case generates")
        by_path.setdefault(file.path_of(task.file.path, task.case.id), []).append(task)
    found = []
    for path, own in by_path.items():
        old = _old(path, upgrade)
        faults = {task.number: fault(old, task) if old else "there is no such lock" for task in own}
        found.append(
            Wish(
                path=path,
                old=old,
                tasks=tuple(own),
                todo=tuple(task for task in own if upgrade or faults[task.number]),
                faults=tuple(why for why in faults.values() if why),
            )
        )
    return found


def _old(path: Path, upgrade: bool) -> Lock | None:
    try:
        return file.load(path)
    except UsageError:
        if upgrade:  # what cannot be read is what it is made anew for
            return None
        raise


def entries_of(
    engine: Engine,
    folder: Path,
    stand: Sequence[tuple[Wanted, Ready, Sequence[Task]]],
    request: Request,
    listener: Listener,
) -> tuple[list[tuple[int, Entry]], list[str]]:
    """(number of the first of its tasks, entry) of each case in each standing image, and in words what has none."""
    entries, failed = [], []
    measurements, trees = Measurements(folder), SourceTrees(request.sources, listener.note)
    for image, ready, sharing in stand:
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
            failed += [
                f"{case_id}: not locked: {error}; cells: {', '.join(label(task.cell) for task in tasks)}"
                for case_id, tasks in by_case.items()
            ]
            continue
        for tasks in by_case.values():
            entry = replace(whole, cells=tuple(_cell(task) for task in tasks))
            entries.append((tasks[0].number, replace(entry, image=_identity(entry, tasks[0], trees))))
    return entries, failed


def _cell(task: Task) -> LockedCell:
    return LockedCell(cell=task.cell, variant=task.variant, asked=asked_of(task))


def _entry(
    engine: Engine,
    measurements: Measurements,
    found: tuple[Wanted, Ready, Sequence[Task]],
    on_progress: Callable[[Progress], None],
) -> Entry:
    """What a standing image is locked to, but for its cells. Raises ReprokitError for what cannot be pinned."""
    image, ready, _ = found
    cancel = threading.Event()
    standing = Standing(
        environment=image.environment,
        image=ready.image,
        base=ready.base,
        measured=ready.measured,
        base_measured=measure(engine, measurements, ready.base, cancel=cancel, user="root"),
    )
    return Entry(
        image="",
        platform=engine.info().architecture,
        cells=(),
        pins=pins_of(engine, standing, cancel, on_progress),
        providers=_providers(image),
        served_by=image.environment.served_by,
        sources={name: LockedSource(commit=tree.commit, digest=tree.digest) for name, tree in image.sources.items()},
    )


def _providers(image: Wanted) -> Mapping[str, str]:
    environment = image.environment
    # An image that the case names asks no supply for anything.
    chosen = {"base": "bootstrap" if environment.base.source == "bootstrap" else "registry"}
    for name, part in (("python", environment.python), ("gcc", environment.gcc)):
        if part is not None and (source := getattr(part, "source", "")):
            chosen[name] = source
    return chosen


def _identity(entry: Entry, task: Task, trees: SourceTrees) -> str:
    """The tag of the image that is built from an entry."""
    lock = Lock(path="", case=task.case.id, version=__version__, entries=(entry,))
    image = wanted(replace(task, held=Held(lock=lock, entry=entry)), Supply(base_source="registry"), trees)
    return image.tag({})


def merged(wish: Wish, new: Sequence[Entry], whole: Collection[str]) -> Lock:
    """The lock with its new entries. ``whole``: variants of which all cells were asked for, so that others are gone."""
    taken = {(task.variant, cell_key(task.cell)) for task in wish.todo}
    asked = {(task.variant, cell_key(task.cell)) for task in wish.tasks}
    kept = []
    for entry in wish.old.entries if wish.old else ():
        names = [(cell, (cell.variant, cell_key(cell.cell))) for cell in entry.cells]
        others = [(cell, name) for cell, name in names if name not in taken]
        cells = tuple(cell for cell, name in others if name in asked or cell.variant not in whole)
        if cells:
            kept.append(replace(entry, cells=cells))
    joined: dict[str, Entry] = {}
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
    )


def _place(order: Mapping[tuple[str, str], int], cell: LockedCell) -> tuple[int, str]:
    """Where a cell stands: in the order of the case, those of other axes behind."""
    key = cell_key(cell.cell)
    return order.get((cell.variant, key), len(order) + 1), key


def keep(wish: Wish, lock: Lock) -> Lock:
    """Write the lock, whole or not at all."""
    write(wish.path, file.dumps(lock, Path(wish.tasks[0].file.path).name))
    return lock

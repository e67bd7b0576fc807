"""What stays on the disk between runs: what there is, what goes so that the rest fits a budget, and how."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import fnmatch
import itertools
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from reprokit.case.matrix import cell_key, label
from reprokit.case.trust import ALLOWANCES
from reprokit.core import cache, ownership
from reprokit.core.errors import EngineError, UsageError
from reprokit.core.files import newest, used_bytes
from reprokit.core.ownership import locked_if_free
from reprokit.core.text import pluralize, size
from reprokit.engine import registry
from reprokit.engine.protocol import BASE, BUILD_CACHE, ENVIRONMENT, IMAGE, OTHER_CACHE, Engine, Kept
from reprokit.run import uses
from reprokit.run.task import Task
from reprokit.store.delivery import undelivered
from reprokit.store.errors import StoreError
from reprokit.store.files import files_of
from reprokit.store.folder import has_database
from reprokit.store.places import logs_of, remove_logs

LOG = "log"
BYTES_A_SECOND = 20e6
"""How fast what has no known cost is taken to be made again."""


@dataclass(frozen=True, kw_only=True)
class Removal:
    """Something to remove, and the bytes that are free once it and all before it are removed."""

    kept: Kept
    freed: int


@dataclass(frozen=True, kw_only=True)
class RemovalPlan:
    """``total``: bytes of all that is kept; ``left``: once ``removals``, in this order, are done; ``budget``: as asked.

    ``bound``: bytes of what must not be removed.
    """

    removals: tuple[Removal, ...]
    total: int
    left: int
    bound: int
    budget: int | None

    @property
    def seconds(self) -> float:
        """How long making all of it again would take."""
        return sum(cost(one.kept) for one in self.removals)


def cost(kept: Kept) -> float:
    """Seconds that making it again takes, by a guess from its size where that is not known."""
    return kept.bytes / BYTES_A_SECOND if kept.seconds is None else kept.seconds


def plan_removals(
    items: Iterable[Kept], *, now: float, budget: int | None = None, older_than: float | None = None
) -> RemovalPlan:
    """What to remove of ``items``: what was used last more than ``older_than`` seconds before ``now`` (both optional),
    and then as much as ``budget`` (bytes) asks for.
    """
    kept = {one.key: one for one in items}
    state = _State(kept)
    total = state.total
    for one in state.removable():
        if one.seconds == 0.0:  # what a process that has exited left
            state.remove(one)
    if older_than is not None:
        while old := [one for one in state.removable() if now - one.used > older_than]:
            state.remove(min(old, key=lambda one: (one.used, one.key)))
    while budget is not None and state.total > budget:
        if not (candidates := [one for one in state.removable() if one.bytes]):
            break
        # An engine lists what it made within one second in any order: a dry run and the run after it choose alike.
        state.remove(min(candidates, key=lambda one: (one.kind == LOG, state.worth(one, now), one.used, one.key)))
    bound = {part: size for one in kept.values() if one.stays for part, size in one.parts.items()}
    return RemovalPlan(
        removals=tuple(state.removals), total=total, left=state.total, bound=sum(bound.values()), budget=budget
    )


def by_kind(items: Iterable[Kept]) -> dict[str, tuple[int, int]]:
    """Kind -> how many, and the bytes of all of them; what two kinds share counts for the first."""
    found: dict[str, tuple[int, int]] = {}
    seen: set[str] = set()
    for one in items:
        count, total = found.get(one.kind, (0, 0))
        found[one.kind] = count + 1, total + sum(size for part, size in one.parts.items() if part not in seen)
        seen |= one.parts.keys()
    return found


class _State:
    """What is still kept while a plan is made."""

    def __init__(self, kept: dict[str, Kept]) -> None:
        self._kept = dict(kept)
        self._holders = collections.Counter(part for one in kept.values() for part in one.parts)
        self._needed = collections.Counter(key for one in kept.values() for key in one.needs)
        self.total = sum({part: size for one in kept.values() for part, size in one.parts.items()}.values())
        self.removals: list[Removal] = []

    def removable(self) -> Sequence[Kept]:
        return [one for one in self._kept.values() if not one.stays and not self._needed[one.key]]

    def worth(self, one: Kept, now: float) -> float:
        """What several share counts by its share."""
        share = sum(size / self._holders[part] for part, size in one.parts.items())
        idle = max(now - one.used, 0.0) / 86400 + 1
        return cost(one) * one.times / max(share, 1.0) / idle

    def remove(self, one: Kept) -> None:
        del self._kept[one.key]
        self._holders.subtract(one.parts.keys())
        self._needed.subtract(one.needs)
        freed = sum(size for part, size in one.parts.items() if not self._holders[part])
        self.total -= freed
        self.removals.append(Removal(kept=one, freed=freed))


OLD_JOBS = 30 * 86400
"""Seconds after which the jobs of a run that was killed, and not resumed, are not waited for."""
TREE, REPOSITORY, MEASUREMENT = "source tree", "source repository", "measurement"
TEMPLATES, TEMPORARY = "compiled templates", "temporary folder"
DOWNLOAD, REMAINS, DEBUG_FILE = "download", "part of a download", "debug file"


class Holder(Protocol):
    """What keeps things: see :class:`reprokit.engine.protocol.Engine` for both methods."""

    def kept(self) -> Sequence[Kept]:
        """What there is. Raises EngineError."""

    def discard(self, several: Sequence[Kept]) -> Sequence[Kept]:
        """Remove things of it; those that are gone. Raises EngineError."""


class _Files:
    """What is removed one by one."""

    def discard(self, several: Sequence[Kept]) -> Sequence[Kept]:
        """As :meth:`Holder.discard`."""
        return [one for one in several if self._remove(one)]

    def _remove(self, kept: Kept) -> bool:
        raise NotImplementedError


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


class SourceCache(_Files):
    """What :mod:`reprokit.run.sources` keeps: repositories, and trees exported from them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def kept(self) -> Sequence[Kept]:
        """Trees and repositories, by their paths."""
        shared = [self._folder, *(self._folder / one.domain for one in ALLOWANCES.values() if one.domain)]
        places = [(TREE, place) for folder in shared for place in folder.glob("trees/[0-9a-f]*")]
        places += [(REPOSITORY, place) for folder in shared for place in folder.glob("*.git")]
        return [_of_place(kind, place) for kind, place in sorted(places) if place.is_dir()]

    def _remove(self, kept: Kept) -> bool:
        """Remove one, unless another process is just fetching it."""
        place = Path(kept.key)
        lock = place.parents[1] / "trees.lock" if kept.kind == TREE else place.with_suffix(".lock")
        with locked_if_free(lock) as held:
            return held and ownership.remove_tree(place)


class Fetched(_Files):
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

    def _remove(self, kept: Kept) -> bool:
        """Remove one; a build that reads it goes on reading."""
        with contextlib.suppress(OSError):
            Path(kept.key).unlink(missing_ok=True)
        return not Path(kept.key).exists()


class DebugFileCache(_Files):
    """What :mod:`reprokit.run.debuggers` keeps, by build id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def kept(self) -> Sequence[Kept]:
        """A folder for each build id."""
        return [_of_place(DEBUG_FILE, place) for place in sorted(self._folder.glob("[0-9a-f]*")) if place.is_dir()]

    def _remove(self, kept: Kept) -> bool:
        """Remove one, unless another process is just fetching it."""
        place = Path(kept.key)
        with locked_if_free(place.with_suffix(".lock")) as held:
            return held and ownership.remove_tree(place)


class Scraps(_Files):
    """Small files that are made again at once, and folders of processes that have exited."""

    def __init__(self, store: Path) -> None:
        self._store = store

    def kept(self) -> Sequence[Kept]:
        """Measurements of images, compiled templates and temporary folders."""
        places = [(MEASUREMENT, place, 1.0) for place in sorted((self._store / "measured").glob("*.json"))]
        places += [(TEMPLATES, place, 1.0) for place in (cache.folder("templates"),) if place.is_dir()]
        jobs = [one for one in (self._store / "jobs").glob("*") if time.time() - one.lstat().st_mtime > OLD_JOBS]
        places += [(TEMPORARY, place, 0.0) for place in (*ownership.orphan_folders(), *jobs)]
        return [_of_place(kind, place, seconds) for kind, place, seconds in places]

    def _remove(self, kept: Kept) -> bool:
        """Remove one. The folder of the templates stays: a run may be about to write to it."""
        place = Path(kept.key)
        if kept.kind == TEMPORARY:
            return ownership.remove_tree(place)
        with contextlib.suppress(OSError):
            for file in (place,) if place.is_file() else tuple(place.iterdir()):
                file.unlink(missing_ok=True)
        return not used_bytes(place)


class Logs(_Files):
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
                    self._known[ended] = took, frozenset(cell.case_key for cell in cells)
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

    def _remove(self, kept: Kept) -> bool:
        """Remove the logs of a run here, and leave a note of that where they are nowhere else."""
        try:
            remove_logs(self._folder, kept.key, note=files_of(self._folder) is None)
        except OSError as error:
            raise EngineError(f"the logs of run {kept.key} cannot be removed: {error}") from error
        return True


def _of_place(kind: str, place: Path, seconds: float | None = None) -> Kept:
    parts = {str(place): used_bytes(place)}
    return Kept(kind=kind, key=str(place), name=str(place), parts=parts, used=newest(place), seconds=seconds)


ROUNDS = 5
"""How often a collection plans again, where things were used or freed less than was thought."""
YEAR = 365 * 86400.0
ENGINES = {IMAGE, BASE, BUILD_CACHE, OTHER_CACHE}
AT_ONCE = 50
"""Removals after which runs that want to use something get their turn, and the user sees what is gone."""


@dataclass(frozen=True, kw_only=True)
class RemovalRequest:
    """What a collection is asked for. ``keep``: patterns of names, keys and cases that stay; sizes in bytes.

    ``older_than``: seconds. ``other_cache``: build cache that may be another program's goes too, where no image uses
    it. ``logs``: whether logs may go.
    """

    budget: int | None = None
    older_than: float | None = None
    keep: tuple[str, ...] = ()
    other_cache: bool = False
    logs: bool = True


@dataclass(frozen=True, kw_only=True)
class Stock:
    """What is kept at one moment, each thing with what holds it."""

    held: tuple[tuple[Holder, Kept], ...]

    @property
    def items(self) -> list[Kept]:
        """The things alone."""
        return [kept for _, kept in self.held]

    def holder(self, kept: Kept) -> Holder:
        """What holds a thing."""
        return next(holder for holder, one in self.held if one.key == kept.key)


def stock(holders: Iterable[Holder], wanted: RemovalRequest, cases: Callable[[], dict[str, set[str]]] = dict) -> Stock:
    """What there is, with what is known of its uses. ``cases``: key -> ids of the cases that an image is of.

    Raises EngineError.
    """
    busy, of_cases = uses.in_use(), cases()
    found = []
    for holder in holders:
        for kept in holder.kept():
            if kept.kind == OTHER_CACHE and not wanted.other_cache:
                continue
            known = dataclasses.replace(kept, cases=kept.cases | of_cases.get(kept.key, set()))
            if (last := uses.last(kept.key)) is not None:
                seconds = known.seconds if last.seconds is None else last.seconds
                used, times = max(known.used, last.at), max(last.times, 1)
                known = dataclasses.replace(known, used=used, times=times, seconds=seconds)
            stays = known.stays or _stays(known, busy, wanted)
            found.append((holder, dataclasses.replace(known, stays=stays)))
    return Stock(held=tuple(found))


def _stays(kept: Kept, busy: Collection[str], wanted: RemovalRequest) -> str:
    if not {kept.key, *kept.also}.isdisjoint(busy):
        return "a run uses it"
    if kept.kind == LOG and not wanted.logs:
        return "only reprokit gc removes logs"
    words = (kept.name, kept.key, *kept.also, *kept.cases)
    chosen = [text for text in wanted.keep if any(fnmatch.fnmatchcase(word, text) for word in words)]
    return f"--keep {chosen[0]}" if chosen else ""


def plan_collection(found: Stock, wanted: RemovalRequest, *, more: int = 0) -> RemovalPlan:
    """What is to be removed. ``more``: bytes that have to be free below the budget."""
    budget = None if wanted.budget is None else max(wanted.budget - more, 0)
    return plan_removals(found.items, now=time.time(), budget=budget, older_than=wanted.older_than)


def carry_out(
    plan: RemovalPlan, found: Stock, on_removed: Callable[[Removal], None], cancel: threading.Event | None = None
) -> int:
    """Do what was planned, but for what is in use by now; returns how many things were removed.

    Each thing by itself is removed whole or listed again the next time. Raises EngineError, Cancelled.
    """
    done = 0
    for holder, some in _batches(plan, found):
        with uses.removing(cancel):
            busy = uses.in_use()
            free = [one.kept for one in some if busy.isdisjoint({one.kept.key, *one.kept.also})]
            gone = {one.key for one in holder.discard(free)} if free else set()
        for removal in some:
            if removal.kept.key not in gone:
                continue
            if removal.kept.kind in (IMAGE, ENVIRONMENT):
                uses.remember(removal.kept.key, size=removal.freed)
            done += 1
            on_removed(removal)
    return done


def _batches(plan: RemovalPlan, found: Stock) -> Iterator[tuple[Holder, list[Removal]]]:
    """Removals that go at once: an engine is asked what it has only once for all of them."""
    for _, together in itertools.groupby(plan.removals, lambda one: one.kept.kind in ENGINES or one.kept.key):
        some = list(together)
        for at in range(0, len(some), AT_ONCE):
            yield found.holder(some[at].kept), some[at : at + AT_ONCE]


class Keeper:
    """Holds a run to its budget, and what it uses against other processes. Thread-safe.

    ``wanted``: without a budget nothing is removed. ``note``: takes a sentence for the user.
    """

    def __init__(
        self,
        wanted: RemovalRequest | None = None,
        holders: Callable[[], Sequence[Holder]] = tuple,
        note: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.uses = uses.Uses()
        self._wanted = wanted or RemovalRequest()
        self._holders = holders
        self._note = note
        self._lock = threading.Lock()
        self._noted: set[str] = set()
        self._reserved: dict[str, int] = {}
        self._total = self._largest = 0

    @contextlib.contextmanager
    def room(self, key: str, cancel: threading.Event, *, waits: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """A block in which an image is made. Before it, so much is removed that the image fits.

        What it took the last time counts, else the most that an image of this run took. Waits for as long as ``waits``
        and the budget is exceeded: what trials of this run use goes later. Raises Cancelled.
        """
        last = uses.last(key)
        self._reserved[key] = last.size if last and last.size else self._largest
        try:
            while not self._collect(cancel) and waits() and not cancel.is_set():
                self.uses.wait_for_end(5.0)
            before = self._total
            yield
        finally:
            del self._reserved[key]
        self._collect(cancel, before)

    def _collect(self, cancel: threading.Event, before: int | None = None) -> bool:
        """Remove what the budget asks for; whether it is kept now. ``before``: bytes before an image was made."""
        if self._wanted.budget is None:
            return True
        done: list[Removal] = []
        with self._lock:
            try:
                more = sum(list(self._reserved.values()))
                left = collect(self._holders(), self._wanted, done.append, more=more, cancel=cancel)
            except (EngineError, OSError) as error:  # of the housekeeping: the cells are not concerned
                self._say(f"the budget cannot be kept: {error}")
                return True
            finally:
                for one in done:
                    self._note(f"removed for the budget: {one.kept.kind} {one.kept.name}, {size(one.freed)}")
            self._total = left.total
            if before is not None:
                self._largest = max(self._largest, left.total + sum(one.freed for one in done) - before)
        if left.total > self._wanted.budget:
            self._say(
                f"the budget of {size(self._wanted.budget)} is exceeded: {size(left.bound)} are in use by runs, or kept"
            )
        return left.total <= (left.budget or 0)

    def _say(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)


def collect(
    holders: Sequence[Holder],
    wanted: RemovalRequest,
    on_removed: Callable[[Removal], None],
    *,
    more: int = 0,
    cancel: threading.Event | None = None,
    cases: Callable[[], dict[str, set[str]]] = dict,
) -> RemovalPlan:
    """Remove until what is left is as wanted; returns the plan that is left over, which removes what could not be.

    Raises EngineError, Cancelled.
    """
    for _ in range(ROUNDS):
        # One at a time: what another collection removes meanwhile would count as kept, and too much would go.
        with uses.collecting(cancel):
            found = stock(holders, wanted, cases)
            todo = plan_collection(found, wanted, more=more)
            if not carry_out(todo, found, on_removed, cancel):
                break
    else:
        todo = plan_collection(stock(holders, wanted, cases), wanted, more=more)
    uses.forget_before(time.time() - YEAR)
    return todo


def check_room(tasks: Sequence[Task], store: Path, budget: int | None) -> str:
    """A sentence where the images together pass the budget, so that some are built more than once; else ''.

    Images that were never built here count nothing. Raises UsageError where one image alone passes the budget.
    """
    if budget is None or not has_database(store):
        return ""
    images = _image_sizes(tasks, store)
    largest, task = max(images.values(), key=lambda found: found[0], default=(0, None))
    if task is not None and largest > budget:
        raise UsageError(
            f"{task.case.id}: {label(task.cell)}: its image took {size(largest)} when it was built last, and the "
            f"budget is {size(budget)}: raise budget (reprokit.toml, REPROKIT_BUDGET), or leave out the cell by --skip"
        )
    total = sum(found for found, _ in images.values())
    if total <= budget:
        return ""
    return (
        f"{pluralize(len(images), 'image')} of this run took up to {size(total)} when they were built last, and the "
        f"budget is {size(budget)}: images are removed while it runs, and built again when they are needed"
    )


def _image_sizes(tasks: Sequence[Task], store: Path) -> dict[str, tuple[int, Task]]:
    """Tag -> bytes and a task, of each image that the newest run of the tasks' cases recorded."""
    from reprokit.store.database import Store

    opened = Store(store)
    wanted = {(task.file.key, cell_key(task.cell), task.variant): task for task in tasks}
    found: dict[str, tuple[int, Task]] = {}
    for case in {task.file.key for task in tasks}:
        _, cells = opened.last_seen(case) or (None, [])
        for cell in cells:
            task = wanted.get((cell.case_key, cell_key(cell.cell), cell.variant))
            if task is not None and cell.image is not None:
                found[cell.image.tag] = (cell.image.size or 0, task)
    opened.close()
    return found

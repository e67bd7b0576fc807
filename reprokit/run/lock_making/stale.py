"""Whether a lock still holds for its case: every selected cell is in it, and asks for what it asked then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from reprokit.case.files import CaseFile
from reprokit.case.matrix import label
from reprokit.case.read import LOCK_SUFFIX
from reprokit.core.errors import ReprokitError
from reprokit.environment.cases import load_all
from reprokit.environment.lock import Lock, LockEntry, PinnedEnvironment
from reprokit.environment.supply import Supply
from reprokit.run.images import SourceTrees, wanted
from reprokit.run.locking import file
from reprokit.run.locking.held import fault
from reprokit.run.locking.verify import another_image
from reprokit.run.plan import plan
from reprokit.run.request import Request
from reprokit.run.task import Task


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
    image = wanted(replace(task, held=PinnedEnvironment(lock=lock, entry=entry)), Supply(base_source="registry"), trees)
    return image.tag({})


def stale(folder: Path) -> list[Stale]:
    """The locks below ``folder`` that no longer hold for their cases, for doctors; locks without a case are among them.

    A cell that a lock holds and the case does not have is not a fault: its axes may have come from the command line.
    """
    found = []
    for path in sorted(folder.rglob("*" + LOCK_SUFFIX)):
        case = _case_of(path)
        gone = not case.is_file()
        try:
            lock = file.load(path)
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

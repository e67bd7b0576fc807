"""Which tasks are held to the locks beside their cases, and whether each lock covers what its task asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from reprokit.case.matrix import label
from reprokit.core.errors import UsageError
from reprokit.environment import dockerfile
from reprokit.environment.lock import Lock, PinnedEnvironment, asked_digest
from reprokit.run.locking import file
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


def held(tasks: Iterable[Task]) -> list[Task]:
    """The tasks, each held to its lock, or refused by it.

    Raises UsageError naming every lock that is missing or stale, and the cells.
    """
    locks: dict[Path, Lock | None] = {}
    found: list[Task] = []
    faults: dict[str, str] = {}
    for task in tasks:
        if task.reference is not None:
            task = replace(task, reference=held([task.reference])[0])
        path = file.path_of(task.file.path, task.case.id)
        if path not in locks:
            locks[path] = file.load(path)
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


def unused(tasks: Sequence[Task]) -> list[Path]:
    """The locks that lie beside the cases of ``tasks``."""
    paths = []
    for path, case_id in dict.fromkeys((task.file.path, task.case.id) for task in tasks):
        try:
            beside = file.path_of(path, case_id)
        except UsageError:
            continue
        if beside.is_file():
            paths.append(beside)
    return paths

"""Runs cells again whose inputs an edit has changed: the case, its files, and the folders that stand in for others."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from reprokit.case.matrix import cell_key
from reprokit.core.errors import CaseError, UsageError
from reprokit.core.text import pluralize
from reprokit.run.loading import load_all
from reprokit.run.plan import narrow_to, plan
from reprokit.run.request import Request
from reprokit.run.task import Task

POLL = 0.5
"""Seconds between two looks at the files."""
Stamps = dict[str, tuple[int, int]]
"""Path of a file -> when it was changed, and its size."""


def until_changed(watched: Iterable[Path], before: Stamps) -> None:
    """Return once a file was edited, made or removed below ``watched``."""
    watched = list(watched)
    while stamps(watched) == before:
        time.sleep(POLL)


def watch(
    request: Request,
    run: Callable[[Request], int],
    say: Callable[[str], None],
    wait: Callable[[Iterable[Path], Stamps], None] = until_changed,
) -> int:
    """Run the cells of a request, and again those that an edit touches, until Ctrl-C; the exit status of the last run.

    ``run``: runs a request. Raises UsageError for cases that are not files of this host.
    """
    for case in request.cases:
        if not Path(case).exists():
            raise UsageError(f"--watch: {case} is not a file or folder of this host, which could be watched")
    watched = [Path(case) for case in request.cases] + [*request.sources.values(), *request.datasets.values()]
    known: dict[tuple[str, str, str], tuple[Any, ...]] = {}
    status = 0
    try:
        while True:
            before = stamps(watched)
            try:
                tasks = plan(load_all(request.cases), request)
                now = {_name(task): _inputs(task, request) for task in tasks}
                if changed := [task for task in tasks if known.get(_name(task)) != now[_name(task)]]:
                    status = run(narrow_to(request, changed))
                if status == 130:
                    return status
                known = now
            except (CaseError, UsageError) as error:
                say(str(error))
            say(f"watching {pluralize(len(before), 'file')}; Ctrl-C ends")
            wait(watched, before)
    except KeyboardInterrupt:
        return status


def stamps(watched: Iterable[Path]) -> Stamps:
    """What tells an edit, of files and of all files below folders; hidden ones are left out."""
    found: Stamps = {}
    for path in watched:
        if path.is_dir():
            for parent, folders, names in os.walk(path):
                folders[:] = [name for name in folders if not name.startswith(".") and name != "__pycache__"]
                found.update(_stamp(Path(parent, name)) for name in names if not name.startswith("."))
        else:
            found.update([_stamp(path)])
    return found


def _stamp(path: Path) -> tuple[str, tuple[int, int]]:
    try:
        status = path.stat()
    except OSError:  # removed meanwhile, or a link to nowhere
        return str(path), (0, 0)
    return str(path), (status.st_mtime_ns, status.st_size)


def _name(task: Task) -> tuple[str, str, str]:
    return task.case.id, cell_key(task.cell), task.variant


def _inputs(task: Task, request: Request) -> tuple[Any, ...]:
    """All that decides what a cell shows, of what a user edits."""
    sources = [request.sources_for(task.file.trust).get(name) for name in task.spec.sources]
    folders = [*filter(None, sources), *task.datasets.values()]
    return task.spec, task.case.expect, task.expected, task.trials, stamps(folders)

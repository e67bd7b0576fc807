"""Which cells a run leaves out: those that the last run of their case decided as expected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reprokit.case.matrix import cell_key
from reprokit.core.errors import UsageError
from reprokit.run.chosen import Chosen
from reprokit.run.plan import plan
from reprokit.run.request import Request

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.case.matrix import Cell
    from reprokit.run.task import Task
    from reprokit.store.database import Store


def only_failed(store: Store, files: Sequence[CaseFile], request: Request) -> Request:
    """The request for those of its cells that departed from what their case expects, or were inconclusive, in the last
    run of their case. Raises UsageError where there is none.
    """
    failed: set[tuple[str, str]] = set()
    unknown: list[str] = []
    for file in files:
        seen = store.last_seen(file.case.id)
        if seen is None:
            unknown.append(file.case.id)
        for cell in seen[1] if seen else ():
            if cell.as_expected is False or cell.verdict is None or not cell.verdict.conclusive:
                failed.add((file.case.id, cell_key(cell.cell)))
    if len(unknown) == len(files):
        raise UsageError(f"--failed: no run of {', '.join(unknown)} is recorded here: run without --failed first")
    tasks = [task for task in plan(files, request) if (task.case.id, cell_key(task.cell)) in failed]
    if not tasks:
        raise UsageError("--failed: in the last run, all of these cells were conclusive and as expected")
    return only(request, tasks)


def only(request: Request, tasks: Sequence[Task]) -> Request:
    """The request for the cells of these tasks, with their fixed variants where it asks for them."""
    cells: dict[tuple[str, str], list[Cell]] = {}
    for task in tasks:
        named = cells.setdefault((task.file.path, task.file.digest), [])
        if task.cell not in named:
            named.append(task.cell)
    chosen = tuple(
        Chosen(path=path, digest=digest, cells=tuple(named), fix=request.fix) for (path, digest), named in cells.items()
    )
    return replace(request, chosen=chosen)

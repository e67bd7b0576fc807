"""Whether the images of a run fit into the budget, by what they took when they were built last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reprokit.case.matrix import cell_key, label
from reprokit.core.errors import UsageError
from reprokit.core.text import pluralize, size
from reprokit.run.task import Task
from reprokit.store.folder import has_database


def check_room(tasks: Sequence[Task], store: Path, budget: int | None) -> str:
    """A sentence where the images together pass the budget, so that some are built more than once; else ''.

    Images that were never built here count nothing. Raises UsageError where one image alone passes the budget.
    """
    if budget is None or not has_database(store):
        return ""
    images = _sizes(tasks, store)
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


def _sizes(tasks: Sequence[Task], store: Path) -> dict[str, tuple[int, Task]]:
    """Tag -> bytes and a task, of each image that the newest run of the tasks' cases recorded."""
    from reprokit.store.database import Store

    opened = Store(store)
    wanted = {(task.case.id, cell_key(task.cell), task.variant): task for task in tasks}
    found: dict[str, tuple[int, Task]] = {}
    for case in {task.case.id for task in tasks}:
        _, cells = opened.last_seen(case) or (None, [])
        for cell in cells:
            task = wanted.get((cell.case_id, cell_key(cell.cell), cell.variant))
            if task is not None and cell.image is not None:
                found[cell.image.tag] = (cell.image.size or 0, task)
    opened.close()
    return found

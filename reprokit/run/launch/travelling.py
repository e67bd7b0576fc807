"""What travels to a node: the cells, the texts of their cases with their locks, and the options of the run.

No file of this host's configuration goes, and no credential: a node has its own.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from reprokit.case.matrix import cell_key
from reprokit.case.trust import ALLOWANCES
from reprokit.core.errors import UsageError
from reprokit.evidence.sequential import Trials
from reprokit.run import lock_file
from reprokit.run.launch.job import CELLS
from reprokit.run.request import Chosen, Request, chosen_to_json
from reprokit.run.task import Task


def write_cells(folder: Path, name: str, tasks: Sequence[Task], store: Path, *, locked: bool) -> None:
    """Write the entry of ``reprokit run --cells`` for these tasks into a job's folder, with all that it names.

    ``store``: whose base images the node takes, as they were when that first saw them.
    """
    cases: dict[str, list[Task]] = {}
    for task in tasks:
        cases.setdefault(task.file.digest, []).append(task)
    chosen = []
    for number, (digest, some) in enumerate(cases.items(), 1):
        file = some[0].file
        stem = re.sub(r"[^A-Za-z0-9._-]", "-", PurePath(file.path).stem).strip(".-") or "case"
        path = f"cases/{number}/{stem[:80]}.yaml"
        (folder / path).parent.mkdir(parents=True)
        (folder / path).write_text(file.text, encoding="utf-8")
        if locked:
            with suppress(UsageError):
                there = lock_file.path_of(path, file.case.id)
                shutil.copyfile(lock_file.path_of(file.path, file.case.id), folder / there)
        cells = {cell_key(task.cell): task.cell for task in some}
        fix = any(task.variant == "fix" for task in some)
        chosen.append(Chosen(path=path, digest=digest, cells=tuple(cells.values()), fix=fix, trust=file.trust))
    entry = {"name": name, "cases": chosen_to_json(chosen)}
    (folder / CELLS).write_text(json.dumps(entry, ensure_ascii=False, indent=1), encoding="utf-8")
    with suppress(FileNotFoundError):
        (folder / "store").mkdir(mode=0o700)
        shutil.copyfile(store / "bases.json", folder / "store" / "bases.json")


def words_of(request: Request, tasks: Sequence[Task], more: int = 0) -> list[str]:
    """The words of ``reprokit`` that run the cells as this request asks; ``more``: so many trials of each instead.

    Nodes repeat nothing to confirm what cells say: which are worth it, all cells of a case together show.
    """
    trials = None if request.trials is None else Trials.of(request.trials)
    words = ["run", "--cells", CELLS, "--store", "store", "--confirm", "never"]
    if more or (trials is not None and trials.rate is None):
        words += ["--trials", str(more or (trials and trials.max))]
    elif trials is not None:
        words += ["--trials", f"max={trials.max},confidence={trials.confidence},rate={trials.rate}"]
    words += ["--engine", request.engine] if request.engine != "auto" else []
    words += ["--base", request.base_images] if request.base_images != "auto" else []
    words += ["--locked"] if request.locked else []
    words += ["--refresh-bases"] if request.refresh_bases else []
    words += ["--backtrace"] if request.backtrace else []
    for option, folders in (("--dataset", request.datasets), ("--source", request.sources)):
        for name, path in folders.items():
            words += [f"{option}={name}={path.absolute()}"] if f"{option} {name}" in request.named else []
    return [*words, "--yes"] if any(ALLOWANCES[task.file.trust].asks for task in tasks) else words


def describe(tasks: Sequence[Task], request: Request) -> list[str]:
    """What would travel, in lines for a reader."""
    cases = {task.file.digest: task.file for task in tasks}
    lines = [f"the text of {file.path} ({digest[:19]}, {file.trust.value})" for digest, file in cases.items()]
    lines += [f"the lock of {file.path}" for file in cases.values() if request.locked]
    return [
        *lines,
        "the digests of base images that this store has seen",
        f"the command: reprokit {shlex.join(words_of(request, tasks))}",
    ]

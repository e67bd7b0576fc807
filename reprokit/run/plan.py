"""From case files and a request to the tasks of a run. Reads the host's datasets, builds and runs nothing."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reprokit.case.cellspec import CellSpec, DatasetSpec
from reprokit.case.comparing import FEWEST_TRIALS
from reprokit.case.files import CaseFile
from reprokit.case.filters import choose
from reprokit.case.matrix import Cell, cell_key
from reprokit.case.model import Case
from reprokit.core.errors import UsageError
from reprokit.core.files import file_digest
from reprokit.core.near_match import near
from reprokit.engine import registry, site
from reprokit.environment.cases import select
from reprokit.environment.existing import nonexistent
from reprokit.evidence.model import RULES_VERSION, Verdict
from reprokit.evidence.origin import WorkflowRecord
from reprokit.evidence.ratio import MOST_PAIRS
from reprokit.evidence.sequential import Trials
from reprokit.run.cell_records import blank_record
from reprokit.run.comparing import with_references
from reprokit.run.loading import load_all
from reprokit.run.locked_build import hold_to_locks
from reprokit.run.request import Chosen, Request, cells_named
from reprokit.run.task import Task, expected_verdict, spec_of

if TYPE_CHECKING:
    from reprokit.store.database import Store
    from reprokit.store.merging import Planned


def plan(files: Sequence[CaseFile], request: Request) -> list[Task]:
    """The tasks of a run, numbered from 1 in the order in which people see them.

    Raises UsageError (nothing is selected, a wrong name) or CaseError (a template fails for a cell).
    """
    digests = {one.digest for one in request.chosen}
    chosen = [file for file in files if file.digest in digests] if digests else choose(files, request.filter)
    for option, given, known in (
        ("--dataset", request.datasets, {name for file in chosen for name in file.case.datasets}),
        ("--source", request.sources, {name for file in chosen for name in file.case.sources}),
    ):
        _check_names(option, [name for name in given if f"{option} {name}" in request.named], known)
    cells = with_references(_selected(chosen, request))
    tasks: list[Task] = []
    checked: dict[tuple[str, str], Path] = {}
    for file, cell, fix in cells:
        fixed = file.fixed if fix and file.case.fix_applies(cell) else None
        for variant, case in (("case", file.case), ("fix", fixed)):
            if case is not None:
                tasks.append(task_of(len(tasks) + 1, file, case, variant, cell, request, checked))
    if request.fix and all(task.variant == "case" for task in tasks):
        raise UsageError("--fix: in none of the selected cells does a fix make sense (fix.only names where it does)")
    if request.locked:
        check_locks(request)
        return hold_to_locks(tasks)
    return tasks


def check_locks(request: Request) -> None:
    """Raise UsageError where the engine that was asked for cannot build what a lock holds."""
    if not registry.capabilities(request.engine).locks:
        raise UsageError(f"--engine {request.engine}: a lock is of container images, and this engine makes none")


def _selected(chosen: Sequence[CaseFile], request: Request) -> list[tuple[CaseFile, Cell, bool]]:
    """The cells that a request asks for with their cases, and whether with the fix. Raises UsageError for none."""
    if request.chosen:
        return cells_named(chosen, request.chosen)
    if request.fix and not any(file.fixed for file in chosen):
        raise UsageError("--fix: none of the chosen cases has a fix")
    cells = [(file, cell, request.fix) for file, cell in cells_of(chosen, request)]
    if not cells:
        raise UsageError("the selection is empty: no cell is left by --only, --skip, the axis options and exclude")
    return cells


def cells_of(files: Iterable[CaseFile], request: Request) -> Iterable[tuple[CaseFile, Cell]]:
    """The selected cells of several cases.

    Raises UsageError when the selection names what none of them has, or a value that no release has.
    """
    files, selection = list(files), request.selection
    found: list[tuple[CaseFile, Cell]] = []
    refused: list[UsageError] = []
    for file in files:
        check_values(file, selection.axes, request)
        axes, exclude, include = file.case.matrix.axes, file.case.matrix.exclude, file.case.matrix.include
        try:
            cells = select(axes, exclude, include, selection, used=file.names)
        except UsageError as error:
            # Over several cases an option need only fit some of them.
            refused.append(error)
            cells = select(axes, exclude, include, selection, used=file.names, strict=False)
        found += [(file, cell) for cell in cells]
    if files and len(refused) == len(files):
        raise refused[0]
    return found


def check_values(file: CaseFile, given: Mapping[str, Sequence[str]], request: Request, option: str = "") -> None:
    """Raise UsageError for a value of a known axis that no release has, unless the case itself has it.

    ``option``: what gave the values, for the message; '' for the option of each axis.
    """
    newer = bool(file.case.environment.image) or registry.capabilities(request.engine).recipe == "script"
    own = file.case.matrix.columns()
    for name, values in given.items():
        for value in values:
            why = nonexistent(name, value, site.catalog(), newer=newer) if value not in own.get(name, ()) else ""
            if why:
                raise UsageError(f"{option + f' {name}=' if option else f'--{name} '}{value}: {why}")


def task_of(
    number: int,
    file: CaseFile,
    case: Case,
    variant: str,
    cell: Cell,
    request: Request,
    checked: dict[tuple[str, str], Path],
) -> Task:
    """One task; ``number`` 0: what another is measured against.

    ``checked``: folders of datasets that were looked through, which this one looks up and adds to.

    Raises CaseError when a template fails for the cell, UsageError when a folder does not fit its dataset.
    """
    reference = None
    if number and case.expect.ratio is not None:
        other = {**cell, **case.expect.ratio.of}
        reference = task_of(0, file, file.case, "case", other, request, checked)
    wanted = expected_verdict(file, cell)
    # Under its fix the failure must be gone, wherever it reproduces without; another one that is known stays.
    if variant == "fix" and wanted is not Verdict.DIFFERENT_FAILURE:
        wanted = Verdict.NOT_REPRODUCED
    spec = spec_of(file, case, variant, cell)
    if request.backtrace:
        spec = replace(spec, limits=replace(spec.limits, backtrace=True))
    return Task(
        number=number,
        file=file,
        case=case,
        variant=variant,
        cell=cell,
        spec=spec,
        expected=wanted,
        trials=_at_least_enough(Trials.of(request.trials).over(trials_of(case)), case)
        if request.trials
        else trials_of(case),
        datasets=_checked_datasets(spec, request.datasets_for(file.trust), checked),
        reference=reference,
    )


def trials_of(case: Case) -> Trials:
    """How many trials a case asks for."""
    return _at_least_enough(Trials.of(case.trials if isinstance(case.trials, int) else case.trials.model_dump()), case)


def _at_least_enough(trials: Trials, case: Case) -> Trials:
    """As many at least as show whether a cell is deterministic, where numbers are compared; as many at most as show
    how much slower or bigger it is.
    """
    if case.expect.ratio is not None:
        return Trials.of(MOST_PAIRS + 1)
    return replace(trials, max=max(trials.max, FEWEST_TRIALS)) if case.expect.compare is not None else trials


def _checked_datasets(
    spec: CellSpec, given: Mapping[str, Path], checked: dict[tuple[str, str], Path]
) -> Mapping[str, Path]:
    found = {}
    for name, dataset in spec.datasets.items():
        if name in given:
            key = (name, repr((dataset.layout, sorted(dataset.sha256.items()))))
            if key not in checked:
                checked[key] = check_dataset(name, dataset, given[name])
            found[name] = checked[key]
    return found


def _check_names(option: str, given: Iterable[str], known: Iterable[str]) -> None:
    names = sorted(set(known))
    for name in given:
        if name not in names:
            has = f"they have: {', '.join(names)}" if names else "they have none"
            raise UsageError(
                f"{option} {name}=...: the chosen cases name no such thing{near(name, names, prefix='; ')}; {has}"
            )


def check_dataset(name: str, spec: DatasetSpec, folder: Path) -> Path:
    """The resolved folder, when it holds what the case's layout asks for.

    Raises UsageError naming every glob that matches too little, and every file whose digest differs.
    """
    root = folder.expanduser().resolve()
    if not root.is_dir():
        raise UsageError(f"--dataset {name}={folder}: no such folder")
    wrong = []
    for pattern, least in spec.layout:
        try:
            # Stop counting at the least number: a real dataset holds a hundred thousand files.
            found = sum(1 for _ in itertools.islice(root.glob(pattern), least))
        except (ValueError, NotImplementedError) as error:
            wrong.append(f"{pattern!r} is not a glob: {error}")
            continue
        if found < least:
            wrong.append(f"{pattern!r} matches {found} file(s), at least {least} wanted")
    wrong += _wrong_digests(root, spec.sha256)
    if wrong:
        lines = "\n".join(f"  - {line}" for line in wrong)
        raise UsageError(
            f"--dataset {name}={folder}: this folder is not laid out as the case asks:\n{lines}\n"
            f"  the globs are relative to {root}"
        )
    return root


def _wrong_digests(root: Path, digests: Mapping[str, str]) -> list[str]:
    wrong = []
    for relative, wanted in digests.items():
        path = root / relative
        if not path.is_file():
            wrong.append(f"{relative!r} is missing")
            continue
        digest = file_digest(path)
        if digest != wanted.removeprefix("sha256:"):
            wrong.append(f"{relative!r} has sha256 {digest}, the case says {wanted}")
    return wrong


def narrow_to_failed(store: Store, files: Sequence[CaseFile], request: Request) -> Request:
    """The request for those of its cells that departed from what their case expects, or were inconclusive, in the last
    run of their case. Raises UsageError where there is none.
    """
    failed: set[tuple[str, str]] = set()
    unknown: list[str] = []
    for file in files:
        seen = store.last_seen(file.key)
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
    return narrow_to(request, tasks)


def narrow_to(request: Request, tasks: Sequence[Task]) -> Request:
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


def planned_cells(jobs: Mapping[str, tuple[Chosen, ...]], workflow: WorkflowRecord | None) -> Planned:
    """The cells that the jobs of a matrix were to run, for ``store merge --planned``, from what each job names.

    Raises UsageError, CaseError when the cases are not here as they were.
    """
    from reprokit.store.joining import Missing  # with the database, which a run does not need so soon
    from reprokit.store.merging import Planned

    files = load_all(dict.fromkeys(one.path for chosen in jobs.values() for one in chosen))
    found = []
    for job, chosen in jobs.items():
        for task in plan(files, Request(cases=(), chosen=chosen)):
            reason = f"the job {job} left no record of it: it was cancelled, or its artifact was lost"
            cell = dataclasses.replace(
                blank_record(task), verdict=Verdict.CANCELLED, reason=reason, rules=RULES_VERSION
            )
            found.append(Missing(job=job, cell=cell))
    texts = {file.digest: (file.case.id, file.case.title, file.text) for file in files}
    return Planned(cells=tuple(found), texts=texts, workflow=workflow)

"""The cells of cases as a matrix of jobs of GitHub Actions: ``{"include": [{name, runner, cases}, ...]}``."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprokit.case.facts import requirement
from reprokit.case.matrix import Cell, cell_key
from reprokit.core.errors import UsageError
from reprokit.core.text import pluralize
from reprokit.environment.installing import LARGE
from reprokit.report.catalogue import VERDICTS_FILE, read_verdicts
from reprokit.run.images import UnfetchedTrees, image_and_layers
from reprokit.run.launch.partition import Bounds, ImageLayer, WorkUnit, cut, units_of
from reprokit.run.request import Chosen, chosen_to_json
from reprokit.store.database import Store
from reprokit.store.folder import has_database

if TYPE_CHECKING:
    from reprokit.case.files import CaseFile
    from reprokit.environment.supply import Supply
    from reprokit.evidence.records import CellRecord, RunRecord
    from reprokit.run.task import Task


MOST = 256
"""Jobs that one matrix of GitHub Actions may have (docs.github.com, "Actions limits")."""
USUAL = 20
"""Jobs that run at a time on GitHub's free plan: more would wait for each other (same page)."""
OUTPUT = 500_000
"""Characters of a job's output: Actions takes 1 MB of UTF-16."""
ENTRY = 120_000
"""Bytes of an entry: it travels in an environment variable, of which Linux takes 128 KiB."""
DISK = 12e9
"""Bytes that the images of a job may take: a hosted runner has 14 GB for them."""
GPU_JOB = "gpu"
"""How the names of jobs begin whose cells need a GPU."""
MINUTES = 30
TRIAL = 5.0
"""Seconds of a trial without a recorded time."""
SMALL, BIG = 0.4e9, 2.5e9
"""Bytes of an image without a recorded size: without and with one of the large packages."""
PER_LAYER, PER_GB = 3.0, 40.0
"""Seconds to make a layer, and for each GB of it: a wheel of 2 GB is fetched, unpacked and committed in two minutes."""


@dataclass(frozen=True, kw_only=True)
class PastFigures:
    """What is known from earlier runs, by (case id, key of the cell, variant): bytes of images, seconds of cells."""

    sizes: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    seconds: Mapping[tuple[str, str, str], float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Runners:
    """Labels of the runners, which are not guessed: a job waits for its runner for a day."""

    hosted: tuple[str, ...] = ("ubuntu-24.04",)
    gpu: tuple[str, ...] = ()  # empty: there are none with a GPU
    most: int = USUAL  # jobs


@dataclass(frozen=True, kw_only=True)
class MatrixPlan:
    """A matrix, and what it comes to."""

    include: list[dict[str, Any]]
    cells: int  # with their fixes, as runs count them
    images: tuple[int, int]  # how many the jobs make in sum, and how many there are

    def text(self) -> str:
        """The JSON, in one line. Raises UsageError when a job's output cannot hold it."""
        text = json.dumps({"include": self.include}, ensure_ascii=False, separators=(",", ":"))
        if len(text) > OUTPUT:
            raise UsageError(
                f"the matrix names {pluralize(self.cells, 'cell')} in {len(text)} characters, and an output of Actions "
                f"holds {OUTPUT}: choose fewer with --tag, --only or --skip"
            )
        return text

    def __str__(self) -> str:
        """In words, for people."""
        made, distinct = self.images
        builds = f" in {made} builds" if made > distinct else ""
        jobs, cells = pluralize(len(self.include), "job"), pluralize(self.cells, "cell")
        return f"{jobs}, {cells}, {pluralize(distinct, 'image')}{builds}"


@dataclass(frozen=True, kw_only=True)
class _Unit:
    """Cells that stay together: one with its variants, or all of a case that compares its cells with each other."""

    tasks: tuple[Task, ...]
    images: Mapping[str, tuple[str, ...]]  # the layers of each, by the image's key

    @property
    def cells(self) -> list[Cell]:
        return list({cell_key(task.cell): task.cell for task in self.tasks}.values())

    @property
    def gpu(self) -> bool:
        return any(task.spec.limits.gpus for task in self.tasks)


def plan(tasks: Sequence[Task], supply: Supply, known: PastFigures, runners: Runners) -> MatrixPlan:
    """The jobs for these tasks. Raises UsageError where an entry cannot name a case, or the jobs cannot hold them."""
    for task in tasks:
        if task.file.path == "<stdin>":
            raise UsageError("--github: a job cannot read a case from this standard input: name its file")
    units = _units(tasks, supply)
    gpu = [unit for unit in units if unit.gpu and runners.gpu]
    hosted = [unit for unit in units if not (unit.gpu and runners.gpu)]
    if gpu and hosted and runners.most < 2:
        raise UsageError(f"--max-jobs {runners.most}: cells with and without a GPU need a job each")
    sizes = _sizes(units, known)
    # As many as each has of the work, since they run side by side, and at least one each.
    part = round(runners.most * len(gpu) / len(units)) if units else 0
    share = max(1, min(runners.most - 1, part)) if gpu and hosted else 0
    parts = (
        ("hosted", runners.hosted, hosted, runners.most - share, DISK),
        (GPU_JOB, runners.gpu, gpu, share or runners.most, 1e15),  # its images stay where they were made
    )
    include: list[dict[str, Any]] = []
    made = 0
    for kind, labels, some, most, disk in parts:
        for number, job in enumerate(_jobs(some, known, sizes, most, disk), 1):
            include.append(_entry(f"{kind}-{number:02d}", labels, job))
            made += len({key for unit in job for key in unit.images})
    distinct = len({key for unit in units for key in unit.images})
    return MatrixPlan(include=include, cells=len(tasks), images=(made, distinct))


def _units(tasks: Sequence[Task], supply: Supply) -> list[_Unit]:
    with tempfile.TemporaryDirectory() as folder:
        trees = UnfetchedTrees(Path(folder))
        units = []
        for group in units_of(tasks):
            found = [image for task in group if (image := image_and_layers(task, supply, trees))]
            units.append(_Unit(tasks=tuple(group), images=dict(found)))
    return units


def _prefixes(layers: Sequence[str]) -> list[str]:
    """An id for each layer: its own instruction with all before it."""
    return ["\n".join(layers[: end + 1]) for end in range(len(layers))]


def _sizes(units: Iterable[_Unit], known: PastFigures) -> dict[str, float]:
    """Bytes of each layer with all beneath it: no more than the smallest image that stands on it."""
    found: dict[str, float] = {}
    for unit in units:
        for task in unit.tasks:
            guess = BIG if _large(task) else SMALL
            size = known.sizes.get((task.case.id, cell_key(task.cell), task.variant), guess)
            for layers in unit.images.values():
                for prefix in _prefixes(layers):
                    found[prefix] = min(found.get(prefix, size), size)
    return found


def _large(task: Task) -> list[str]:
    """The large packages that a task pins, such as ``torch-2.13.0+cpu``."""
    pins = [found for text in task.spec.environment.requirements if (found := requirement(text)) and found[0] in LARGE]
    return [f"{name}-{version}" if version else name for name, version in pins]


def _jobs(
    units: Sequence[_Unit], known: PastFigures, sizes: Mapping[str, float], most: int, disk: float
) -> list[list[_Unit]]:
    layers: dict[str, ImageLayer] = {}
    pieces: list[WorkUnit] = []
    for group in _together(units):
        ids: list[str] = []
        for image in group[0].images.values():
            prefixes = _prefixes(image)
            for before, layer in zip([None, *prefixes], prefixes, strict=False):
                size = sizes[layer] - (sizes[before] if before else 0.0)
                layers[layer] = ImageLayer(seconds=PER_LAYER + PER_GB * size / 1e9, size=size)
            ids += prefixes
        order = next(iter(group[0].images.values()), ())
        for some in _portions(group, known):
            pieces.append(
                WorkUnit(
                    order=(*order, *sorted(ids)),
                    layers=frozenset(ids),
                    seconds=sum(_seconds(unit, known) for unit in some),
                    characters=_written(some),
                    work=some,
                )
            )
    bounds = Bounds(seconds=60.0 * MINUTES, disk=disk, characters=ENTRY)
    try:
        return [[unit for piece in job for unit in piece.work] for job in cut(pieces, layers, bounds, most)]
    except ValueError as error:
        raise UsageError(f"--max-jobs {most}: {error}: choose fewer cells with --tag, --only or --skip") from None


def _together(units: Iterable[_Unit]) -> list[list[_Unit]]:
    """Cells by the images that they need."""
    found: dict[tuple[str, ...], list[_Unit]] = {}
    for unit in units:
        found.setdefault(tuple(sorted(unit.images)), []).append(unit)
    return list(found.values())


def _portions(units: Sequence[_Unit], known: PastFigures) -> list[list[_Unit]]:
    """What shares images, in portions of which several fit into a job: a matrix of thousands of cells is cut too."""
    found: list[list[_Unit]] = []
    full = 0.0
    for unit in units:
        seconds = _seconds(unit, known)
        if not found or full + seconds > 60.0 * MINUTES / 4 or len(found[-1]) >= 100:
            found.append([])
            full = 0.0
        found[-1].append(unit)
        full += seconds
    return found


def _written(units: Sequence[_Unit]) -> int:
    """Bytes that name these cells in an entry as `toJSON` writes it: each value on a line of its own."""
    paths = {unit.tasks[0].file.path for unit in units}
    lines = [*paths, *(value for unit in units for cell in unit.cells for value in ("", "", *cell.values()))]
    axes = [name for unit in units[:1] for name in unit.tasks[0].cell]
    return 300 * len(paths) + sum(len(json.dumps(text)) + 12 for text in (*lines, *axes))


def _seconds(unit: _Unit, known: PastFigures) -> float:
    if not unit.images:
        return 0.0
    return sum(
        known.seconds.get((task.case.id, cell_key(task.cell), task.variant), TRIAL * min(task.trials.max, 5))
        for task in unit.tasks
    )


def _entry(name: str, labels: Sequence[str], units: Sequence[_Unit]) -> dict[str, Any]:
    """An entry, its cells in the order in which people see them. The name says what most of its cells are about."""
    about = Counter(word for unit in units for word in _large(unit.tasks[0]) or [unit.tasks[0].cell.get("os", "")])
    word = max(sorted(about), key=lambda word: about[word], default="")
    cases: dict[str, list[_Unit]] = {}
    for unit in sorted(units, key=lambda unit: unit.tasks[0].number):
        cases.setdefault(unit.tasks[0].file.digest, []).append(unit)
    named = [
        Chosen(
            path=some[0].tasks[0].file.path,
            digest=digest,
            cells=tuple(cell for unit in some for cell in unit.cells),
            fix=any(len(unit.tasks) > len(unit.cells) for unit in some),
        )
        for digest, some in cases.items()
    ]
    label = re.sub(r"[^a-z0-9.]+", "-", f"{name}-{word}".lower()).strip("-")
    return {"name": label, "runner": list(labels), "cases": chosen_to_json(named)}


def is_for_gpu(entry: str) -> bool:
    """Whether an entry (JSON that ``reprokit run --cells`` accepted) is of a job that is there for its GPU."""
    return str(json.loads(entry).get("name", "")).startswith(f"{GPU_JOB}-")


def without_gpu(run: RunRecord) -> str:
    """Why no trial of a run had a GPU: the reasons of its cells, the commonest first. '' where one had."""
    if any(trial.usage and trial.usage.gpus for cell in run.cells for trial in cell.trials):
        return ""
    reasons = Counter(cell.reason or "not decided" for cell in run.cells)
    return "; ".join(f"{reason} ({pluralize(number, 'cell')})" for reason, number in reasons.most_common(3))


def known(files: Sequence[CaseFile], store: Path) -> PastFigures:
    """Image sizes and durations of the cells of these cases, as far as recorded.

    ``store``: the store's folder. Files that cannot be read are ignored, since these are only estimates.
    """
    sizes: dict[tuple[str, str, str], float] = {}
    seconds: dict[tuple[str, str, str], float] = {}
    for folder in sorted({Path(file.path).parent for file in files if "://" not in file.path}):
        try:
            seen = read_verdicts(folder / VERDICTS_FILE)
        except UsageError:
            continue
        for case_id, case in seen.cases.items():
            for one in case.cells:
                if one.size:
                    sizes[case_id, cell_key(one.cell), one.variant] = one.size
    for cell in _newest_cells(files, store):
        key = cell.case_id, cell_key(cell.cell), cell.variant
        if cell.seconds is not None:
            seconds[key] = cell.seconds
        if cell.image and cell.image.size:
            sizes[key] = cell.image.size
    return PastFigures(sizes=sizes, seconds=seconds)


def _newest_cells(files: Sequence[CaseFile], folder: Path) -> Iterator[CellRecord]:
    if not has_database(folder):
        return
    try:
        store = Store(folder)
    except UsageError:
        return
    for file in files:
        found = store.last_seen(file.key)
        yield from found[1] if found else ()
    store.close()

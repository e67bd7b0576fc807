"""``reprokit matrix``."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.case.filters import choose
from reprokit.case.matrix import label
from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo, echo_data
from reprokit.engine import site
from reprokit.engine.gpus import discovery
from reprokit.engine.gpus.discovery import leasable
from reprokit.github.matrix import Runners, known, plan
from reprokit.run.admitting import supply_of
from reprokit.run.case_warnings import predict
from reprokit.run.loading import load_all
from reprokit.run.plan import cells_of
from reprokit.run.plan import plan as tasks_of
from reprokit.run.request import Request
from reprokit.run.task import expected_verdict

if TYPE_CHECKING:
    from reprokit.environment.supply import Supply


@click.command(
    "matrix",
    epilog="""\b
Examples:
  reprokit matrix cases/cityscapes_rmi.yaml --cuda 11.8
  reprokit matrix cases/ --fix --github > matrix.json     # jobs for GitHub Actions; each: reprokit run --cells
""",
)
@options.cases_argument()
@options.selection_options
@options.filter_options
@options.base_option
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON array of objects {case, cell, expected, unsupported, notes}."
)
@click.option(
    "--github", is_flag=True, help="The cells as JSON for `strategy.matrix` of GitHub Actions, grouped by their images."
)
@click.option("--fix", is_flag=True, help="With --github: also the fixed variants of cases that have one.")
@click.option(
    "--max-jobs",
    type=click.IntRange(min=1, max=256),
    default=20,
    show_default=True,
    metavar="N",
    help="With --github: at most so many jobs (Actions accepts 256; 20 run at a time on its free plan).",
)
@click.option(
    "--runner", default="ubuntu-24.04", show_default=True, metavar="LABEL,...", help="With --github: hosted runners."
)
@click.option(
    "--gpu-runner",
    default="none",
    show_default=True,
    metavar="LABEL,...|none",
    help="With --github: runners for cells that need a GPU. none: no such runners, the cells become unsupported.",
)
@options.store_option
def command(cases: tuple[str, ...], as_json: bool, github: bool, base_images: str | None, **given: Any) -> int:
    """Show the cells of cases, after selection, with their expected verdicts.

    It also shows why this host cannot serve a cell, and which versions conflict where the case allows that: both are
    known before anything is built.
    """
    if github and as_json:
        raise UsageError("--github prints JSON of its own: leave out --json")
    for option in () if github else ("fix", "max_jobs", "runner", "gpu_runner"):
        if options.typed(option):
            raise UsageError(f"--{option.replace('_', '-')} only works with --github")
    supply = supply_of(Request(cases=cases, base_images=base_images or site.settings().base_images))
    if github:
        return _github(cases, supply, **given)
    return _cells(cases, supply, as_json, given)


def _cells(cases: tuple[str, ...], supply: Supply, as_json: bool, given: dict[str, Any]) -> int:
    selection, wanted = options.selection_of(given), options.filter_of(given)
    cells = list(cells_of(choose(load_all(cases), wanted), Request(cases=cases, selection=selection)))
    if not cells:
        raise UsageError("the selection is empty: --only, --skip and the axis options leave no cell")
    facts = leasable(discovery.facts(), site.settings().gpus, os.environ)  # as run does
    rows = [
        (file.case.id, cell, expected_verdict(file, cell), predict(file, cell, supply, facts)) for file, cell in cells
    ]
    if as_json:
        objects = [
            {
                "case": name,
                "cell": cell,
                "expected": promised and promised.value,
                "unsupported": prediction.unsupported or None,
                "notes": list(prediction.notes),
            }
            for name, cell, promised, prediction in rows
        ]
        echo_data(json.dumps(objects, ensure_ascii=False))
        return 0
    for name, cell, promised, prediction in rows:
        columns = [f"{name}: {label(cell)}", f"({promised} expected)" if promised else "", str(prediction)]
        echo("  ".join(filter(None, columns)))
    echo(f"{len(rows)} cell{'s' if len(rows) != 1 else ''}")
    return 0


def _github(
    cases: tuple[str, ...],
    supply: Supply,
    *,
    fix: bool,
    max_jobs: int,
    runner: str,
    gpu_runner: str,
    store_folder: Path | None,
    **given: Any,
) -> int:
    runners = Runners(
        hosted=_labels("--runner", runner),
        gpu=() if gpu_runner == "none" else _labels("--gpu-runner", gpu_runner),
        most=max_jobs,
    )
    files = load_all(cases)
    selection, wanted = options.selection_of(given), options.filter_of(given)
    # --fix adds the variants of the cases that have a fix; it does not limit the cases to those.
    asked = Request(cases=cases, selection=selection, filter=wanted)
    chosen = cells_of(choose(files, wanted), asked) if fix else ()
    fix = any(file.fixed is not None and file.case.fix_applies(cell) for file, cell in chosen)
    tasks = tasks_of(files, dataclasses.replace(asked, fix=fix))
    found = plan(tasks, supply, known(files, options.store_path(store_folder)), runners)
    echo_data(found.text())
    echo(str(found), err=True)
    return 0


def _labels(option: str, text: str) -> tuple[str, ...]:
    labels = tuple(filter(None, (label.strip() for label in text.split(","))))
    if not labels:
        raise UsageError(f"{option}: give at least one label")
    return labels

"""``reprokit merge``."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo
from reprokit.core.text import pluralize
from reprokit.report.formats import FormatSources, run_format
from reprokit.report.labels import failure_lines, summary
from reprokit.run.invocation import now, workflow
from reprokit.run.request import read_every_job
from reprokit.store import merging
from reprokit.store.database import Store

if TYPE_CHECKING:
    from reprokit.store.merging import MergeResult, Planned


@click.command(
    "merge",
    epilog="""\b
Examples:
  reprokit merge artifacts/ --store nightly           # every store below the folder, one artifact each
  reprokit merge artifacts/ --planned matrix.json     # and list the cells of the matrix that no job recorded
  reprokit merge /mnt/other/.reprokit                 # import the runs of another store

\b
Exit status: as `reprokit run` for the newest run that was merged from jobs; at least 3 when something could not be
read.
""",
)
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", type=click.Path(path_type=Path))
@click.option(
    "--planned",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="The output of `reprokit matrix --github`: its cells that no job recorded become cancelled.",
)
@click.option("--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write the result file.")
@click.option("--junit", "junit_file", type=click.Path(path_type=Path, dir_okay=False), help="Write JUnit XML.")
@click.option(
    "--keep", type=click.IntRange(min=1), metavar="N", help="Then delete all but the newest N runs, with their logs."
)
@options.store_option
def command(
    folders: tuple[Path, ...],
    planned: Path | None,
    json_file: Path | None,
    junit_file: Path | None,
    keep: int | None,
    store_folder: Path | None,
) -> int:
    """Merge the stores of several jobs into one: all jobs of one workflow run become one run with each cell once.

    FOLDER is a store, or a folder with stores below it, such as downloaded artifacts. Runs that do not belong to a job
    are imported unchanged. Merging again changes nothing, except that results of later jobs are added.
    """
    options.check_writable("--json", json_file)
    options.check_writable("--junit", junit_file)
    found = merging.find(folders)
    plan = _planned(planned) if planned else None
    store = Store(options.store_path(store_folder), up_to_date=True)
    done = merging.merge((merging.read(name, folder) for name, folder in found), store, plan, now())
    # Where the result goes to standard output, messages go to standard error.
    _print(done, err=Path("-") in (json_file, junit_file))
    _write(done, store, json_file, junit_file)
    if keep and (gone := merging.forget(store, keep)):
        echo(f"{pluralize(len(gone), 'old run')} deleted", err=True)
    store.close()
    own = done.nights[-1].exit_status or 0 if done.nights else 0
    return 1 if own == 1 else 3 if own or done.problems else 0


def _planned(path: Path) -> Planned:
    from reprokit.run.plan import planned_cells

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--planned {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    known = workflow(os.environ)
    return planned_cells(read_every_job(text, f"--planned {path}"), replace(known, attempt="") if known else None)


def _print(done: MergeResult, *, err: bool) -> None:
    for problem in done.problems:
        echo(f"skipped: {problem}", err=err)
    for job, count in done.lost.items():
        echo(f"lost: {job}: {pluralize(count, 'cell')} that no job recorded", err=err)
    for run in done.nights:
        jobs = len(run.request.merged or ())
        echo(f"run {run.id}, {run.started_at}: {pluralize(jobs, 'job')}, {pluralize(len(run.cells), 'cell')}", err=err)
        echo(summary(run.cells), err=err)
        for line in failure_lines(run.cells):
            echo(line, err=err)
    if done.imported:
        echo(f"{pluralize(len(done.imported), 'run')} imported unchanged", err=err)
    if not done.changed:
        echo("nothing new: the store has all of it already", err=err)


def _write(done: MergeResult, store: Store, json_file: Path | None, junit_file: Path | None) -> None:
    if json_file is None and junit_file is None:
        return
    if not done.nights:
        raise UsageError("--json and --junit: no run was merged from jobs, so there is no result to write")
    run = done.nights[-1]
    for path, form in ((json_file, "json"), (junit_file, "junit")):
        if path:
            options.write_file(path, run_format(form).text(run, FormatSources.of(store, run)))

"""``reprokit show``."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.cli import options
from reprokit.cli.display.live import print_table
from reprokit.cli.display.plain import columns
from reprokit.cli.timings import show, timings_options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo, echo_data
from reprokit.evidence.spans import of_findings
from reprokit.report import detail, explanation
from reprokit.report.formats import FormatSources, run_format
from reprokit.report.labels import failure_lines

if TYPE_CHECKING:
    from reprokit.evidence.records import RunRecord


@click.command(
    "show",
    epilog="""\b
Examples:
  reprokit show                    # the last run
  reprokit show last 3             # cell 3 of it: verdict, log with the signature marked, environment
  reprokit show 20260101-1 3 --dockerfile
  reprokit show last 3 --log > trial.log
  reprokit show last --timings     # where the time went, and what would have to get faster
""",
)
@click.argument("run", default="last", metavar="[RUN]")
@click.argument("cell", required=False, type=int, metavar="[CELL]")
@click.option("--trial", type=click.IntRange(min=1), default=1, show_default=True, help="Which trial's log.")
@click.option("--log", "part", flag_value="log", help="Only the complete log, as it was recorded.")
@click.option("--dockerfile", "part", flag_value="dockerfile", help="Only the Dockerfile.")
@click.option("--environment", "part", flag_value="environment", help="Only the environment, as measured.")
@click.option("--repeat", "part", flag_value="repeat", help="Only the docker run line that repeats the trial by hand.")
@click.option("--json", "part", flag_value="json", help="The result file of the run; with --timings, its times.")
@timings_options
@options.store_option
def command(
    run: str,
    cell: int | None,
    trial: int,
    part: str | None,
    timings: bool,
    trace_file: Path | None,
    store_folder: Path | None,
) -> int:
    """Show a recorded run (its id, the beginning of it, or `last`), or one cell of it by its number."""
    folder = options.store_path(store_folder)
    if not folder.is_dir():
        raise UsageError(f"nothing was run here yet: {folder} does not exist; run a case first, or name --store")
    store = options.open_store(folder)
    record = store.run(run)
    if timings or trace_file:
        if cell is not None or part not in (None, "json"):
            raise UsageError("--timings and --trace are about a whole run: leave out CELL and what belongs to it")
        show(record, of_findings(store.findings(record.id)), timings, trace_file, as_json=part == "json")
        return 0
    if part == "json":
        echo_data(run_format("json").text(record, FormatSources.of(store, record)), nl=False)
        return 0
    if cell is None:
        if part:
            raise UsageError(f"--{part} needs a cell: reprokit show {run} CELL --{part}")
        _table(record)
        if record.searches:
            _search(**FormatSources.of(store, record).more["search"])
        else:
            cases = explanation.of_run(record, explanation.files_in(store))
            echo("".join(f"{line}\n" for line in explanation.at_the_end(cases, record.id)), nl=False)
        return 0
    found = record.cell(cell)
    if part:
        echo_data(detail.part(found, part, folder, trial), nl=False)
        return 0
    echo(detail.cell(record, found, folder, trial, colour=_colour()))
    return 0


def _colour() -> bool:
    return sys.stdout.isatty()


def _table(record: RunRecord) -> None:
    from reprokit.cli.display.console import console

    own = console()
    status = "not finished" if record.exit_status is None else f"exit status {record.exit_status}"
    if record.request.search:
        echo(f"reprokit {shlex.join(record.request.search.line)}")
    engine = record.host.engine or (
        "no engine was needed" if record.exit_status is not None else "engine not recorded yet"
    )
    echo(f"run {record.id}, {record.started_at}, {status}, {engine}")
    if own.is_terminal:
        print_table(own, record.cells)
    else:
        plain = console(io.StringIO(), columns())
        with plain.capture() as captured:
            print_table(plain, record.cells)
        echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
    for line in failure_lines(record.cells):
        echo(line)


def _search(kind: str, answer: Mapping[str, Any] | None, **_: Any) -> None:
    echo("\n".join(answer["words"]) if answer else f"no answer yet; continue with: reprokit {kind} --resume")

"""``--timings`` and ``--trace``: where the time of a run went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo

if TYPE_CHECKING:
    from reprokit.evidence.records import RunRecord
    from reprokit.evidence.spans import Timings

F = TypeVar("F", bound=Callable[..., Any])


def timings_options(function: F) -> F:
    """--timings and --trace."""
    trace = click.option(
        "--trace",
        "trace_file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Write the times as a trace, which ui.perfetto.dev and chrome://tracing show.",
    )
    table = click.option(
        "--timings",
        is_flag=True,
        help="Show where the time went: by kind, build step and cell, and what would have to get faster.",
    )
    return table(trace(function))


def show(
    run: RunRecord,
    parts: Sequence[Timings],
    table: bool,
    trace_file: Path | None,
    *,
    as_json: bool = False,
    err: bool = False,
) -> None:
    """Print the table (or JSON) if ``table``, and write the trace. Raises UsageError where no times are recorded."""
    from reprokit.report import timings

    if not parts:
        raise UsageError(timings.NONE.format(run.id))
    if trace_file is not None:
        options.write_file(trace_file, timings.write_trace(run, parts))
    if table and as_json:
        options.echo_document(timings.describe_times(run, parts))
    elif table:
        echo("\n".join(timings.lines(run, parts)), err=err)

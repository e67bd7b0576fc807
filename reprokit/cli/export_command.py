"""``reprokit export``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from reprokit.case.matrix import label
from reprokit.cli import opening, options
from reprokit.core.terminal import echo
from reprokit.run import by_hand, rendering


@click.command(
    "export",
    epilog="Example: reprokit export --devcontainer cases/ptxas_unknown_arch.yaml cuda=11.7,arch=sm_90 -o ptxas/",
)
@opening.cell_arguments
@click.option(
    "--devcontainer", "form", flag_value="devcontainer", required=True, help="For editors: the only form yet."
)
@click.option("--fix", is_flag=True, help="The fixed variant.")
@options.selection_options
@options.stand_in_options
@options.base_option
@options.locked_option
@options.engine_option
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder to write; new or empty.",
)
def command(case: str, cell: str | None, form: str, fix: bool, output: Path, **given: Any) -> int:
    """Write a cell as a folder that editors open: its Dockerfile, the files of the case, and devcontainer.json.

    CASE is as in `reprokit run`; CELL is the number of a cell, as `reprokit matrix` counts them, or values of it:
    cuda=11.8,gcc=12. It may be left out where only one cell is left. Nothing is built, run or asked. The editor mounts
    nothing of this host into the container, except real data that --dataset names.
    """
    request = options.request_of({**given, "cases": (case,), "tags": (), "frameworks": (), "needs": ()})
    tasks = by_hand.tasks_named(request, cell, fix=fix)
    if len(tasks) != 1:
        raise by_hand.ambiguous_cell(tasks, ["reprokit", "export", f"--{form}", case, "-o", str(output)])
    [task] = tasks
    rendering.write_devcontainer(task, request, output)
    echo(f"{output}: {task.case.id}, {label(task.cell)}: open this folder in a container with your editor")
    echo(f"the command of the case: {by_hand.command_text(task.spec.command)}")
    echo(f"without an editor: docker build {shlex.quote(str(output / rendering.PLACE))}")
    return 0

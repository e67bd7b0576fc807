"""``reprokit shell``."""

from __future__ import annotations

from typing import Any

import click

from reprokit.cli import opening, options
from reprokit.cli.display.screen import Screen
from reprokit.core import tty
from reprokit.core.terminal import echo


@click.command(
    "shell",
    epilog="""\b
Examples:
  reprokit shell cases/dataloader_shm.yaml              # a case with one cell
  reprokit shell cases/ptxas_unknown_arch.yaml cuda=11.8
  reprokit shell last:3 --fix                           # cell 3 of the last run, with the fix of its case
  reprokit shell last:3 --debug                         # gdb and py-spy
  reprokit shell cases/cityscapes_rmi.yaml 2 --writable ~/src/PaddleSeg=edited --root --network

\b
Exit status: that of the shell; 2 wrong usage, 3 the cell cannot be built or served here, 130 ended from outside.
""",
)
@opening.cell_arguments
@opening.container_options
def command(**given: Any) -> int:
    """Open a shell in the container of a cell, exactly as its trials run: image, files, data, variables, limits, GPUs.

    CASE is what `reprokit run` takes, or a recorded cell such as `last:3`. CELL is K=V,K=V, or a number of
    `reprokit validate --cells CASE`; it can be left out where one cell matches. The command of the case is ready in the
    history. Where the image cannot be built, the shell is in what the last good step left.
    """
    from reprokit.run.by_hand import ByHand, ambiguous_cell

    with tty.at_hand() as terminal:
        case, store_folder = given["case"], options.obeyed_store(given.pop("store_folder"))
        session = ByHand(store_folder, display=Screen(live=False))
        changes = opening.changes_of(given)
        fix = ["--fix"] if given["fix"] else []
        request, tasks = opening.cells_of(session, given, jobs=1)
        if len(tasks) != 1:
            raise ambiguous_cell(tasks, ["reprokit", "shell", case, *fix])
        return session.shell(request, tasks[0], terminal, changes, echo)

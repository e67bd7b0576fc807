"""``reprokit shell``, and what it has in common with ``reprokit exec``: options, and the cells that they name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reprokit.cli import case_argument, options
from reprokit.cli.display.screen import Screen
from reprokit.core import tty
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo

if TYPE_CHECKING:
    from reprokit.run.by_hand import ByHand, Changes
    from reprokit.run.request import Request
    from reprokit.run.task import Task


F = TypeVar("F", bound=Callable[..., Any])


def cell_arguments(function: F) -> F:
    """CASE and CELL."""
    function = click.argument("cell", required=False, metavar="[CELL]")(function)
    return click.argument("case", metavar="CASE", callback=case_argument.paths(options.store_path))(function)


def container_options(function: F) -> F:
    """--fix, --root, --network, --writable, --debug, and what `run` has to choose, build and admit a cell."""
    for option in (
        options.store_option,
        options.trust_options,
        options.engine_option,
        options.locked_option,
        options.base_option,
        options.stand_in_options,
        options.selection_options,
        click.option(
            "--debug", is_flag=True, help="With gdb and py-spy, ptrace and core dumps; in a layer over the image."
        ),
        click.option(
            "--writable",
            multiple=True,
            metavar="DIR[=PATH]",
            help="A folder of this host to read and write, at PATH below workdir [default: its own name].",
        ),
        click.option("--network", is_flag=True, help="With a network, whatever the case says."),
        click.option("--root", is_flag=True, help="As root, who may install packages and read everything."),
        click.option("--fix", is_flag=True, help="The fixed variant."),
    ):
        function = option(function)
    return function


def changes_of(given: dict[str, Any]) -> Changes:
    """What the options change about the container; takes them out of ``given``. Raises UsageError."""
    from reprokit.run.by_hand import Changes

    folders = []
    for text in given.pop("writable"):
        name, _, place = text.partition("=")
        folder = Path(name).expanduser().absolute()
        if not folder.is_dir():
            raise UsageError(f"--writable {text}: {folder} is not a folder")
        folders.append((folder, place or folder.name))
    return Changes(writable=tuple(folders), **{name: given.pop(name) for name in ("root", "network", "debug")})


def cells_of(session: ByHand, given: dict[str, Any], *, jobs: int) -> tuple[Request, list[Task]]:
    """The cells that are named, once they may be run, and their request; empties ``given``. Raises UsageError."""
    case, cell, fix = given.pop("case"), given.pop("cell"), given.pop("fix")
    of_run = options.cell_of_run(case)
    request = options.request_of({**given, "cases": (case,), "tags": (), "frameworks": (), "needs": (), "jobs": jobs})
    if of_run is None:
        return request, session.tasks(request, cell, fix=fix)
    if cell:
        raise UsageError(f"{case} names a cell: leave out {cell}")
    request, task = session.recorded(request, *of_run, fix=fix)
    return request, [task]


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
@cell_arguments
@container_options
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
        changes = changes_of(given)
        fix = ["--fix"] if given["fix"] else []
        request, tasks = cells_of(session, given, jobs=1)
        if len(tasks) != 1:
            raise ambiguous_cell(tasks, ["reprokit", "shell", case, *fix])
        return session.shell(request, tasks[0], terminal, changes, echo)

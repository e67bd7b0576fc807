"""``reprokit exec``."""

from __future__ import annotations

import codecs
import contextlib
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.cli import options, shell_command
from reprokit.cli.display.plain import columns
from reprokit.cli.display.screen import Screen
from reprokit.core.errors import UsageError
from reprokit.core.ownership import private_folder
from reprokit.core.terminal import echo, echo_data
from reprokit.report import outputs

if TYPE_CHECKING:
    from reprokit.run.by_hand import Used

MOST = 4 * 1024 * 1024
"""Bytes of the output of one of several cells that are kept; what is beyond is cut."""


@click.command(
    "exec",
    cls=options.WithProgram,
    epilog="""\b
Examples:
  reprokit exec cases/ptxas_unknown_arch.yaml cuda=11.8 -- ptxas --version
  reprokit exec last:3 -- python -c 'import numpy; print(numpy.__version__)'
  reprokit exec cases/numpy_2.yaml -- pip list          # all cells, and a table of what differs
  git diff | reprokit exec -i last:3 -- patch -p1 --dry-run
  reprokit exec cases/numpy_2.yaml --only python=3.11 --json out.json -- python -m sysconfig

\b
Exit status: that of the command; of several cells, the one that all have, else 1. 2 wrong usage, 3 a cell cannot be
built or served here, 130 interrupted.
""",
)
@shell_command.cell_arguments
@shell_command.container_options
@options.jobs_option
@click.option("-i", "--stdin", is_flag=True, help="Give the command what is on standard input; to each cell the same.")
@options.json_file_option("Write what each cell wrote.")
@click.pass_context
def command(context: click.Context, /, **given: Any) -> int:
    """Run COMMAND in the container of a cell, in place of the command of its case, with everything else as in a trial.

    CASE and CELL are those of `reprokit shell`. Where several cells match, COMMAND runs in all of them, and a table
    shows what differs.
    """
    from reprokit.run.by_hand import ByHand

    program = options.program_of(context)
    if not program:
        raise UsageError("no command: reprokit exec CASE [CELL] -- COMMAND, such as: -- pip list")
    json_file, wants_stdin = given.pop("json_file"), given.pop("stdin")
    if wants_stdin and sys.stdin is None:  # type: ignore[unreachable,unused-ignore]
        raise UsageError("--stdin: standard input is closed: pipe into reprokit exec, or leave out --stdin")
    if wants_stdin and sys.stdin.isatty():
        raise UsageError("--stdin: standard input is a terminal: pipe into reprokit exec, or open reprokit shell")
    if wants_stdin and given["case"] == "-":
        raise UsageError("--stdin and CASE - both read standard input: name the case by its file")
    options.check_writable("--json", json_file)
    store_folder = options.obeyed_store(given.pop("store_folder"))
    # What the command writes is on standard output, alone.
    session = ByHand(store_folder, display=Screen(sys.stderr, live=False))
    changes = shell_command.changes_of(given)
    request, tasks = shell_command.cells_of(session, given, jobs=given.pop("jobs"))
    alone = len(tasks) == 1 and json_file is None
    with _kept_stdin() if wants_stdin else contextlib.nullcontext() as stdin:
        used = session.execute(request, tasks, program, changes, _Shown() if alone else _keep, stdin)
    found = [
        outputs.Written(
            case=one.task.case.id,
            cell=one.task.cell,
            exit_code=one.ending.exit_code if one.ending else None,
            output=one.output.decode(errors="replace"),
            timed_out=one.ending is not None and one.ending.timed_out,
        )
        for one in used
    ]
    options.write_json(json_file, outputs.Executed(command=tuple(program), cells=tuple(found)))
    for each in found:
        if each.timed_out:
            echo(f"{outputs.name_of(each, found)}: stopped at its time limit", err=True)
    if not alone and json_file != Path("-"):
        echo_data(outputs.table(found, columns()), nl=False)
    codes = {each.exit_code for each in found}
    if None in codes:
        return 3
    return int(codes.pop() or 0) if len(codes) == 1 else 1


@contextlib.contextmanager
def _kept_stdin() -> Iterator[Path]:
    """Standard input to its end, as a file in a folder that every user of a container may read."""
    with private_folder("stdin") as scratch:
        file = scratch / "given" / "stdin"
        try:
            file.parent.mkdir(mode=0o755)
            with file.open("wb") as writer:
                shutil.copyfileobj(sys.stdin.buffer, writer)
            file.parent.chmod(0o755)
            file.chmod(0o644)
        except OSError as error:
            raise UsageError(f"--stdin: {scratch} cannot hold standard input: {error.strerror}") from error
        yield file


class _Shown:
    """Passes on what a program writes; to a terminal as text, of which a piece may end within a character."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def __call__(self, used: Used, data: bytes) -> None:
        if sys.stdout.isatty():
            echo_data(self._decoder.decode(data), nl=False)
        else:
            sys.stdout.buffer.write(data)
        sys.stdout.flush()


def _keep(used: Used, data: bytes) -> None:
    used.output += data[: max(MOST - len(used.output), 0)]

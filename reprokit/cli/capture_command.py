"""``reprokit capture``."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.case import units
from reprokit.cli import OWN_VARIABLES
from reprokit.core import files
from reprokit.core.errors import CaseError, UsageError
from reprokit.core.terminal import echo
from reprokit.environment.cases import load_text, schema_line
from reprokit.intake import captured_run, draft
from reprokit.intake.captured_draft import CaptureDrafting

if TYPE_CHECKING:
    from reprokit.intake.captured_run import CommandRun


@click.command(
    "capture",
    context_settings={"allow_interspersed_args": False},
    epilog="Example: reprokit capture -o crash.yaml -- python train.py --epochs 1",
)
@click.option(
    "-o", "--output", metavar="FILE", help="The file to write. By default in this folder, named after the failure."
)
@click.option("--force", is_flag=True, help="Overwrite that file if it exists.")
@click.option(
    "--timeout", metavar="TIME", help="Stop the command after this time, such as 90s or 5m; never by default."
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
def command(words: tuple[str, ...], output: str | None, force: bool, timeout: str | None) -> int:
    """Run a failing COMMAND on this machine, and write a case from what it shows.

    Input, output and Ctrl-C are passed through, and the exit status is that of the command, also when it succeeds and
    no case is written. 127: there is no such command, 126: it cannot be executed, 2: wrong usage of capture itself,
    before anything was run. Messages of reprokit go to standard error.
    """
    try:
        seconds = units.duration(timeout) if timeout else None
    except ValueError as error:
        raise UsageError(f"--timeout {timeout}: expected {error}") from None
    if output and Path(output).exists() and not force:
        raise UsageError(f"{output} exists already; nothing was run; name another file with -o, or add --force")
    try:
        environ = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
        ran = captured_run.run(words, environ=environ, timeout=seconds)
    except captured_run.CannotStart as error:
        echo(f"reprokit: {error}; no case is written", err=True)
        return error.status
    status = ran.ending.exit_code or 0
    if ran.interrupted:
        echo("reprokit: interrupted; no case is written", err=True)
        return status or 130
    if not status and not ran.ending.timed_out:
        echo(f"reprokit: {shlex.join(words)} succeeded; no case is written", err=True)
        return 0
    _write(words, ran, output, environ)
    return status


def _write(words: tuple[str, ...], ran: CommandRun, output: str | None, environ: Mapping[str, str]) -> None:
    found = CaptureDrafting(captured_run.look(words, ran, Path.cwd(), environ)).draft()
    path = Path(output) if output else files.unused(str(found.data["id"]), ".yaml")
    text = schema_line(path) + draft.render(found)
    try:
        files.write(path, text)
    except OSError as error:
        echo(f"{text}reprokit: {path} cannot be written: {error.strerror}; the case is above", err=True)
        return
    how = "timed out" if ran.ending.timed_out else f"ended with exit status {ran.ending.exit_code}"
    lines = [f"reprokit: the command {how}; the case is {path}"]
    if found.omitted:
        lines.append("  left out, since it looks secret or private:")
        lines += [f"    {line}" for line in draft.summary(found.omitted)]
    if found.missing:
        lines += ["  missing:", *(f"    {sentence}" for sentence in found.missing)]
    try:
        load_text(str(path), text)
        lines.append(f"  next: reprokit run {shlex.quote(str(path))}")
    except CaseError as error:
        lines += ["  fix by hand first:", *(f"    {problem}" for problem in error.problems)]
    echo("\n".join(lines), err=True)

"""``reprokit validate``."""

from __future__ import annotations

import click

from reprokit.cli import options


@click.command("validate", epilog="Example: reprokit validate cases/ bug-report.md")
@options.cases_argument()
def command(cases: tuple[str, ...]) -> int:
    """Check case files. Every error of every file is reported at once, with file:line:column and a near match."""
    from reprokit.runner.plan import load_all

    files = load_all(cases)
    for file in files:
        count = len(file.case.matrix.axes)
        click.echo(f"{file.path}: {file.case.id}: valid ({count} {'axis' if count == 1 else 'axes'})")
    return 0

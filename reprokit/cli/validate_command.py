"""``reprokit validate``."""

from __future__ import annotations

import click

from reprokit.cli import options


@click.command("validate", epilog="Example: reprokit validate cases/ bug-report.md")
@options.cases_argument()
def command(cases: tuple[str, ...]) -> int:
    """Check case files. Every error of every file is reported at once, with file:line:column and a near match."""
    from reprokit.matrix import count
    from reprokit.runner.plan import load_all
    from reprokit.spelling import many

    files = load_all(cases)
    for file in files:
        matrix = file.case.matrix
        cells = count(matrix.axes, matrix.exclude, matrix.include)
        click.echo(f"{file.path}: {file.case.id}: valid ({many(cells, 'cell')})")
    return 0

"""``reprokit validate``."""

from __future__ import annotations

import click

from reprokit.case.matrix import count
from reprokit.cli import options
from reprokit.core.terminal import echo
from reprokit.core.text import pluralize
from reprokit.run.case_warnings import warnings
from reprokit.run.plan import load_all
from reprokit.run.supplying import site_catalog


@click.command(
    "validate",
    epilog="""\b
Examples:
  reprokit validate cases/ bug-report.md
  reprokit validate https://github.com/OWNER/NAME/issues/1 --asks   # before you run a stranger's case
""",
)
@options.cases_argument()
@click.option("--asks", is_flag=True, help="List what building and running the cases would do, and their digests.")
def command(cases: tuple[str, ...], asks: bool) -> int:
    """Check case files. Every error of every file is reported at once, with file:line:column and a near match."""
    files = load_all(cases)
    for file in files:
        matrix = file.case.matrix
        cells = count(matrix.axes, matrix.exclude, matrix.include)
        echo(f"{file.path}: {file.case.id}: valid ({pluralize(cells, 'cell')})")
        for problem in warnings(file, site_catalog()):
            echo(problem, err=True)
    if asks:
        from reprokit.case import review

        for file in files:
            echo(f"\n{review.summary(file, most=None)}", nl=False)
    return 0

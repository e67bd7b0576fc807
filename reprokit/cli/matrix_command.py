"""``reprokit matrix``."""

from __future__ import annotations

import json
from typing import Any

import click

from reprokit.cli import options


@click.command("matrix", epilog="Example: reprokit matrix cases/cityscapes_rmi.yaml --cuda 11.8")
@options.cases_argument()
@options.selection_options
@options.filter_options
@click.option("--json", "as_json", is_flag=True, help="One JSON array of objects {case, cell, expected}.")
def command(cases: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Show the cells of cases, after selection, with what each case expects of them."""
    from reprokit.errors import UsageError
    from reprokit.evidence.verdict import expected
    from reprokit.library.filters import choose
    from reprokit.matrix import is_own, label
    from reprokit.runner.plan import cells_of, load_all

    selection, wanted = options.selection_of(given), options.filter_of(given)
    rows = []
    for file, cell in cells_of(choose(load_all(cases), wanted), selection):
        own = is_own(cell, file.case.matrix.axes, file.case.matrix.include)
        rows.append((file.case.id, cell, expected(file.case.expect.reproduces, cell, own)))
    if not rows:
        raise UsageError("the selection is empty: no cell is left")
    if as_json:
        objects = [{"case": name, "cell": cell, "expected": wanted and wanted.value} for name, cell, wanted in rows]
        click.echo(json.dumps(objects, ensure_ascii=False))
        return 0
    lines = [f"{name}: {label(cell)}" + (f"  ({wanted} expected)" if wanted else "") for name, cell, wanted in rows]
    click.echo("\n".join(lines))
    click.echo(f"{len(rows)} cell{'s' if len(rows) != 1 else ''}")
    return 0

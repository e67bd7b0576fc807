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
@options.base_option
@click.option(
    "--json", "as_json", is_flag=True, help="One JSON array of objects {case, cell, expected, unsupported, notes}."
)
def command(cases: tuple[str, ...], as_json: bool, base_images: str | None, **given: Any) -> int:
    """Show the cells of cases, after selection, with what each case expects of them.

    Cells that cannot be had on this host say why, and what will not go together is named where the case wants it so:
    both are known before anything is built.
    """
    from reprokit import site
    from reprokit.environment import host
    from reprokit.errors import UsageError
    from reprokit.library.filters import choose
    from reprokit.matrix import label
    from reprokit.runner.plan import cells_of, load_all, promised_of
    from reprokit.runner.predicting import predict
    from reprokit.runner.request import Request
    from reprokit.runner.supplying import supply_of

    selection, wanted = options.selection_of(given), options.filter_of(given)
    cells = list(cells_of(choose(load_all(cases), wanted), selection))
    if not cells:
        raise UsageError("the selection is empty: no cell is left")
    supply = supply_of(Request(cases=cases, base_images=base_images or site.settings().base_images))
    facts = host.facts()
    rows = [(file.case.id, cell, promised_of(file, cell), predict(file, cell, supply, facts)) for file, cell in cells]
    if as_json:
        objects = [
            {
                "case": name,
                "cell": cell,
                "expected": promised and promised.value,
                "unsupported": prediction.unsupported or None,
                "notes": list(prediction.notes),
            }
            for name, cell, promised, prediction in rows
        ]
        click.echo(json.dumps(objects, ensure_ascii=False))
        return 0
    for name, cell, promised, prediction in rows:
        said = [f"{name}: {label(cell)}", f"({promised} expected)" if promised else "", str(prediction)]
        click.echo("  ".join(filter(None, said)))
    click.echo(f"{len(rows)} cell{'s' if len(rows) != 1 else ''}")
    return 0

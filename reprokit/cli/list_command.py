"""``reprokit list``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from reprokit.cli import options


@click.command("list", epilog="Example: reprokit list cases/ --tag paddle")
@options.cases_argument(required=False)
@click.option("--tag", "tags", multiple=True, help="Only cases with this tag.")
@options.store_option
def command(cases: tuple[str, ...], tags: tuple[str, ...], store_folder: Path | None) -> int:
    """List cases (the folder cases/ by default): cells, what they need, and what was last seen of them."""
    from reprokit.errors import UsageError
    from reprokit.matrix import expand
    from reprokit.runner.plan import load_all
    from reprokit.store.database import Store

    if not cases:
        if not Path("cases").is_dir():
            raise UsageError("there is no folder cases/ here: name the cases to list")
        cases = ("cases",)
    folder = options.store_path(store_folder)
    store = Store(folder) if folder.is_dir() else None
    rows: list[tuple[str, ...]] = []
    for file in load_all(cases):
        if tags and not set(tags) & set(file.case.tags):
            continue
        matrix = file.case.matrix
        count = len(expand(matrix.axes, matrix.exclude, matrix.include))
        needs = "GPU" if file.case.resources.gpus != "0" else ""
        rows.append((file.case.id, str(count), needs, _last(store, file.case.id), file.case.title))
    if not rows:
        raise UsageError("no case to list" + (f" with the tag {' or '.join(tags)}" if tags else ""))
    _print(rows)
    return 0


def _last(store: Any, case_id: str) -> str:
    """What the newest run of a case showed, and when."""
    if store is None:
        return "never run"
    from reprokit.report.words import summary

    seen = store.history(case_id)
    if not seen:
        return "never run"
    run = seen[0][0]
    cells = [cell for record, cell in seen if record.id == run.id]
    return f"{run.started_at[:10]}: {summary(cells)}"


def _print(rows: list[tuple[str, ...]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("case", "cells", "needs", "last run", "title"):
        table.add_column(name, justify="right" if name == "cells" else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 200
    console.print(table)

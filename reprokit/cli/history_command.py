"""``reprokit history``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.cli import options

if TYPE_CHECKING:
    from reprokit.store.database import Store


@click.command("history", epilog="Examples: reprokit history; reprokit history ptxas-unknown-arch --only cuda=12.0")
@click.argument("case_id", required=False, metavar="[CASE]")
@click.option("--only", multiple=True, metavar="K=V,K=V", help="Keep only cells that match.")
@click.option("-n", "--limit", type=click.IntRange(min=1), default=20, show_default=True, help="Newest runs.")
@options.store_option
def command(case_id: str | None, only: tuple[str, ...], limit: int, store_folder: Path | None) -> int:
    """List the recorded runs, or every verdict of one case (its id, or its file) over time."""
    from reprokit.errors import UsageError
    from reprokit.spelling import near
    from reprokit.store.database import Store

    folder = options.store_path(store_folder)
    if not folder.is_dir():
        raise UsageError(f"nothing was run here yet: {folder} does not exist")
    store = Store(folder)
    if case_id is None:
        _runs(store, limit)
        return 0
    if Path(case_id).is_file():
        from reprokit import case

        case_id = case.load(case_id)[0].case.id
    if case_id not in store.case_ids():
        raise UsageError(f"no run of a case {case_id!r} is recorded{near(case_id, store.case_ids(), prefix='; ')}")
    _cells(store, case_id, only, limit)
    return 0


def _runs(store: Store, limit: int) -> None:
    from reprokit.report.words import case_names, served_by, summary

    for bare in store.runs(limit):
        run = store.run(bare.id)
        names = case_names(cell.case_id for cell in run.cells)
        if "search" in run.request:
            names = f"{run.request['search']['kind']} {names}".rstrip()
        status = "unfinished" if run.exit_status is None else f"exit {run.exit_status}"
        click.echo(f"{run.id}  {run.started_at}  {status:>10}  {names}: {summary(run.cells)}{served_by(run.engine)}")


def _cells(store: Store, case_id: str, only: tuple[str, ...], limit: int) -> None:
    from reprokit.matrix import in_group, parse_group
    from reprokit.report.words import cell_name, expectation, served_by

    groups = [parse_group(text) for text in only]
    seen = store.history(case_id, limit=limit * 1000)
    runs = list(dict.fromkeys(run.id for run, _ in seen))[:limit]
    by_cell: dict[str, list[str]] = {}
    for run, cell in seen:
        if run.id in runs and (not groups or any(in_group(cell.cell, group) for group in groups)):
            verdict = cell.verdict.value if cell.verdict else "undecided"
            line = f"  {run.started_at}  {verdict} ({expectation(cell)})  run {run.id}{served_by(run.engine)}"
            by_cell.setdefault(cell_name(cell), []).append(line)
    for name, lines in by_cell.items():
        click.echo(name)
        click.echo("\n".join(lines))

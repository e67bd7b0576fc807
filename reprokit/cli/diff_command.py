"""``reprokit diff``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from reprokit.case.read import is_lock
from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo, style
from reprokit.report import differences
from reprokit.report.history.changes import collect_facts
from reprokit.run import lock_file
from reprokit.store.joining import key_of

if TYPE_CHECKING:
    from reprokit.report.differences import EnvironmentFacts


@click.command(
    "diff",
    epilog="""\b
Examples:
  reprokit diff last:2 last:5                  # two cells of the last run
  reprokit diff 20260101-1:2 last:2            # a cell then and now
  reprokit diff 20260101-1 last                # two runs, cell by cell
  reprokit diff old.lock.yaml:1 x.lock.yaml:1  # the first environments of two locks
""",
)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@options.json_option("The differences as JSON.")
@options.store_option
def command(before: str, after: str, as_json: bool, store_folder: Path | None) -> int:
    """Show how two environments differ, package by package, the most relevant differences first.

    A and B are two cells (RUN:NUMBER, with the numbers of `reprokit show RUN`), two runs (an id, the beginning of one,
    or `last`), which are compared cell by cell, or two environments of locks (FILE.lock.yaml:NUMBER).
    """
    cells = [options.cell_of_run(text) for text in (before, after)]
    if (cells[0] is None) != (cells[1] is None):
        raise UsageError(f"{before} and {after}: name two runs, or two cells (RUN:NUMBER)")
    if cells[0] is None or cells[1] is None:
        store = options.store_of(store_folder)
        runs = [store.run(text) for text in (before, after)]
        sides = [{key_of(cell): collect_facts(store.case_text, run, cell) for cell in run.cells} for run in runs]
        found = differences.pairs(sides[0], sides[1])
        heads = [f"run {run.id}, {run.started_at}, {run.host.engine or 'no engine'}" for run in runs]
        lines = differences.run_text(heads[0], heads[1], found)
    else:
        old, new = _cell(store_folder, before, *cells[0]), _cell(store_folder, after, *cells[1])
        found = [differences.CellPair(before=old, after=new, differences=differences.compare(old, new))]
        lines = differences.cell_text(old, new)
    if as_json:
        options.echo_document(differences.describe_pairs(found))
        return 0
    for line in lines:
        head = line and not line.startswith((" ", "- ", "+ "))
        echo(style(line, bold=True) if head else line)
    return 0


def _cell(store_folder: Path | None, text: str, left: str, number: int) -> EnvironmentFacts:
    if is_lock(left):
        lock = lock_file.load(Path(left))
        if lock is None:
            raise UsageError(f"{left}: no such lock; reprokit lock CASE writes it")
        if not 1 <= number <= len(lock.entries):
            raise UsageError(f"{left} has no environment {number}; it has 1 to {len(lock.entries)}")
        return differences.read_entry(text, lock.entries[number - 1])
    store = options.store_of(store_folder)
    run = store.run(left)
    return collect_facts(store.case_text, run, run.cell(number))

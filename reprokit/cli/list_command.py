"""``reprokit list``."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reprokit.case.facts import facts
from reprokit.case.filters import choose
from reprokit.cli import options
from reprokit.cli.display.plain import columns
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo, style
from reprokit.core.text import pluralize
from reprokit.report.labels import served_by, standing, summary
from reprokit.run.loading import load_all

if TYPE_CHECKING:
    from reprokit.case.facts import CaseFacts
    from reprokit.case.files import CaseFile
    from reprokit.evidence.records import CellRecord, RunRecord

EXAMPLES = """\b
Examples:
  reprokit list cases/ --tag loss
  reprokit list --framework paddle --needs no-gpu
  reprokit list --needs gpu --json -
"""


@click.command("list", epilog=EXAMPLES)
@options.cases_argument(required=False)
@options.filter_options
@click.option(
    "--json", "json_file", type=click.Path(path_type=Path, dir_okay=False), help="Write all of it as JSON (- to print)."
)
@options.store_option
def command(cases: tuple[str, ...], json_file: Path | None, store_folder: Path | None, **given: Any) -> int:
    """List cases (the folder cases/ by default): cells, what they need, and their last results."""
    options.check_writable("--json", json_file)
    if not cases:
        if not Path("cases").is_dir():
            raise UsageError("there is no folder cases/ here: name the cases to list")
        cases = ("cases",)
    files = choose(load_all(cases), options.filter_of(given))
    folder = options.store_path(store_folder)
    store = options.open_store(folder) if folder.is_dir() else None
    rows = [
        _Row(file=file, facts=facts(file.case), seen=store.last_seen(file.case.id) if store else None) for file in files
    ]
    options.write_json(json_file, [row.json() for row in rows])
    if json_file != Path("-"):
        _print(rows)
    return 0


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A case with its facts. ``seen``: its newest run, and its cells in that run; None if it was never run."""

    file: CaseFile
    facts: CaseFacts
    seen: tuple[RunRecord, list[CellRecord]] | None

    @property
    def changed(self) -> bool:
        """Whether the case was changed since its last run."""
        return self.seen is not None and self.seen[1][0].case_digest != self.file.digest

    @property
    def last(self) -> str:
        """The result of the newest run, in a few words."""
        if self.seen is None:
            return "never run"
        run, cells = self.seen
        return f"{run.started_at[:10]} {'changed since' if self.changed else standing(cells)}{served_by(run.engine)}"

    def json(self) -> Mapping[str, Any]:
        """The row as JSON data."""
        case, seen = self.file.case, None
        if self.seen is not None:
            run, cells = self.seen
            departs = sum(cell.as_expected is False for cell in cells)
            seen = {"run_id": run.id, "started_at": run.started_at, "case_changed_since": self.changed}
            seen["engine"] = run.engine or None
            seen |= {"summary": summary(cells), "departures": departs}
        return {
            "id": case.id,
            "path": self.file.path,
            "digest": self.file.digest,
            "title": case.title,
            "tags": list(case.tags),
            "cells": len(self.facts.cells),
            "frameworks": {name: list(versions) for name, versions in self.facts.frameworks.items()},
            "needs": list(self.facts.needs),
            "last_run": seen,
        }


def _print(rows: list[_Row]) -> None:
    """One line per case where all of it fits; in a narrower terminal each title gets the line below."""
    header = ("case", "cells", "needs", "last run")
    cells = [(row.file.case.id, str(len(row.facts.cells)), ", ".join(row.facts.needs), row.last) for row in rows]
    widths = [max(map(len, column)) for column in zip(header, *cells, strict=True)]
    titles = [" ".join(row.file.case.title.split()) for row in rows]
    room = columns()
    below = sum(widths) + 2 * len(widths) + max(map(len, titles)) > room

    def line(values: tuple[str, ...]) -> str:
        texts = [
            value.rjust(width) if name == "cells" else value.ljust(width)
            for name, value, width in zip(header, values, widths, strict=True)
        ]
        return "  ".join(texts)

    echo(style(line(header) + ("" if below else "  title"), bold=True))
    for values, title in zip(cells, titles, strict=True):
        if below:
            echo(line(values).rstrip())
            folded = textwrap.fill(title, room, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
            echo(style(folded, dim=True))
        else:
            echo(f"{line(values)}  {title}")
    echo(f"{pluralize(len(rows), 'case')}, {pluralize(sum(len(row.facts.cells) for row in rows), 'cell')}")
